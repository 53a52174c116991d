#include "app/cli/parse_error.h"

#include <algorithm>
#include <optional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/cli/choices.h"
#include "backend/base/nearest_name.h"

namespace foxscope::cli {
namespace {

const CLI::App& chosenCommand(const CLI::App& program) {
  const CLI::App* chosen = &program;
  while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands().front();
  return *chosen;
}

bool isOption(const std::string& word) { return word.size() > 1 && word.starts_with('-'); }

std::vector<std::string> longNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : shownNames(*option)) {
      if (name.starts_with("--")) names.push_back(name.substr(2));
    }
  }
  return names;
}

std::vector<std::string> commandNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* each : commandsOf(command)) names.push_back(each->get_name());
  return names;
}

/// "this command takes one file: " where another one was given; else nothing.
std::string takesOneText(const CLI::App& command) {
  const std::vector<const CLI::Option*> positional =
      command.get_options([](const CLI::Option* option) { return option->get_positional(); });
  if (positional.size() != 1 || positional.front()->get_items_expected_max() != 1) return "";
  return fmt::format("this command takes one {}: ", positional.front()->get_name());
}

/// Words that nothing takes, in their order: an option with what follows it is told as the option.
std::optional<std::string> unknownWord(const CLI::App& command) {
  const std::vector<std::string> words = command.remaining();
  for (const std::string& word : words) {
    if (!isOption(word)) continue;
    const std::string name = word.substr(0, word.find('='));
    const std::string meant =
        did_you_mean(name.substr(std::min(name.size(), name.find_first_not_of('-'))), longNames(command));
    const std::size_t place = meant.empty() ? 0 : std::string("did you mean ").size();
    return fmt::format("{}: there is no such option: {}", name,
                       meant.empty() ? "" : std::string(meant).insert(place, "--"));
  }
  if (words.empty()) return std::nullopt;
  const std::vector<std::string> commands = commandNames(command);
  if (commands.empty()) return fmt::format("{}: was not expected: {}", words.front(), takesOneText(command));
  return fmt::format("{} {}: there is no such command: {}", command.get_name(), words.front(),
                     did_you_mean(words.front(), commands));
}

/// The required options that were not given, and those of which one is.
std::optional<std::string> missingOptions(const CLI::App& command, const OneOfOptions& oneOf) {
  std::vector<std::string> missing;
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_required() && option->count() == 0) missing.push_back(option->get_name());
  }
  if (missing.empty()) return std::nullopt;
  const auto group = oneOf.find(&command);
  const auto given = [&](const std::string& name) { return command.get_option(name)->count() > 0; };
  if (group != oneOf.end() && std::ranges::none_of(group->second, given)) {
    const auto last = group->second.end() - 1;
    missing.push_back(fmt::format("one of {} and {}", fmt::join(group->second.begin(), last, ", "), *last));
  }
  return requiredText(missing);
}

/// CLI11 says "Could not convert: --length = 1e3"; all that it converts are numbers.
std::optional<std::string> wrongNumber(std::string_view message) {
  constexpr std::string_view kBefore = "Could not convert: ";
  constexpr std::string_view kBetween = " = ";
  const std::size_t between = message.find(kBetween);
  if (!message.starts_with(kBefore) || between == std::string_view::npos) return std::nullopt;
  return fmt::format("{} {}: is no number that this option takes, counts are written in digits alone: ",
                     message.substr(kBefore.size(), between - kBefore.size()),
                     message.substr(between + kBetween.size()));
}

}  // namespace

std::string requiredText(const std::vector<std::string>& names) {
  return fmt::format("{} {} required: ", fmt::join(names, ", "), names.size() == 1 ? "is" : "are");
}

std::string helpfulName(const CLI::App& program) {
  std::string name = "foxscope";
  for (auto chosen = program.get_subcommands(); !chosen.empty(); chosen = chosen.front()->get_subcommands()) {
    name += ' ' + chosen.front()->get_name();
  }
  return name;
}

std::string parseErrorText(const CLI::App& program, const CLI::ParseError& error, const OneOfOptions& oneOf) {
  const CLI::App& command = chosenCommand(program);
  const bool unknown = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  const bool required = dynamic_cast<const CLI::RequiredError*>(&error) != nullptr;
  std::optional<std::string> text;
  if (unknown || required) text = unknownWord(command);
  if (!text && required) text = missingOptions(command, oneOf);
  if (!text && required && !commandNames(command).empty()) {
    text =
        fmt::format("{}: which command?: use one of {}: ", command.get_name(), fmt::join(commandNames(command), ", "));
  }
  if (!text) text = wrongNumber(error.what());
  return fmt::format("{}see {} --help", text.value_or(fmt::format("{}: ", error.what())), helpfulName(program));
}

}  // namespace foxscope::cli

#include "app/cli/choices.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/cli/values.h"
#include "app/figure/colour_map.h"
#include "app/figure/figure_length.h"
#include "backend/base/error.h"
#include "backend/base/nearest_name.h"
#include "backend/map/map.h"
#include "backend/trace/trace_arrays.h"

namespace foxscope::cli {
namespace {

constexpr std::string_view kSeveral = ",...";

std::vector<std::string> quantityWords() {
  std::vector<std::string> words;
  for (int n = 0; n <= static_cast<int>(Quantity::mixing); ++n) words.emplace_back(to_string(static_cast<Quantity>(n)));
  return words;
}

std::vector<std::string> colourMapWords() {
  std::vector<std::string> words;
  for (const figure::NamedColourMap& map : figure::namedColourMaps()) words.emplace_back(map.name);
  return words;
}

std::vector<std::string> keepWords() {
  std::vector<std::string> words;
  for (const KeepWord& word : kKeepWords) words.emplace_back(word.word);
  return words;
}

std::vector<std::string> venueWords() {
  std::vector<std::string> words;
  for (const figure::Venue& venue : figure::venues()) words.emplace_back(venue.word);
  return words;
}

/// Types whose words are too many to be shown, or stand in the help already.
const std::map<std::string, Choice>& namedTypes() {
  static const std::map<std::string, Choice> types = {{"ARRAY", {keepWords()}},
                                                      {"DEVICE", {{"auto", "cpu", "cuda"}, false, {"cuda:N"}}},
                                                      {"DTYPE", {{"auto", "float32", "bfloat16"}}},
                                                      {"LENGTH", {venueWords(), false, {"a length as 140mm"}}},
                                                      {"MAP", {colourMapWords()}},
                                                      {"QUANTITY", {quantityWords()}}};
  return types;
}

bool isWord(const std::string& text) {
  constexpr const char* kLetters = "abcdefghijklmnopqrstuvwxyz0123456789_-";
  return !text.empty() && text.find_first_not_of(kLetters) == std::string::npos;
}

/// "auto|linear|log", or "one|cut|constant=f", of which what is no word stands for other values.
Choice choiceIn(const std::string& type) {
  Choice choice;
  if (type.find('|') == std::string::npos) return choice;
  for (const std::string& part : split(type, '|')) {
    if (isWord(part)) {
      choice.words.push_back(part);
    } else {
      choice.others.push_back(part);
    }
  }
  return choice;
}

/// Numbers, cuda:1, scale=0.9: no misspelt word, where others than the words are taken.
bool isOther(const std::string& value) { return value.find_first_of("0123456789:=") != std::string::npos; }

void checkOption(const CLI::Option& option) {
  const Choice choice = choiceOf(option);
  if (choice.words.empty()) return;
  for (const std::string& result : option.results()) {
    for (const std::string& word : choice.several ? split(result, ',') : std::vector{result}) {
      const bool known = std::ranges::find(choice.words, word) != choice.words.end();
      if (known || (!choice.others.empty() && isOther(word))) continue;
      const std::string meant = did_you_mean(word, choice.words);
      if (meant.empty()) continue;
      std::vector<std::string> all = choice.words;
      all.insert(all.end(), choice.others.begin(), choice.others.end());
      throw UsageError(fmt::format("--{} {}: {}choose {} or {}", option.get_lnames().front(), word, meant,
                                   fmt::join(all.begin(), all.end() - 1, ", "), all.back()));
    }
  }
}

}  // namespace

Choice choiceOf(const CLI::Option& option) {
  if (option.get_lnames().empty()) return {};
  std::string type = option.get_type_name();
  const bool several = type.ends_with(kSeveral);
  if (several) type.resize(type.size() - kSeveral.size());
  const auto named = namedTypes().find(type);
  Choice choice = named == namedTypes().end() ? choiceIn(type) : named->second;
  choice.several = several;
  return choice;
}

void checkChoices(const CLI::App& program) {
  for (const CLI::Option* option : program.get_options()) checkOption(*option);
  for (const CLI::App* command : program.get_subcommands()) checkChoices(*command);
}

std::vector<std::string> shownNames(const CLI::Option& option) {
  constexpr std::array<std::string_view, 5> kOlder = {"colors", "color", "colour", "limit", "tokens"};
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) names.push_back('-' + name);
  for (const std::string& name : option.get_lnames()) {
    if (std::ranges::find(kOlder, name) == kOlder.end()) names.push_back("--" + name);
  }
  return names;
}

}  // namespace foxscope::cli

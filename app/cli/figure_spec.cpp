#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "app/cli/figure_kind.h"
#include "backend/base/error.h"

namespace foxscope::cli {
namespace {

using nlohmann::json;

constexpr int kSchema = 1;
constexpr const char* kSchemaKey = "foxscope_figure";
constexpr std::size_t kMostBytes = 1 << 20;

struct SpecArguments {
  std::string spec;
  std::vector<std::string> files;
  std::string output;
  bool force = false;
};

[[noreturn]] void refuse(const std::string& spec, const std::string& why) {
  throw Error(fmt::format(
      R"({}: {}: a figure is written down as {{"{}": {}, "kind": "maps", "options": {{"width": "iclr"}}}}, with the )"
      "options of `foxscope figure KIND --help` without their dashes",
      spec, why, kSchemaKey, kSchema));
}

json readSpec(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw Error(fmt::format("{}: no such file, or it cannot be read", path));
  std::string text;
  text.resize(kMostBytes + 1);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > kMostBytes) refuse(path, "it is larger than 1 MB");
  json spec = json::parse(text, nullptr, false);
  if (spec.is_discarded() || !spec.is_object()) refuse(path, "this is no JSON object");
  if (!spec.contains(kSchemaKey) || !spec[kSchemaKey].is_number_integer()) {
    refuse(path, fmt::format("it has no number \"{}\"", kSchemaKey));
  }
  if (spec[kSchemaKey].get<std::int64_t>() > kSchema) {
    throw Error(fmt::format("{}: this figure was written down for a newer version of foxscope: use that", path));
  }
  if (!spec.contains("kind") || !spec["kind"].is_string()) refuse(path, "it names no kind");
  for (const auto& [key, value] : spec.items()) {
    if (key != kSchemaKey && key != "kind" && key != "options") refuse(path, fmt::format("\"{}\" is not known", key));
  }
  if (spec.contains("options") && !spec["options"].is_object()) refuse(path, "its options are no JSON object");
  return spec;
}

void addOption(const std::string& spec, const std::string& name, const json& value,
               std::vector<std::string>& arguments) {
  // Where the figure goes is said by whoever draws it.
  if (name.empty() || name == "output" || name == "force" || name.find_first_of(" =-") == 0) {
    refuse(spec, fmt::format("\"{}\" is no option of a figure", name));
  }
  if (value.is_array()) {
    for (const json& entry : value) {
      if (entry.is_array()) refuse(spec, fmt::format("option \"{}\" is a list of lists", name));
      addOption(spec, name, entry, arguments);
    }
  } else if (value.is_boolean()) {
    if (value.get<bool>()) arguments.push_back("--" + name);
  } else if (value.is_string() || value.is_number()) {
    arguments.push_back(fmt::format("--{}={}", name, value.is_string() ? value.get<std::string>() : value.dump()));
  } else {
    refuse(spec, fmt::format("option \"{}\" is no text, number, list, true or false", name));
  }
}

int drawSpec(const SpecArguments& arguments, const Session& session) {
  const json spec = readSpec(arguments.spec);
  std::vector<std::string> words{"foxscope", "figure", spec["kind"].get<std::string>()};
  try {
    requireFigureKind(words.back());
    if (spec.contains("options")) {
      for (const auto& [name, value] : spec["options"].items()) addOption(arguments.spec, name, value, words);
    }
    words.push_back("--output=" + arguments.output);
    if (arguments.force) words.emplace_back("--force");
    words.emplace_back("--");
    words.insert(words.end(), arguments.files.begin(), arguments.files.end());
    Selection selection;
    parseCommandLine(words, selection);
    return selection.action(session);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", arguments.spec, error.what()));
  }
}

}  // namespace

void addFigureSpec(CLI::App& figure, Selection& selection) {
  CLI::App* command = addSubcommand(
      figure, selection, "spec", "Draw a figure as it is written down in a JSON file",
      "  foxscope figure spec resources/figures/maps.json run.h5 -o maps.pdf\n"
      R"(  {"foxscope_figure": 1, "kind": "maps", "options": {"heads": ["1:2", "7:2"], "width": "iclr"}})");
  const auto arguments = std::make_shared<SpecArguments>();
  command->add_option("spec", arguments->spec, "What kind of figure, and its options")
      ->type_name("SPEC.json")
      ->required();
  command->add_option("file", arguments->files, "What it is drawn from")->type_name("FILE.h5")->required();
  command->add_option("-o,--output", arguments->output, "The file to write: .pdf, .svg or .png")
      ->type_name("FILE")
      ->required();
  command->add_flag("--force", arguments->force, "Overwrite the output");
  command->callback([arguments, &selection] {
    selection.action = [arguments](const Session& session) { return drawSpec(*arguments, session); };
  });
}

}  // namespace foxscope::cli

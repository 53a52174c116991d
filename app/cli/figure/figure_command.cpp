#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <variant>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/cli/choices.h"
#include "app/cli/command.h"
#include "app/cli/model_names.h"
#include "app/cli/output.h"
#include "app/cli/parse_error.h"
#include "app/figure/figure_kind.h"
#include "app/figure/figure_length.h"
#include "app/figure/figure_parts.h"
#include "app/figure/figure_request.h"
#include "app/figure/figure_words.h"
#include "app/figure/page/pdf_metadata.h"
#include "backend/agent/remote_path.h"
#include "backend/base/error.h"
#include "backend/base/nearest_name.h"

namespace foxscope::cli {
namespace {

using figure::FigureKind;
using figure::FigureOption;
using figure::FigureSpec;
using Takes = FigureOption::Takes;

/// `foxscope figure KIND`, as typed.
struct Arguments {
  const FigureKind& kind;
  std::vector<std::string> files;
  FigureSpec spec;
};

/// An option that takes a value of this type, or a list of them, which goes into the spec as words.
template <typename Value>
void addValue(CLI::App& command, const FigureOption& option, FigureSpec& spec) {
  const auto keep = [&spec, name = std::string(option.name())](const Value& value) {
    std::vector<std::string> words;
    if constexpr (std::is_same_v<Value, std::string> || std::is_arithmetic_v<Value>) {
      words.push_back(fmt::format("{}", value));
    } else {
      for (const auto& one : value) words.push_back(fmt::format("{}", one));
    }
    spec.set(name, std::move(words));
  };
  CLI::Option* added = command.add_option_function<Value>(option.names, keep, option.help)->type_name(option.type);
  if (option.takes == Takes::list || option.takes == Takes::numbers) added->delimiter(',');
  if (option.takes >= Takes::texts) added->allow_extra_args(false);
}

void addOption(CLI::App& command, const FigureOption& option, FigureSpec& spec) {
  switch (option.takes) {
    case Takes::flag:
      command.add_flag_callback(
          option.names, [&spec, name = std::string(option.name())] { spec.set(name, true); }, option.help);
      return;
    case Takes::text:
      return addValue<std::string>(command, option, spec);
    case Takes::dots:
      return addValue<int>(command, option, spec);
    case Takes::integer:
      return addValue<std::int64_t>(command, option, spec);
    case Takes::number:
      return addValue<double>(command, option, spec);
    case Takes::texts:
    case Takes::list:
      return addValue<std::vector<std::string>>(command, option, spec);
    case Takes::numbers:
      return addValue<std::vector<double>>(command, option, spec);
  }
}

figure::FigureSources sourcesOf(const Arguments& arguments) {
  const FigureKind::Files& kind = arguments.kind.files;
  if (!kind.folders && !kind.named) return {arguments.files};
  std::vector<NamedModel> named;
  if (kind.folders) named = parseModels(arguments.files, "");
  if (kind.named) {
    for (const std::string& file : arguments.files) named.push_back(parseNamedFile(file));
  }
  figure::FigureSources sources;
  for (const NamedModel& file : named) {
    sources.files.push_back(file.path);
    sources.names.push_back(file.name);
  }
  return sources;
}

/// The options that a figure's own description has, and the rest: where it goes, which is said by whoever draws it.
bool describesFigure(std::string_view option) {
  constexpr std::array<std::string_view, 4> kOfTheOutput = {"output", "format", "write-spec", "force"};
  return std::ranges::find(kOfTheOutput, option) == kOfTheOutput.end();
}

void writeSpec(const FigureSpec& spec) {
  FigureSpec written{spec.kind};
  for (const auto& [name, value] : spec.options) {
    if (describesFigure(name)) written.set(name, value);
  }
  writeOutput(spec.text("write-spec"), spec.has("force"), written.text());
}

/// Checks output and inputs, draws, writes the file and says what the figure's notes say.
/// Adds what is to be said of a finished picture.
/// @param height  of its page, points
void addNotes(std::vector<std::string>& notes, const figure::FigureFormat& format, double height,
              const std::string& file) {
  for (const auto& note : {figure::heightNote(format, height), figure::pdfNote(file)}) {
    if (note) notes.push_back(*note);
  }
}

int drawKind(const Arguments& arguments, const CommandContext& context) {
  const FigureSpec& spec = arguments.spec;
  if (spec.has("write-spec")) {
    for (const std::string& file : sourcesOf(arguments).files) requireDistinct(spec.text("write-spec"), file);
    if (spec.has("output") && spec.text("output") == spec.text("write-spec")) {
      throw UsageError(
          fmt::format("--write-spec {0}: the figure is written there: give the spec another name, as {0}.json",
                      spec.text("write-spec")));
    }
  }
  if (spec.has("write-spec") && !spec.has("output")) {
    FigureSpec drawn = spec;
    drawn.set("output", "figure.pdf");
    (void)figure::styleOf(drawn, "");  // says what cannot be drawn
    writeSpec(spec);
    return kDone;
  }
  std::vector<std::string> missing;
  if (arguments.files.empty()) missing.emplace_back("file");
  if (!spec.has("output")) missing.emplace_back("--output");
  if (!missing.empty()) {
    throw UsageError(fmt::format("{}see foxscope figure {} --help", requiredText(missing), spec.kind));
  }
  double height = 0;
  figure::FigureStyle style = figure::styleOf(spec, context.commandLine);
  style.height = &height;
  figure::requireDrawing();
  const std::string output = spec.text("output");
  if (!arguments.kind.files.folders) {
    for (const std::string& file : sourcesOf(arguments).files) requireDistinct(output, file);
  }
  requireWritable(output, spec.has("force"));
  if (spec.has("write-spec")) requireWritable(spec.text("write-spec"), spec.has("force"));
  if (style.format.kind != figure::FigureFormat::Kind::csv && style.format.kind != figure::FigureFormat::Kind::svg) {
    requireNoTerminal(output);
  }
  context.console.setSubject(output);
  const figure::FigureSources sources = sourcesOf(arguments);
  const Job job = context.job();
  figure::FigureRequest request{spec, sources, style, job};
  const auto drawn = arguments.kind.draw(request);
  if (!drawn || context.stop.stop_requested()) return kInterrupted;
  context.console.endProgress();
  writeOutput(output, spec.has("force"), drawn->file);
  if (spec.has("write-spec")) writeSpec(spec);
  std::vector<std::string> notes = std::move(request.notes);
  notes.insert(notes.end(), drawn->notes.begin(), drawn->notes.end());
  addNotes(notes, style.format, height, drawn->file);
  for (const std::string& note : notes) context.console.note(note);
  return kDone;
}

/// Adds the files and options of a kind to a command. @returns what is typed, once it has been parsed
std::shared_ptr<Arguments> addArguments(CLI::App& command, const FigureKind& kind) {
  auto arguments = std::make_shared<Arguments>(Arguments{kind, {}, {kind.name}});
  command.add_option("file", arguments->files, kind.files.help)->type_name(kind.files.type);
  for (const FigureOption& option : kind.options) addOption(command, option, arguments->spec);
  return arguments;
}

/// Adds the kind's options to its command, and the callback that sets `parsed.action`.
void addKind(CLI::App& command, ParsedCommand& parsed, const FigureKind& kind) {
  const auto arguments = addArguments(command, kind);
  command.callback([arguments, &parsed] {
    parsed.action = [arguments](const CommandContext& context) { return drawKind(*arguments, context); };
  });
}

std::vector<std::string> kindNames() {
  std::vector<std::string> names;
  for (const FigureKind& kind : figure::figureKinds()) names.emplace_back(kind.name);
  return names;
}

/// @throws UsageError with the kinds that exist, unless the word is one of them
const FigureKind& kindNamed(const std::string& word) {
  if (const FigureKind* kind = figure::findFigureKind(word)) return *kind;
  const std::vector<std::string> names = kindNames();
  throw UsageError(fmt::format("figure {}: there is no such kind: {}use {}", word, did_you_mean(word, names),
                               fmt::join(names, ", ")));
}

struct SpecArguments {
  std::string spec;
  std::vector<std::string> files;
  std::string output;
  std::string format;
  std::optional<int> dpi;
  bool force = false;
};

// Values are given to the options themselves: a command line put together from names and values would be taken apart
// at other places, where a name holds "=" or a value is empty.
void setOption(const std::string& spec, CLI::App& command, const std::string& name, const FigureSpec::Value& value) {
  CLI::Option* option = describesFigure(name) ? command.get_option_no_throw("--" + name) : nullptr;
  if (option == nullptr) {
    figure::refuseSpec(spec, fmt::format("\"{}\" is no option of a figure {}", name, command.get_name()));
  }
  const bool isFlag = option->get_items_expected_max() == 0;
  if (const bool* set = std::get_if<bool>(&value)) {
    if (!isFlag) figure::refuseSpec(spec, fmt::format("option \"{}\" is no text, number, or list of them", name));
    if (*set) option->add_result("true");
    return;
  }
  if (isFlag) figure::refuseSpec(spec, fmt::format("option \"{}\" is neither true nor false", name));
  for (const std::string& word : std::get<std::vector<std::string>>(value)) option->add_result(word);
}

/// The arguments that a command of this kind would have with the options of a spec.
/// @throws UsageError as the command itself, Error for options that are none of this kind
std::shared_ptr<Arguments> argumentsOf(const SpecArguments& given, const FigureKind& kind, const FigureSpec& spec,
                                       const std::vector<std::string>& files) {
  try {
    CLI::App command("", spec.kind);
    command.set_help_flag();
    const auto arguments = addArguments(command, kind);
    for (const auto& [name, value] : spec.options) {
      if (name != "dpi" || !given.dpi) setOption(given.spec, command, name, value);
    }
    if (given.dpi) command.get_option("--dpi")->add_result(std::to_string(*given.dpi));
    command.get_option("--output")->add_result(given.output);
    if (!given.format.empty()) command.get_option("--format")->add_result(given.format);
    if (given.force) command.get_option("--force")->add_result("true");
    for (const std::string& file : files) command.get_option("file")->add_result(file);
    command.parse(std::vector<std::string>());
    checkChoices(command);
    return arguments;
  } catch (const CLI::ParseError& error) {
    throw UsageError(fmt::format("{}: see foxscope figure {} --help", error.what(), spec.kind));
  }
}

/// A part's own files, which are named from the folder of the spec on; else those of the command.
std::vector<std::string> filesOf(const figure::FigurePart& part, const SpecArguments& given) {
  if (part.files.empty() && given.files.empty()) {
    figure::refuseSpec(given.spec,
                       fmt::format("its panel {} has no files, and none are named behind the spec", part.spec.kind));
  }
  if (part.files.empty()) return given.files;
  const std::filesystem::path folder = std::filesystem::path(given.spec).parent_path();
  std::vector<std::string> files;
  for (const std::string& file : part.files) {
    std::error_code failed;
    const bool whole = !agent::is_remote(file) && std::filesystem::exists(folder / file, failed);
    const NamedModel named = whole ? NamedModel{"", file} : parseNamedFile(file);
    const std::string path = agent::is_remote(named.path) ? named.path : (folder / named.path).string();
    files.push_back((named.name.empty() ? "" : named.name + '=') + path);
  }
  return files;
}

/// The options that are of a whole page, not of one of its figures.
void requireOwnOptions(const std::string& spec, const figure::FigurePart& part) {
  for (const auto& [name, value] : part.spec.options) {
    const FigureKind& page = figure::pageKind();
    if (name == "title" || !describesFigure(name) || !page.takes(name)) continue;
    figure::refuseSpec(spec, fmt::format("\"{}\" is of the whole page: it stands beside the panels", name));
  }
}

int drawParts(const SpecArguments& given, const figure::FigureParts& parts, const CommandContext& context) {
  const auto page = argumentsOf(given, figure::pageKind(), parts.page, {});
  double height = 0;
  figure::FigureStyle style = figure::styleOf(page->spec, context.commandLine);
  style.height = &height;
  figure::requireDrawing();
  std::vector<std::vector<figure::PartRequest>> rows;
  bool used = given.files.empty();
  for (const auto& row : parts.rows) {
    rows.emplace_back();
    for (const figure::FigurePart& part : row) {
      requireOwnOptions(given.spec, part);
      const auto arguments = argumentsOf(given, kindNamed(part.spec.kind), part.spec, filesOf(part, given));
      used = used || part.files.empty();
      const figure::FigureSources sources = sourcesOf(*arguments);
      for (const std::string& file : sources.files) {
        if (!arguments->kind.files.folders) requireDistinct(given.output, file);
      }
      rows.back().push_back({&arguments->kind, arguments->spec, sources, part.share});
    }
  }
  if (!used) throw UsageError("every panel has files of its own: name none behind the spec");
  requireWritable(given.output, given.force);
  if (style.format.kind != figure::FigureFormat::Kind::csv && style.format.kind != figure::FigureFormat::Kind::svg) {
    requireNoTerminal(given.output);
  }
  context.console.setSubject(given.output);
  const auto drawn = figure::drawParts(rows, style, context.job());
  if (!drawn || context.stop.stop_requested()) return kInterrupted;
  context.console.endProgress();
  writeOutput(given.output, given.force, drawn->file);
  std::vector<std::string> notes = drawn->notes;
  addNotes(notes, style.format, height, drawn->file);
  for (const std::string& note : notes) context.console.note(note);
  return kDone;
}

int drawSpec(const SpecArguments& arguments, const CommandContext& context) {
  requireDistinct(arguments.output, arguments.spec);
  const std::string text = figure::readSpec(arguments.spec);
  try {
    if (const auto parts = figure::FigureParts::parse(text, arguments.spec)) {
      return drawParts(arguments, *parts, context);
    }
    const FigureSpec spec = FigureSpec::parse(text, arguments.spec);
    if (arguments.files.empty()) {
      throw UsageError(fmt::format("{}see foxscope figure spec --help", requiredText({"file"})));
    }
    return drawKind(*argumentsOf(arguments, kindNamed(spec.kind), spec, arguments.files), context);
  } catch (const UsageError& error) {
    throw UsageError(fmt::format("{}: {}", arguments.spec, error.what()));
  }
}

void addSpec(CLI::App& figure, ParsedCommand& parsed) {
  CLI::App* command = addSubcommand(
      figure, parsed, "spec", "Draw the figure that a JSON file describes, or --write such a file",
      "  foxscope figure spec resources/figures/maps.json run.h5 -o maps.pdf\n"
      "  foxscope figure spec --write maps.json maps --heads 1:2,7:2 --width iclr\n"
      R"(  {"foxscope_figure": 1, "kind": "maps", "options": {"heads": ["1:2", "7:2"], "width": "iclr"}})"
      "\n"
      "  foxscope figure spec resources/figures/panels.json run.h5 -o page.pdf\n"
      R"(  {"foxscope_figure": 1, "panels": [[{"kind": "loss", "files": ["eval.h5"]}, {"kind": "gates"}]]})");
  const auto arguments = std::make_shared<SpecArguments>();
  command->add_option("spec", arguments->spec, "File with the kind of the figure and its options")
      ->type_name("SPEC.json")
      ->required();
  command
      ->add_option("file", arguments->files,
                   "Files that the figure is drawn from; of a page of panels, those that name no files of their own")
      ->type_name("FILE.h5");
  command
      ->add_option("-o,--output", arguments->output,
                   "The file to write: .pdf, .svg, .png or .csv; - for standard output")
      ->type_name("FILE")
      ->required();
  command->add_option("--format", arguments->format, "Format of the output (default: by the ending of its name)")
      ->type_name("pdf|svg|png|csv");
  command->add_option("--dpi", arguments->dpi, "Dots per inch, whatever the file says")->type_name("N");
  command->add_flag("--force", arguments->force, "Overwrite the output");
  command->callback([arguments, &parsed] {
    parsed.action = [arguments](const CommandContext& context) { return drawSpec(*arguments, context); };
  });
}

}  // namespace

void addFigureCommand(CLI::App& program, ParsedCommand& parsed) {
  CLI::App* figure = addSubcommand(
      program, parsed, "figure", "Draw a figure for a paper: .pdf, .svg or .png, or its numbers: .csv",
      "  foxscope figure maps run.h5 -o maps.pdf\n"
      "  foxscope figure loss eval.h5 -o loss.csv\n"
      "  foxscope figure maps --help\n"
      "\n"
      "A .csv has a line for each number that is drawn: panel, quantity, series, row and x (of a map its\n"
      "pixel; the row of a point that is a head is LAYER:HEAD), value, and of an error band lower and upper.");
  for (const FigureKind& kind : figure::figureKinds()) {
    addKind(*addSubcommand(*figure, parsed, kind.name, kind.description, kind.examples), parsed, kind);
  }
  addSpec(*figure, parsed);
  // A word that is no kind is answered here, with those that are.
  figure->allow_extras();
  figure->callback([figure] {
    if (!figure->get_subcommands().empty()) return;
    const auto words = figure->remaining();
    if (words.empty()) throw UsageError(fmt::format("figure: which kind?: use {}", fmt::join(kindNames(), ", ")));
    (void)kindNamed(words.front());
  });
}

}  // namespace foxscope::cli

#include "app/cli/figure/figure_options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/cli/map_options.h"
#include "app/figure/maps/map_figure.h"
#include "app/figure/pdf_metadata.h"
#include "backend/base/atomic_file.h"
#include "backend/base/error.h"
#include "backend/map/device/map_device.h"

namespace foxscope::cli {
namespace {

struct Preset {
  const char* name;
  const char* length;
};

// Widths of text and columns in the venues' style files.
constexpr std::array<Preset, 8> kPresets = {{{"neurips", "5.5in"},
                                             {"iclr", "5.5in"},
                                             {"half", "2.65in"},
                                             {"icml", "3.25in"},
                                             {"icml-wide", "6.75in"},
                                             {"acl", "77mm"},
                                             {"acl-wide", "160mm"},
                                             {"slide", "10in"}}};

std::optional<double> parseNumber(std::string_view text) {
  double value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

figure::AxisLimits parseLimits(const std::string& option, const std::string& text) {
  const std::size_t colon = text.find(':');
  const auto lower = parseNumber(std::string_view(text).substr(0, colon));
  const auto upper = colon == std::string::npos ? std::nullopt : parseNumber(std::string_view(text).substr(colon + 1));
  if (!lower || !upper) throw UsageError(fmt::format("{} {}: write A:B, as in 2.5:4", option, text));
  return {*lower, *upper};
}

figure::Rgb parseColour(const std::string& option, const std::string& text) {
  unsigned value = 0;
  const auto [end, failed] = std::from_chars(text.data() + 1, text.data() + text.size(), value, 16);
  if (text.size() != 7 || text[0] != '#' || failed != std::errc() || end != text.data() + text.size()) {
    throw UsageError(fmt::format("{} {}: write a colour as #RRGGBB, for instance #2d466c", option, text));
  }
  return {static_cast<std::uint8_t>(value >> 16), static_cast<std::uint8_t>(value >> 8),
          static_cast<std::uint8_t>(value)};
}

figure::LegendPlace parseLegendPlace(const std::string& text) {
  if (text == "auto") return figure::LegendPlace::automatic;
  if (text == "above") return figure::LegendPlace::above;
  if (text == "none") return figure::LegendPlace::none;
  throw UsageError(fmt::format("--legend-at {}: use auto, above or none", text));
}

/// A whole number from 0; nothing for anything else.
std::optional<int> parseCount(std::string_view text) {
  int value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::pair<std::string, figure::CurveLook> parseLook(const std::string& text) {
  const auto [name, look] = parsePair("--look", text);
  const std::size_t colon = look.find(':');
  const auto colour = parseCount(std::string_view(look).substr(0, colon));
  const auto change =
      colon == std::string::npos ? std::optional(0) : parseCount(std::string_view(look).substr(colon + 1));
  if (!colour || !change) {
    throw UsageError(
        fmt::format("--look {}: write NAME=COLOUR or NAME=COLOUR:STYLE in whole numbers from 0, as in fox=0:1", text));
  }
  return {name, {*colour, *change}};
}

figure::FigureFormat::Kind kindOf(const std::string& output) {
  const std::string ending = std::filesystem::path(output).extension().string();
  if (ending == ".pdf") return figure::FigureFormat::Kind::pdf;
  if (ending == ".svg") return figure::FigureFormat::Kind::svg;
  if (ending == ".png") return figure::FigureFormat::Kind::png;
  throw UsageError(fmt::format("{}: cannot tell the format from the name: use .pdf, .svg or .png", output));
}

std::string namesOf(const std::vector<std::shared_ptr<const Trace>>& runs) {
  std::string names;
  for (const auto& run : runs) names += (names.empty() ? "" : ", ") + run->info().name;
  return names;
}

}  // namespace

std::string lengthPresets() {
  std::string text;
  for (const Preset& preset : kPresets)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", preset.name, preset.length);
  return text;
}

double parseLength(const std::string& option, const std::string& text) {
  std::string_view length = text;
  for (const Preset& preset : kPresets) {
    if (text == preset.name) length = preset.length;
  }
  const std::string_view unit = length.size() < 2 ? "" : length.substr(length.size() - 2);
  const auto number = length.size() < 2 ? std::nullopt : parseNumber(length.substr(0, length.size() - 2));
  if (number && unit == "mm") return *number;
  if (number && unit == "in") return *number * figure::kMillimetresPerInch;
  if (number && unit == "pt") return *number * figure::kMillimetresPerInch / figure::kPointsPerInch;
  throw UsageError(fmt::format("{} {}: write a length with its unit, as in 140mm or 5.5in, or one of {}", option, text,
                               lengthPresets()));
}

std::pair<std::string, std::string> parsePair(const std::string& option, const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw UsageError(fmt::format("{} {}: write NAME=..., with a name that the figure has", option, text));
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::pair<int, int> parseHead(const std::string& option, const std::string& text) {
  int layer = 0;
  int head = 0;
  const char* last = text.data() + text.size();
  const auto first = std::from_chars(text.data(), last, layer);
  bool valid = first.ec == std::errc() && first.ptr != last && *first.ptr == ':';
  if (valid) {
    const auto second = std::from_chars(first.ptr + 1, last, head);
    valid = second.ec == std::errc() && second.ptr == last;
  }
  if (!valid) throw UsageError(fmt::format("{} {}: write LAYER:HEAD, as in 2:1", option, text));
  return {layer, head};
}

void addFigureOptions(CLI::App& command, FigureOptions& options) {
  command.add_option("-o,--output", options.output, "File to write: .pdf, .svg or .png")->type_name("FILE")->required();
  command
      .add_option("--width", options.width, "Width, as in 140mm or 5.5in, or " + lengthPresets() + " (default: 5.5in)")
      ->type_name("LENGTH");
  command.add_option("--height", options.height, "Height (default: what the content needs)")->type_name("LENGTH");
  command.add_option("--dpi", options.dpi, "Dots per inch of a .png, and of maps in .svg and .pdf (default: 300)")
      ->type_name("N");
  command.add_option("--font", options.font, "Family of the letters (default: DejaVu Sans)")->type_name("FAMILY");
  command
      .add_option("--font-size", options.fontSize, "Size of the letters, in points (default: 9, and 7.25 below 4in)")
      ->type_name("PT");
  command.add_option("--title", options.title, "A title above everything (default: none)")->type_name("TEXT");
  command
      .add_option("--label", options.labels, "What is written for a model, or the text of a sweep; *F* is an italic F")
      ->type_name("NAME=TEXT")
      ->allow_extra_args(false);
  command
      .add_option("--device", options.device,
                  "Where maps and statistics of runs are computed: auto, cpu, cuda or cuda:N (default: auto)")
      ->type_name("DEVICE");
  command.add_flag("--svg-text", options.svgText,
                   "Text of a .svg stays text, to be edited, instead of outlines; its font is not in the file");
  command.add_flag("--no-letters", options.noLetters, "No (a), (b) before the titles of panels");
  command.add_flag("--force", options.force, "Overwrite the output");
}

void addCurveLook(CLI::App& command, FigureOptions& options) {
  command.add_option("--line-width", options.lineWidth, "Width of curves, in points (default: 1.2)")->type_name("PT");
  command
      .add_option(
          "--look", options.looks,
          "Which colour of the palette a model has, from 0, and perhaps which other style of line, as in fox=0:1 "
          "(default: by its place)")
      ->type_name("NAME=N[:N]")
      ->allow_extra_args(false);
  command
      .add_option("--legend-at", options.legendAt,
                  "Where the legend is: auto, which is inside where it covers nothing, above, or none (default: auto)")
      ->type_name("PLACE");
}

void addUnchecked(CLI::App& command, RunCheck& check) {
  command.add_flag_callback(
      "--unchecked", [&check] { check = RunCheck::none; },
      "Open a run file although its arrays contradict one another; what is made of it is marked");
}

void noteUnchecked(Console& console, const std::string& file, RunCheck check) {
  if (check == RunCheck::none) {
    console.note(fmt::format("{}: opened unchecked: its arrays may contradict one another", file));
  }
}

void addModels(CLI::App& command, std::vector<std::string>& models) {
  command.add_option("--models", models, "Which models, in their order (default: all)")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->allow_extra_args(false);
}

std::vector<std::size_t> chosenModels(const std::vector<std::string>& names, const std::vector<std::string>& present) {
  std::vector<std::size_t> chosen;
  for (const std::string& name : names) {
    const auto found = std::find(present.begin(), present.end(), name);
    if (found == present.end()) {
      throw UsageError(fmt::format("--models {}: the files have {}", name, fmt::join(present, ", ")));
    }
    chosen.push_back(static_cast<std::size_t>(found - present.begin()));
  }
  for (std::size_t index = 0; names.empty() && index < present.size(); ++index) chosen.push_back(index);
  return chosen;
}

void addTrainLength(CLI::App& command, std::optional<std::int64_t>& length) {
  command.add_option("--train-length", length, "A dashed line at the length of training")->type_name("N");
}

void requireTrainLength(const std::optional<std::int64_t>& length) {
  if (length && *length < 1) throw UsageError(fmt::format("--train-length {}: use a number of tokens", *length));
}

void addCurveOptions(CLI::App& command, CurveOptions& options) {
  command.add_option("--x-limits", options.xLimits, "Ends of the horizontal axis")->type_name("A:B");
  command.add_option("--y-limits", options.yLimits, "Ends of the vertical axis")->type_name("A:B");
  command.add_option("--x-ticks", options.xTicks, "Values to label on the horizontal axis")
      ->type_name("X,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--y-ticks", options.yTicks, "Values to label on the vertical axis")
      ->type_name("Y,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--legend", options.legend, "Order of the curves; those left out follow")
      ->type_name("NAME,...")
      ->delimiter(',')
      ->allow_extra_args(false);
  command.add_option("--colour,--color", options.colours, "Colour of a curve")
      ->type_name("NAME=#RRGGBB")
      ->allow_extra_args(false);
}

figure::FigureStyle figureStyle(const FigureOptions& options, const std::string& commandLine) {
  figure::FigureStyle style;
  style.format.kind = kindOf(options.output);
  if (options.width) style.format.widthMm = parseLength("--width", *options.width);
  if (options.height) style.format.heightMm = parseLength("--height", *options.height);
  if (options.dpi) style.format.dpi = *options.dpi;
  if (options.font) style.format.fontFamily = *options.font;
  if (options.fontSize) style.format.fontSizePt = *options.fontSize;
  style.format.lineWidthPt = options.lineWidth;
  if (options.svgText) {
    if (style.format.kind != figure::FigureFormat::Kind::svg) {
      throw UsageError(fmt::format("--svg-text: {} is no .svg: leave the option out", options.output));
    }
    style.format.svgText = figure::FigureFormat::SvgText::text;
  }
  style.title = options.title;
  style.legend = parseLegendPlace(options.legendAt);
  if (options.noLetters) style.letters = figure::PanelLetters::none;
  for (const std::string& label : options.labels) style.labels.push_back(parsePair("--label", label));
  for (const std::string& look : options.looks) style.looks.push_back(parseLook(look));
  style.command = commandLine;
  figure::requireValid(style.format);
  return style;
}

figure::CurveChoice curveChoice(const CurveOptions& options) {
  figure::CurveChoice choice;
  if (options.xLimits) choice.xLimits = parseLimits("--x-limits", *options.xLimits);
  if (options.yLimits) choice.yLimits = parseLimits("--y-limits", *options.yLimits);
  choice.xTicks = options.xTicks;
  choice.yTicks = options.yTicks;
  choice.order = options.legend;
  for (const std::string& text : options.colours) {
    const auto [name, colour] = parsePair("--colour", text);
    choice.colours.emplace_back(name, parseColour("--colour", colour));
  }
  return choice;
}

std::vector<std::shared_ptr<const Trace>> allRuns(const FigureOptions& options) {
  const std::optional<int> gpu = gpu_chosen(DeviceChoice::parse(options.device));
  std::vector<std::shared_ptr<const Trace>> runs;
  std::set<std::string> names;
  for (const std::string& file : options.files) {
    for (const auto& run : RunFile::open(file, options.check).traces) {
      run->compute_on(gpu);
      if (!names.insert(run->info().name).second) {
        throw UsageError(fmt::format("{}: another file has a model {} too: run one of them with --model NAME=DIR", file,
                                     run->info().name));
      }
      runs.push_back(run);
    }
  }
  return runs;
}

std::shared_ptr<const Trace> namedRun(const std::vector<std::shared_ptr<const Trace>>& runs,
                                      const std::vector<std::string>& files, const char* option,
                                      const std::string& name) {
  const auto named = std::find_if(runs.begin(), runs.end(), [&](const auto& run) { return run->info().name == name; });
  if (named != runs.end()) return *named;
  throw UsageError(fmt::format("{} {}: {} has {}", option, name, fmt::join(files, ", "), namesOf(runs)));
}

std::shared_ptr<const Trace> chooseRun(const FigureOptions& options, const std::optional<std::string>& name,
                                       Notes& notes) {
  return chooseRun(options, allRuns(options), name, notes);
}

std::shared_ptr<const Trace> chooseRun(const FigureOptions& options,
                                       const std::vector<std::shared_ptr<const Trace>>& runs,
                                       const std::optional<std::string>& name, Notes& notes) {
  const std::vector<std::string>& files = options.files;
  if (name) return namedRun(runs, files, "--model", *name);
  if (runs.empty()) throw UsageError(fmt::format("{}: there is no run in it", fmt::join(files, ", ")));
  const auto gated = std::find_if(runs.begin(), runs.end(), [](const auto& run) { return forgets(run->info()); });
  const auto& chosen = gated == runs.end() ? runs.front() : *gated;
  if (runs.size() > 1) {
    notes.push_back(fmt::format("of {} this is {}: --model chooses another", namesOf(runs), chosen->info().name));
  }
  return chosen;
}

std::pair<std::shared_ptr<const Trace>, std::shared_ptr<const Trace>> chooseTwoRuns(
    const FigureOptions& options, const std::vector<std::string>& names, Notes& notes) {
  const std::vector<std::string>& files = options.files;
  const auto runs = allRuns(options);
  if (!names.empty() && names.size() != 2) {
    throw UsageError(fmt::format("--models {}: write two names, as in fox,base", fmt::join(names, ",")));
  }
  if (names.empty()) {
    if (runs.size() < 2) {
      throw UsageError(fmt::format("{}: comparing takes two models, here is {}: name another run file too",
                                   fmt::join(files, ", "), runs.empty() ? "none" : namesOf(runs)));
    }
    if (runs.size() > 2) {
      notes.push_back(fmt::format("of {} these are the first two: --models chooses others", namesOf(runs)));
    }
    const bool swapped = !forgets(runs[0]->info()) && forgets(runs[1]->info());
    return {runs[swapped ? 1 : 0], runs[swapped ? 0 : 1]};
  }
  return {namedRun(runs, files, "--models", names[0]), namedRun(runs, files, "--models", names[1])};
}

int writeFigure(
    const FigureOptions& options, const Session& session,
    const std::function<std::optional<figure::DrawnFigure>(const figure::FigureStyle& style, Notes& notes)>& draw) {
  const figure::FigureStyle style = figureStyle(options, session.commandLine);
  figure::requireDrawing();
  for (const std::string& file : options.files) requireDistinct(options.output, file);
  requireWritable(options.output, options.force);
  session.console.setSubject(options.output);
  Notes notes;
  const auto drawn = draw(style, notes);
  if (!drawn || session.stop.stop_requested()) return kInterrupted;
  AtomicFile file(options.output, options.force);
  file.write(drawn->file.data(), drawn->file.size());
  file.commit();
  session.console.endProgress();
  notes.insert(notes.end(), drawn->notes.begin(), drawn->notes.end());
  if (const auto note = figure::pdfNote(drawn->file)) notes.push_back(*note);
  for (const std::string& note : notes) session.console.note(note);
  return kDone;
}

}  // namespace foxscope::cli

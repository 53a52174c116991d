#include "app/figure/run_figure.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "backend/agent/remote_path.h"
#include "backend/base/command_line.h"

namespace foxscope::figure {
namespace {

bool sharesName(const RunFigure& figure, const FigureRun& run) {
  return std::any_of(figure.runs.begin(), figure.runs.end(), [&](const FigureRun& other) {
    return other.trace != run.trace && other.trace->info().name == run.trace->info().name;
  });
}

// Adds the looks that differ from those of their place.
void addLooks(const RunFigure& figure, FigureSpec& spec) {
  const FigureKind& row = figure.row();
  if (!row.takes("look") || !row.takes("models")) return;
  std::vector<std::string> looks;
  int place = 0;
  for (const FigureRun& run : figure.runs) {
    // A model that is left out has no place.
    if (row.traits.forgetting && !forgets(run.trace->info())) continue;
    const int own = place++;
    if (!run.look || (run.look->change == 0 && run.look->colour == own)) continue;
    looks.push_back(run.look->change == 0
                        ? fmt::format("{}={}", figure.nameOf(run), run.look->colour)
                        : fmt::format("{}={}:{}", figure.nameOf(run), run.look->colour, run.look->change));
  }
  if (!looks.empty()) spec.set("look", std::move(looks));
}

std::vector<std::string> filesOf(const RunFigure& figure) {
  std::vector<std::string> files;
  for (const FigureRun& run : figure.runs) {
    if (std::find(files.begin(), files.end(), run.file) == files.end()) files.push_back(run.file);
  }
  return files;
}

/// A file whose name begins like an option.
std::string asFile(const std::string& name) { return name.starts_with('-') ? "./" + name : name; }

}  // namespace

std::vector<Quantity> RunFigure::quantities() const {
  if (!row().traits.bars) return {};
  if (std::ranges::all_of(runs, [](const FigureRun& run) { return forgets(run.trace->info()); })) {
    return {Quantity::forget, Quantity::attention};
  }
  return {Quantity::attention};
}

std::string RunFigure::nameOf(const FigureRun& run) const {
  return sharesName(*this, run) ? run.name : run.trace->info().name;
}

std::optional<DrawnFigure> drawRunFigure(const RunFigure& figure, const FigureStyle& chosen, EvaluatedRuns& evaluated,
                                         const Job& job) {
  FigureStyle style = chosen;
  FigureSources sources{.runs = figure.runs, .evaluated = &evaluated};
  for (FigureRun& run : sources.runs) {
    run.name = figure.nameOf(run);
    if (run.look) style.looks.emplace_back(run.name, *run.look);
  }
  FigureRequest request{figure, sources, style, job};
  return figure.row().draw(request);
}

void addStyle(const FigureKind& kind, const FigureStyle& style, FigureSpec& spec) {
  const FigureFormat& format = style.format;
  spec.set("width", fmt::format("{}mm", format.widthMm));
  if (format.heightMm) spec.set("height", fmt::format("{}mm", *format.heightMm));
  if (format.dpi != FigureFormat{}.dpi) spec.set("dpi", fmt::format("{}", format.dpi));
  if (!format.fontFamily.empty()) spec.set("font", format.fontFamily);
  if (format.fontSizePt) spec.set("font-size", fmt::format("{}", *format.fontSizePt));
  if (format.lineWidthPt) spec.set("line-width", fmt::format("{}", *format.lineWidthPt));
  if (!style.title.empty()) spec.set("title", style.title);
  std::vector<std::string> labels;
  for (const auto& [name, text] : style.labels) labels.push_back(fmt::format("{}={}", name, text));
  if (!labels.empty() && kind.takes("models")) spec.set("label", std::move(labels));
  if (kind.takes("legend-at") && style.legend != LegendPlace::automatic) {
    spec.set("legend-at", style.legend == LegendPlace::none ? "none" : "above");
  }
  if (style.letters == PanelLetters::none) spec.set("no-letters", true);
  if (format.svgText == FigureFormat::SvgText::text) spec.set("svg-text", true);
}

FigureSpec specOf(const RunFigure& figure, const FigureStyle& style) {
  FigureSpec spec{figure.kind};
  std::vector<std::string> names;
  for (const FigureRun& run : figure.runs) names.push_back(figure.nameOf(run));
  spec.set(figure.row().takes("models") ? "models" : "model", fmt::format("{}", fmt::join(names, ",")));
  spec.options.insert(spec.options.end(), figure.options.begin(), figure.options.end());
  addLooks(figure, spec);
  addStyle(figure.row(), style, spec);
  return spec;
}

std::string commandObstacle(const RunFigure& figure) {
  for (const FigureRun& run : figure.runs) {
    if (run.file.empty()) return fmt::format("{} is in no file yet: save the run file first", run.name);
    if (sharesName(figure, run)) {
      return fmt::format("two runs are called {}: the command line cannot tell them apart", run.trace->info().name);
    }
    if (run.trace->info().name.find(',') != std::string::npos) {
      return fmt::format("{}: the command line takes a comma in a name as the beginning of the next", run.name);
    }
  }
  return {};
}

std::string commandOf(const FigureSpec& spec, const std::vector<std::string>& files, const std::string& output,
                      Folders folders) {
  const auto shown = [&](const std::string& path) {
    return asFile(folders == Folders::kept ? path : agent::name_without_folder(path));
  };
  std::vector<std::string> words{"foxscope", "figure", spec.kind};
  for (const std::string& file : files) words.push_back(shown(file));
  const auto options = spec.words();
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"-o", shown(output)});
  return quoted_command_line(words);
}

std::string commandOf(const RunFigure& figure, const FigureStyle& style, const std::string& output, Folders folders) {
  return commandOf(specOf(figure, style), filesOf(figure), output, folders);
}

}  // namespace foxscope::figure

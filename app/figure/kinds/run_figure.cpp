#include "app/figure/kinds/run_figure.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/figure/kinds/ablation.h"
#include "app/figure/kinds/decay.h"
#include "app/figure/kinds/labels.h"
#include "app/figure/kinds/perplexity.h"
#include "backend/base/command_line.h"
#include "backend/base/error.h"

namespace foxscope::figure {
namespace {

using Value = FigureSpec::Value;

bool sharesName(const RunFigure& figure, const FigureRun& run) {
  return std::any_of(figure.runs.begin(), figure.runs.end(), [&](const FigureRun& other) {
    return other.trace != run.trace && other.trace->info().name == run.trace->info().name;
  });
}

std::vector<LossSource> lossesIn(const RunFigure& figure) {
  std::vector<LossSource> sources;
  for (const FigureRun& run : figure.runs) {
    sources.push_back(lossesOf(run.trace));
    sources.back().name = figure.nameOf(run);
  }
  return sources;
}

/// Options in the making: what is as the command does it by itself is left out.
class Options {
 public:
  void add(const char* name, const std::string& value) { m_options.emplace_back(name, Value(std::vector{value})); }
  void add(const char* name, std::vector<std::string> values) {
    if (!values.empty()) m_options.emplace_back(name, Value(std::move(values)));
  }
  void flag(const char* name, bool set) {
    if (set) m_options.emplace_back(name, Value(true));
  }
  void range(const char* name, const std::optional<Range>& range) {
    if (range) add(name, fmt::format("{}:{}", range->begin, range->end));
  }
  void limits(const char* name, const std::optional<AxisLimits>& limits) {
    if (limits) add(name, fmt::format("{}:{}", limits->lower, limits->upper));
  }
  void head(const char* name, const std::optional<HeadIndex>& head) {
    if (head) add(name, wordOf(*head));
  }
  void heads(const std::vector<HeadIndex>& heads) {
    std::vector<std::string> words;
    words.reserve(heads.size());
    for (const HeadIndex& one : heads) words.push_back(wordOf(one));
    if (!words.empty()) add("heads", fmt::format("{}", fmt::join(words, ",")));
  }
  void heads(const std::vector<MapsHead>& heads) {
    std::vector<std::string> words;
    words.reserve(heads.size());
    for (const MapsHead& one : heads) {
      words.push_back(one.run == nullptr ? wordOf(one) : one.run->info().name + ":" + wordOf(one));
    }
    if (!words.empty()) add("heads", fmt::format("{}", fmt::join(words, ",")));
  }
  void colours(const ColourMap* map, const std::vector<ColourLimits>& limits) {
    for (const NamedColourMap& one : namedColourMaps()) {
      if (one.map == map) add("colours", one.name);
    }
    const auto end = [](const std::optional<double>& value) { return value ? fmt::format("{}", *value) : ""; };
    std::vector<std::string> words;
    words.reserve(limits.size());
    for (const ColourLimits& one : limits) {
      words.push_back(fmt::format("{}={}:{}", to_string(one.quantity), end(one.lower), end(one.upper)));
    }
    add("limits", std::move(words));
  }
  [[nodiscard]] std::vector<std::pair<std::string, Value>> take() { return std::move(m_options); }

 private:
  static std::string wordOf(const HeadIndex& head) { return fmt::format("{}:{}", head.layer, head.head); }

  std::vector<std::pair<std::string, Value>> m_options;
};

std::string joined(const std::vector<Quantity>& quantities) {
  std::vector<std::string> names;
  names.reserve(quantities.size());
  for (const Quantity quantity : quantities) names.emplace_back(to_string(quantity));
  return fmt::format("{}", fmt::join(names, ","));
}

const char* wordOf(PassageTint tint) {
  constexpr std::array kWords{"loss", "gate", "forget", "attention"};
  return kWords[static_cast<std::size_t>(tint)];
}

void addModels(const RunFigure& figure, Options& options) {
  const KindTraits traits = traitsOf(figure.kind);
  std::vector<std::string> names;
  for (const FigureRun& run : figure.runs) names.push_back(figure.nameOf(run));
  options.add(traits.labels ? "models" : "model", fmt::format("{}", fmt::join(names, ",")));
}

void addOwn(const RunFigure& figure, Options& options) {
  if (figure.kind == "maps") {
    options.heads(figure.maps.heads);
    if (figure.maps.quantities != MapsOptions{}.quantities) options.add("quantity", joined(figure.maps.quantities));
    options.range("rows", figure.maps.rows);
    options.range("cols", figure.maps.columns);
    if (figure.maps.threshold) options.add("threshold", fmt::format("{}", *figure.maps.threshold));
    options.colours(figure.maps.colours, figure.maps.limits);
  } else if (figure.kind == "grid") {
    if (figure.grid.quantity) options.add("quantity", to_string(*figure.grid.quantity));
    options.range("rows", figure.grid.rows);
    options.range("cols", figure.grid.columns);
    options.colours(figure.grid.colours, figure.grid.limits);
  } else if (figure.kind == "compare") {
    options.head("head", figure.compare.first);
    options.head("with", figure.compare.second);
    if (!figure.compare.quantities.empty()) options.add("quantity", joined(figure.compare.quantities));
    options.range("rows", figure.compare.rows);
    options.range("cols", figure.compare.columns);
    options.colours(figure.compare.colours, figure.compare.limits);
  } else if (figure.kind == "text") {
    options.add("tint", wordOf(figure.passage.tint));
    options.head("head", figure.passage.head);
    options.range("rows", figure.passage.positions);
    if (figure.passage.query) options.add("position", fmt::format("{}", *figure.passage.query));
  } else if (figure.kind == "saliency") {
    options.head("head", figure.saliency.head);
    options.range("rows", figure.saliency.positions);
  } else if (figure.kind == "distance") {
    options.heads(figure.distance.heads);
    options.flag("with-first", figure.distance.first == FirstKey::counted);
  } else if (traitsOf(figure.kind).axes) {
    if (figure.loss.smooth) options.add("smooth", fmt::format("{}", *figure.loss.smooth));
    if (figure.loss.trainLength) options.add("train-length", fmt::format("{}", *figure.loss.trainLength));
    options.limits("x-limits", figure.loss.curves.xLimits);
    options.limits("y-limits", figure.loss.curves.yLimits);
  }
}

void addStyle(const RunFigure& figure, const FigureStyle& style, Options& options) {
  const FigureFormat& format = style.format;
  const KindTraits traits = traitsOf(figure.kind);
  options.add("width", fmt::format("{}mm", format.widthMm));
  if (format.heightMm) options.add("height", fmt::format("{}mm", *format.heightMm));
  if (format.dpi != FigureFormat{}.dpi) options.add("dpi", fmt::format("{}", format.dpi));
  if (!format.fontFamily.empty()) options.add("font", format.fontFamily);
  if (format.fontSizePt) options.add("font-size", fmt::format("{}", *format.fontSizePt));
  if (format.lineWidthPt) options.add("line-width", fmt::format("{}", *format.lineWidthPt));
  if (!style.title.empty()) options.add("title", style.title);
  std::vector<std::string> labels;
  for (const auto& [name, text] : style.labels) labels.push_back(fmt::format("{}={}", name, text));
  if (traits.labels) options.add("label", std::move(labels));
  if (traits.curves && style.legend != LegendPlace::automatic) {
    options.add("legend-at", style.legend == LegendPlace::none ? "none" : "above");
  }
  options.flag("no-letters", style.letters == PanelLetters::none);
  options.flag("svg-text", format.svgText == FigureFormat::SvgText::text);
}

// Those that differ from what their place gives.
void addLooks(const RunFigure& figure, Options& options) {
  const KindTraits traits = traitsOf(figure.kind);
  if (!traits.curves || !traits.labels) return;
  std::vector<std::string> looks;
  int place = 0;
  for (const FigureRun& run : figure.runs) {
    // Models without gates have no decay, and no place there.
    if (figure.kind == "decay" && !forgets(run.trace->info())) continue;
    const int own = place++;
    if (!run.look || (run.look->change == 0 && run.look->colour == own)) continue;
    looks.push_back(run.look->change == 0
                        ? fmt::format("{}={}", figure.nameOf(run), run.look->colour)
                        : fmt::format("{}={}:{}", figure.nameOf(run), run.look->colour, run.look->change));
  }
  options.add("look", std::move(looks));
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

KindTraits traitsOf(const std::string& kind) {
  KindTraits traits;
  traits.maps = kind == "maps" || kind == "grid" || kind == "compare";
  traits.axes = kind == "loss" || kind == "perplexity" || kind == "ablation";
  traits.smooth = kind == "loss" || kind == "ablation";
  traits.curves = traits.axes || kind == "decay" || kind == "distance";
  traits.labels = traits.axes || kind == "decay" || kind == "labels" || kind == "compare";
  traits.letters = kind == "maps" || kind == "compare" || kind == "decay" || kind == "distance" || kind == "labels";
  return traits;
}

std::vector<Quantity> RunFigure::quantities() const {
  if (kind == "maps") return forgets(runs.front().trace->info()) ? maps.quantities : std::vector{Quantity::attention};
  if (kind == "grid") return grid.quantity ? std::vector{*grid.quantity} : std::vector<Quantity>();
  if (kind != "compare") return {};
  if (!compare.quantities.empty()) return compare.quantities;
  const bool gated =
      std::all_of(runs.begin(), runs.end(), [](const FigureRun& run) { return forgets(run.trace->info()); });
  return gated ? std::vector{Quantity::forget, Quantity::attention} : std::vector{Quantity::attention};
}

std::string RunFigure::nameOf(const FigureRun& run) const {
  return sharesName(*this, run) ? run.name : run.trace->info().name;
}

std::shared_ptr<const EvaluatedHeads> EvaluatedRuns::of(const std::shared_ptr<const Trace>& trace, const Job& job) {
  {
    const std::lock_guard lock(m_mutex);
    const auto known = m_known.find(trace);
    if (known != m_known.end()) return known->second;
  }
  auto heads = evaluate_run(trace, job);
  if (!heads) return nullptr;
  const std::lock_guard lock(m_mutex);
  return m_known[trace] = std::make_shared<const EvaluatedHeads>(std::move(*heads));
}

std::optional<DrawnFigure> drawRunFigure(const RunFigure& figure, const FigureStyle& chosen, EvaluatedRuns& evaluated,
                                         const Job& job) {
  FigureStyle style = chosen;
  for (const FigureRun& run : figure.runs) {
    if (run.look) style.looks.emplace_back(figure.nameOf(run), *run.look);
  }
  const auto& first = figure.runs.front().trace;
  if (figure.kind == "maps") return drawMaps(first, figure.maps, style, job);
  if (figure.kind == "grid") return drawGrid(first, figure.grid, style, job);
  if (figure.kind == "text") return drawPassage(first, figure.passage, style, job);
  if (figure.kind == "saliency") return drawSaliency(first, figure.saliency, style, job);
  if (figure.kind == "compare") return drawCompare(first, figure.runs.at(1).trace, figure.compare, style, job);
  if (figure.kind == "loss") return drawLoss(lossesIn(figure), figure.loss, style);
  if (figure.kind == "perplexity") return drawPerplexity(lossesIn(figure), figure.loss, style);
  if (figure.kind == "ablation") return drawAblation(lossesIn(figure), {}, figure.loss, style);
  std::vector<EvaluatedHeads> models;
  for (const FigureRun& run : figure.runs) {
    const auto heads = evaluated.of(run.trace, job);
    if (!heads) return std::nullopt;
    models.push_back(*heads);
  }
  if (figure.kind == "labels") return drawLabels(models, style);
  if (figure.kind == "distance") return drawDistance(models.front(), figure.distance, style);
  return drawDecay(models, style);
}

FigureSpec specOf(const RunFigure& figure, const FigureStyle& style) {
  Options options;
  addModels(figure, options);
  addOwn(figure, options);
  addLooks(figure, options);
  addStyle(figure, style, options);
  return {figure.kind, options.take()};
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

std::string commandOf(const RunFigure& figure, const FigureStyle& style, const std::string& output, Folders folders) {
  const auto shown = [&](const std::string& path) {
    return asFile(folders == Folders::kept ? path : without_folder(path));
  };
  std::vector<std::string> words{"foxscope", "figure", figure.kind};
  for (const std::string& file : filesOf(figure)) words.push_back(shown(file));
  const auto options = specOf(figure, style).words();
  words.insert(words.end(), options.begin(), options.end());
  words.insert(words.end(), {"-o", shown(output)});
  return quoted_command_line(words);
}

}  // namespace foxscope::figure

#include "app/figure/kinds/heads/gates.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/figure/figure_origin.h"
#include "app/figure/figure_request.h"
#include "app/figure/figure_words.h"
#include "app/figure/heads/histogram_panel.h"
#include "app/figure/heads/violin_panel.h"
#include "app/figure/kinds/atlas/atlas_heads.h"
#include "app/figure/kinds/evaluated_heads.h"
#include "app/figure/legend_panel.h"
#include "app/figure/page/panel_page.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/number_ranges.h"
#include "backend/map/statistics/gate_statistics.h"

namespace foxscope::figure {
namespace {

constexpr int kBinsOfGates = 64;          ///< from 0 to 1
constexpr int kBinsADecade = 12;          ///< of times
constexpr double kNarrowestViolin = 0.7;  ///< font sizes; where heads would have less, layers have violins
constexpr double kViolinsOfLayer = 0.84;  ///< share of a layer's width
constexpr double kLeastTime = 0.01;       ///< tokens; exp(-100) is left of what a gate of less forgets
constexpr double kMostTime = 1e8;         ///< beyond, float32's log f is rounding

/// log f of the positions of a range, nats.
std::vector<double> logGates(const Trace& trace, int layer, int head, const Range& positions) {
  const auto c = trace.cumulative_log_gate(layer, head);
  std::vector<double> gates;
  for (std::int64_t p = std::max<std::int64_t>(1, positions.begin); p < positions.end; ++p) {
    gates.push_back(c[index_of(p)] - c[index_of(p - 1)]);
  }
  return gates;
}

/// -1 / log f, tokens, within what can be told from float32.
double timeOf(double logGate) { return logGate < 0 ? std::clamp(-1 / logGate, kLeastTime, kMostTime) : kMostTime; }

double shownValue(double logGate, GatesOptions::Scale scale) {
  if (scale == GatesOptions::Scale::gate) return std::exp(logGate);
  return scale == GatesOptions::Scale::time ? timeOf(logGate) : 1 / timeOf(logGate);
}

/// Whether a value of a gate has a place on the axis of a histogram: a gate that is 1 in float32 has none on a
/// logarithmic one.
bool hasPlace(double value, GatesOptions::Scale scale) {
  if (scale == GatesOptions::Scale::gate) return true;
  return (scale == GatesOptions::Scale::time ? 1 / value : value) >= log_gate_bin(1);
}

/// Whole decades around all values, or 0 to 1.
std::vector<double> edgesFor(double lowest, double highest, GatesOptions::Scale scale) {
  std::vector<double> edges;
  if (scale == GatesOptions::Scale::gate) {
    for (int edge = 0; edge <= kBinsOfGates; ++edge) edges.push_back(static_cast<double>(edge) / kBinsOfGates);
    return edges;
  }
  const int first = static_cast<int>(std::floor(std::log10(lowest)));
  const int last = std::max(first + 1, static_cast<int>(std::ceil(std::log10(highest))));
  for (int edge = first * kBinsADecade; edge <= last * kBinsADecade; ++edge) {
    edges.push_back(std::pow(10, static_cast<double>(edge) / kBinsADecade));
  }
  return edges;
}

std::vector<double> countsOf(const std::vector<double>& values, const std::vector<double>& edges) {
  std::vector<double> counts(edges.size() - 1);
  for (const double value : values) {
    const auto above = std::ranges::upper_bound(edges, value) - edges.begin();
    counts[static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(above - 1, 0, std::ssize(counts) - 1))] += 1;
  }
  return counts;
}

/// Whether every head of a figure of this width has room for a violin of its own.
bool roomForHeads(const TraceInfo& info, const FigureStyle& style) {
  const double font = fontSize(style.format);
  const double violins = static_cast<double>(info.layers) * info.heads;
  return (widthInPoints(style.format) - 5 * font) / violins >= kNarrowestViolin * font;
}

std::string axisOf(GatesOptions::Scale scale) {
  if (scale == GatesOptions::Scale::gate) return "forget gate *f*";
  return scale == GatesOptions::Scale::time ? "decay time of a gate −1 / log *f* (tokens)" : "−log *f* (nats)";
}

/// The violins of a model before their gates are counted; a single one where a histogram is drawn.
struct Violins {
  ViolinPanel::Content content;
  /// The layer, the head and the violin that its gates go to, of every head that forgets.
  struct Head {
    int layer = 0;
    int head = 0;
    std::size_t violin = 0;
  };
  std::vector<Head> heads;
  bool headEach = false;
};

/// Whether the figure draws this head.
bool isDrawn(const GatesOptions& options, const HeadIndex& head) {
  if (options.head) return *options.head == head;
  return !options.layer || *options.layer == head.layer;
}

/// @throws UsageError for a head or layer that there is not, and for one that never forgets
void requireDrawn(const TraceInfo& info, const GatesOptions& options) {
  if (options.head) {
    requireHead(info, *options.head);
    if (forgets(info, options.head->layer)) return;
    throw UsageError(
        fmt::format("--head {}: this head of {} never forgets: choose another", wordOf(*options.head), info.name));
  }
  if (!options.layer) return;
  if (*options.layer < 0 || *options.layer >= info.layers) {
    throw UsageError(fmt::format("--layer {}: model '{}' has no such layer: layers are 0 to {}", *options.layer,
                                 info.name, info.layers - 1));
  }
  if (forgets(info, static_cast<int>(*options.layer))) return;
  throw UsageError(
      fmt::format("--layer {}: no head of this layer of {} forgets: choose another", *options.layer, info.name));
}

/// @throws UsageError for a model without gates, else as requireDrawn
Violins violinsOf(const TraceInfo& info, const GatesOptions& options, const FigureStyle& style,
                  std::vector<std::string>& notes) {
  if (!forgets(info))
    throw UsageError(fmt::format("figure gates: {} has no gate: there is nothing to draw", info.name));
  requireDrawn(info, options);
  Violins all;
  all.headEach =
      !options.isHistogram() && (options.each == GatesOptions::Each::head ||
                                 (options.each == GatesOptions::Each::automatic && roomForHeads(info, style)));
  if (!all.headEach && !options.isHistogram() && options.each == GatesOptions::Each::automatic) {
    notes.push_back(
        fmt::format("{}: {} heads have no room for a violin each: one is a layer's; --each head draws "
                    "them all the same",
                    info.name, info.head_count()));
  }
  bool byChannel = false;
  std::vector<Violin>& violins = all.content.violins;
  for (int layer = 0; layer < info.layers; ++layer) {
    if (!forgets(info, layer)) continue;
    const int count = info.mixer(layer).heads;
    for (int head = 0; head < count; ++head) {
      if (!isDrawn(options, {layer, head})) continue;
      byChannel = byChannel || info.mixer(layer).sums_channels();
      if (options.isHistogram() ? violins.empty() : all.headEach || head == 0) {
        const double beside = all.headEach ? kViolinsOfLayer * ((head + 0.5) / count - 0.5) : 0;
        violins.push_back({all.headEach ? fmt::format("{}:{}", layer, head) : std::to_string(layer), layer + beside});
      }
      all.heads.push_back({layer, head, violins.size() - 1});
    }
  }
  if (const std::vector<int> layers = layersWithoutGate(info); !layers.empty() && !options.isHistogram()) {
    notes.push_back(fmt::format("{}: layers without a gate are left out: {}", info.name, ranges_text(layers)));
  }
  if (byChannel) {
    notes.push_back(
        fmt::format("{}: where each channel decays, a gate is the geometric mean over channels", info.name));
  }
  all.content.scale = options.scale == GatesOptions::Scale::gate ? AxisScale::linear : AxisScale::logarithmic;
  all.content.name = axisOf(options.scale);
  if (options.modelNamed) all.content.name = fmt::format("{}, {}", style.label(info.name), all.content.name);
  all.content.layers = info.layers;
  all.content.halfWidth = kViolinsOfLayer / 2 / (all.headEach ? info.heads : 1) * (all.headEach ? 0.95 : 1);
  return all;
}

FigureOrigin originOf(const TraceInfo& info, const Violins& all, const GatesOptions& options,
                      const FigureStyle& style) {
  FigureOrigin origin;
  origin.title = style.title.empty() ? fmt::format("Forget gates of {}", info.name) : style.title;
  origin.command = style.command;
  if (options.head) {
    origin.facts = {{"head", wordOf(*options.head)}};
  } else if (options.layer) {
    origin.facts = {{"layer", std::to_string(*options.layer)}};
  } else {
    origin.facts = {{"violins", all.headEach ? "a head each" : "a layer each"}};
  }
  return origin;
}

std::string paintViolins(ViolinPanel::Content content, const FigureOrigin& origin, const FigureStyle& style) {
  PanelPage page(style);
  page.add(std::make_unique<ViolinPanel>(style.format, std::move(content)), {});
  page.arrange();
  return page.paint(origin);
}

/// The value of a gate of 1/2.
double halfOf(GatesOptions::Scale scale) { return shownValue(-std::log(2.0), scale); }

/// The only violin as a histogram.
/// @param kept  gates that count and have no place on the axis
std::string paintHistogram(const ViolinPanel::Content& content, double kept, const GatesOptions& options,
                           const FigureOrigin& origin, const FigureStyle& style) {
  const Violin& gates = content.violins.front();
  HistogramPanel::Content histogram;
  histogram.title = options.head ? headTitle(*options.head) : fmt::format("Layer\u00a0{}", *options.layer);
  histogram.across = content.name;
  histogram.up = "share of positions";
  histogram.series = "gates";
  histogram.row = options.head ? wordOf(*options.head) : std::to_string(*options.layer);
  histogram.edges = content.edges;
  const double all = std::accumulate(gates.counts.begin(), gates.counts.end(), kept);
  for (const double count : gates.counts) histogram.shares.push_back(count / all);
  histogram.scale = content.scale;
  histogram.mark = halfOf(options.scale);
  histogram.quartiles = {gates.lower, gates.median, gates.upper};
  PanelPage page(style);
  page.add(std::make_unique<HistogramPanel>(style.format, std::move(histogram)), {0, 0});
  page.add(std::make_unique<LegendPanel>(style.format, std::vector<Curve>(),
                                         "ring and bar: median and quartiles; dashed: *f* = 1/2"),
           {1, 0});
  page.arrange();
  return page.paint(origin);
}

/// Says which gates have no place on a histogram's axis.
/// @throws UsageError where no gate has one
void noteKept(double kept, double all, const TraceInfo& info, std::vector<std::string>& notes) {
  if (kept == 0) return;
  if (kept == all) {
    throw UsageError(
        fmt::format("--by: every gate that is asked for of {} is 1, which no logarithmic axis has a place for: use "
                    "--by gate",
                    info.name));
  }
  notes.push_back(fmt::format("{}: {:.3g} % of the gates are 1 in float32, which no logarithmic axis has a place for",
                              info.name, 100 * kept / all));
}

/// A number of gates whose values lie evenly between two places of an axis.
struct GateBin {
  double lower = 0;
  double upper = 0;
  double count = 0;
};

/// The value at a place of the axis.
double valueAt(double place, GatesOptions::Scale scale) {
  return scale == GatesOptions::Scale::gate ? place : std::pow(10, place);
}

/// Counts of gates by -log f as bins of the figure's axis, the lowest first; times by their logarithm.
std::vector<GateBin> gateBins(const std::vector<std::int64_t>& counts, GatesOptions::Scale scale) {
  const auto placeOf = [scale](double minusLogGate) {
    const double value = shownValue(-minusLogGate, scale);
    return scale == GatesOptions::Scale::gate ? value : std::log10(value);
  };
  std::vector<GateBin> bins;
  for (std::size_t bin = counts.size(); bin-- > 0;) {
    if (counts[bin] == 0) continue;
    const auto [lower, upper] = std::minmax({placeOf(log_gate_bin(bin + 1)), placeOf(log_gate_bin(bin))});
    bins.push_back({lower, upper, static_cast<double>(counts[bin])});
  }
  if (scale == GatesOptions::Scale::log) std::ranges::reverse(bins);
  return bins;
}

std::vector<double> sharedCounts(const std::vector<GateBin>& bins, const std::vector<double>& edges,
                                 GatesOptions::Scale scale) {
  std::vector<double> places;
  for (const double edge : edges) places.push_back(scale == GatesOptions::Scale::gate ? edge : std::log10(edge));
  std::vector<double> counts(edges.size() - 1);
  for (const GateBin& bin : bins) {
    const auto after = std::ranges::upper_bound(places, bin.lower) - places.begin();
    auto n = static_cast<std::size_t>(std::clamp<std::ptrdiff_t>(after - 1, 0, std::ssize(counts) - 1));
    double left = bin.count;
    for (double from = bin.lower; n + 1 < counts.size() && places[n + 1] < bin.upper; ++n) {
      const double part = bin.count * (places[n + 1] - from) / (bin.upper - bin.lower);
      counts[n] += part;
      left -= part;
      from = places[n + 1];
    }
    counts[n] += left;
  }
  return counts;
}

/// The value below which this share of the gates lies.
double sharedQuantile(const std::vector<GateBin>& bins, double share, GatesOptions::Scale scale) {
  double wanted = 0;
  for (const GateBin& bin : bins) wanted += share * bin.count;
  for (const GateBin& bin : bins) {
    if (wanted <= bin.count) {
      return valueAt(std::lerp(bin.lower, bin.upper, wanted / bin.count), scale);
    }
    wanted -= bin.count;
  }
  return valueAt(bins.back().upper, scale);
}

}  // namespace

std::optional<DrawnFigure> drawGates(const RunOnDevice& trace, const GatesOptions& options, const FigureStyle& style,
                                     const Job& job) {
  const TraceInfo& info = trace->info();
  DrawnFigure drawn;
  Violins all = violinsOf(info, options, style, drawn.notes);
  const Range positions = options.positions.value_or(Range{0, info.length});
  if (positions.end < 2) throw UsageError("figure gates: one position has no gate in any F: choose more");
  ViolinPanel::Content& content = all.content;
  std::vector<std::vector<double>> groups(content.violins.size());
  for (const Violins::Head& head : all.heads) {
    if (job.stopped()) return std::nullopt;
    for (const double logGate : logGates(*trace, head.layer, head.head, positions)) {
      groups[head.violin].push_back(shownValue(logGate, options.scale));
    }
  }
  double kept = 0;
  double lowest = std::numeric_limits<double>::infinity();
  double highest = 0;
  for (std::size_t n = 0; n < groups.size(); ++n) {
    std::vector<double>& group = groups[n];
    Violin& violin = content.violins[n];
    violin.lower = foxscope::quantile(group, 0.25);
    violin.median = foxscope::quantile(group, 0.5);
    violin.upper = foxscope::quantile(group, 0.75);
    if (options.isHistogram()) {
      const auto count = static_cast<double>(group.size());
      kept = static_cast<double>(std::erase_if(group, [&](double value) { return !hasPlace(value, options.scale); }));
      noteKept(kept, count, info, drawn.notes);
    }
    for (const double value : group) {
      lowest = std::min(lowest, value);
      highest = std::max(highest, value);
    }
  }
  content.edges = edgesFor(lowest, highest, options.scale);
  for (std::size_t n = 0; n < groups.size(); ++n) content.violins[n].counts = countsOf(groups[n], content.edges);
  FigureOrigin origin = originOf(info, all, options, style);
  origin.facts.emplace_back("positions",
                            fmt::format("{}:{}", std::max<std::int64_t>(1, positions.begin), positions.end));
  addRun(origin, *trace);
  drawn.file = options.isHistogram() ? paintHistogram(content, kept, options, origin, style)
                                     : paintViolins(std::move(content), origin, style);
  return drawn;
}

DrawnFigure drawGates(const AtlasModel& model, const GatesOptions& options, const FigureStyle& style) {
  if (options.positions) throw UsageError("--rows: an atlas has the gates of all positions together: leave it out");
  const TraceInfo info = headsOf(model).info;
  DrawnFigure drawn;
  Violins all = violinsOf(info, options, style, drawn.notes);
  ViolinPanel::Content& content = all.content;
  std::vector<std::vector<std::int64_t>> counts(content.violins.size(), std::vector<std::int64_t>(kLogGateBins));
  for (const Violins::Head& head : all.heads) {
    const auto place = static_cast<std::size_t>(head.layer * info.heads + head.head);
    const auto histogram = model.sums.row(AtlasSum::log_gate_histogram, place);
    std::ranges::transform(counts[head.violin], histogram, counts[head.violin].begin(), std::plus<>());
  }
  std::vector<std::vector<GateBin>> groups;
  double kept = 0;
  double lowest = std::numeric_limits<double>::infinity();
  double highest = 0;
  for (std::size_t n = 0; n < counts.size(); ++n) {
    std::vector<GateBin>& bins = groups.emplace_back(gateBins(counts[n], options.scale));
    Violin& violin = content.violins[n];
    violin.lower = sharedQuantile(bins, 0.25, options.scale);
    violin.median = sharedQuantile(bins, 0.5, options.scale);
    violin.upper = sharedQuantile(bins, 0.75, options.scale);
    if (options.isHistogram()) {
      std::erase_if(bins, [&](const GateBin& bin) {
        const bool left = !hasPlace(valueAt((bin.lower + bin.upper) / 2, options.scale), options.scale);
        if (left) kept += bin.count;
        return left;
      });
      noteKept(kept, static_cast<double>(std::accumulate(counts[n].begin(), counts[n].end(), std::int64_t{0})), info,
               drawn.notes);
    }
    lowest = std::min(lowest, valueAt(bins.front().lower, options.scale));
    highest = std::max(highest, valueAt(bins.back().upper, options.scale));
  }
  content.edges = edgesFor(lowest, highest, options.scale);
  for (std::size_t n = 0; n < groups.size(); ++n) {
    content.violins[n].counts = sharedCounts(groups[n], content.edges, options.scale);
  }
  FigureOrigin origin = originOf(info, all, options, style);
  origin.facts.emplace_back("windows", fmt::format("{} of up to {} tokens", model.windows->tokens.size(), info.length));
  addModel(origin, info);
  drawn.file = options.isHistogram() ? paintHistogram(content, kept, options, origin, style)
                                     : paintViolins(std::move(content), origin, style);
  return drawn;
}

std::optional<DrawnFigure> drawGates(FigureRequest& request) {
  const FigureSpec& spec = request.spec;
  GatesOptions options;
  options.scale = choiceOf<GatesOptions::Scale>(spec, "by", {"gate", "time", "log"});
  options.each = choiceOf<GatesOptions::Each>(spec, "each", {"auto", "head", "layer"});
  options.head = headOf(spec, "head");
  options.layer = integerOf(spec, "layer");
  if (options.head && options.layer) throw UsageError("--layer: --head names one head: leave one of them out");
  if (options.isHistogram() && spec.has("each")) {
    throw UsageError("--each: --head and --layer draw one histogram: leave it out");
  }
  if (request.ofAtlas()) {
    const Atlas atlas = request.atlas();
    if (spec.has("rows")) options.positions = Range{};
    options.modelNamed = atlas.models.size() > 1;
    return drawGates(request.model(atlas.models), options, request.style);
  }
  const auto chosen = request.run();
  if (!chosen) return std::nullopt;
  const RunOnDevice& run = *chosen;
  options.positions = rangeOf(spec, "rows", run->info().length);
  return drawGates(run, options, request.style, request.job);
}

}  // namespace foxscope::figure

#include "app/figure/kinds/heads/gates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "app/figure/figure_origin.h"
#include "app/figure/figure_request.h"
#include "app/figure/figure_words.h"
#include "app/figure/heads/violin_panel.h"
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
  return scale == GatesOptions::Scale::gate ? std::exp(logGate) : timeOf(logGate);
}

/// Whole decades around all values, or 0 to 1.
std::vector<double> edgesFor(const std::vector<std::vector<double>>& groups, GatesOptions::Scale scale) {
  std::vector<double> edges;
  if (scale == GatesOptions::Scale::gate) {
    for (int edge = 0; edge <= kBinsOfGates; ++edge) edges.push_back(static_cast<double>(edge) / kBinsOfGates);
    return edges;
  }
  double lowest = std::numeric_limits<double>::infinity();
  double highest = 0;
  for (const auto& group : groups) {
    for (const double time : group) {
      lowest = std::min(lowest, time);
      highest = std::max(highest, time);
    }
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
  return scale == GatesOptions::Scale::gate ? "forget gate *f*" : "decay time of a gate −1 / log *f* (tokens)";
}

}  // namespace

std::optional<DrawnFigure> drawGates(const RunOnDevice& trace, const GatesOptions& options, const FigureStyle& style,
                                     const Job& job) {
  const TraceInfo& info = trace->info();
  if (!forgets(info))
    throw UsageError(fmt::format("figure gates: {} has no gate: there is nothing to draw", info.name));
  DrawnFigure drawn;
  const bool heads = options.each == GatesOptions::Each::head ||
                     (options.each == GatesOptions::Each::automatic && roomForHeads(info, style));
  if (!heads && options.each == GatesOptions::Each::automatic) {
    drawn.notes.push_back(
        fmt::format("{}: {} heads have no room for a violin each: one is a layer's; --each head draws "
                    "them all the same",
                    info.name, info.head_count()));
  }
  const Range positions = options.positions.value_or(Range{0, info.length});
  if (positions.end < 2) throw UsageError("figure gates: one position has no gate in any F: choose more");

  ViolinPanel::Content content;
  std::vector<std::vector<double>> groups;
  bool byChannel = false;
  for (int layer = 0; layer < info.layers; ++layer) {
    if (!forgets(info, layer)) continue;
    byChannel = byChannel || info.mixer(layer).sums_channels();
    const int count = info.mixer(layer).heads;
    for (int head = 0; head < count; ++head) {
      if (job.stopped()) return std::nullopt;
      if (heads || head == 0) {
        const double beside = heads ? kViolinsOfLayer * ((head + 0.5) / count - 0.5) : 0;
        content.violins.push_back({heads ? fmt::format("{}:{}", layer, head) : std::to_string(layer), layer + beside});
        groups.emplace_back();
      }
      for (const double logGate : logGates(*trace, layer, head, positions)) {
        groups.back().push_back(shownValue(logGate, options.scale));
      }
    }
  }
  if (const std::vector<int> layers = layersWithoutGate(info); !layers.empty()) {
    drawn.notes.push_back(fmt::format("{}: layers without a gate are left out: {}", info.name, ranges_text(layers)));
  }
  if (byChannel) {
    drawn.notes.push_back(
        fmt::format("{}: where each channel decays, a gate is the geometric mean over channels", info.name));
  }
  content.edges = edgesFor(groups, options.scale);
  content.scale = options.scale == GatesOptions::Scale::gate ? AxisScale::linear : AxisScale::logarithmic;
  content.name = axisOf(options.scale);
  content.layers = info.layers;
  content.halfWidth = kViolinsOfLayer / 2 / (heads ? info.heads : 1) * (heads ? 0.95 : 1);
  for (std::size_t n = 0; n < groups.size(); ++n) {
    Violin& violin = content.violins[n];
    violin.counts = countsOf(groups[n], content.edges);
    violin.lower = foxscope::quantile(groups[n], 0.25);
    violin.median = foxscope::quantile(groups[n], 0.5);
    violin.upper = foxscope::quantile(groups[n], 0.75);
  }

  PanelPage page(style);
  page.add(std::make_unique<ViolinPanel>(style.format, std::move(content)), {});
  page.arrange();
  FigureOrigin origin;
  origin.title = style.title.empty() ? fmt::format("Forget gates of {}", info.name) : style.title;
  origin.command = style.command;
  origin.facts = {{"violins", heads ? "a head each" : "a layer each"},
                  {"positions", fmt::format("{}:{}", std::max<std::int64_t>(1, positions.begin), positions.end)}};
  addRun(origin, *trace);
  drawn.file = page.paint(origin);
  return drawn;
}

std::optional<DrawnFigure> drawGates(FigureRequest& request) {
  const FigureSpec& spec = request.spec;
  const auto chosen = request.run();
  if (!chosen) return std::nullopt;
  const RunOnDevice& run = *chosen;
  GatesOptions options;
  options.scale = choiceOf<GatesOptions::Scale>(spec, "by", {"gate", "time"});
  options.each = choiceOf<GatesOptions::Each>(spec, "each", {"auto", "head", "layer"});
  options.positions = rangeOf(spec, "rows", run->info().length);
  return drawGates(run, options, request.style, request.job);
}

}  // namespace foxscope::figure

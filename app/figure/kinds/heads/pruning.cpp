#include "app/figure/kinds/heads/pruning.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/figure/curves/curve_panel.h"
#include "app/figure/figure_origin.h"
#include "app/figure/figure_request.h"
#include "app/figure/figure_words.h"
#include "app/figure/kinds/map_scale.h"
#include "app/figure/maps/map_panel.h"
#include "app/figure/page/axis_ticks.h"
#include "app/figure/page/panel_page.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/plural.h"

namespace foxscope::figure {
namespace {

constexpr std::size_t kMostMaps = 6;
constexpr double kPercent = 100;
constexpr double kHeadsBeside = 0.6;  ///< of a layer's room

/// A head and what is skipped of it.
struct PrunedHead {
  HeadIndex head;
  bool gated = true;  ///< else f is 1 throughout, and nothing is skipped
  PruningBound bound;
};

/// @throws UsageError where no layer of softmax attention has a gate
void requireGate(const TraceInfo& info) {
  bool attends = false;
  for (int layer = 0; layer < info.layers; ++layer) {
    if (!info.mixer(layer).has_softmax()) continue;
    if (forgets(info, layer)) return;
    attends = true;
  }
  throw UsageError(fmt::format("figure pruning: {} has no {}: nothing can be skipped by it", info.name,
                               !attends        ? "softmax attention, which alone is pruned"
                               : forgets(info) ? "gate in its softmax attention, which alone is pruned"
                                               : "gate"));
}

std::int64_t ungatedOf(const std::vector<PrunedHead>& heads) {
  return std::ranges::count(heads, false, &PrunedHead::gated);
}

/// Every head with softmax attention. Nothing if the job was stopped.
std::optional<std::vector<PrunedHead>> boundsOf(const RunOnDevice& trace, double tolerance, const Job& job) {
  const TraceInfo& info = trace->info();
  std::vector<PrunedHead> heads;
  for (int layer = 0; layer < info.layers; ++layer) {
    if (!info.mixer(layer).has_softmax()) continue;
    for (int head = 0; head < info.mixer(layer).heads; ++head) {
      job.tell({static_cast<std::int64_t>(heads.size()), std::int64_t{info.layers} * info.heads, "heads", "bounding"});
      auto bound = pruning_bound({trace, layer, head}, tolerance, job);
      if (!bound) return std::nullopt;
      const bool gated = forgets(info, layer) && trace->cumulative_log_gate(layer, head).back() != 0;
      heads.push_back({{layer, head}, gated, std::move(*bound)});
    }
  }
  return heads;
}

/// The heads with a gate whose share is nearest to a quarter, a half and three quarters, each once, the smallest share
/// first.
std::vector<HeadIndex> tellingHeads(const std::vector<PrunedHead>& heads) {
  std::vector<const PrunedHead*> chosen;
  for (const double share : {0.25, 0.5, 0.75}) {
    const PrunedHead* nearest = nullptr;
    for (const PrunedHead& head : heads) {
      if (!head.gated || std::ranges::find(chosen, &head) != chosen.end()) continue;
      const auto away = [&](const PrunedHead& one) { return std::abs(one.bound.share() - share); };
      if (nearest == nullptr || away(head) < away(*nearest)) nearest = &head;
    }
    if (nearest != nullptr) chosen.push_back(nearest);
  }
  std::ranges::stable_sort(chosen, std::less<>(), [](const PrunedHead* head) { return head->bound.share(); });
  std::vector<HeadIndex> result;
  for (const PrunedHead* head : chosen) result.push_back(head->head);
  return result;
}

double shareOfAll(const std::vector<PrunedHead>& heads) {
  double skipped = 0;
  double entries = 0;
  for (const PrunedHead& head : heads) {
    skipped += static_cast<double>(head.bound.skipped);
    entries += static_cast<double>(head.bound.entries);
  }
  return skipped / entries;
}

CurvePlot sharesByLayer(const std::vector<PrunedHead>& heads, double tolerance, const TraceInfo& info,
                        const FigureStyle& style) {
  CurvePlot plot;
  plot.title = "Share of each head’s entries that is skipped";
  plot.xLabel = "layer";
  plot.yLabel = "skipped (%)";
  plot.yLimits = AxisLimits{-8, 108};
  plot.xLimits = AxisLimits{-0.6, info.layers - 0.4};
  plot.heightOfWidth = 0.3;
  plot.level = kPercent * shareOfAll(heads);
  plot.note = fmt::format("line: all heads, {:.1f} %; a row loses at most {} of its attention", *plot.level,
                          writtenNumber(tolerance, 2));
  if (const std::int64_t ungated = ungatedOf(heads); ungated > 0) {
    plot.note += fmt::format("\n{} {} without a gate at 0 %", ungated, plural(ungated, "head"));
  }
  plot.legend = style.legend;
  constexpr int kMostLayers = 12;
  for (int layer = 0; layer < info.layers; layer += (info.layers + kMostLayers - 1) / kMostLayers) {
    plot.xTicks.push_back(layer);
  }
  Curve curve;
  curve.line = LineStyle::points;
  curve.series = "heads";
  for (const PrunedHead& head : heads) {
    const int count = info.mixer(head.head.layer).heads;
    curve.x.push_back(head.head.layer + kHeadsBeside * ((head.head.head + 0.5) / count - 0.5));
    curve.y.push_back(kPercent * head.bound.share());
    curve.pointNames.push_back(wordOf(head.head));
  }
  plot.curves.push_back(std::move(curve));
  return plot;
}

/// A map with its head's bound.
struct BoundedMap {
  MapPanel* panel = nullptr;
  MapRequest request;
  const PruningBound* bound = nullptr;
};

std::vector<std::int64_t> boundaryIn(const PruningBound& bound, const Range& rows) {
  return {bound.first_kept.begin() + rows.begin, bound.first_kept.begin() + rows.end};
}

}  // namespace

std::optional<DrawnFigure> drawPruning(const RunOnDevice& trace, const PruningOptions& options,
                                       const FigureStyle& style, const Job& job) {
  const TraceInfo& info = trace->info();
  requireGate(info);
  for (const HeadIndex& head : options.heads) requireHead(info, head);
  if (options.heads.size() > kMostMaps) {
    throw UsageError(fmt::format("--heads: at most {} have room for their maps", kMostMaps));
  }
  requireShown(options.limits, {&options.quantity, 1});
  const auto bounds = boundsOf(trace, options.tolerance, job);
  if (!bounds) return std::nullopt;
  DrawnFigure drawn;
  std::vector<HeadIndex> heads = options.heads;
  if (heads.empty()) {
    heads = tellingHeads(*bounds);
    std::vector<std::string> words;
    for (const HeadIndex& head : heads) words.push_back(wordOf(head));
    drawn.notes.push_back(fmt::format("{}: maps of {}: --heads chooses others", info.name, fmt::join(words, ", ")));
  }

  PanelPage page(style);
  const Range rows = options.rows.value_or(Range{0, info.length});
  const Range columns = options.columns.value_or(Range{0, info.length});
  std::vector<std::string> titles;
  std::vector<const PrunedHead*> shown;
  for (const HeadIndex& head : heads) {
    const auto found = std::ranges::find(*bounds, head, &PrunedHead::head);
    if (found == bounds->end()) {
      throw UsageError(
          fmt::format("--heads {}: this layer has no softmax attention, so nothing is pruned", wordOf(head)));
    }
    shown.push_back(&*found);
    titles.push_back(fmt::format("Layer\u00a0{}, head\u00a0{}\n", head.layer, head.head) +
                     (found->gated ? fmt::format("{:.1f}\u00a0% skipped", kPercent * found->bound.share())
                                   : std::string("no gate")));
  }
  const int across = std::min<int>(3, static_cast<int>(heads.size()));
  const int blocks = (static_cast<int>(heads.size()) + across - 1) / across;
  std::vector<BoundedMap> maps;
  for (std::size_t n = 0; n < heads.size(); ++n) {
    const PanelPlace place{static_cast<int>(n) / across, static_cast<int>(n) % across};
    const bool lowest = n + static_cast<std::size_t>(across) >= heads.size();
    MapPanel::Content content;
    content.rows = {rows, "query *i*", tokenLabels(*trace, rows, kMostTokenLabels),
                    place.column == 0 ? AxisShown::ticksAndName : AxisShown::nothing};
    content.columns = {columns, "key *j*", tokenLabels(*trace, columns, kMostTokenLabels),
                       lowest ? AxisShown::ticksAndName : AxisShown::nothing};
    content.title = titles[n];
    content.titlesBeside = titles;
    content.heightOfWidth = mapProportion(rows, columns);
    BoundedMap map;
    map.panel = &page.add(std::make_unique<MapPanel>(style.format, std::move(content)), place);
    map.request.head = {trace, heads[n].layer, heads[n].head};
    map.request.quantity = options.quantity;
    map.request.reduction = default_reduction(options.quantity, false);
    map.request.rows = rows;
    map.request.columns = columns;
    map.bound = &shown[n]->bound;
    maps.push_back(map);
  }
  ColourBarPanel& bar = page.add(std::make_unique<ColourBarPanel>(style.format, barLabelRoom(maps.front().request)),
                                 PanelPlace{0, across, blocks, 1});
  page.add(std::make_unique<CurvePanel>(style.format, sharesByLayer(*bounds, options.tolerance, info, style)),
           {blocks, 0, 1, across + 1});
  page.arrange();

  std::vector<Image> images;
  for (BoundedMap& map : maps) {
    const PixelRoom pixels = map.panel->pixelsIn(page.inner(*map.panel));
    map.request.pixel_rows = pixels.rows;
    map.request.pixel_columns = pixels.columns;
    auto image = compute_map(map.request, job);
    if (!image) return std::nullopt;
    images.push_back(std::move(*image));
  }
  const ScaledColours colours =
      sharedColours(maps.front().request, images, colourChoice(options.quantity, options.colours, options.limits));
  for (std::size_t n = 0; n < maps.size(); ++n) {
    maps[n].panel->setImage(std::move(images[n]), colours);
    maps[n].panel->setBoundary("first key kept", boundaryIn(*maps[n].bound, rows));
  }
  bar.setColours(colours, options.quantity);

  FigureOrigin origin;
  origin.title = style.title.empty() ? fmt::format("What pruning skips of {}", info.name) : style.title;
  origin.command = style.command;
  origin.facts = {{"tolerance", fmt::format("{:g} of a row's attention", options.tolerance)},
                  {"skipped of all heads", fmt::format("{:.4g} %", kPercent * shareOfAll(*bounds))}};
  for (const BoundedMap& map : maps) {
    origin.facts.emplace_back("head",
                              fmt::format("{}, |S| at most {:.4g}, c_i - c_j below {:.4g} nats is skipped",
                                          headText(map.request.head), map.bound->largest_logit, map.bound->threshold));
  }
  addMapFacts(origin, maps.front().request, colours);
  addRun(origin, *trace);
  drawn.notes.push_back(fmt::format(
      "left of the line an entry is skipped: all of a row together hold at most {} of it; of all heads {:.1f} %",
      writtenNumber(options.tolerance, 3), kPercent * shareOfAll(*bounds)));
  if (const std::int64_t ungated = ungatedOf(*bounds); ungated > 0) {
    drawn.notes.push_back(fmt::format("{}: {} of {} heads of attention have no gate: nothing of them is skipped",
                                      info.name, ungated, bounds->size()));
  }
  drawn.file = page.paint(origin);
  return drawn;
}

std::optional<DrawnFigure> drawPruning(FigureRequest& request) {
  const FigureSpec& spec = request.spec;
  const auto chosen = request.run();
  if (!chosen) return std::nullopt;
  const RunOnDevice& run = *chosen;
  PruningOptions options;
  for (const std::string& text : spec.list("heads")) options.heads.push_back(parseHead("--heads", text));
  const auto quantities = quantitiesOf(spec);
  if (quantities.size() > 1) throw UsageError("--quantity: this figure shows one: draw a figure for each");
  if (!quantities.empty()) options.quantity = quantities.front();
  options.rows = rangeOf(spec, "rows", run->info().length);
  options.columns = rangeOf(spec, "cols", run->info().length);
  if (const auto tolerance = numberOf(spec, "tolerance")) options.tolerance = *tolerance;
  options.colours = coloursOf(spec);
  options.limits = limitsOf(spec);
  return drawPruning(run, options, request.style, request.job);
}

}  // namespace foxscope::figure

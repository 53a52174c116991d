#include "app/figure/kinds/grid.h"

#include <algorithm>
#include <functional>
#include <limits>

#include <fmt/format.h>

#include "app/figure/figure_origin.h"
#include "app/figure/figure_request.h"
#include "app/figure/figure_words.h"
#include "app/figure/heads/head_grid_panel.h"
#include "app/figure/kinds/map_scale.h"
#include "app/figure/layer_kind.h"
#include "app/figure/legend_panel.h"
#include "app/figure/maps/map_panel.h"
#include "app/figure/page/panel_page.h"
#include "app/figure/quantity_text.h"
#include "backend/base/error.h"
#include "backend/trace/shown_heads.h"

namespace foxscope::figure {
namespace {

// Nats that have the last and the first colour. Decay times of the heads of one model differ by a factor of a thousand
// and more, and on a scale of F itself all but the longest would be black.
constexpr double kLittleForgotten = 0.1;
constexpr double kMuchForgotten = 10000;

ScaledColours forgottenColours(const ColourMap* colours) {
  ScaledColours scaled;
  scaled.map = colours == nullptr ? &viridis() : colours;
  scaled.scale = ColourScale::logarithmic;
  scaled.lower = kMuchForgotten;
  scaled.upper = kLittleForgotten;
  scaled.label = "forgotten −log *F* (nats)";
  return scaled;
}

/// A square of each kind's colour.
std::vector<Curve> legendOf(const std::vector<LayerKind>& kinds) {
  std::vector<Curve> curves;
  for (const LayerKind& kind : kinds) {
    Curve curve;
    curve.name = kind.words;
    curve.line = LineStyle::points;
    curve.shape = PointShape::square;
    curve.ownColour = kind.colour;
    curves.push_back(std::move(curve));
  }
  return curves;
}

}  // namespace

std::optional<DrawnFigure> drawGrid(const RunOnDevice& trace, const GridOptions& options, const FigureStyle& style,
                                    const Job& job) {
  const TraceInfo& info = trace->info();
  MapRequest request;
  const bool forgotten = !options.quantity && forgets(info);
  request.quantity = options.quantity.value_or(forgets(info) ? Quantity::log_forget : Quantity::attention);
  if (forgotten) {
    requireShown(options.limits, {});
  } else {
    requireShown(options.limits, {&request.quantity, 1});
  }
  request.reduction = default_reduction(request.quantity, false);
  request.rows = options.rows.value_or(Range{0, info.length});
  request.columns = options.columns.value_or(Range{0, info.length});

  const std::vector<LayerKind> kinds = kindsOf(info);
  PanelPage page(style);
  const double labels = forgotten ? em::kBarLabels : barLabelRoom(request);
  const int columns = most_shown_heads(info);
  HeadGridPanel& grid = page.add(std::make_unique<HeadGridPanel>(style.format, info.layers, columns), {0, 0});
  ColourBarPanel& bar = page.add(std::make_unique<ColourBarPanel>(style.format, labels), {0, 1});
  if (kinds.size() > 1) {
    std::vector<Rgb> ofLayers;
    ofLayers.reserve(static_cast<std::size_t>(info.layers));
    for (int layer = 0; layer < info.layers; ++layer) ofLayers.push_back(kindColour(info, layer));
    grid.setKinds(std::move(ofLayers));
    page.add(std::make_unique<LegendPanel>(style.format, legendOf(kinds), ""), {1, 0, 1, 2});
  }
  page.arrange();

  const std::int64_t dots = grid.cellDots(page.inner(grid));
  request.pixel_rows = std::min(dots, request.rows.size());
  request.pixel_columns = std::min(dots, request.columns.size());
  std::vector<Image> images;
  Job quiet = job;
  quiet.report = nullptr;
  for (int layer = 0; layer < info.layers; ++layer) {
    for (int column = 0; column < columns; ++column) {
      const int head = column * shown_step(info.mixer(layer));
      if (head >= info.mixer(layer).heads) {
        images.push_back({1, 1, {std::numeric_limits<float>::quiet_NaN()}});
        continue;
      }
      job.tell({static_cast<std::int64_t>(images.size()), std::int64_t{info.layers} * columns, "heads", "maps"});
      request.head = {trace, layer, head};
      auto image = compute_map(request, quiet);
      if (!image) return std::nullopt;
      if (forgotten) std::transform(image->value.begin(), image->value.end(), image->value.begin(), std::negate());
      images.push_back(std::move(*image));
    }
  }
  const ScaledColours colours =
      forgotten ? forgottenColours(options.colours)
                : sharedColours(request, images, colourChoice(request.quantity, options.colours, options.limits));
  grid.setImages(std::move(images), colours, request);
  if (forgotten) {
    bar.setColours(colours, colours.label, "−log *F*");
  } else {
    bar.setColours(colours, request.quantity);
  }

  FigureOrigin origin;
  origin.title =
      style.title.empty() ? fmt::format("{} of every head of {}", to_string(request.quantity), info.name) : style.title;
  origin.command = style.command;
  addMapFacts(origin, request, colours);
  addRun(origin, *trace);
  DrawnFigure drawn;
  drawn.file = page.paint(origin);
  return drawn;
}

std::optional<DrawnFigure> drawGrid(FigureRequest& request) {
  const FigureSpec& spec = request.spec;
  const auto chosen = request.run();
  if (!chosen) return std::nullopt;
  const RunOnDevice& run = *chosen;
  GridOptions options;
  const auto quantities = quantitiesOf(spec);
  if (quantities.size() > 1) throw UsageError("--quantity: a grid shows one: draw a figure for each");
  if (!quantities.empty()) options.quantity = quantities.front();
  options.rows = rangeOf(spec, "rows", run->info().length);
  options.columns = rangeOf(spec, "cols", run->info().length);
  options.colours = coloursOf(spec);
  options.limits = limitsOf(spec);
  return drawGrid(run, options, request.style, request.job);
}

}  // namespace foxscope::figure

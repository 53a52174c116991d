#include "app/figure/kinds/atlas/similarity.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "app/figure/colour_scale.h"
#include "app/figure/figure_request.h"
#include "app/figure/figure_words.h"
#include "app/figure/kinds/atlas/atlas_heads.h"
#include "app/figure/kinds/evaluated_heads.h"
#include "app/figure/maps/map_panel.h"
#include "app/figure/page/panel_page.h"
#include "backend/base/error.h"
#include "backend/base/index.h"

namespace foxscope::figure {
namespace {

constexpr double kBarOfCorrelations = 2.5;  ///< width of "−1.0", font sizes

/// Heads that have a correlation, in the order of the map.
std::vector<std::size_t> orderedHeads(const AtlasModel& model, bool gates, SimilarityOptions::Order order) {
  std::vector<std::int64_t> all(model.sums.shape().head_count());
  std::iota(all.begin(), all.end(), 0);
  if (order == SimilarityOptions::Order::clusters) {
    all = similarity_order(gates ? atlas_similarity(model) : attention_similarity(model));
  }
  std::vector<std::size_t> heads;
  for (const std::int64_t head : all) {
    const std::size_t place = index_of(head);
    if (gates ? model.has_gate(place) : model.has_attention(place)) heads.push_back(place);
  }
  return heads;
}

/// @throws UsageError saying why the heads cannot be compared
void requireSimilarity(const AtlasModel& model, bool gates) {
  if (gates && !model.forgets()) {
    throw UsageError(fmt::format("model '{}' has no gate: it forgets nothing: use --of attention", model.info.name));
  }
  if (!gates && !model.has_attention()) {
    throw UsageError(
        fmt::format("model '{}': the atlas has no attention of it: make one with --rows", model.info.name));
  }
}

MapAxis headAxis(const AtlasModel& model, const std::vector<std::size_t>& heads, const SimilarityOptions& options,
                 const FigureStyle& style, bool named) {
  MapAxis axis;
  axis.range = {0, static_cast<std::int64_t>(heads.size())};
  axis.crowded = MapAxis::Crowded::thinned;
  axis.are = MapAxis::Labels::values;
  const bool clusters = options.order == SimilarityOptions::Order::clusters;
  axis.name = clusters ? "head, alike ones side by side" : "layer:head";
  if (named) axis.name = fmt::format("{}, {}", style.label(model.info.name), axis.name);
  const EvaluatedHeads names = headsOf(model);
  for (const std::size_t head : heads) axis.labels.push_back(headWord(names, head));
  return axis;
}

}  // namespace

DrawnFigure drawSimilarity(const Atlas& atlas, const AtlasModel& model, const SimilarityOptions& options,
                           const FigureStyle& style) {
  const bool gates =
      options.of == SimilarityOptions::Of::automatic ? model.forgets() : options.of == SimilarityOptions::Of::gates;
  const AtlasModel& across = options.withFirst ? atlas.models.front() : model;
  requireSimilarity(model, gates);
  requireSimilarity(across, gates);
  std::vector<float> similarity;
  if (options.withFirst) {
    similarity = gates ? similarity_with_first(model, across) : attention_similarity_with_first(model, across);
    if (similarity.empty()) {
      throw UsageError(fmt::format(
          "--with-first: '{}' is the first model, or read other windows: choose another by --model", model.info.name));
    }
  } else {
    similarity = gates ? atlas_similarity(model) : attention_similarity(model);
  }
  const std::vector<std::size_t> rows = orderedHeads(model, gates, options.order);
  const std::vector<std::size_t> columns = orderedHeads(across, gates, options.order);
  const std::size_t all = across.sums.shape().head_count();
  Image image{static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(columns.size()), {}};
  for (const std::size_t row : rows) {
    for (const std::size_t column : columns) image.value.push_back(similarity[row * all + column]);
  }
  MapPanel::Content content;
  const bool named = atlas.models.size() > 1;
  content.rows = headAxis(model, rows, options, style, named);
  content.columns = headAxis(across, columns, options, style, named);
  content.heightOfWidth = std::min(2.0, static_cast<double>(rows.size()) / static_cast<double>(columns.size()));
  if (options.withFirst) content.proportions = Panel::Proportions::free;
  PanelPage page(style);
  MapPanel& map = page.add(std::make_unique<MapPanel>(style.format, std::move(content)), {0, 0});
  ColourBarPanel& bar = page.add(std::make_unique<ColourBarPanel>(style.format, kBarOfCorrelations), {0, 1});
  page.arrange();
  ScaledColours colours;
  colours.map = &diverging();
  colours.hasSigns = true;
  colours.lower = -1;
  colours.upper = 1;
  colours.label = gates ? "correlation of log *f*" : "correlation of attention by distance";
  bar.setColours(colours, colours.label, "*r*");
  map.setImage(std::move(image), colours);

  DrawnFigure drawn;
  FigureOrigin origin = originOf(model, style, gates ? "How alike heads forget" : "How alike heads attend");
  if (options.withFirst) addModel(origin, across.info);
  origin.facts.emplace_back("order", options.order == SimilarityOptions::Order::clusters ? "clusters" : "depth");
  drawn.file = page.paint(origin);
  return drawn;
}

std::optional<DrawnFigure> drawSimilarity(FigureRequest& request) {
  SimilarityOptions options;
  options.order = choiceOf<SimilarityOptions::Order>(request.spec, "order", {"clusters", "depth"});
  options.of = choiceOf<SimilarityOptions::Of>(request.spec, "of", {"auto", "gates", "attention"});
  options.withFirst = request.spec.has("with-first");
  const Atlas atlas = request.atlas();
  return drawSimilarity(atlas, request.model(atlas.models), options, request.style);
}

}  // namespace foxscope::figure

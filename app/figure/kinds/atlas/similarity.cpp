#include "app/figure/kinds/atlas/similarity.h"

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

/// Heads with a gate in the order of the map.
std::vector<std::size_t> orderedHeads(const AtlasModel& model, const std::vector<float>& similarity,
                                      SimilarityOptions::Order order) {
  std::vector<std::int64_t> all(model.sums.shape().head_count());
  std::iota(all.begin(), all.end(), 0);
  if (order == SimilarityOptions::Order::clusters) all = similarity_order(similarity);
  std::vector<std::size_t> heads;
  for (const std::int64_t head : all) {
    if (model.has_gate(index_of(head))) heads.push_back(index_of(head));
  }
  return heads;
}

}  // namespace

DrawnFigure drawSimilarity(const AtlasModel& model, const SimilarityOptions& options, const FigureStyle& style) {
  if (!model.forgets()) {
    throw UsageError(
        fmt::format("model '{}' has no gate: it forgets nothing, and there is nothing to draw", model.info.name));
  }
  const std::vector<float> similarity = atlas_similarity(model);
  const std::size_t all = model.sums.shape().head_count();
  const std::vector<std::size_t> heads = orderedHeads(model, similarity, options.order);
  const auto count = static_cast<std::int64_t>(heads.size());
  const EvaluatedHeads names = headsOf(model);
  MapAxis axis;
  axis.range = {0, count};
  axis.crowded = MapAxis::Crowded::thinned;
  axis.are = MapAxis::Labels::values;
  axis.name = options.order == SimilarityOptions::Order::clusters ? "head, alike ones side by side" : "layer:head";
  Image image{count, count, {}};
  for (const std::size_t row : heads) {
    axis.labels.push_back(headWord(names, row));
    for (const std::size_t column : heads) image.value.push_back(similarity[row * all + column]);
  }
  MapPanel::Content content;
  content.rows = axis;
  content.columns = axis;
  PanelPage page(style);
  MapPanel& map = page.add(std::make_unique<MapPanel>(style.format, std::move(content)), {0, 0});
  ColourBarPanel& bar = page.add(std::make_unique<ColourBarPanel>(style.format, kBarOfCorrelations), {0, 1});
  page.arrange();
  ScaledColours colours;
  colours.map = &diverging();
  colours.hasSigns = true;
  colours.lower = -1;
  colours.upper = 1;
  colours.label = "correlation of log *f*";
  bar.setColours(colours, colours.label, "*r*");
  map.setImage(std::move(image), colours);

  DrawnFigure drawn;
  FigureOrigin origin = originOf(model, style, "How alike heads forget");
  origin.facts.emplace_back("order", options.order == SimilarityOptions::Order::clusters ? "clusters" : "depth");
  drawn.file = page.paint(origin);
  return drawn;
}

std::optional<DrawnFigure> drawSimilarity(FigureRequest& request) {
  SimilarityOptions options;
  options.order = choiceOf<SimilarityOptions::Order>(request.spec, "order", {"clusters", "depth"});
  const Atlas atlas = request.atlas();
  return drawSimilarity(request.model(atlas.models), options, request.style);
}

}  // namespace foxscope::figure

#pragma once

#include <optional>

#include "app/figure/figure_style.h"
#include "backend/eval/atlas/atlas_file.h"

namespace foxscope::figure {

/// The options of `drawSimilarity`.
struct SimilarityOptions {
  enum class Order { clusters, depth };  ///< alike heads beside each other, or by layer and head
  Order order = Order::clusters;
  enum class Of { automatic, gates, attention };  ///< automatic: gates, of a model without any attention
  Of of = Of::automatic;
  bool withFirst = false;  ///< of the model's heads, downwards, with those of the first model, across
};

/// How alike heads are: the Pearson correlation of log f of every pair of heads that has a gate, or of the mass of
/// attention by distance.
/// @throws Error naming what the atlas lacks
DrawnFigure drawSimilarity(const Atlas& atlas, const AtlasModel& model, const SimilarityOptions& options,
                           const FigureStyle& style);

/// The same as `foxscope figure similarity` asks for it.
std::optional<DrawnFigure> drawSimilarity(struct FigureRequest& request);

}  // namespace foxscope::figure

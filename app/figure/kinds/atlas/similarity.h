#pragma once

#include <optional>

#include "app/figure/figure_style.h"
#include "backend/eval/atlas/atlas_file.h"

namespace foxscope::figure {

/// The options of `drawSimilarity`.
struct SimilarityOptions {
  enum class Order { clusters, depth };  ///< alike heads beside each other, or by layer and head
  Order order = Order::clusters;
};

/// How alike the heads of a model forget: the Pearson correlation of log f of every pair of heads that has a gate.
DrawnFigure drawSimilarity(const AtlasModel& model, const SimilarityOptions& options, const FigureStyle& style);

/// The same as `foxscope figure similarity` asks for it.
std::optional<DrawnFigure> drawSimilarity(struct FigureRequest& request);

}  // namespace foxscope::figure

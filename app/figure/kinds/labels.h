#pragma once

#include <optional>
#include <span>

#include "app/figure/figure_style.h"
#include "backend/eval/heads/heads_evaluation.h"

namespace foxscope::figure {

/// The strongest label of every head of each model (head_labels.h), and what the labels are.
/// @throws Error for a model without the scores of labels
DrawnFigure drawLabels(std::span<const EvaluatedHeads> models, const FigureStyle& style);

/// The same as `foxscope figure labels` asks for it.
std::optional<DrawnFigure> drawLabels(struct FigureRequest& request);

}  // namespace foxscope::figure

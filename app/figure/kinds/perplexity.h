#pragma once

#include <optional>
#include <span>

#include "app/figure/kinds/loss.h"

namespace foxscope::figure {

/// P(l) = exp(mean loss of the first l positions) of several models against context length, on a logarithmic axis.
/// `smooth` of the options does not matter.
/// @throws UsageError as drawLoss
DrawnFigure drawPerplexity(std::span<const LossSource> sources, const LossOptions& options, const FigureStyle& style);

/// The same as `foxscope figure perplexity` asks for it.
std::optional<DrawnFigure> drawPerplexity(struct FigureRequest& request);

}  // namespace foxscope::figure

#pragma once

#include <optional>
#include <span>
#include <string>

#include "app/figure/kinds/loss.h"

namespace foxscope::figure {

/// L(p) of several models, and below the base's less that of each other; the errors there are those of the differences.
/// @param base  name of a source; empty: the first
/// @throws UsageError as drawLoss, for a base that does not exist and where there is nothing beside it
DrawnFigure drawAblation(std::span<const LossSource> sources, const std::string& base, const LossOptions& options,
                         const FigureStyle& style);

/// The same as `foxscope figure ablation` asks for it.
std::optional<DrawnFigure> drawAblation(struct FigureRequest& request);

}  // namespace foxscope::figure

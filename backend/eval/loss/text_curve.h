#pragma once

#include <cstdint>
#include <span>

#include "backend/eval/loss/loss_statistics.h"

namespace foxscope {

/// Curves of the losses of one text. A number at a position is a mean over a range of positions; its error is that of
/// loss_change for the range: over the blocks of error_blocks, and NaN for fewer than 256 positions. So the band around
/// a curve is what `foxscope compare` says of the range.

/// The means over a centred window of `width` positions (odd; 1: none), which shrinks at the ends, as loss_curve's.
/// @param values  [L] nats: losses, or differences of the losses of two models
/// @throws UsageError for a width that is even or below 1
PositionCurve text_curve(std::span<const double> values, std::int64_t width);

/// P(l) = exp(mean of the first l losses), at index l - 1; errors by the delta method.
/// @param losses  [L] nats
PositionCurve text_perplexity_curve(std::span<const double> losses);

}  // namespace foxscope

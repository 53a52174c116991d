#pragma once

#include <memory>
#include <optional>

#include "app/figure/figure_style.h"
#include "app/figure/heads/head_choice.h"
#include "backend/base/job.h"
#include "backend/map/statistics/head_saliency.h"

namespace foxscope::figure {

/// The options of `drawSaliency`.
struct SaliencyOptions {
  std::optional<HeadIndex> head;   ///< of the passage; absent: the one of largest number, whatever its sign
  std::optional<Range> positions;  ///< absent: the first; where a part of the text is the target, those up to its end
  std::optional<SaliencyNumber> number;  ///< of the heads; absent: ordering_number of the run
};

/// The share of a loss that its gates account for: every head as a cell, layers downwards, by one number of
/// HeadSaliency, and below it a passage tinted by g of one head's gates, of which the numbers are made, blue where more
/// of a gate lowers the loss. A single position that is the target is outlined.
/// @returns nothing if the job was stopped
/// @throws UsageError for a head and positions that do not exist, Error for a run that did not keep saliency, or gates
///         that the number needs
std::optional<DrawnFigure> drawSaliency(const RunOnDevice& trace, const SaliencyOptions& options,
                                        const FigureStyle& style, const Job& job);

/// The same as `foxscope figure saliency` asks for it.
std::optional<DrawnFigure> drawSaliency(struct FigureRequest& request);

}  // namespace foxscope::figure

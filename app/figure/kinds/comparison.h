#pragma once

#include <memory>
#include <optional>

#include "app/figure/figure_style.h"
#include "backend/base/range.h"
#include "backend/trace/trace.h"

namespace foxscope::figure {

/// The options of `drawComparison`.
struct ComparisonOptions {
  std::optional<Range> positions = {};  ///< absent: all
  std::size_t words = 8;                ///< in each list, at most
};

/// The answer of `foxscope compare`: by how much the loss of one run differs from another's on the same tokens, with
/// its error over blocks of the text (loss_comparison.h); a bar for each octave of position, filled where it is beyond
/// chance; and the tokens that the first predicts better and worse, with the words before them.
/// @throws UsageError for runs on different tokens, Error for losses that were not kept or are no numbers
DrawnFigure drawComparison(const std::shared_ptr<const Trace>& run, const std::shared_ptr<const Trace>& minus,
                           const ComparisonOptions& options, const FigureStyle& style);

/// The same as `foxscope figure comparison` asks for it.
std::optional<DrawnFigure> drawComparison(struct FigureRequest& request);

}  // namespace foxscope::figure

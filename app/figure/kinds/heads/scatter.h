#pragma once

#include <optional>
#include <string>

#include "app/figure/figure_style.h"
#include "backend/eval/heads/heads_evaluation.h"

namespace foxscope::figure {

/// The options of `drawScatter`.
struct ScatterOptions {
  std::string x;  ///< names of `EvaluatedHeads::numbers`; empty: by the model
  std::string y;
  enum class Colours { label, layer };
  std::optional<Colours> colours = {};  ///< absent: by label, where labels are known
  std::size_t names = 2;                ///< heads that are named at each end of each axis
};

/// Heads as points over two of their statistics. An axis of numbers above 0 that differ by a factor of 50 and more is
/// logarithmic. A head with a number that is not finite is left out, and counted in a note.
/// @throws UsageError naming the statistics that there are; Error where no head has both numbers
DrawnFigure drawScatter(const EvaluatedHeads& model, const ScatterOptions& options, const FigureStyle& style);

/// The same as `foxscope figure scatter` asks for it.
std::optional<DrawnFigure> drawScatter(struct FigureRequest& request);

}  // namespace foxscope::figure

#pragma once

#include <optional>
#include <vector>

#include "app/figure/figure_style.h"
#include "app/figure/heads/head_choice.h"
#include "backend/eval/heads/heads_evaluation.h"
#include "backend/map/map.h"

namespace foxscope::figure {

/// The options of `drawDistance`.
struct DistanceOptions {
  std::vector<HeadIndex> heads;  ///< empty: telling ones
  FirstKey first = FirstKey::left_out;
};

/// One column a head: attention by the octave of 1 + distance against distance, with the gate, without it, and by decay
/// alone; below, the mean of the two terms of the logit, content and decay. Bands are one standard error, where it is
/// known. A last bin that the text's end leaves narrower than half an octave is left out.
/// @throws UsageError for heads that do not exist, Error for a file without distances
DrawnFigure drawDistance(const EvaluatedHeads& model, const DistanceOptions& options, const FigureStyle& style);

/// The same as `foxscope figure distance` asks for it.
std::optional<DrawnFigure> drawDistance(struct FigureRequest& request);

}  // namespace foxscope::figure

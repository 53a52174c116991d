#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "app/figure/figure_style.h"
#include "app/figure/heads/head_choice.h"
#include "app/figure/maps/map_figure.h"
#include "backend/base/job.h"

namespace foxscope::figure {

/// The options of `drawCompare`.
struct CompareOptions {
  std::optional<HeadIndex> first;    ///< head of the first run; absent: its longest memory
  std::optional<HeadIndex> second;   ///< of the second; absent: the nearest to it by distance profile
  std::vector<Quantity> quantities;  ///< from above; empty: attention, and F above it where both have a gate
  std::optional<Range> rows;         ///< queries; absent: all
  std::optional<Range> columns;      ///< keys
  const ColourMap* colours = nullptr;
  std::vector<ColourLimits> limits;  ///< of quantities that are shown
};

/// A head of one run beside a head of another on the same tokens, on one scale, and their difference.
/// @returns nothing if the job was stopped
/// @throws UsageError for runs on different tokens and what does not exist, Error for parts that were not kept
std::optional<DrawnFigure> drawCompare(const RunOnDevice& first, const RunOnDevice& second,
                                       const CompareOptions& options, const FigureStyle& style, const Job& job);

/// The same as `foxscope figure compare` asks for it.
std::optional<DrawnFigure> drawCompare(struct FigureRequest& request);

}  // namespace foxscope::figure

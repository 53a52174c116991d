#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "app/figure/colour_map.h"
#include "app/figure/figure_style.h"
#include "app/figure/maps/map_figure.h"
#include "backend/base/job.h"
#include "backend/map/map.h"

namespace foxscope::figure {

/// The options of `drawGrid`.
struct GridOptions {
  std::optional<Quantity> quantity;  ///< absent: the nats forgotten, −log F, without a gate attention
  std::optional<Range> rows;         ///< queries; absent: all
  std::optional<Range> columns;      ///< keys
  const ColourMap* colours = nullptr;
  std::vector<ColourLimits> limits;  ///< of quantities that are shown
};

/// Every layer and head of a run as a small map, with one colour bar.
/// @returns nothing if the job was stopped
/// @throws UsageError for a page without room for them, Error for parts that were not kept
std::optional<DrawnFigure> drawGrid(const RunOnDevice& trace, const GridOptions& options, const FigureStyle& style,
                                    const Job& job);

/// The same as `foxscope figure grid` asks for it.
std::optional<DrawnFigure> drawGrid(struct FigureRequest& request);

}  // namespace foxscope::figure

#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "app/figure/figure_style.h"
#include "app/figure/heads/head_choice.h"
#include "app/figure/maps/map_figure.h"
#include "backend/base/job.h"
#include "backend/map/distance_axis.h"

namespace foxscope::figure {

/// A head that `drawMaps` shows.
struct MapsHead : HeadIndex {
  RunOnDevice run = {};  ///< without a trace: the figure's own
};

/// The options of `drawMaps`.
struct MapsOptions {
  /// Empty: telling ones of the run, and where it has gates and no positions are asked for those whose decay can be
  /// seen, on the part of the text where it can (headsOnMap).
  std::vector<MapsHead> heads;
  /// From above; empty: F above A, without F where no head has a gate.
  std::vector<Quantity> quantities = {};
  std::optional<Range> rows = {};     ///< queries; absent: all
  std::optional<Range> columns = {};  ///< keys; none by distance
  /// Absent: by distance where the memory of any head is a thin diagonal on keys (default_axes).
  std::optional<MapAxes> axes = MapAxes::key;
  std::optional<double> threshold = {};   ///< smaller entries stay white, of attention and whatever has no unit
  const ColourMap* colours = nullptr;     ///< null: by quantity
  std::vector<ColourLimits> limits = {};  ///< of quantities that are shown
};

/// One column of maps a head, F above A, with one colour bar for each quantity; more than fit side by side go into
/// further rows. Heads of several runs have the names of their models above them. Where no model has a gate F is 1
/// everywhere and is left out unless it was asked for alone.
/// @returns nothing if the job was stopped
/// @throws UsageError for heads and positions that do not exist and runs on different tokens, Error for parts that were
///         not kept
std::optional<DrawnFigure> drawMaps(const RunOnDevice& trace, const MapsOptions& options, const FigureStyle& style,
                                    const Job& job);

/// The same as `foxscope figure maps` asks for it.
std::optional<DrawnFigure> drawMaps(struct FigureRequest& request);

}  // namespace foxscope::figure

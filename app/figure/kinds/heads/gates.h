#pragma once

#include <cstdint>
#include <optional>

#include "app/figure/figure_style.h"
#include "app/figure/heads/head_choice.h"
#include "backend/base/job.h"
#include "backend/eval/atlas/atlas_file.h"
#include "backend/map/map.h"

namespace foxscope::figure {

/// The options of `drawGates`.
struct GatesOptions {
  /// f from 0 to 1; or on a logarithmic axis -1 / log f, tokens, or -log f, nats.
  enum class Scale { gate, time, log };
  Scale scale = Scale::gate;
  enum class Each { automatic, head, layer };
  Each each = Each::automatic;  ///< a violin a head, where they have room, or one a layer of all its heads' gates
  std::optional<Range> positions = {};     ///< absent: all
  std::optional<HeadIndex> head = {};      ///< a histogram of this head's gates instead of violins
  std::optional<std::int64_t> layer = {};  ///< likewise, of the gates of all heads of this layer
  bool modelNamed = false;                 ///< beside the axis
  [[nodiscard]] bool isHistogram() const { return head || layer; }
};

/// The gates f of a run as violins over the layers, with their median and quartiles. Every gate counts once: a bin's
/// width is the number of gates in it, [from, to), the last bin's end included. f_0, which is in no F, does not count.
/// Layers that forget nothing are left out. Of one head or layer they are a histogram, as shares of its gates; on a
/// logarithmic axis those whose -log f is below 2^-24, which are 1 in float32, count and are not drawn.
/// @returns nothing if the job was stopped
/// @throws UsageError for a model without gates, for a head or a layer that the model does not have or that never
/// forgets, and for a histogram without a gate that has a place on its axis; Error for gates that were not kept
std::optional<DrawnFigure> drawGates(const RunOnDevice& trace, const GatesOptions& options, const FigureStyle& style,
                                     const Job& job);

/// The same of a model of an atlas, whose gates are counted in bins of log f: a bin that reaches into several bins of
/// the figure is shared out among them, and a quartile is the place within its bin at which a quarter is reached.
/// @throws UsageError as above, and for positions
DrawnFigure drawGates(const AtlasModel& model, const GatesOptions& options, const FigureStyle& style);

/// The same as `foxscope figure gates` asks for it.
std::optional<DrawnFigure> drawGates(struct FigureRequest& request);

}  // namespace foxscope::figure

#pragma once

#include <cstddef>
#include <optional>

#include "app/figure/figure_style.h"
#include "backend/eval/atlas/atlas_file.h"

namespace foxscope::figure {

/// The options of `drawResets`.
struct ResetsOptions {
  std::size_t head = 0;  ///< place in arrays [layers, H]
  enum class Of { all, classes, distances };
  Of of = Of::all;      ///< all: both, the classes where the atlas has them
  bool isText = false;  ///< that the atlas read texts: token ids have no classes
};

/// Where the resets of a head of an atlas fall, f < 1/2: the share of them that reads each class of tokens, as bars
/// against the share by chance, which is a mark with its standard deviation, and p; bars of classes that are not beyond
/// chance are grey. And how far neighbouring resets are apart, as shares in octaves of tokens.
/// @throws UsageError for classes of token ids, for a head without resets, and for distances of a single reset
DrawnFigure drawResets(const AtlasModel& model, const ResetsOptions& options, const FigureStyle& style);

/// The same as `foxscope figure resets` asks for it.
std::optional<DrawnFigure> drawResets(struct FigureRequest& request);

}  // namespace foxscope::figure

#pragma once

#include <memory>
#include <optional>
#include <span>

#include "app/figure/colour_scale.h"
#include "app/figure/figure_style.h"
#include "app/figure/heads/head_choice.h"
#include "backend/eval/needle/needle_file.h"

namespace foxscope::figure {

/// The quantity that a cell of the needle test shows: how much likelier the needle makes the answer; of one head the
/// attention on the needle, or F to its last token, at the position that predicts the answer.
enum class NeedleTint { gain, mass, gate };

/// The options of `drawNeedle`.
struct NeedleOptions {
  NeedleTint tint = NeedleTint::gain;
  std::optional<HeadIndex> head;  ///< of mass and gate; absent: of each model that with the most mass
  /// Where a dashed line stands; absent, or beyond the lengths: none.
  std::optional<std::int64_t> trainLength = std::nullopt;
};

/// Colours of all cells of a figure: from 0, or below where the needle makes the answer less likely; centred at 0 where
/// it does so by much.
ScaledColours needleColours(std::span<const float> values, NeedleTint tint);

/// The test's grid, length across and depth down, one panel a model, on one scale. A dot stands where the greedy
/// continuation holds the answer.
/// @throws UsageError for a head that does not exist
DrawnFigure drawNeedle(const NeedleEvaluation& evaluation, const NeedleOptions& options, const FigureStyle& style);
/// Several tests in one figure: the models of all of them, each over its test's lengths and depths, on one scale. A
/// model that is in two tests has the haystack's name below its own.
DrawnFigure drawNeedle(std::span<const std::shared_ptr<const NeedleEvaluation>> tests, const NeedleOptions& options,
                       const FigureStyle& style);

/// The same as `foxscope figure needle` asks for it.
std::optional<DrawnFigure> drawNeedle(struct FigureRequest& request);

}  // namespace foxscope::figure

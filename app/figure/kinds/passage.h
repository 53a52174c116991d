#pragma once

#include <memory>
#include <optional>

#include "app/figure/figure_style.h"
#include "app/figure/heads/head_choice.h"
#include "backend/base/job.h"

namespace foxscope::figure {

/// The quantity that tints the tokens of a passage: the loss of predicting them; 1 - f where they are read; F or
/// attention from one query to them.
enum class PassageTint { loss, gate, forget, attention };

/// The options of `drawPassage`.
struct PassageOptions {
  PassageTint tint = PassageTint::loss;
  std::optional<HeadIndex> head;      ///< absent: a telling one
  std::optional<Range> positions;     ///< absent: the first that fill some ten lines
  std::optional<std::int64_t> query;  ///< of F and attention; absent: the last position
};

/// A passage of a run's text in flowing lines, tokens tinted, with a legend.
/// @returns nothing if the job was stopped
/// @throws UsageError for heads and positions that do not exist, Error for parts that were not kept
std::optional<DrawnFigure> drawPassage(const RunOnDevice& trace, const PassageOptions& options,
                                       const FigureStyle& style, const Job& job);

/// The same as `foxscope figure text` asks for it.
std::optional<DrawnFigure> drawPassage(struct FigureRequest& request);

}  // namespace foxscope::figure

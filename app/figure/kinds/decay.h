#pragma once

#include <optional>
#include <span>

#include "app/figure/figure_style.h"
#include "backend/eval/heads/heads_evaluation.h"

namespace foxscope::figure {

/// Decay times of every head by layer and as a distribution. Below, for a model whose channels decay each by itself,
/// the spectrum of every head (median, fastest and slowest channel) and the share of channels up to a decay time; and
/// for each model decay times by the class of the token that is read (a new line, punctuation, the beginning of a
/// sentence or of another word, a later token of a word, a rare word) with how many these are: all heads in grey, by
/// layer from left to right, heads of short, middle and long memory in colour.
/// @param models  those without a gate are left out
/// @throws UsageError where no model has a gate
DrawnFigure drawDecay(std::span<const EvaluatedHeads> models, const FigureStyle& style);

/// The same as `foxscope figure decay` asks for it.
std::optional<DrawnFigure> drawDecay(struct FigureRequest& request);

}  // namespace foxscope::figure

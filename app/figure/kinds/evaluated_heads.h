#pragma once

#include <span>
#include <string>

#include "app/figure/figure_origin.h"
#include "app/figure/figure_style.h"
#include "app/figure/heads/head_choice.h"
#include "backend/eval/heads/heads_evaluation.h"

namespace foxscope::figure {

/// Heads of short, middle and long memory: by decay time, of a model without a gate by the distance within which half
/// of the attention is.
ChosenHeads representativeHeads(const EvaluatedHeads& model);

/// Place of a head in arrays [layers, H].
/// @throws UsageError naming the numbers that exist
std::size_t placeOf(const EvaluatedHeads& model, const HeadIndex& head);

/// "6:1", of a head's place in arrays [layers, H].
std::string headWord(const EvaluatedHeads& model, std::size_t place);

/// "Layer 6, head 1"
std::string headTitle(const HeadIndex& head);

/// The array of that name.
/// @throws Error naming the model where the file does not hold it
const HeadArray& requireArray(const EvaluatedHeads& model, const std::vector<HeadArray>& arrays, const char* name);

/// Title, command, and what the models are.
FigureOrigin originOf(std::span<const EvaluatedHeads> models, const FigureStyle& style, const char* title);

}  // namespace foxscope::figure

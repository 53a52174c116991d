#pragma once

#include <cstdint>
#include <vector>

#include <QString>

#include "app/gui/document/runs/run.h"
#include "app/gui/document/selection.h"
#include "backend/eval/loss/loss_comparison.h"
#include "backend/eval/loss/loss_file.h"
#include "backend/map/statistics/head_statistics.h"

// The answers to the first page's questions in numbers, each a sentence or two.
namespace foxscope::gui {

/// The F of a pair in one head.
struct HeldShare {
  HeadChoice head;
  double forget = 0;
};

/// "After 2,043 tokens, L6 H1 and L7 H2 of fox still hold F = 0.094 and 0.092 of the title; every other head less than
/// 0.001." Heads that hold a hundredth are named, the four that hold most of them.
/// @param distance  from the key to the query, tokens
/// @param heads  those with a gate, in any order; one at least
QString heldAnswer(const QString& run, std::int64_t distance, std::vector<HeldShare> heads);

/// "L3 H0 of fox keeps 1/e of a token for 22.7 tokens (decay time). Half of its gates let f = 0.96 or more through; it
/// forgets most where it reads “.” (position 1,198): f = 0.02."
QString forgottenAnswer(const Run& run, const HeadChoice& head, const HeadStatistics& statistics);

/// "Over these 2,048 tokens: fox − transformer = −0.0021 ± 0.0071 nats/token, 0 is in its 95 % interval." and, beyond
/// chance, in which octave of position the difference is largest.
QString comparedAnswer(const QString& model, const QString& minus, const LossComparison& comparison);

/// The first two models of a file of losses in the same windows, by quarter, second quarter and second half of these:
/// "On 24 windows of 8,192 tokens of heldout.jsonl.xz, FoX − Transformer: −0.0022 ± 0.0051 in positions 0 to 2,047, …".
/// Empty where they cannot be compared.
QString evaluatedAnswer(const LossEvaluation& evaluation);

}  // namespace foxscope::gui

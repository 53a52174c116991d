#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backend/base/job.h"
#include "backend/base/range.h"
#include "backend/eval/predictions/output_head.h"
#include "backend/model/layer/score.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// The arrays that predictions of a run are made of, in the order in which they are taken where it kept several: the
/// state behind the final norm, in float16 (`--keep predictions`) or as the last of the hidden states (`--keep
/// hidden`), which needs the head of the run's model; or logits (`--keep logits`).
enum class PredictionSource { none, states, logits };
/// @param head  whether the head of its model is there
PredictionSource prediction_source(const Trace& run, bool head);
/// Whether a run kept states or logits.
bool keeps_predictions(const Trace& run);

/// Logits of positions, a position after the other.
/// @param head  of the run's model; null: it must have kept logits
/// @param take  on several threads, in any order
/// @returns false if the job was stopped
/// @throws Error with the remedy where the run kept nothing to make them of, and for a state that is no number or was
///         too large for float16
bool for_logits(const Trace& run, const OutputHead* head, const Range& positions, const Job& job,
                const std::function<void(std::int64_t position, std::span<const float> logits)>& take);

/// A token of a run's vocabulary as text within a text (OutputHead::token_string); without the head as far as the run's
/// own tokens name it, else "⟨id⟩".
std::string token_string(const Trace& run, const OutputHead* head, std::int32_t id);

/// The prediction of a run at a position.
struct Prediction {
  std::int64_t position = 0;
  std::vector<float> log_probability;  ///< [V] nats
  ScoredPosition scored;               ///< the k likeliest tokens; of the token that came log p and rank; the entropy
};

/// log p = logit - log sum exp of all logits, and the likeliest tokens (TokenChoice). In float16 a state is rounded to
/// 2^-11 of its numbers, which comes to some 1e-3 nats of log p.
/// @param top  k
/// @returns nothing if the job was stopped
/// @throws Error as for_logits does, and UsageError for a position that the run does not have
std::optional<Prediction> predict(const Trace& run, const OutputHead* head, std::int64_t position, int top,
                                  const Job& job);

/// Predictions of a whole run in numbers a position.
struct TokenDistributions {
  std::vector<float> entropy;          ///< [L] nats; empty where nothing is known
  std::vector<std::int64_t> rank;      ///< [L] of the token that came, 1: the likeliest; empty likewise
  std::vector<ScoredToken> likeliest;  ///< [L] the token that was expected; empty likewise
};

/// @returns nothing if the job was stopped; empty where the run kept no logits and there is no head, or no state
/// @throws Error as for_logits does
std::optional<TokenDistributions> distributions_of(const Trace& run, const OutputHead* head, const Job& job);

}  // namespace foxscope

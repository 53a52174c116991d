#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backend/model/layer/next_token.h"
#include "backend/model/session/causal_lm.h"

namespace foxscope {

/// The prompt that a continuation begins with.
struct PromptRequest : PassOptions {
  std::span<const std::int32_t> input_ids = {};  ///< [L] what each position reads, BOS included
  /// Records the pass over the prompt; null: nothing is recorded. Its losses are the losses of `labels`.
  Recorder* recorder = nullptr;
  std::span<const std::int32_t> labels = {};  ///< [L]; empty without a recorder
};

/// A sequence that a model has read and can read on, one token at a time: keys, values and gates of all positions are
/// kept, so that a token costs O(keys held) and not a pass over everything before it. It refers to its model, which
/// must outlive it. Keys leave the cache when they are out of the window, and when the gate has brought all that lies
/// before some position below half of the tolerance for every row to come: c only falls, and no row's logits can win
/// that back (LayerWeights::logit_bound). The other half is what a step may skip.
class DecodeState {
 public:
  virtual ~DecodeState() = default;
  /// The same state, to be continued in another way; what both hold is shared.
  [[nodiscard]] virtual std::unique_ptr<DecodeState> copy() const = 0;

  /// Positions read so far.
  [[nodiscard]] virtual std::int64_t length() const = 0;
  /// The prediction of the next token, until one more token is read.
  [[nodiscard]] virtual const NextToken& next() const = 0;
  [[nodiscard]] std::span<const float> log_probabilities() const { return next().log_probabilities(); }
  /// Reads one more token.
  /// @throws as check_next_token does
  virtual void read(std::int32_t id) = 0;
  /// Keys in the cache for each layer and head, [layers * H].
  [[nodiscard]] virtual std::vector<std::int64_t> held_keys() const = 0;
};

/// Scores an ending: log p of each of its tokens after those before it, which are read. The last is not.
/// @param top  k of ScoredPosition::top
TextScores score_ending(DecodeState& decode_state, std::span<const std::int32_t> ids, int top = 0);

/// @throws Error for ids out of range; UsageError as check_continued does; ShapeError for no prompt, for one that is
///         empty or of another pruning than the others, or a recorder or labels of another length
void check_prompts(std::span<const PromptRequest> prompts, const ModelConfig& config);

/// @throws Error for an id outside the vocabulary; UsageError for a position that the model has not
void check_next_token(std::int32_t id, std::int64_t position, const ModelConfig& config);

}  // namespace foxscope

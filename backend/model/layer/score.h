#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "backend/model/layer/pass_options.h"
#include "backend/model/spec/model_config.h"

namespace foxscope {

/// A token of the vocabulary and log p of it, in nats.
struct ScoredToken {
  std::int32_t id = -1;
  float log_probability = std::numeric_limits<float>::quiet_NaN();
};

/// The prediction at one position: log softmax of its logits.
struct ScoredPosition {
  float log_probability = std::numeric_limits<float>::quiet_NaN();  ///< of the label, nats; NaN without one
  bool greedy = false;           ///< whether the label is the likeliest token; of equals that of the lowest id
  std::vector<ScoredToken> top;  ///< [k] likeliest first, of equals the lowest id first
  /// With ScoreRequest::distribution, else NaN and 0: H = -sum_i p_i log p_i over the vocabulary, nats; and the place
  /// of the label among all tokens, 1 for the likeliest, of equals the lowest id first (0 without a label).
  float entropy = std::numeric_limits<float>::quiet_NaN();
  std::int64_t rank = 0;
  /// The log of the sum of p over the tokens that ScoreRequest::marked marks, nats; NaN without it.
  float marked_log_probability = std::numeric_limits<float>::quiet_NaN();
};
using TextScores = std::vector<ScoredPosition>;

/// A text of which some positions are scored.
struct ScoredText {
  std::span<const std::int32_t> input_ids;  ///< [L] what each position reads, BOS included
  std::int64_t first = 0;                   ///< positions [first, end) are scored; logits of no others are made
  std::int64_t end = 0;
  /// [m], m <= end - first: what the first m of them predict. The others have no label: what follows is not known.
  std::span<const std::int32_t> labels;
};

/// Texts to be scored, of any lengths and in any order. Those of near-equal length go through the model together, the
/// shorter padded at their end, which no position before it sees: a text's scores are those that it has alone, to
/// rounding (in float32 a matrix product of other rows beside them may round otherwise, Forward::Input::lengths).
struct ScoreRequest : PassOptions {
  std::vector<ScoredText> texts = {};
  int top = 0;                ///< k
  bool distribution = false;  ///< whether entropies and ranks are asked for
  /// [V] 1 or 0: tokens whose probabilities are summed at every position; empty: this is not asked for
  std::span<const std::uint8_t> marked = {};
};

/// @throws ShapeError for a text that is empty, positions that it does not have and labels without a position;
///         marks of another number than V; UsageError for k, pruning or interventions out of range and a text that is
///         too long for the model's table of positions; Error for ids outside the vocabulary
void check_score(const ScoreRequest& request, const ModelConfig& config);

/// Which texts go through a model together: as many as make `tokens` positions with their padding, which is at most an
/// eighth of any text. Does not depend on the order of the texts, but for those that are equal.
/// @returns indices, longest text first
std::vector<std::vector<std::size_t>> score_batches(const ScoreRequest& request, std::int64_t tokens);

/// The prediction at a position, from its logits as they come, a block of the vocabulary after the other.
class TokenChoice {
 public:
  /// @param label         -1: none
  /// @param distribution  whether entropy and rank are asked for: all logits are kept until they are known
  /// @param marked        of ScoreRequest, outlives this
  TokenChoice(std::int32_t label, int top, bool distribution = false, std::span<const std::uint8_t> marked = {})
      : label_(label), top_(static_cast<std::size_t>(top)), distribution_(distribution), marked_(marked) {}

  /// @param first  token of the first logit; blocks come in rising order
  void add(std::int64_t first, std::span<const float> logits);
  /// @param normalizer  log of the sum of the exponentials of all logits, nats
  [[nodiscard]] ScoredPosition finish(double normalizer) const;

 private:
  void take_likeliest(std::int64_t first, std::span<const float> logits);
  void take_marked(std::int64_t first, std::span<const float> logits);
  /// Entropy and rank.
  void describe(double normalizer, ScoredPosition& score) const;

  std::int32_t label_;
  std::size_t top_;
  bool distribution_;
  std::span<const std::uint8_t> marked_;
  /// The largest of the marked logits that came, and the sum of their exponentials less that.
  double marked_shift_ = -std::numeric_limits<double>::infinity();
  double marked_sum_ = 0;
  std::vector<float> all_;  ///< logits that came, with distribution_
  float label_logit_ = std::numeric_limits<float>::quiet_NaN();
  std::vector<ScoredToken> best_;  ///< of what came; max(k, 1) at most, with logits in place of log p
};

}  // namespace foxscope

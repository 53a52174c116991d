#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "backend/trace/trace.h"

namespace foxscope {

struct AttentionSpread;

/// A head's role by the statistics of its attention. A head may have several labels, or none.
enum class HeadLabel { previous_token, local, sink, positional, induction, long_memory };
inline constexpr int kHeadLabels = 6;

/// Distance up to which a head is local, and from which on its memory is long, tokens.
inline constexpr std::int64_t kLocalTokens = 32;
inline constexpr std::int64_t kLongTokens = 256;

/// A shorter text gives no head a label. Its rows have so few keys that a head which looks at everything alike would
/// reach thresholds: (1 + 1/2 + ... + 1/L) / L of its attention is on key 0, 0.75 at 2 tokens, 0.5 at 4 and 0.21 here.
inline constexpr std::int64_t kShortestLabelled = 16;
/// Tokens below which such a head would be positional, or local.
inline constexpr std::int64_t kShortestPositional = 32;
inline constexpr std::int64_t kShortestLocal = 64;

struct HeadLabelText {
  const char* key;         ///< "previous_token", in files
  const char* name;        ///< "previous token"
  char letter;             ///< where there is room for one
  double threshold;        ///< score from which on a head has the label
  const char* definition;  ///< of the score, one sentence
};
const HeadLabelText& text_of(HeadLabel label);

/// Scores by HeadLabel, each from 0 to 1; NaN where a score does not exist or cannot be known.
using LabelScores = std::array<double, kHeadLabels>;
constexpr LabelScores no_label_scores() {
  LabelScores scores{};
  scores.fill(std::numeric_limits<double>::quiet_NaN());
  return scores;
}

/// Scores of one head; A' is A without key 0, each row renormalised, and without row 0.
/// - previous token: mean over i >= 1 of A_(i, i-1).
/// - local: sum of A'_ij over i - j < kLocalTokens, mean over the rows that see further, i > kLocalTokens, and have
///   attention beside key 0. Under a constant gate and no content it is 1 - exp(-kLocalTokens / T).
/// - sink: mean over i of A_i0.
/// - positional: the part of A' that distance alone explains, in squares: with m_d the mean of A'_(i, i-d) over rows,
///     sum over i, j of m_(i-j)^2 / sum over i, j of A'_ij^2
///   is 1 if A'_ij depends on i - j only, and never more (Cauchy and Schwarz). It is the R^2 of the best
///   A'_ij = g(i - j). A row that has nothing beside key 0 counts with zeros here.
/// - induction (prefix matching, Olsson et al. 2022): sum of A_ij over the keys that follow an earlier token like that
///   of position i, 0 < j < i with x_(j-1) = x_i, mean over the positions that see any. A token that is repeated at
///   once would lead to itself and does not count. NaN where no token comes again.
/// - long memory: sum of A'_ij over i - j >= kLongTokens, mean over the rows that see so far, i > kLongTokens, and have
///   attention beside key 0.
/// A text that is too short for a score has none: NaN; one of fewer than kShortestLabelled tokens has none at all.
/// @param window  of the head's layer (window_of); 0: none
LabelScores label_scores(const AttentionSpread& spread, std::int64_t window);

/// The labels whose score reaches its threshold, the strongest, score / threshold, first.
std::vector<HeadLabel> labels_of(const LabelScores& scores);

/// The names of labels with this between them; empty without any.
std::string names_of(const std::vector<HeadLabel>& labels, const char* separator);

}  // namespace foxscope

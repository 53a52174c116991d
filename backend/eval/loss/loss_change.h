#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/eval/loss/loss_statistics.h"

namespace foxscope {

/// The change of the loss at one position.
struct TokenChange {
  std::int64_t position = 0;
  double change = 0;  ///< nats
  bool operator==(const TokenChange&) const = default;
};

/// The effect of a change of a model on its losses on one text.
struct LossChange {
  Estimate mean;                    ///< nats per token, above 0: the change hurts; the error as loss_change says
  std::int64_t tokens = 0;          ///< L
  std::vector<TokenChange> hurt;    ///< largest rises, the largest first
  std::vector<TokenChange> helped;  ///< largest falls, the largest first

  /// exp(mean): what the perplexity was multiplied by.
  [[nodiscard]] double perplexity_factor() const;
};

/// Blocks of the error of a text of so many tokens: at most 64, and none below 32 positions, so that what one token
/// does to its neighbours stays inside a block. Block g of G holds the positions floor(g L / G) to floor((g + 1) L / G)
/// - 1: all of one size but for one position. A text of fewer than 256 tokens has fewer than eight, and no error.
ErrorGroups error_blocks(std::int64_t tokens);

/// Mean over positions of d_p = changed_p - unchanged_p, and its standard error by batch means (Flegal and Jones, Ann.
/// Statist. 38, 2010), since the changes of neighbouring tokens resemble each other: with the G blocks of error_blocks,
/// of L_g positions each,
///   se^2 = (G - 1) / G * sum_g (sum_{p in g} (d_p - mean) / (L - L_g))^2,
/// the jackknife of loss_statistics.h over blocks. It is the error for more text of this kind from the same source, not
/// for other texts.
/// @param changed, unchanged  [L] nats, of equal tokens
/// @param most  tokens in each of `hurt` and `helped`
/// @throws ShapeError for losses of different lengths, or none
LossChange loss_change(std::span<const float> changed, std::span<const float> unchanged, std::size_t most = 10);

}  // namespace foxscope

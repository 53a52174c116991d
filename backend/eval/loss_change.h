#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "backend/eval/loss_statistics.h"

namespace foxscope {

/// By how much the loss of one position changed.
struct TokenChange {
  std::int64_t position = 0;
  double change = 0;  ///< nats
  bool operator==(const TokenChange&) const = default;
};

/// What a change of a model did to its losses on one text.
struct LossChange {
  Estimate mean;                    ///< nats per token, above 0: the change hurts; the error as loss_change says
  std::int64_t tokens = 0;          ///< L
  std::int64_t block = 0;           ///< positions of one block of the error
  std::vector<TokenChange> hurt;    ///< largest rises, the largest first
  std::vector<TokenChange> helped;  ///< largest falls, the largest first

  /// exp(mean): what the perplexity was multiplied by.
  [[nodiscard]] double perplexity_factor() const;
  /// Whether the change is less than two errors, or nothing is known of its error.
  [[nodiscard]] bool within_error() const;
};

/// Positions of one block: at most 64 blocks, and none below 32 positions, so that what one token does to its
/// neighbours stays inside a block.
std::int64_t error_block_length(std::int64_t tokens);

/// Mean over positions of d_p = changed_p - unchanged_p, and its standard error by batch means (Flegal and Jones, Ann.
/// Statist. 38, 2010), since the changes of neighbouring tokens resemble each other: with G blocks of
/// error_block_length positions that follow one another, the last perhaps shorter,
///   se^2 = G / (G - 1) * sum_g (sum_{p in g} (d_p - mean))^2 / L^2,
/// which is NaN with one block.
/// @param changed, unchanged  [L] nats, of equal tokens
/// @param most  tokens in each of `hurt` and `helped`
/// @throws ShapeError for losses of different lengths, or none
LossChange loss_change(std::span<const float> changed, std::span<const float> unchanged, std::size_t most = 10);

}  // namespace foxscope

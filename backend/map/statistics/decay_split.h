#pragma once

#include <optional>
#include <vector>

#include "backend/map/statistics/head_statistics.h"
#include "backend/map/statistics/logit_profile.h"

namespace foxscope {

/// How near a head looks, and how much of that content and decay each do. A head's mean log distance is
///   m = mean over rows i of sum_j A_ij log2(1 + i - j), octaves,
/// here of four heads: the real one, A = softmax(S + D); what remains of it without the gate, softmax(S), and without
/// content, softmax(D); and a head that has neither and looks at everything alike. The head's locality is the m of the
/// uniform head minus its own; as the two parts act together, each is given the mean of what it adds first and what it
/// adds last (Shapley 1953, for two players), so that both sum to the locality exactly. Either may be negative: content
/// that looks far against a gate that holds back.
struct Locality {
  double uniform = 0;       ///< m, octaves
  double decay_only = 0;    ///< m of softmax(D)
  double content_only = 0;  ///< m of softmax(S)
  double both = 0;          ///< m of A

  [[nodiscard]] double total() const { return uniform - both; }
  [[nodiscard]] double by_decay() const { return ((uniform - decay_only) + (content_only - both)) / 2; }
  [[nodiscard]] double by_content() const { return ((uniform - content_only) + (decay_only - both)) / 2; }
};

/// The share of the gate in a head's attention.
struct DecaySplit {
  AttentionSpread without_gate;     ///< softmax(S) from the same q, k
  AttentionSpread without_content;  ///< softmax(D)
  Locality locality;
  Locality locality_without_first;  ///< key 0 left out, rows renormalised
  /// How much the gate changes what the head attends to: Kullback-Leibler divergence of attention from attention
  /// without the gate, mean over rows, nats:
  ///   KL(A_i || A0_i) = sum_j A_ij (c_i - c_j) + lse0_i - lse_i >= 0, lse0 being the log-normaliser without the gate
  double divergence = 0;
  std::vector<LogitMeans> logits;  ///< mean of each term of the logit, by distance
};

/// Splits one head's attention into content and decay: two more passes of tiles, one of them without QK^T. Without a
/// gate decay does nothing: 0 octaves, 0 nats.
/// @param spread  of the head as it is, from head_statistics
/// @returns nothing if the job was stopped
/// @throws Error for gates, row normalisers, queries or keys that were not kept
std::optional<DecaySplit> decay_split(const HeadOf& head, const AttentionSpread& spread, const Job& job);

}  // namespace foxscope

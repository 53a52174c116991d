#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/map/map.h"

namespace foxscope::page {

/// Queries and keys of a head, each [d, L] float32, channel by channel.
struct HeadVectors {
  std::span<const float> queries;
  std::span<const float> keys;
};

/// Rows of A of softmax attention, or of M of a linear mixer, from queries and keys that are given: those of the run,
/// or rounded ones. As resources/page/page.js computes them.
class RowEntries {
 public:
  /// @param head  whose decays, beta and scale it takes
  /// @throws Error for arrays that the trace did not keep
  RowEntries(const HeadOf& head, HeadVectors vectors);

  /// The first key that a query sees.
  [[nodiscard]] std::int64_t first(std::int64_t query) const;
  /// log sum_j exp(S_ij + c_i - c_j) over the keys that the query sees and the head's sink, nats; of softmax attention.
  [[nodiscard]] double log_normalizer(std::int64_t query);
  /// The entries of a row from first() to the query.
  /// @param normalizer  log-normaliser of the row, nats; of a linear mixer without meaning
  std::span<const double> row(std::int64_t query, double normalizer);

 private:
  /// S_ij + c_i - c_j of the row into row_.
  void logits(std::int64_t query);
  void mixing(std::int64_t query);

  const TraceInfo& info_;
  LayerMixer mixer_;
  HeadVectors vectors_;
  std::int64_t length_;
  std::int64_t window_;
  float scale_;
  std::span<const double> c_;  ///< empty: no decay by head
  ChannelSums sums_;           ///< where each channel decays
  std::span<const float> beta_;
  std::optional<double> sink_;
  std::vector<float> products_;
  std::vector<double> row_;
};

}  // namespace foxscope::page

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/map/map.h"

namespace foxscope {

/// One row of M of a mixer that erases (MixerKind), or of logits times sqrt(d) of attention that does, in float64, from
/// the diagonal to the left: r = q_i; at each position j = i, i - 1, ... the entry is M_ij = beta_j r.k_j, and then the
/// position is passed, r <- a_j r + e_j (b_j.r); for the delta rule that is r <- a_j (r - M_ij k_j). Of several steps
/// of a position r passes the later ones before the head's own entry, and the earlier ones behind it. It holds no row
/// itself: threads share it.
class MixingRecurrence {
 public:
  /// @param head  of a layer that erases; its trace must outlive the recurrence
  /// @throws Error for arrays that the trace did not keep
  explicit MixingRecurrence(const HeadOf& head);

  /// @param key  [d] k_j
  /// @param r    [d], which passes the steps behind the head's own
  /// @returns M_ij
  [[nodiscard]] double entry(std::int64_t position, std::span<const float> key, std::span<double> r) const;
  /// a_j of the head or of each channel; nothing lies before position 0, which has none.
  /// @param alpha  [d]
  void decays(std::int64_t position, std::span<double> alpha) const;
  /// @param entry  M_ij
  /// @param alpha  [d] a_j
  void pass(std::int64_t position, std::span<const float> key, double entry, std::span<const double> alpha,
            std::span<double> r) const;

 private:
  /// Another step of the same positions.
  struct Step {
    std::vector<float> key;       ///< [L, d]
    std::span<const float> beta;  ///< [L]
  };
  static void take_step(const Step& step, std::int64_t position, std::span<double> r);

  bool by_channel_;
  ChannelSums sums_;                    ///< keeps `c_` alive where each channel decays
  std::span<const double> c_;           ///< [L], or [L, d] where each channel decays, nats; empty: a_j = 1
  std::span<const float> beta_;         ///< [L]; empty: 1
  std::span<const float> erase_read_;   ///< [L, d] e; empty: what is erased is at the position's own key
  std::span<const float> erase_write_;  ///< [L, d] b
  std::vector<Step> earlier_, later_;   ///< steps than the head's own, each in the order in which r passes them
};

}  // namespace foxscope

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "backend/base/index.h"
#include "backend/map/mixing_recurrence.h"
#include "backend/map/team.h"
#include "backend/map/tile_reader.h"

namespace foxscope {

/// The source of the entries of one head of a linear mixer: M with y_i = sum_j M_ij v_j (docs/maps.md), its size as a
/// share of its row, or F where each channel decays. Of softmax attention that erases (LayerMixer::path) it is the
/// source of logits times sqrt(d). Shared by the threads of a map, read only once it is prepared.
///
/// Keys are taken in blocks of 64. The contribution of a block to any later query is prepared once, relative to the
/// block's last position e: of Mamba-2 exp(c_e - c_j) beta_j k_j, of channel decays exp(P_e - P_j) k_j (of Mamba beta_j
/// k_j), so that a tile is one product with queries that are decayed from e on; of the delta rule the rows that turn
/// what is left of a query at e into entries (docs/maps.md), so that a query passes a block by two products. Attention
/// that erases goes likewise by three (kernels/cpu/path_attention.h). Where each channel of a delta rule decays, where
/// a linear mixer's trace keeps what is erased, and where a position takes several steps, queries meet the keys one by
/// one.
class MixingEntries {
 public:
  /// @param of     a head of a linear mixer, or of attention that erases
  /// @param which  mixing, attention, or forget where each channel decays; logits of attention
  /// @throws Error for parts that the trace did not keep, UsageError for another quantity
  MixingEntries(const HeadOf& of, Quantity which);

  /// Prepares the blocks of keys that rows x columns need. @returns false if the job was stopped
  bool prepare(const Range& rows, const Range& columns, Team& team);

  /// @param sizes  [L] sum over j of |M_ij|, for attention; must outlive the readers
  void normalize_by(std::span<const float> sizes) { row_sizes_ = sizes; }
  /// @param log2_limit  entries below 2^log2_limit may be taken as 0
  [[nodiscard]] std::unique_ptr<TileReader> reader(double log2_limit) const;

 private:
  friend class MixingReader;
  struct Block;
  void prepare_block(std::int64_t block, std::vector<float>& scratch);
  void prepare_delta(std::int64_t block, const Range& keys, const float* padded);
  void prepare_path(std::int64_t block, const Range& keys, const float* padded);
  /// Rows of b or e, as padded_rows.
  void padded_erasing(std::span<const float> rows, const Range& keys, std::vector<float>& out) const;
  /// Rows of queries or keys, [rows, depth] padded with zeros; keys of channel decays times beta, where there is one.
  void padded_rows(TraceArray part, const Range& rows, std::vector<float>& scratch, std::vector<float>& out) const;
  [[nodiscard]] double c(std::int64_t position) const { return gate_.empty() ? 0.0 : gate_[index_of(position)]; }
  [[nodiscard]] const double* sums(std::int64_t position) const { return decay_.data() + position * channels_; }
  /// Whether what no block has a closed form for is computed by the recurrence itself.
  [[nodiscard]] bool goes_key_by_key() const { return recurrence_.has_value(); }
  [[nodiscard]] float beta(std::int64_t position) const { return beta_[index_of(position)]; }
  [[nodiscard]] const float* at_end(std::int64_t position) const {
    return at_end_.data() + (position - first_) * depth_;
  }

  HeadOf head_;
  Quantity quantity_;
  LayerMixer mixer_;
  bool erases_ = false;                   ///< M of a mixer that erases; F is not changed by it
  const QueryKeyStore* store_ = nullptr;  ///< null for forget: queries and keys are all 1
  int query_head_ = 0;
  int key_head_ = 0;
  std::int64_t length_ = 0;
  std::int64_t channels_ = 0;                   ///< d
  std::int64_t depth_ = 0;                      ///< d in whole vectors
  std::span<const double> gate_;                ///< [L] c, nats; empty where channels decay
  ChannelSums sums_;                            ///< keeps `decay_` alive
  std::span<const double> decay_;               ///< [L, d] P, nats, where each channel decays
  std::span<const float> beta_;                 ///< [L]; empty where channels decay: 1
  std::vector<double> zeros_;                   ///< [L] where heads do not decay
  std::vector<float> ones_;                     ///< [L] where heads have no beta
  std::optional<MixingRecurrence> recurrence_;  ///< where queries meet the keys one by one
  std::span<const float> row_sizes_;
  std::int64_t first_ = 0;  ///< of the prepared keys, a multiple of 64
  std::int64_t end_ = 0;
  std::vector<float> at_end_;  ///< [keys, depth]
  /// Delta rule, [keys, depth]: -exp(c_l - c_(first - 1)) k_l; of attention kernels::cpu::PathBlock::left.
  std::vector<float> left_;
  /// Delta rule, [keys, 64]: rows of the inverse of each block's triangle; of attention PathBlock::near.
  std::vector<float> inverse_;
  std::span<const float> erase_read_, erase_write_;  ///< [L, d] e and b of attention
  std::vector<double> block_norm_;                   ///< largest norm of at_end_ in each block
};

/// Sum over j of |M_ij| of some rows, or without key 0.
/// @returns [L], NaN for rows that were not asked for; empty if the job was stopped
std::vector<float> compute_row_sizes(const HeadOf& head, const Range& rows, FirstKey first_key, const Job& job);

/// Sum over j of |M_ij|, [L], computed on first use and kept beside the trace.
/// @returns an empty span if the job was stopped
std::span<const float> row_sizes(const HeadOf& head, const Job& job);

}  // namespace foxscope

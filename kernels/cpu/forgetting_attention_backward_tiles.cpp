#include "kernels/cpu/forgetting_attention_backward_tiles.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/forgetting_attention_backward_tiles.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/tile_math-inl.h"
#include "kernels/log2e.h"

HWY_BEFORE_NAMESPACE();
namespace foxscope::kernels::HWY_NAMESPACE {
namespace {

using cpu::BackwardCell;
using cpu::BackwardHeads;
using cpu::BackwardScratch;
using cpu::ForgettingAttentionBackward;
using cpu::kKeyBlock;
using cpu::kMaxLanes;
using cpu::kQueryBlock;

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();
// A gate that falls by more than this many nats inside a key block would cost the logits digits as a float32 bias.
constexpr double kSteepFall = 4.0;
// Rows of a tile that the diagonal or the window cuts are taken in groups, each with the keys that it needs; keys
// likewise.
constexpr std::int64_t kCutGroup = 24;

std::size_t at(std::int64_t position) { return static_cast<std::size_t>(position); }

/// Whether all numbers are finite.
bool all_finite(const float* numbers, std::int64_t count) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  Float zero = hn::Zero(tag);  // stays 0 unless one is not finite
  for (std::int64_t x = 0; x < count; x += lanes) {
    zero = hn::MulAdd(hn::LoadU(tag, numbers + x), hn::Zero(tag), zero);
  }
  return hn::AllTrue(tag, hn::Eq(zero, hn::Zero(tag)));
}

void pack_backward_rows(const ForgettingAttentionBackward& b, BackwardHeads& heads, std::int64_t head,
                        std::int64_t row_block) {
  const cpu::ForgettingAttention& a = b.forward;
  const std::int64_t global_head = heads.first_key_head * heads.group + head;
  const auto start = [&](const float* tensor, const cpu::AttentionStrides& strides) {
    return tensor + global_head / a.heads * strides.batch + global_head % a.heads * strides.head;
  };
  const auto scale = static_cast<float>(static_cast<double>(a.scale) * kLog2E);
  const std::int64_t first = row_block * kQueryBlock;
  const std::int64_t packed = head * heads.row_blocks * kQueryBlock + first;
  bool dead_rows = false;
  bool irregular = false;
  std::fill_n(heads.query_gradient.get() + packed * heads.width, kQueryBlock * heads.width, 0.0F);
  for (std::int64_t r = 0; r < kQueryBlock; ++r) {
    float* query = heads.queries.get() + (packed + r) * heads.width;
    float* gradient = heads.output_gradient.get() + (packed + r) * heads.width;
    std::fill_n(query, heads.width, 0.0F);
    std::fill_n(gradient, heads.width, 0.0F);
    const std::size_t row = at(packed + r);
    heads.live[row] = 0;
    heads.deltas[row] = 0;
    if (first + r >= a.length) continue;
    const float* from =
        start(b.output_gradient, b.output_gradient_strides) + (first + r) * b.output_gradient_strides.row;
    if (std::all_of(from, from + a.head_dim, [](float x) { return x == 0; })) {
      dead_rows = true;
      continue;
    }
    heads.live[row] = 1;
    std::copy_n(from, a.head_dim, gradient);
    const float* from_query = start(a.query, a.query_strides) + (first + r) * a.query_strides.row;
    for (std::int64_t x = 0; x < a.head_dim; ++x) query[x] = from_query[x] * scale;
    heads.deltas[row] =
        dot(gradient, start(a.output, a.output_strides) + (first + r) * a.output_strides.row, a.head_dim);
    const bool regular = all_finite(query, heads.width) && all_finite(gradient, heads.width);
    irregular = irregular || !regular;
    heads.query_norms[row] = regular && std::isfinite(heads.deltas[row])
                                 ? std::sqrt(dot(query, query, a.head_dim)) * 1.0001F
                                 : std::numeric_limits<float>::infinity();
  }
  heads.dead_rows[at(head * heads.row_blocks + row_block)] = dead_rows ? 1 : 0;
  heads.irregular_rows[at(head * heads.row_blocks + row_block)] = irregular ? 1 : 0;
}

/// The tiles of one cell, for one query head after the other: keys outside, so that what belongs to a key block stays
/// in the nearest cache while rows pass by.
class CellTiles {
 public:
  CellTiles(const ForgettingAttentionBackward& arguments, BackwardHeads& heads, const BackwardCell& cell,
            BackwardScratch& scratch)
      : a_(arguments.forward), p_(heads), cell_(cell), s_(scratch) {}

  void run() {
    for (std::int64_t member = 0; member < p_.group; ++member) {
      head_ = cell_.key_head * p_.group + member;
      const std::int64_t global_head = p_.first_key_head * p_.group + head_;
      gate_ = a_.cumulative_log_gate == nullptr ? nullptr : a_.cumulative_log_gate + global_head * a_.length;
      normalizer_ = a_.log_normalizer + global_head * a_.length;
      const std::int64_t rows = (cell_.last_row_block - cell_.first_row_block) * kQueryBlock;
      std::fill_n(s_.rows.get(), rows * kMaxLanes, 0.0F);
      for (std::int64_t block = cell_.first_block; block < cell_.last_block; ++block) visit_keys(block);
      add_row_sums();
    }
  }

 private:
  /// Part of a tile: rows [row, row + rows) and columns [first, last) counted from the tile's corner.
  struct Part {
    std::int64_t row;
    std::int64_t rows;
    std::int64_t first;
    std::int64_t last;
  };

  // First column that a row sees in the tile, and the one after its last; none for a row that contributes nothing.
  std::int64_t low(std::int64_t row) const {
    return a_.window_size > 0 ? std::clamp<std::int64_t>(first_row_ + row - a_.window_size + 1 - key_, 0, kKeyBlock)
                              : 0;
  }
  std::int64_t high(std::int64_t row) const {
    return p_.live[at(packed_row_ + row)] == 0 ? low(row)
                                               : std::clamp<std::int64_t>(first_row_ + row + 1 - key_, 0, kKeyBlock);
  }
  // First row that sees any of the keys from `column` on, and the one after the last that sees any of those before.
  std::int64_t upper(std::int64_t column) const {
    return std::clamp<std::int64_t>(key_ + column - first_row_, 0, rows_);
  }
  std::int64_t lower(std::int64_t last_column) const {
    if (a_.window_size == 0) return rows_;
    return std::clamp<std::int64_t>(key_ + last_column - 1 + a_.window_size - first_row_, 0, rows_);
  }
  float* logits(std::int64_t row) const { return s_.logits.get() + row * kKeyBlock; }
  float* products(std::int64_t row) const { return s_.products.get() + row * kKeyBlock; }

  void visit_keys(std::int64_t block) {
    key_ = block * kKeyBlock;
    block_ = cell_.key_head * p_.blocks + block;
    prepare_gate();
    std::fill_n(s_.columns.get(), kKeyBlock, 0.0F);
    for (std::int64_t row_block = cell_.first_row_block; row_block < cell_.last_row_block; ++row_block) {
      first_row_ = row_block * kQueryBlock;
      rows_ = std::min(kQueryBlock, a_.length - first_row_);
      if (first_row_ + rows_ <= key_ || block < p_.first_block[at(head_ * p_.row_blocks + row_block)]) continue;
      visit_tile(row_block);
    }
    double* sums = p_.column_sums.data() + (head_ * p_.blocks + block) * kKeyBlock;
    for (std::int64_t j = 0; j < kKeyBlock; ++j) sums[j] += static_cast<double>(s_.columns[at(j)]);
  }

  /// The gate between a row and a key is split at the middle of its fall over the key block: a bias per key, the same
  /// for every row, and a term per row. Both are differences in float64; steep_ where the fall is too steep for that.
  void prepare_gate() {
    steep_ = false;
    middle_ = 0;
    if (gate_ == nullptr) return;
    const std::int64_t count = std::min(kKeyBlock, a_.length - key_);
    const double first = gate_[key_];
    const double last = gate_[key_ + count - 1];
    steep_ = !(first - last <= kSteepFall);
    if (steep_) return;
    middle_ = first + (last - first) / 2;
    float* bias = s_.gate_bias.get();
    for (std::int64_t j = 0; j < count; ++j) bias[j] = static_cast<float>((middle_ - gate_[key_ + j]) * kLog2E);
    std::fill(bias + count, bias + kKeyBlock, 0.0F);
  }

  void visit_tile(std::int64_t row_block) {
    packed_row_ = head_ * p_.row_blocks * kQueryBlock + first_row_;
    const bool cut = key_ + kKeyBlock - 1 > first_row_ || low(rows_ - 1) > 0 ||
                     p_.dead_rows[at(head_ * p_.row_blocks + row_block)] != 0;
    prepare_shifts();
    if (!cut) {
      const Part all{0, rows_, 0, kKeyBlock};
      weigh<false>(all);
      add_query_gradient(all);
      add_key_gradients(all);
      return;
    }
    const bool irregular_rows = p_.irregular_rows[at(head_ * p_.row_blocks + row_block)] != 0;
    for (std::int64_t row = 0; row < rows_; row += kCutGroup) visit_cut_rows(row, std::min(kCutGroup, rows_ - row));
    // 0 times a key, query or gradient that is not finite is NaN: they must not meet what does not see them.
    const std::int64_t group = irregular_rows ? 1 : kCutGroup;
    for (std::int64_t column = 0; column < kKeyBlock; column += group) {
      const std::int64_t last = std::min(column + group, kKeyBlock);
      const std::int64_t row = upper(column);
      const std::int64_t count = lower(last) - row;
      if (count > 0) add_key_gradients({row, count, column, last});
    }
  }

  void visit_cut_rows(std::int64_t row, std::int64_t count) {
    std::int64_t first = kKeyBlock;
    std::int64_t last = 0;
    for (std::int64_t r = row; r < row + count; ++r) {
      if (low(r) >= high(r)) continue;
      first = std::min(first, low(r));
      last = std::max(last, high(r));
    }
    const Part part{row, count, first / 16 * 16, (last + 15) / 16 * 16};
    for (std::int64_t r = row; r < row + count; ++r) {
      std::fill_n(logits(r), kKeyBlock, 0.0F);
      std::fill_n(products(r), kKeyBlock, 0.0F);
    }
    if (part.first >= part.last) return;
    weigh<true>(part);
    if (p_.irregular_keys[at(block_)] == 0) {
      add_query_gradient(part);
      return;
    }
    for (std::int64_t r = row; r < row + count; ++r) {
      if (low(r) < high(r)) add_query_gradient({r, 1, low(r), high(r)});
    }
  }

  void prepare_shifts() {
    for (std::int64_t r = 0; r < rows_; ++r) {
      const double gate = gate_ == nullptr || steep_ ? 0.0 : gate_[first_row_ + r] - middle_;
      s_.shifts[at(r)] = static_cast<float>((gate - static_cast<double>(normalizer_[first_row_ + r])) * kLog2E);
    }
  }

  /// P and dS of a part.
  template <bool kCut>
  void weigh(const Part& part) {
    multiply_keys(part);
    const std::int64_t width = p_.width;
    tile_product<Start::zero>(part.rows, part.last - part.first, a_.head_dim,
                              p_.output_gradient.get() + (packed_row_ + part.row) * width, width,
                              p_.values.get() + block_ * kKeyBlock * a_.head_dim + part.first, kKeyBlock, nullptr,
                              products(part.row) + part.first, kKeyBlock);
    if constexpr (kCut) mask(part);
    std::int64_t r = part.row;
    for (; r + 4 <= part.row + part.rows; r += 4) backward<kCut, 4>(part, r);
    for (; r < part.row + part.rows; ++r) backward<kCut, 1>(part, r);
  }

  void multiply_keys(const Part& part) {
    const float* queries = p_.queries.get() + (packed_row_ + part.row) * p_.width;
    const float* keys = p_.keys.get() + block_ * kKeyBlock * a_.head_dim + part.first;
    const std::int64_t columns = part.last - part.first;
    float* to = logits(part.row) + part.first;
    if (gate_ == nullptr) {
      tile_product<Start::zero>(part.rows, columns, a_.head_dim, queries, p_.width, keys, kKeyBlock, nullptr, to,
                                kKeyBlock);
    } else if (!steep_) {
      tile_product<Start::bias>(part.rows, columns, a_.head_dim, queries, p_.width, keys, kKeyBlock,
                                s_.gate_bias.get() + part.first, to, kKeyBlock);
    } else {
      put_steep_gate(part);
      tile_product<Start::accumulate>(part.rows, columns, a_.head_dim, queries, p_.width, keys, kKeyBlock, nullptr, to,
                                      kKeyBlock);
    }
  }

  /// Every entry's own difference. Only where a row sees a key, since a gate that is not a number may follow.
  void put_steep_gate(const Part& part) {
    const double* HWY_RESTRICT gates = gate_ + key_;
    for (std::int64_t r = part.row; r < part.row + part.rows; ++r) {
      float* HWY_RESTRICT row = logits(r);
      std::fill(row + part.first, row + part.last, 0.0F);
      const double own = gate_[first_row_ + r];
      const std::int64_t last = high(r);
      for (std::int64_t j = low(r); j < last; ++j) row[j] = static_cast<float>((own - gates[j]) * kLog2E);
    }
  }

  void mask(const Part& part) {
    for (std::int64_t r = part.row; r < part.row + part.rows; ++r) {
      const std::int64_t first = std::clamp(low(r), part.first, part.last);
      std::fill(logits(r) + part.first, logits(r) + first, kMinusInfinity);
      std::fill(logits(r) + std::clamp(high(r), first, part.last), logits(r) + part.last, kMinusInfinity);
    }
  }

  /// P = 2^(logit + shift), dS = P (dP - delta) in place, and dS's sums, for kRows rows. Where a cut tile is masked,
  /// both are 0 whatever dP is.
  template <bool kCut, int kRows>
  HWY_INLINE void backward(const Part& part, std::int64_t row) {
    const FloatTag tag;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
    float* HWY_RESTRICT weights = logits(row);
    float* HWY_RESTRICT gradients = products(row);
    float* HWY_RESTRICT columns = s_.columns.get();
    float* HWY_RESTRICT row_sums = s_.rows.get() + (first_row_ + row - cell_.first_row_block * kQueryBlock) * kMaxLanes;
    Float sums[kRows];
    Float shifts[kRows];
    Float deltas[kRows];
    for (int r = 0; r < kRows; ++r) {
      sums[r] = hn::LoadU(tag, row_sums + r * kMaxLanes);
      shifts[r] = hn::Set(tag, s_.shifts[at(row + r)]);
      deltas[r] = hn::Set(tag, p_.deltas[at(packed_row_ + row + r)]);
    }
    for (std::int64_t j = part.first; j < part.last; j += lanes) {
      Float column = hn::LoadU(tag, columns + j);
      for (int r = 0; r < kRows; ++r) {
        const Float logit = hn::LoadU(tag, weights + r * kKeyBlock + j);
        const Float weight = exp2_vector(hn::Add(logit, shifts[r]));
        Float gradient = hn::Mul(weight, hn::Sub(hn::LoadU(tag, gradients + r * kKeyBlock + j), deltas[r]));
        if constexpr (kCut) {
          const auto masked = hn::Eq(logit, hn::Set(tag, kMinusInfinity));
          gradient = hn::IfThenZeroElse(masked, gradient);
          hn::StoreU(hn::IfThenZeroElse(masked, weight), tag, weights + r * kKeyBlock + j);
        } else {
          hn::StoreU(weight, tag, weights + r * kKeyBlock + j);
        }
        hn::StoreU(gradient, tag, gradients + r * kKeyBlock + j);
        sums[r] = hn::Add(sums[r], gradient);
        column = hn::Add(column, gradient);
      }
      hn::StoreU(column, tag, columns + j);
    }
    for (int r = 0; r < kRows; ++r) hn::StoreU(sums[r], tag, row_sums + r * kMaxLanes);
  }

  void add_query_gradient(const Part& part) {
    const std::int64_t width = p_.width;
    tile_product<Start::add>(part.rows, width, part.last - part.first, products(part.row) + part.first, kKeyBlock,
                             p_.key_rows.get() + (block_ * kKeyBlock + part.first) * width, width, nullptr,
                             p_.query_gradient.get() + (packed_row_ + part.row) * width, width);
  }

  void add_key_gradients(const Part& part) {
    const std::int64_t width = p_.width;
    const std::int64_t keys = part.last - part.first;
    const std::int64_t key = (block_ * kKeyBlock + part.first) * width;
    const std::int64_t row = (packed_row_ + part.row) * width;
    tile_product_transposed(keys, width, part.rows, logits(part.row) + part.first, kKeyBlock,
                            p_.output_gradient.get() + row, width, p_.value_gradient.get() + key, width);
    tile_product_transposed(keys, width, part.rows, products(part.row) + part.first, kKeyBlock, p_.queries.get() + row,
                            width, p_.key_gradient.get() + key, width);
  }

  void add_row_sums() {
    const std::int64_t first = cell_.first_row_block * kQueryBlock;
    const std::int64_t last = std::min(cell_.last_row_block * kQueryBlock, a_.length);
    double* sums = p_.row_sums.data() + head_ * p_.blocks * kKeyBlock;
    for (std::int64_t row = first; row < last; ++row) {
      const float* lanes = s_.rows.get() + (row - first) * kMaxLanes;
      for (std::int64_t lane = 0; lane < kMaxLanes; ++lane) sums[row] += static_cast<double>(lanes[lane]);
    }
  }

  const cpu::ForgettingAttention& a_;
  BackwardHeads& p_;
  const BackwardCell& cell_;
  BackwardScratch& s_;
  // The query head at hand.
  std::int64_t head_ = 0;
  const double* gate_ = nullptr;       // [L]
  const float* normalizer_ = nullptr;  // [L]
  // The key block.
  std::int64_t key_ = 0;    // its first
  std::int64_t block_ = 0;  // counted through the packed key heads
  bool steep_ = false;
  double middle_ = 0;
  // The tile.
  std::int64_t first_row_ = 0;
  std::int64_t rows_ = 0;
  std::int64_t packed_row_ = 0;  // its first row, counted through the packed heads
};

void add_backward_cell(const ForgettingAttentionBackward& arguments, BackwardHeads& heads, const BackwardCell& cell,
                       BackwardScratch& scratch) {
  CellTiles(arguments, heads, cell, scratch).run();
}

}  // namespace
}  // namespace foxscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace foxscope::kernels {
HWY_EXPORT(pack_backward_rows);
HWY_EXPORT(add_backward_cell);

namespace cpu {

void pack_backward_rows(const ForgettingAttentionBackward& arguments, BackwardHeads& heads, std::int64_t head,
                        std::int64_t row_block) {
  HWY_DYNAMIC_DISPATCH(pack_backward_rows)(arguments, heads, head, row_block);
}

void add_backward_cell(const ForgettingAttentionBackward& arguments, BackwardHeads& heads, const BackwardCell& cell,
                       BackwardScratch& scratch) {
  HWY_DYNAMIC_DISPATCH(add_backward_cell)(arguments, heads, cell, scratch);
}

}  // namespace cpu
}  // namespace foxscope::kernels
#endif

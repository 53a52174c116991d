#include "kernels/cpu/forgetting_attention_tiles.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/forgetting_attention_tiles.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/tile_math-inl.h"
#include "kernels/log2e.h"

HWY_BEFORE_NAMESPACE();
namespace foxscope::kernels::HWY_NAMESPACE {
namespace {

using cpu::ForgettingAttention;
using cpu::kKeyBlock;
using cpu::kMaxLanes;
using cpu::kQueryBlock;
using cpu::PackedKeys;
using cpu::Scratch;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
// Weights are taken relative to a row's reference, which follows the largest logit only when that is this many powers
// of 2 above it: most tiles then need no rescaling, and no weight leaves float32's range.
constexpr float kHeadroom = 8.0F;
// A gate that falls by more than this many nats inside a key block would cost the logits digits as a float32 bias.
constexpr double kSteepGate = 4.0;
// Rows of a tile that the diagonal or the window cuts are taken in groups, each with the columns that it needs.
constexpr std::int64_t kRowGroup = 24;
// Powers of 2 that cover the rounding of a retained mass.
constexpr double kRetainedSlack = 1e-4;

std::int64_t round_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b * b; }

float pack_keys(const float* key, std::int64_t stride, std::int64_t count, std::int64_t dim, float* keys) {
  fill_panel(key, stride, count, dim, keys, kKeyBlock);
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  auto finite = hn::Eq(hn::Zero(tag), hn::Zero(tag));
  Float largest = hn::Zero(tag);
  for (std::int64_t j = 0; j < kKeyBlock; j += lanes) {
    Float squares = hn::Zero(tag);
    for (std::int64_t x = 0; x < dim; ++x) {
      const Float component = hn::LoadU(tag, keys + x * kKeyBlock + j);
      squares = hn::MulAdd(component, component, squares);
    }
    finite = hn::And(finite, hn::Lt(squares, hn::Set(tag, kInfinity)));  // false for NaN
    largest = hn::Max(largest, squares);
  }
  return hn::AllTrue(tag, finite) ? hn::GetLane(hn::MaxOfLanes(tag, largest)) : kInfinity;
}

bool pack_values(const float* value, std::int64_t stride, std::int64_t count, std::int64_t dim, std::int64_t packed_dim,
                 float* values) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  for (std::int64_t j = 0; j < kKeyBlock; ++j) {
    const std::int64_t filled = j < count ? dim : 0;
    std::copy(value + j * stride, value + j * stride + filled, values + j * packed_dim);
    std::fill(values + j * packed_dim + filled, values + (j + 1) * packed_dim, 0.0F);
  }
  Float zero = hn::Zero(tag);  // stays 0 unless a value is not finite
  for (std::int64_t x = 0; x < kKeyBlock * packed_dim; x += lanes) {
    zero = hn::MulAdd(hn::LoadU(tag, values + x), hn::Zero(tag), zero);
  }
  return hn::AllTrue(tag, hn::Eq(zero, hn::Zero(tag)));
}

void pack_block(const ForgettingAttention& a, PackedKeys& packed, std::int64_t key_head, std::int64_t block) {
  const std::int64_t batch = (packed.first_key_head + key_head) / a.key_heads;
  const std::int64_t head = (packed.first_key_head + key_head) % a.key_heads;
  const std::int64_t first = block * kKeyBlock;
  const std::int64_t count = std::clamp<std::int64_t>(a.length - first, 0, kKeyBlock);
  const std::int64_t at = key_head * packed.blocks + block;
  const auto start = [&](const float* tensor, const cpu::AttentionStrides& strides) {
    return count == 0 ? tensor : tensor + batch * strides.batch + head * strides.head + first * strides.row;
  };
  const float square = pack_keys(start(a.key, a.key_strides), a.key_strides.row, count, a.head_dim,
                                 packed.keys.get() + at * kKeyBlock * a.head_dim);
  const bool regular = pack_values(start(a.value, a.value_strides), a.value_strides.row, count, a.head_dim,
                                   packed.value_dim, packed.values.get() + at * kKeyBlock * packed.value_dim);
  // The factor covers the rounding of the sum of squares; infinity keeps what is not finite from being skipped.
  packed.norms[static_cast<std::size_t>(at)] = regular ? std::sqrt(square) * 1.0001F : kInfinity;
  packed.irregular[static_cast<std::size_t>(at)] = regular ? 0 : 1;
}

void retained_mass(const ForgettingAttention& a, std::int64_t head, double* retained) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const double* gate = a.cumulative_log_gate + head * a.length;
  double mass = 0;
  for (std::int64_t key = 0; key < a.length; key += kKeyBlock) {
    const std::int64_t count = std::min(kKeyBlock, a.length - key);
    const double last = gate[key + count - 1];
    HWY_ALIGN float exponents[kKeyBlock];
    std::fill(exponents + count, exponents + kKeyBlock, -kInfinity);
    for (std::int64_t j = 0; j < count; ++j) exponents[j] = static_cast<float>((last - gate[key + j]) * kLog2E);
    Float sums = hn::Zero(tag);
    for (std::int64_t j = 0; j < kKeyBlock; j += lanes) {
      sums = hn::Add(sums, exp2_vector(hn::Load(tag, exponents + j)));
    }
    if (key > 0) mass *= std::exp(last - gate[key - 1]);
    mass += static_cast<double>(hn::GetLane(hn::SumOfLanes(tag, sums)));
    retained[key / kKeyBlock] = mass;
  }
}

/// One block of rows of one head on its way through the key blocks, from the diagonal backwards.
class RowBlock {
 public:
  RowBlock(const ForgettingAttention& arguments, const PackedKeys& packed, std::int64_t head, std::int64_t first_row,
           Scratch& scratch)
      : a_(arguments),
        packed_(packed),
        s_(scratch),
        head_(head),
        group_(arguments.heads / arguments.key_heads),
        local_key_head_(head / group_ - packed.first_key_head),
        first_row_(first_row),
        rows_(std::min(kQueryBlock, arguments.length - first_row)),
        first_key_(arguments.window_size > 0 ? std::max<std::int64_t>(0, first_row - arguments.window_size + 1) : 0),
        gate_(arguments.cumulative_log_gate == nullptr ? nullptr
                                                       : arguments.cumulative_log_gate + head * arguments.length),
        ungated_wanted_(arguments.log_normalizer_without_gate != nullptr && gate_ != nullptr) {}

  void run() {
    load_queries();
    const std::int64_t first_block = first_key_ / kKeyBlock;
    const std::int64_t last_block = (first_row_ + rows_ - 1) / kKeyBlock;
    s_.blocks.total += last_block - first_block + 1;
    bool skipping = false;
    for (std::int64_t block = last_block; block >= first_block; --block) {
      skipping = skipping || (block < last_block && rest_negligible(block));
      if (skipping && !ungated_wanted_) {
        s_.blocks.skipped += block - first_block + 1;
        break;
      }
      if (skipping) ++s_.blocks.skipped;
      visit(block, skipping);
    }
    store();
  }

 private:
  /// Part of a tile: rows [row, row + rows) and columns [first, last) counted from the tile's corner.
  struct Part {
    std::int64_t row;
    std::int64_t rows;
    std::int64_t first;
    std::int64_t last;
    bool masked;
  };

  // First column that a row sees in a key block, and the one after its last.
  std::int64_t low(std::int64_t row, std::int64_t key) const {
    return a_.window_size > 0 ? std::clamp<std::int64_t>(first_row_ + row - a_.window_size + 1 - key, 0, kKeyBlock) : 0;
  }
  std::int64_t high(std::int64_t row, std::int64_t key) const {
    return std::clamp<std::int64_t>(first_row_ + row + 1 - key, 0, kKeyBlock);
  }
  float* logits(std::int64_t row) const { return s_.logits.get() + row * kKeyBlock; }

  void load_queries() {
    const std::int64_t batch = head_ / a_.heads;
    const std::int64_t head = head_ % a_.heads;
    const float* query = a_.query + batch * a_.query_strides.batch + head * a_.query_strides.head;
    const float* key = a_.key + batch * a_.key_strides.batch + head / group_ * a_.key_strides.head;
    const auto scale = static_cast<float>(static_cast<double>(a_.scale) * kLog2E);
    for (std::int64_t r = 0; r < rows_; ++r) {
      const float* HWY_RESTRICT from = query + (first_row_ + r) * a_.query_strides.row;
      float* HWY_RESTRICT to = s_.queries.get() + r * a_.head_dim;
      for (std::int64_t x = 0; x < a_.head_dim; ++x) to[x] = from[x] * scale;
      // Every row sees its own key, so its logit is a first reference that needs no stand-in for minus infinity.
      float logit = dot(to, key + (first_row_ + r) * a_.key_strides.row, a_.head_dim);
      if (a_.logit_cap > 0) logit = log2_cap() * std::tanh(logit / log2_cap());
      s_.reference[index(r)] = logit;
      s_.reference_without_gate[index(r)] = logit;
      s_.norms[index(r)] = std::sqrt(dot(to, to, a_.head_dim)) * 1.0001F;
    }
    std::fill_n(s_.sums.get(), rows_ * kMaxLanes, 0.0F);
    std::fill_n(s_.sums_without_gate.get(), rows_ * kMaxLanes, 0.0F);
    std::fill_n(s_.output.get(), rows_ * packed_.value_dim, 0.0F);
    if (a_.sink != nullptr) begin_with_sink();
  }

  /// A row's sums begin with the sink's share, relative to the row's reference, which is no lower than the sink.
  void begin_with_sink() {
    const auto sink = static_cast<float>(static_cast<double>(a_.sink[head_ % a_.heads]) * kLog2E);
    for (std::int64_t r = 0; r < rows_; ++r) {
      float& reference = s_.reference[index(r)];
      reference = std::max(reference, sink);
      s_.reference_without_gate[index(r)] = reference;
      s_.sums.get()[r * kMaxLanes] = s_.sums_without_gate.get()[r * kMaxLanes] = std::exp2(sink - reference);
    }
  }

  /// Whether the keys of a block and all before it hold no more than the tolerance of any row: their weights are at
  /// most exp(|q| max|k| + c_r - c_last) times exp(c_last - c_j), whose sum over keys is known, and the row's
  /// normaliser is at least what has been summed so far.
  /// A row that has passed will pass from then on, so each row is looked at until it does, and never again.
  bool rest_negligible(std::int64_t block) {
    if (packed_.retained.empty()) return false;
    const std::int64_t last = (block + 1) * kKeyBlock - 1;
    const std::int64_t local_head = head_ - packed_.first_key_head * group_;
    const double retained = packed_.retained[index(local_head * packed_.blocks + block)];
    const auto norm = static_cast<double>(packed_.norms[index(local_key_head_ * packed_.blocks + block)]);
    const double bound = std::log2(retained) + kRetainedSlack - std::log2(a_.pruning_tolerance);
    for (; negligible_rows_ < rows_; ++negligible_rows_) {
      const std::int64_t r = negligible_rows_;
      const double gate = (gate_[first_row_ + r] - gate_[last]) * kLog2E;
      const double normalizer = log2_sum(s_.sums.get(), r) + static_cast<double>(s_.reference[index(r)]);
      // False for NaN, which has to reach the output.
      if (!(bound + static_cast<double>(s_.norms[index(r)]) * norm + gate <= normalizer)) return false;
    }
    return true;
  }

  void visit(std::int64_t block, bool without_gate_only) {
    const std::int64_t key = block * kKeyBlock;
    const bool diagonal = key + kKeyBlock - 1 > first_row_;
    const bool masked = diagonal || low(rows_ - 1, key) > 0;
    const bool steep = prepare_gate(key);
    for (std::int64_t row = 0; row < rows_;) {
      const std::int64_t count = masked ? std::min(kRowGroup, rows_ - row) : rows_;
      Part part{row, count, 0, kKeyBlock, masked};
      if (masked) {
        part.first = low(row, key) / 16 * 16;
        part.last = round_up(high(row + count - 1, key), 16);
      }
      if (part.first < part.last) visit_part(block, part, steep, without_gate_only);
      row += count;
    }
  }

  /// The gate between a row and a key is split at the middle of its fall over the key block: a bias per key, the same
  /// for every row, and a term per row. Both are differences in float64; true where the fall is too steep for that.
  bool prepare_gate(std::int64_t key) {
    if (gate_ == nullptr) return false;
    const std::int64_t count = std::min(kKeyBlock, a_.length - key);
    const double first = gate_[key];
    const double last = gate_[key + count - 1];
    if (!(first - last <= kSteepGate)) return true;
    const double middle = first + (last - first) / 2;
    float* bias = s_.gate_bias.get();
    for (std::int64_t j = 0; j < count; ++j) bias[j] = static_cast<float>((middle - gate_[key + j]) * kLog2E);
    std::fill(bias + count, bias + kKeyBlock, 0.0F);
    for (std::int64_t r = 0; r < rows_; ++r) {
      s_.row_terms[index(r)] = static_cast<float>((gate_[first_row_ + r] - middle) * kLog2E);
    }
    return false;
  }

  void visit_part(std::int64_t block, const Part& part, bool steep, bool without_gate_only) {
    const std::int64_t key = block * kKeyBlock;
    if (ungated_wanted_ || a_.logit_cap > 0) {
      multiply_keys<Start::zero>(block, part);
      if (a_.logit_cap > 0) cap(part);
      if (part.masked) mask(key, part);
      for (std::int64_t r = part.row; ungated_wanted_ && r < part.row + part.rows; ++r) {
        weigh<false>(part, r, 0.0F, s_.reference_without_gate[index(r)], s_.sums_without_gate.get());
      }
      if (without_gate_only) return;
      if (gate_ != nullptr) add_gate(key, part, steep);
    } else {
      if (gate_ == nullptr) {
        multiply_keys<Start::zero>(block, part);
      } else if (steep) {
        for (std::int64_t r = part.row; r < part.row + part.rows; ++r) {
          std::fill(logits(r) + part.first, logits(r) + part.last, 0.0F);
        }
        add_gate(key, part, steep);
        multiply_keys<Start::accumulate>(block, part);
      } else {
        multiply_keys<Start::bias>(block, part);
      }
      if (part.masked) mask(key, part);
    }
    const bool row_terms = gate_ != nullptr && !steep;
    for (std::int64_t r = part.row; r < part.row + part.rows; ++r) {
      weigh<true>(part, r, row_terms ? s_.row_terms[index(r)] : 0.0F, s_.reference[index(r)], s_.sums.get());
    }
    multiply_values(block, part);
  }

  template <Start kStart>
  void multiply_keys(std::int64_t block, const Part& part) {
    const float* keys =
        packed_.keys.get() + (local_key_head_ * packed_.blocks + block) * kKeyBlock * a_.head_dim + part.first;
    tile_product<kStart>(part.rows, part.last - part.first, a_.head_dim, s_.queries.get() + part.row * a_.head_dim,
                         a_.head_dim, keys, kKeyBlock, s_.gate_bias.get() + part.first, logits(part.row) + part.first,
                         kKeyBlock);
  }

  /// Adds the gate to a part's logits: the bias per key, or where it is steep every entry's own difference. Only where
  /// a row sees a key, since a gate that is not a number may follow.
  void add_gate(std::int64_t key, const Part& part, bool steep) {
    for (std::int64_t r = part.row; r < part.row + part.rows; ++r) {
      const std::int64_t first = std::max(part.first, low(r, key));
      const std::int64_t last = std::min(part.last, high(r, key));
      float* HWY_RESTRICT row = logits(r);
      if (steep) {
        const double own = gate_[first_row_ + r];
        for (std::int64_t j = first; j < last; ++j) row[j] += static_cast<float>((own - gate_[key + j]) * kLog2E);
      } else {
        const float* HWY_RESTRICT bias = s_.gate_bias.get();
        for (std::int64_t j = first; j < last; ++j) row[j] += bias[j];
      }
    }
  }

  float log2_cap() const { return static_cast<float>(static_cast<double>(a_.logit_cap) * kLog2E); }

  /// cap tanh(s / cap) of a part's logits s, with tanh(y) = 1 - 2 / (1 + exp(2 y)).
  void cap(const Part& part) {
    const FloatTag tag;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
    const Float most = hn::Set(tag, log2_cap());
    const Float twice = hn::Set(tag, static_cast<float>(2 / static_cast<double>(a_.logit_cap)));
    const Float one = hn::Set(tag, 1.0F);
    for (std::int64_t r = part.row; r < part.row + part.rows; ++r) {
      float* HWY_RESTRICT row = logits(r);
      for (std::int64_t j = part.first; j < part.last; j += lanes) {
        const Float power = exp2_vector(hn::Mul(hn::LoadU(tag, row + j), twice));
        const Float tanh = hn::Sub(one, hn::Div(hn::Set(tag, 2.0F), hn::Add(one, power)));
        hn::StoreU(hn::Mul(most, tanh), tag, row + j);
      }
    }
  }

  void mask(std::int64_t key, const Part& part) {
    for (std::int64_t r = part.row; r < part.row + part.rows; ++r) {
      float* row = logits(r);
      std::fill(row + part.first, row + std::max(part.first, low(r, key)), -kInfinity);
      std::fill(row + std::min(part.last, std::max(part.first, high(r, key))), row + part.last, -kInfinity);
    }
  }

  /// Adds 2^(logit + row_term - reference) to a row's sums, lane by lane, after raising the reference where a logit
  /// exceeds it by far; kStore: the weights replace the logits.
  template <bool kStore>
  HWY_INLINE void weigh(const Part& part, std::int64_t r, float row_term, float& reference, float* all_sums) {
    const FloatTag tag;
    const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
    float* HWY_RESTRICT row = logits(r);
    Float largest = hn::LoadU(tag, row + part.first);
    for (std::int64_t j = part.first + lanes; j < part.last; j += lanes) {
      largest = hn::Max(largest, hn::LoadU(tag, row + j));
    }
    float factor = 1.0F;
    if (HWY_UNLIKELY(!hn::AllFalse(tag, hn::Gt(largest, hn::Set(tag, reference - row_term + kHeadroom))))) {
      const float raised = hn::GetLane(hn::MaxOfLanes(tag, largest)) + row_term;
      factor = std::exp2(reference - raised);
      reference = raised;
    }
    const Float shift = hn::Set(tag, row_term - reference);
    Float sum = hn::Zero(tag);
    for (std::int64_t j = part.first; j < part.last; j += lanes) {
      const Float weight = exp2_vector(hn::Add(hn::LoadU(tag, row + j), shift));
      if constexpr (kStore) hn::StoreU(weight, tag, row + j);
      sum = hn::Add(sum, weight);
    }
    float* HWY_RESTRICT sums = all_sums + r * kMaxLanes;
    hn::StoreU(hn::MulAdd(hn::Set(tag, factor), hn::LoadU(tag, sums), sum), tag, sums);
    if constexpr (kStore) s_.factors[index(r)] = factor;
  }

  void multiply_values(std::int64_t block, const Part& part) {
    const std::int64_t key = block * kKeyBlock;
    const std::int64_t dim = packed_.value_dim;
    const float* values = packed_.values.get() + (local_key_head_ * packed_.blocks * kKeyBlock + key) * dim;
    float* output = s_.output.get() + part.row * dim;
    if (!part.masked || !irregular(block)) {
      tile_product_rescaled(part.rows, dim, part.last - part.first, logits(part.row) + part.first, kKeyBlock,
                            values + part.first * dim, dim, s_.factors.data() + part.row, output, dim);
      return;
    }
    // 0 times a value that is not finite is NaN: rows must not meet keys that they do not see.
    for (std::int64_t r = part.row; r < part.row + part.rows; ++r) {
      const std::int64_t first = low(r, key);
      const std::int64_t count = std::max<std::int64_t>(0, high(r, key) - first);
      tile_product_rescaled(1, dim, count, logits(r) + first, kKeyBlock, values + first * dim, dim,
                            s_.factors.data() + r, s_.output.get() + r * dim, dim);
    }
  }

  void store() {
    const std::int64_t offset = head_ * a_.length + first_row_;
    float* output = a_.output + head_ / a_.heads * a_.output_strides.batch + head_ % a_.heads * a_.output_strides.head;
    for (std::int64_t r = 0; r < rows_; ++r) {
      const double log_sum = log2_sum(s_.sums.get(), r);
      const auto inverse = static_cast<float>(std::exp2(-log_sum));
      const float* from = s_.output.get() + r * packed_.value_dim;
      float* to = output + (first_row_ + r) * a_.output_strides.row;
      for (std::int64_t x = 0; x < a_.head_dim; ++x) to[x] = from[x] * inverse;
      const double normalizer = (log_sum + static_cast<double>(s_.reference[index(r)])) / kLog2E;
      if (a_.log_normalizer != nullptr) a_.log_normalizer[offset + r] = static_cast<float>(normalizer);
      if (a_.log_normalizer_without_gate == nullptr) continue;
      a_.log_normalizer_without_gate[offset + r] = static_cast<float>(
          ungated_wanted_
              ? (log2_sum(s_.sums_without_gate.get(), r) + static_cast<double>(s_.reference_without_gate[index(r)])) /
                    kLog2E
              : normalizer);
    }
  }

  static double log2_sum(const float* sums, std::int64_t row) {
    double sum = 0;
    for (std::int64_t lane = 0; lane < kMaxLanes; ++lane) sum += static_cast<double>(sums[row * kMaxLanes + lane]);
    return std::log2(sum);
  }
  static std::size_t index(std::int64_t row) { return static_cast<std::size_t>(row); }
  bool irregular(std::int64_t block) const {
    return packed_.irregular[index(local_key_head_ * packed_.blocks + block)] != 0;
  }

  const ForgettingAttention& a_;
  const PackedKeys& packed_;
  Scratch& s_;
  std::int64_t head_;            // counted through the batch
  std::int64_t group_;           // query heads of one key head
  std::int64_t local_key_head_;  // among the packed ones
  std::int64_t first_row_;
  std::int64_t rows_;
  std::int64_t first_key_;  // that any row sees
  const double* gate_;      // [L]
  bool ungated_wanted_;
  std::int64_t negligible_rows_ = 0;
};

void attend_rows(const ForgettingAttention& arguments, const PackedKeys& packed, std::int64_t head,
                 std::int64_t first_row, Scratch& scratch) {
  RowBlock(arguments, packed, head, first_row, scratch).run();
}

}  // namespace
}  // namespace foxscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace foxscope::kernels {
HWY_EXPORT(attend_rows);
HWY_EXPORT(pack_block);
HWY_EXPORT(pack_keys);
HWY_EXPORT(pack_values);
HWY_EXPORT(retained_mass);

namespace cpu {

void pack_block(const ForgettingAttention& arguments, PackedKeys& packed, std::int64_t key_head, std::int64_t block) {
  HWY_DYNAMIC_DISPATCH(pack_block)(arguments, packed, key_head, block);
}

float pack_keys(const float* key, std::int64_t stride, std::int64_t count, std::int64_t dim, float* keys) {
  return HWY_DYNAMIC_DISPATCH(pack_keys)(key, stride, count, dim, keys);
}

bool pack_values(const float* value, std::int64_t stride, std::int64_t count, std::int64_t dim, std::int64_t packed_dim,
                 float* values) {
  return HWY_DYNAMIC_DISPATCH(pack_values)(value, stride, count, dim, packed_dim, values);
}

void retained_mass(const ForgettingAttention& arguments, std::int64_t head, double* retained) {
  HWY_DYNAMIC_DISPATCH(retained_mass)(arguments, head, retained);
}

void attend_rows(const ForgettingAttention& arguments, const PackedKeys& packed, std::int64_t head,
                 std::int64_t first_row, Scratch& scratch) {
  HWY_DYNAMIC_DISPATCH(attend_rows)(arguments, packed, head, first_row, scratch);
}

}  // namespace cpu
}  // namespace foxscope::kernels
#endif

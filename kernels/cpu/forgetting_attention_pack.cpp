#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "kernels/cpu/forgetting_attention_tiles.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/forgetting_attention_pack.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/tile_math-inl.h"
#include "kernels/log2e.h"

HWY_BEFORE_NAMESPACE();
namespace foxscope::kernels::HWY_NAMESPACE {
namespace {

using cpu::ForgettingAttention;
using cpu::kKeyBlock;
using cpu::PackedKeys;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

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

}  // namespace
}  // namespace foxscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace foxscope::kernels {
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

}  // namespace cpu
}  // namespace foxscope::kernels
#endif

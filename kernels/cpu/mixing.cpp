#include "kernels/cpu/mixing.h"

#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/mixing.cpp"
// The first of these includes the whole file again, for each instruction set.
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#include <hwy/contrib/math/math-inl.h>
// clang-format on

#include "kernels/cpu/tile_math-inl.h"
#include "kernels/log2e.h"

HWY_BEFORE_NAMESPACE();
namespace foxscope::kernels::HWY_NAMESPACE {
namespace {

using cpu::kMapTile;
using DoubleTag = hn::ScalableTag<double>;
using HalfTag = hn::Rebind<float, DoubleTag>;
using Half = hn::Vec<HalfTag>;

/// log2 of exp(min(0, later - earlier)), the difference in float64.
template <typename Wide>
HWY_INLINE Half log2_decay(Wide later, Wide earlier) {
  const DoubleTag tag;
  const auto zero = hn::Zero(tag);
  const auto exact = hn::Sub(later, earlier);
  const auto difference = hn::IfThenElse(hn::Gt(exact, zero), zero, exact);  // NaN passes
  return hn::DemoteTo(HalfTag(), hn::Mul(difference, hn::Set(tag, kLog2E)));
}

/// A part of a row of channels, padded with zeros to whole vectors; decays of a part are made together.
constexpr std::int64_t kPart = 64;

/// out[n] = exp(min(0, later[n] - earlier[n])), n < kPart.
HWY_INLINE void decays(const double* later, const double* earlier, std::int64_t count, float* out) {
  const DoubleTag wide;
  const auto halves = static_cast<std::int64_t>(hn::Lanes(wide));
  std::int64_t n = 0;
  for (; n + halves <= count; n += halves) {
    hn::StoreU(log2_decay(hn::LoadU(wide, later + n), hn::LoadU(wide, earlier + n)), HalfTag(), out + n);
  }
  for (; n < count; ++n) {
    const double difference = later[n] - earlier[n];
    out[n] = difference > 0 ? 0.0F : static_cast<float>(difference * kLog2E);
  }
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  for (n = 0; n < count; n += lanes) hn::StoreU(exp2_vector(hn::LoadU(tag, out + n)), tag, out + n);
}

void decay(const float* in, const double* later, const double* earlier, std::int64_t count, float* out) {
  HWY_ALIGN float factor[kPart + HWY_MAX_BYTES / sizeof(float)] = {};
  for (std::int64_t begin = 0; begin < count; begin += kPart) {
    const std::int64_t part = count - begin < kPart ? count - begin : kPart;
    decays(later + begin, earlier + begin, part, factor);
    for (std::int64_t n = 0; n < part; ++n) out[begin + n] = in == nullptr ? factor[n] : in[begin + n] * factor[n];
  }
}

void scale_channels(const float* in, const float* factor, std::int64_t rows, std::int64_t count, float* out) {
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t n = 0; n < count; ++n) out[row * count + n] = in[row * count + n] * factor[n];
  }
}

float decayed_product(const float* query, const float* key, const double* later, const double* earlier,
                      std::int64_t count) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  HWY_ALIGN float factor[kPart + HWY_MAX_BYTES / sizeof(float)] = {};
  Float sum = hn::Zero(tag);
  float rest = 0;
  for (std::int64_t begin = 0; begin < count; begin += kPart) {
    const std::int64_t part = count - begin < kPart ? count - begin : kPart;
    decays(later + begin, earlier + begin, part, factor);
    std::int64_t n = 0;
    for (; n + lanes <= part; n += lanes) {
      const Float product = hn::Mul(hn::LoadU(tag, query + begin + n), hn::LoadU(tag, key + begin + n));
      sum = hn::MulAdd(product, hn::Load(tag, factor + n), sum);
    }
    for (; n < part; ++n) rest += query[begin + n] * key[begin + n] * factor[n];
  }
  return hn::GetLane(hn::SumOfLanes(tag, sum)) + rest;
}

void decay_tile(const double* row, const double* key_sum, const float* factor, std::int64_t key_count, float* tile) {
  const FloatTag tag;
  const DoubleTag wide;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const auto halves = static_cast<std::int64_t>(hn::Lanes(wide));
  HWY_ALIGN float decays_of_key[kMapTile];
  for (std::int64_t key = 0; key < key_count; ++key) {
    const auto earlier = hn::Set(wide, key_sum[key]);
    for (std::int64_t lane = 0; lane < kMapTile; lane += halves) {
      hn::Store(log2_decay(hn::LoadU(wide, row + lane), earlier), HalfTag(), decays_of_key + lane);
    }
    const Float of_key = hn::Set(tag, factor[key]);
    float* const line = tile + key * kMapTile;
    for (std::int64_t lane = 0; lane < kMapTile; lane += lanes) {
      const Float decayed = hn::Mul(of_key, exp2_vector(hn::Load(tag, decays_of_key + lane)));
      hn::StoreU(hn::Mul(hn::LoadU(tag, line + lane), decayed), tag, line + lane);
    }
  }
}

void mixing_product(const float* packed, const float* keys, std::int64_t key_count, std::int64_t depth, float* tile) {
  constexpr int kLongPart = 64;
  constexpr int kShortPart = 16;
  std::int64_t k = 0;
  if (depth >= kLongPart) {
    tile_product_of_depth<Start::zero, kLongPart>(key_count, kMapTile, keys, depth, packed, kMapTile, tile, kMapTile);
    k = kLongPart;
  } else {
    tile_product_of_depth<Start::zero, kShortPart>(key_count, kMapTile, keys, depth, packed, kMapTile, tile, kMapTile);
    k = kShortPart;
  }
  for (; k + kLongPart <= depth; k += kLongPart) {
    tile_product_of_depth<Start::add, kLongPart>(key_count, kMapTile, keys + k, depth, packed + k * kMapTile, kMapTile,
                                                 tile, kMapTile);
  }
  for (; k < depth; k += kShortPart) {
    tile_product_of_depth<Start::add, kShortPart>(key_count, kMapTile, keys + k, depth, packed + k * kMapTile, kMapTile,
                                                  tile, kMapTile);
  }
}

void scale(float factor, std::int64_t count, float* values) {
  for (std::int64_t n = 0; n < count; ++n) values[n] *= factor;
}

void size_tile(const float* factor, std::int64_t key_count, float* tile) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  for (std::int64_t lane = 0; lane < kMapTile; lane += lanes) {
    const Float of_lane = hn::LoadU(tag, factor + lane);
    for (std::int64_t key = 0; key < key_count; ++key) {
      float* const entry = tile + key * kMapTile + lane;
      hn::StoreU(hn::Mul(hn::Abs(hn::LoadU(tag, entry)), of_lane), tag, entry);
    }
  }
}

void log_tile(std::int64_t key_count, float* tile) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const Float none = hn::Set(tag, -std::numeric_limits<float>::infinity());
  for (std::int64_t n = 0; n < key_count * kMapTile; n += lanes) {
    const Float value = hn::LoadU(tag, tile + n);
    // A value that cannot be told from 0 takes no part in an entropy; NaN is neither above nor equal and passes.
    const auto is_zero = hn::Lt(value, hn::Set(tag, std::numeric_limits<float>::min()));
    const Float logarithm = hn::Log2(tag, value);
    hn::StoreU(hn::IfThenElse(is_zero, none, hn::IfThenElse(hn::IsNaN(value), value, logarithm)), tag, tile + n);
  }
}

void add_row_sizes(const float* tile, std::int64_t key_count, double* sums) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  HWY_ALIGN float sum[kMapTile];
  for (std::int64_t lane = 0; lane < kMapTile; lane += lanes) {
    Float of_lane = hn::Zero(tag);
    for (std::int64_t key = 0; key < key_count; ++key) {
      of_lane = hn::Add(of_lane, hn::Abs(hn::LoadU(tag, tile + key * kMapTile + lane)));
    }
    hn::Store(of_lane, tag, sum + lane);
  }
  for (std::int64_t lane = 0; lane < kMapTile; ++lane) sums[lane] += static_cast<double>(sum[lane]);
}

float largest_size(const float* values, std::int64_t count) {
  float largest = 0;
  for (std::int64_t n = 0; n < count; ++n) {
    const float size = std::abs(values[n]);
    if (size > largest || std::isnan(size)) largest = size;
    if (std::isnan(largest)) return largest;
  }
  return largest;
}

void add_transposed_product(std::int64_t rows, std::int64_t columns, std::int64_t depth, const float* a, const float* b,
                            float* c) {
  tile_product_transposed(rows, columns, depth, a, rows, b, columns, c, columns);
}

}  // namespace
}  // namespace foxscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace foxscope::kernels {
HWY_EXPORT(decay);
HWY_EXPORT(scale_channels);
HWY_EXPORT(decayed_product);
HWY_EXPORT(decay_tile);
HWY_EXPORT(mixing_product);
HWY_EXPORT(scale);
HWY_EXPORT(size_tile);
HWY_EXPORT(log_tile);
HWY_EXPORT(add_row_sizes);
HWY_EXPORT(largest_size);
HWY_EXPORT(add_transposed_product);

namespace cpu {

void decay(const float* in, const double* later, const double* earlier, std::int64_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(decay)(in, later, earlier, count, out);
}

void scale_channels(const float* in, const float* factor, std::int64_t rows, std::int64_t count, float* out) {
  HWY_DYNAMIC_DISPATCH(scale_channels)(in, factor, rows, count, out);
}

float decayed_product(const float* query, const float* key, const double* later, const double* earlier,
                      std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(decayed_product)(query, key, later, earlier, count);
}

void decay_tile(const double* row, const double* key_sum, const float* factor, std::int64_t key_count, float* tile) {
  HWY_DYNAMIC_DISPATCH(decay_tile)(row, key_sum, factor, key_count, tile);
}

void mixing_product(const float* packed, const float* keys, std::int64_t key_count, std::int64_t depth, float* tile) {
  HWY_DYNAMIC_DISPATCH(mixing_product)(packed, keys, key_count, depth, tile);
}

void scale(float factor, std::int64_t count, float* values) { HWY_DYNAMIC_DISPATCH(scale)(factor, count, values); }

void size_tile(const float* factor, std::int64_t key_count, float* tile) {
  HWY_DYNAMIC_DISPATCH(size_tile)(factor, key_count, tile);
}

void log_tile(std::int64_t key_count, float* tile) { HWY_DYNAMIC_DISPATCH(log_tile)(key_count, tile); }

void add_row_sizes(const float* tile, std::int64_t key_count, double* sums) {
  HWY_DYNAMIC_DISPATCH(add_row_sizes)(tile, key_count, sums);
}

float largest_size(const float* values, std::int64_t count) {
  return HWY_DYNAMIC_DISPATCH(largest_size)(values, count);
}

void add_transposed_product(std::int64_t rows, std::int64_t columns, std::int64_t depth, const float* a, const float* b,
                            float* c) {
  HWY_DYNAMIC_DISPATCH(add_transposed_product)(rows, columns, depth, a, b, c);
}

}  // namespace cpu
}  // namespace foxscope::kernels
#endif

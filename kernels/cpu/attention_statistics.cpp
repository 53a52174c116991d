#include "kernels/cpu/attention_statistics.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention_statistics.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/tile_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace foxscope::kernels::HWY_NAMESPACE {
namespace {

using cpu::kMapTile;
using cpu::TileStatistics;

/// Keys of equal phase are this far apart, so that sums along diagonals of a tile are sums of whole vectors, whatever
/// their width.
constexpr std::int64_t kPhases = 16;
constexpr std::int64_t kBlocks = kMapTile / kPhases;
constexpr std::int64_t kDiagonals = kMapTile + (kBlocks - 1) * kPhases;

/// mass[lane - key + 63] += values[key][lane] * weight[lane] for keys from first_key on.
/// @returns the sum of squares of what was added
template <bool kWeighted>
HWY_INLINE float add_diagonals(const float* values, std::int64_t key_count, const float* weight, std::int64_t first_key,
                               float* mass) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  Float squares = hn::Zero(tag);
  for (std::int64_t phase = 0; phase < kPhases; ++phase) {
    HWY_ALIGN float sums[kDiagonals] = {};
    for (std::int64_t block = 0; block < kBlocks; ++block) {
      const std::int64_t key = block * kPhases + phase;
      if (key < first_key || key >= key_count) continue;
      float* const to = sums + (kBlocks - 1 - block) * kPhases;
      for (std::int64_t lane = 0; lane < kMapTile; lane += lanes) {
        Float value = hn::LoadU(tag, values + key * kMapTile + lane);
        if constexpr (kWeighted) {
          value = hn::Mul(value, hn::LoadU(tag, weight + lane));
          squares = hn::MulAdd(value, value, squares);
        }
        hn::Store(hn::Add(hn::Load(tag, to + lane), value), tag, to + lane);
      }
    }
    float* const to = mass + kPhases - 1 - phase;
    for (std::int64_t n = 0; n < kDiagonals; n += lanes) {
      hn::StoreU(hn::Add(hn::LoadU(tag, to + n), hn::Load(tag, sums + n)), tag, to + n);
    }
  }
  return hn::GetLane(hn::SumOfLanes(tag, squares));
}

void attention_statistics(float* tile, std::int64_t key_count, const float* weight, std::int64_t first_key,
                          TileStatistics& statistics) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  for (std::int64_t lane = 0; lane < kMapTile; lane += lanes) {
    Float entropy = hn::LoadU(tag, statistics.entropy + lane);
    for (std::int64_t key = 0; key < key_count; ++key) {
      float* const at = tile + key * kMapTile + lane;
      const Float logarithm = hn::LoadU(tag, at);
      const Float mass = exp2_vector(logarithm);
      // An absent entry would be 0 times -infinity.
      const Float finite = hn::IfThenZeroElse(hn::Eq(mass, hn::Zero(tag)), logarithm);
      entropy = hn::NegMulAdd(mass, finite, entropy);
      hn::StoreU(mass, tag, at);
    }
    hn::StoreU(entropy, tag, statistics.entropy + lane);
  }
  add_diagonals<false>(tile, key_count, weight, 0, statistics.mass);
  statistics.square_without_first +=
      add_diagonals<true>(tile, key_count, weight, first_key, statistics.mass_without_first);
}

float repeated_mass(const float* tile, std::int64_t key_count, const std::int32_t* before, const std::int32_t* token,
                    std::int64_t own) {
  const FloatTag tag;
  const hn::RebindToSigned<FloatTag> whole;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  Float sum = hn::Zero(tag);
  float itself = 0;
  for (std::int64_t lane = 0; lane < kMapTile; lane += lanes) {
    const auto reads = hn::LoadU(whole, token + lane);
    for (std::int64_t key = 0; key < key_count; ++key) {
      const auto like = hn::RebindMask(tag, hn::Eq(reads, hn::Set(whole, before[key])));
      sum = hn::Add(sum, hn::IfThenElseZero(like, hn::LoadU(tag, tile + key * kMapTile + lane)));
    }
  }
  for (std::int64_t key = std::max<std::int64_t>(0, -own); key < std::min(key_count, kMapTile - own); ++key) {
    if (token[own + key] == before[key]) itself += tile[key * kMapTile + own + key];
  }
  return hn::GetLane(hn::SumOfLanes(tag, sum)) - itself;
}

double decay_mass(const float* tile, std::int64_t key_count, const double* row, const double* key) {
  const hn::ScalableTag<double> tag;
  const hn::Rebind<float, hn::ScalableTag<double>> half;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  auto sum = hn::Zero(tag);
  for (std::int64_t lane = 0; lane < kMapTile; lane += lanes) {
    const auto c = hn::LoadU(tag, row + lane);
    for (std::int64_t n = 0; n < key_count; ++n) {
      const auto entry = hn::PromoteTo(tag, hn::LoadU(half, tile + n * kMapTile + lane));
      sum = hn::MulAdd(entry, hn::Sub(c, hn::Set(tag, key[n])), sum);
    }
  }
  return hn::GetLane(hn::SumOfLanes(tag, sum));
}

void add_row_sums(const float* tile, std::int64_t key_count, std::int64_t first_key, double* sums) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  HWY_ALIGN float part[kMapTile];
  for (std::int64_t lane = 0; lane < kMapTile; lane += lanes) {
    Float sum = hn::Zero(tag);
    for (std::int64_t key = first_key; key < key_count; ++key) {
      sum = hn::Add(sum, exp2_vector(hn::LoadU(tag, tile + key * kMapTile + lane)));
    }
    hn::Store(sum, tag, part + lane);
  }
  for (std::int64_t lane = 0; lane < kMapTile; ++lane) sums[lane] += static_cast<double>(part[lane]);
}

}  // namespace
}  // namespace foxscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace foxscope::kernels {
HWY_EXPORT(attention_statistics);
HWY_EXPORT(add_row_sums);
HWY_EXPORT(repeated_mass);
HWY_EXPORT(decay_mass);

namespace cpu {

void attention_statistics(float* tile, std::int64_t key_count, const float* weight, std::int64_t first_key,
                          TileStatistics& statistics) {
  HWY_DYNAMIC_DISPATCH(attention_statistics)(tile, key_count, weight, first_key, statistics);
}

float repeated_mass(const float* tile, std::int64_t key_count, const std::int32_t* before, const std::int32_t* token,
                    std::int64_t own) {
  return HWY_DYNAMIC_DISPATCH(repeated_mass)(tile, key_count, before, token, own);
}

double decay_mass(const float* tile, std::int64_t key_count, const double* row, const double* key) {
  return HWY_DYNAMIC_DISPATCH(decay_mass)(tile, key_count, row, key);
}

void add_row_sums(const float* tile, std::int64_t key_count, std::int64_t first_key, double* sums) {
  HWY_DYNAMIC_DISPATCH(add_row_sums)(tile, key_count, first_key, sums);
}

}  // namespace cpu
}  // namespace foxscope::kernels
#endif

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

namespace cpu {

void attention_statistics(float* tile, std::int64_t key_count, const float* weight, std::int64_t first_key,
                          TileStatistics& statistics) {
  HWY_DYNAMIC_DISPATCH(attention_statistics)(tile, key_count, weight, first_key, statistics);
}

void add_row_sums(const float* tile, std::int64_t key_count, std::int64_t first_key, double* sums) {
  HWY_DYNAMIC_DISPATCH(add_row_sums)(tile, key_count, first_key, sums);
}

}  // namespace cpu
}  // namespace foxscope::kernels
#endif

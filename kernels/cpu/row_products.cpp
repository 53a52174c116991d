#include "kernels/cpu/row_products.h"

#include <algorithm>
#include <cstdint>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/row_products.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "kernels/cpu/tile_math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace foxscope::kernels::HWY_NAMESPACE {
namespace {

using cpu::RowProducts;

/// Rows [row, row + kRows) times columns [column, column + kColumns): a sum in a vector for each of them.
template <int kRows, int kColumns>
HWY_INLINE void product_block(const RowProducts& p, std::size_t row, std::int64_t column) {
  const FloatTag tag;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(tag));
  const float* HWY_RESTRICT in[kRows];
  const float* HWY_RESTRICT weight[kColumns];
  Float sum[kRows][kColumns];
  for (int r = 0; r < kRows; ++r) in[r] = p.in[row + static_cast<std::size_t>(r)];
  for (int c = 0; c < kColumns; ++c) weight[c] = p.weight + (column + c) * p.depth;
  for (int r = 0; r < kRows; ++r) {
    for (int c = 0; c < kColumns; ++c) sum[r][c] = hn::Zero(tag);
  }
  std::int64_t k = 0;
  for (; k + lanes <= p.depth; k += lanes) {
    Float factors[kColumns];
    for (int c = 0; c < kColumns; ++c) factors[c] = hn::LoadU(tag, weight[c] + k);
    for (int r = 0; r < kRows; ++r) {
      const Float x = hn::LoadU(tag, in[r] + k);
      for (int c = 0; c < kColumns; ++c) sum[r][c] = hn::MulAdd(x, factors[c], sum[r][c]);
    }
  }
  for (int r = 0; r < kRows; ++r) {
    float* const out = p.out[row + static_cast<std::size_t>(r)] + column;
    for (int c = 0; c < kColumns; ++c) {
      float total = hn::GetLane(hn::SumOfLanes(tag, sum[r][c]));
      for (std::int64_t rest = k; rest < p.depth; ++rest) total += in[r][rest] * weight[c][rest];
      out[c] = p.add ? out[c] + total : total;
    }
  }
}

template <int kColumns>
HWY_INLINE void product_columns(const RowProducts& p, std::int64_t column) {
  std::size_t row = 0;
  for (; row + 4 <= p.in.size(); row += 4) product_block<4, kColumns>(p, row, column);
  for (; row < p.in.size(); ++row) product_block<1, kColumns>(p, row, column);
}

void row_products(const RowProducts& p) {
  std::int64_t column = 0;
  for (; column + 4 <= p.columns; column += 4) product_columns<4>(p, column);
  for (; column < p.columns; ++column) product_columns<1>(p, column);
}

}  // namespace
}  // namespace foxscope::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace foxscope::kernels {
HWY_EXPORT(row_products);

namespace cpu {

void row_products(const RowProducts& products) { HWY_DYNAMIC_DISPATCH(row_products)(products); }

}  // namespace cpu
}  // namespace foxscope::kernels
#endif

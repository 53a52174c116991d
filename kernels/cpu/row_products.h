#pragma once

#include <cstdint>
#include <span>

namespace foxscope::kernels::cpu {

/// out[r][c] = sum_k in[r][k] weight[c][k] for a few rows: a block of the weights is read once for all of them. Each
/// sum is taken in one order whatever rows and columns are computed beside it, so that it has the same digits alone. In
/// one thread: columns can be shared out.
struct RowProducts {
  std::span<const float* const> in;  ///< [rows] of [depth]
  const float* weight = nullptr;     ///< [columns, depth] contiguous
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  std::span<float* const> out;  ///< [rows] of [columns]
  bool add = false;             ///< to what is in out
};
void row_products(const RowProducts& products);

}  // namespace foxscope::kernels::cpu

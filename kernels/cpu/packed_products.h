#pragma once

#include <cstdint>

namespace foxscope::kernels::cpu {

/// Columns that lie together in a packed matrix, a panel. Only whole panels can be taken out of one.
inline constexpr std::int64_t kPanelColumns = 64;

/// Numbers of a packed matrix, filled up to whole vectors.
std::int64_t packed_size(std::int64_t columns, std::int64_t depth);

/// Where a panel begins in a packed matrix of this depth.
inline std::int64_t packed_place(std::int64_t panel, std::int64_t depth) { return panel * kPanelColumns * depth; }

/// Lays the columns of one panel out for packed_products.
/// @param weight  [columns, depth] contiguous, of all panels
/// @param packed  [packed_size(columns, depth)], beginning at a cache line
void pack_panel(const float* weight, std::int64_t columns, std::int64_t depth, std::int64_t panel, float* packed);

/// out = in W^T, or out += in W^T, in one thread: rows, and panels, can be shared out. Each sum is taken in one order
/// whatever rows are computed beside it, and added last to what is in out.
struct PackedProducts {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  const float* in = nullptr;  ///< [rows, depth], rows in_stride apart
  std::int64_t in_stride = 0;
  const float* packed = nullptr;  ///< W by pack_panel, or from one of its panels on
  float* out = nullptr;           ///< [rows, columns], rows out_stride apart
  std::int64_t out_stride = 0;
  bool add = false;
};
void packed_products(const PackedProducts& products);

}  // namespace foxscope::kernels::cpu

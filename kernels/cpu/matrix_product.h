#pragma once

#include <cstdint>

namespace foxscope::kernels::cpu {

/// Columns that lie together in packed weights, a panel. Only whole panels can be taken out of them.
inline constexpr std::int64_t kPanelColumns = 64;

/// Numbers of packed weights: the last panel is filled up to whole tiles.
std::int64_t packed_size(std::int64_t columns, std::int64_t depth);

/// Where a panel begins in packed weights of this depth.
inline std::int64_t packed_place(std::int64_t panel, std::int64_t depth) { return panel * kPanelColumns * depth; }

/// Turns one panel for matrix_product: panels of one matrix can be shared out.
/// @param weight  [columns, depth] contiguous, of all panels
/// @param packed  [packed_size(columns, depth)], beginning at a cache line
void pack_panel(const float* weight, std::int64_t columns, std::int64_t depth, std::int64_t panel, float* packed);

/// out = in W^T, or out += in W^T, in float32 on the calling thread; rows can be shared out. A sum is taken in one
/// order whatever rows and columns are computed beside it, packed or not, so that it has the same digits alone; over
/// 256 products at a time, which are added up.
struct MatrixProduct {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t depth = 0;
  const float* in = nullptr;  ///< [rows, depth], rows in_stride apart
  std::int64_t in_stride = 0;
  const float* weight = nullptr;  ///< [columns, depth] contiguous
  float* out = nullptr;           ///< [rows, columns], rows out_stride apart
  std::int64_t out_stride = 0;
  enum class Into { overwrite, add } into = Into::overwrite;
  const float* packed = nullptr;  ///< the weights by pack_panel, or from one of its panels on; null: panels are turned
                                  ///< as they are needed
};
void matrix_product(const MatrixProduct& product);

}  // namespace foxscope::kernels::cpu

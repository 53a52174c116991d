#pragma once

#include <cstdint>

namespace foxscope::kernels::cpu {

/// out = in W^T, or out += in W^T, in float32 on the calling thread; rows can be shared out. A sum is taken in one
/// order whatever rows and columns are computed beside it, so that it has the same digits alone; over 256 products at a
/// time, which are added up.
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
};
void matrix_product(const MatrixProduct& product);

}  // namespace foxscope::kernels::cpu

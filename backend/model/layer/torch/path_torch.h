#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace foxscope {

/// Blocks of keys that are passed on from position to position, as kernels/cpu/path_attention.h has them, of N heads by
/// LibTorch's operations in float32: with x = r B^T of rows r behind a block, their products are r at_end^T, and r + x
/// left is what is left of them before it.
struct PathBlocks {
  static constexpr std::int64_t kKeys = 64;

  /// @param key, erase_read, erase_write  [N, L, d]
  PathBlocks(const at::Tensor& key, const at::Tensor& erase_read, const at::Tensor& erase_write);
  /// Keys as they meet a query behind the last position, [N, L, d] float32.
  [[nodiscard]] at::Tensor keys_at_end() const;

  std::int64_t length;
  at::Tensor key, write, at_end, left;  ///< [N, blocks, 64, d], padded with zeros
  at::Tensor near;                      ///< [N, blocks, 64, 64]
};

/// Products of queries with the keys that come to them so. A tile of rows takes its keys from the diagonal to the left.
class PathProducts {
 public:
  /// @param query, key, erase_read, erase_write  [N, L, d]
  PathProducts(const at::Tensor& query, const at::Tensor& key, const at::Tensor& erase_read,
               const at::Tensor& erase_write);
  /// Takes rows up; begin is a multiple of 64.
  void begin(std::int64_t begin, std::int64_t end);
  /// Products of the rows with the keys [begin, end), [N, rows, end - begin] float32. The keys are the rows' own, or
  /// end where the last ones began; begin is a multiple of 64. Keys behind a row mean nothing.
  at::Tensor products(std::int64_t begin, std::int64_t end);

 private:
  PathBlocks blocks_;
  at::Tensor own_;    ///< [N, blocks, 64, 64] products of each block's own queries and keys
  at::Tensor start_;  ///< [N, blocks 64, d] what a block leaves of its own queries
  at::Tensor rows_;   ///< [N, rows, d] what is left of the rows at hand
  std::int64_t first_ = 0;
  std::int64_t count_ = 0;
};

}  // namespace foxscope

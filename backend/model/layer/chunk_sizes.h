#pragma once

#include <algorithm>
#include <cstdint>

#include "backend/base/job.h"

namespace foxscope {

/// Rows of the MLP that exist at once on a GPU.
inline constexpr std::int64_t kDeviceMlpRows = 16384;
/// The same where only the product of SwiGLU does, and not what it is made of.
inline constexpr std::int64_t kGatedMlpRows = 4 * kDeviceMlpRows;
/// Fewer rows on a GPU go by products that start sooner, rather than by those that read and write less: a pass over
/// 2,048 rows takes 18 % more time by the latter, one over 16,384 rows 6 % less.
inline constexpr std::int64_t kFewestThriftyRows = 16384;
/// Numbers of a block of logits: of kernels/cuda, of LibTorch's operations, and where gradients are made on the same
/// logits on a CPU and on a GPU.
inline constexpr std::int64_t kDeviceLogitElements = std::int64_t{1} << 27;
inline constexpr std::int64_t kTorchLogitElements = std::int64_t{1} << 26;
inline constexpr std::int64_t kCpuGradientElements = std::int64_t{1} << 22;
inline constexpr std::int64_t kGpuGradientElements = std::int64_t{1} << 25;

/// Rows of a block of logits.
/// @param elements    of the block, if one row has no more
/// @param vocabulary  of each row
/// @param rows        that there are
constexpr std::int64_t rows_of_block(std::int64_t elements, std::int64_t vocabulary, std::int64_t rows) {
  return std::clamp(elements / vocabulary, std::int64_t{1}, rows);
}

/// Calls body(begin, end) for one block of rows after the other, so that all logits are never there at a time.
/// @param most  rows of a block
/// @returns false if the job was stopped
template <typename Body>
bool for_blocks(std::int64_t rows, std::int64_t most, const Job& job, const Body& body) {
  for (std::int64_t begin = 0; begin < rows; begin += most) {
    if (job.stopped()) return false;
    body(begin, std::min(begin + most, rows));
  }
  return true;
}

}  // namespace foxscope

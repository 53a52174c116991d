// A tile of logits leaves its largest one, the sum of its exponentials and the label's logit; a second pass adds them
// up.
#include <cmath>
#include <cstdint>

#include "kernels/cuda/log_sum.cuh"
#include "kernels/cuda/steps/hopper_product.cuh"
#include "kernels/cuda/steps/loss_product.h"

namespace foxscope::kernels::cuda {
namespace {

constexpr int kThreads = 256;

int column_tiles(std::int64_t vocabulary) {
  return static_cast<int>((vocabulary + product::kColumns - 1) / product::kColumns);
}

struct LogSums {
  float2* sums_of_tiles;  ///< [tiles, n] the largest logit, and the sum of exponentials relative to it
  float* label_logits;    ///< [n]
  const std::int32_t* labels;
  int rows, vocabulary;

  template <class Sums>
  __device__ void store(const Sums& sums, int row, int column_tile, int lane) const {
    constexpr int kEights = product::kColumns / 8;
    const int first = column_tile * product::kColumns;
    // There are tiles behind the last one (HopperProduct::tiles_beside).
    if (first >= vocabulary) return;
    const int left = vocabulary - first - lane % 4 * 2;  // columns that exist, from the thread's first on
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const auto logit = [&](int j, int c) { return 8 * j + c < left ? sums(4 * j + 2 * r + c) : -INFINITY; };
      LogSum sum;
#pragma unroll
      for (int j = 0; j < kEights; ++j) sum.maximum = fmaxf(sum.maximum, fmaxf(logit(j, 0), logit(j, 1)));
#pragma unroll
      for (int step = 1; step < 4; step *= 2) {
        sum.maximum = fmaxf(sum.maximum, __shfl_xor_sync(0xffffffffU, sum.maximum, step));
      }
      const float reference = sum.reference();
      float parts[2] = {};
#pragma unroll
      for (int j = 0; j < kEights; ++j) {
        parts[0] += exp2_fast((logit(j, 0) - reference) * kLog2EFloat);
        parts[1] += exp2_fast((logit(j, 1) - reference) * kLog2EFloat);
      }
      sum.sum = parts[0] + parts[1];
#pragma unroll
      for (int step = 1; step < 4; step *= 2) sum.sum += __shfl_xor_sync(0xffffffffU, sum.sum, step);
      const int own_row = row + 8 * r;
      if (own_row >= rows) continue;
      if (lane % 4 == 0) sums_of_tiles[std::int64_t{column_tile} * rows + own_row] = {sum.maximum, sum.sum};
      const int label = labels[own_row] - first;
      if (label < 0 || label >= product::kColumns || label % 8 / 2 != lane % 4) continue;
#pragma unroll
      for (int j = 0; j < kEights; ++j) {
#pragma unroll
        for (int c = 0; c < 2; ++c) {
          if (label == 8 * j + lane % 4 * 2 + c) label_logits[own_row] = sums(4 * j + 2 * r + c);
        }
      }
    }
  }
};

using Product = product::HopperProduct<cute::Shape<int, int, int, int>, cute::Shape<cute::_128, cute::_256, cute::_64>,
                                       product::RowStride, LogSums>;

__global__ void __launch_bounds__(kThreads) add_log_sums(LogSums sums, int tiles, float* loss) {
  const int row = static_cast<int>(blockIdx.x * kThreads + threadIdx.x);
  if (row >= sums.rows) return;
  LogSum sum;
#pragma unroll 8
  for (int tile = 0; tile < tiles; ++tile) {
    const float2 of_tile = sums.sums_of_tiles[std::int64_t{tile} * sums.rows + row];
    sum.merge(of_tile.x, of_tile.y);
  }
  const std::int32_t label = sums.labels[row];
  const bool valid = label >= 0 && label < sums.vocabulary;
  loss[row] = valid ? sum.maximum - sums.label_logits[row] + logf(sum.sum) : NAN;
}

}  // namespace

std::size_t loss_product_bytes(const LossProduct& a) {
  if (a.rows < 1 || a.vocabulary < 1) return 0;
  return static_cast<std::size_t>(a.rows) *
         (static_cast<std::size_t>(column_tiles(a.vocabulary)) * sizeof(float2) + sizeof(float));
}

Status loss_product(const LossProduct& a, Stream stream) {
  if (!product::operands_valid(a.rows, a.width, a.in, a.in_stride, a.head) || a.vocabulary < 1 ||
      a.vocabulary > product::kMost || a.labels == nullptr || a.loss == nullptr || a.workspace == nullptr ||
      !aligned_16(a.workspace)) {
    return Status::invalid_argument;
  }
  const int tiles = column_tiles(a.vocabulary);
  const auto rows = static_cast<int>(a.rows);
  auto* const sums_of_tiles = static_cast<float2*>(a.workspace);
  const LogSums sums = {sums_of_tiles, reinterpret_cast<float*>(sums_of_tiles + std::int64_t{tiles} * rows), a.labels,
                        rows, static_cast<int>(a.vocabulary)};
  const Status status = Product::run({rows, sums.vocabulary, static_cast<int>(a.width), 1}, a.in, a.in_stride, a.head,
                                     {a.width, cute::_1{}, 0}, sums, stream);
  if (status != Status::ok) return status;
  add_log_sums<<<static_cast<unsigned>((rows + kThreads - 1) / kThreads), kThreads, 0, stream>>>(sums, tiles, a.loss);
  return launched();
}

}  // namespace foxscope::kernels::cuda

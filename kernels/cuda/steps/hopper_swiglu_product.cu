// The weight's rows are read as groups of eight gates and eight values in turn: [8, 2, I / 8] with strides D, I D, 8 D,
// which a tensor map does in passing. So a thread's sums hold two gates and the two values that belong to them.
#include <cstdint>

#include "kernels/cuda/steps/hopper_product.cuh"
#include "kernels/cuda/steps/swiglu_product.h"
#include "kernels/cuda/tensor_core.cuh"

namespace foxscope::kernels::cuda {
namespace {

/// Stores silu(gate) value of a tile, 16 bytes a lane.
struct GatedRows {
  Bfloat16* product;
  int rows, inner;

  template <class Sums>
  __device__ void store(const Sums& sums, int row, int column_tile, int lane) const {
    constexpr int kStored = product::kColumns / 2;  // of the tile's columns, half of which are gates
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int first = 0; first < kStored; first += 32) {
        std::uint32_t pairs[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int gate = (first / 8 + i) * 8 + 2 * r;
          const auto weighed = [&](int n) { return sums(gate + n) * sigmoid(sums(gate + n)) * sums(gate + 4 + n); };
          pairs[i] = narrow(weighed(0), weighed(1));
        }
        transpose_quad(pairs);
        const int column = column_tile * kStored + first + lane % 4 * 8;
        if (row + 8 * r >= rows || column >= inner) continue;
        *reinterpret_cast<uint4*>(product + std::int64_t{row + 8 * r} * inner + column) = {pairs[0], pairs[1], pairs[2],
                                                                                           pairs[3]};
      }
    }
  }
};

using PairedStride = cute::Stride<cute::Stride<std::int64_t, std::int64_t, std::int64_t>, cute::_1, std::int64_t>;
using Product = product::HopperProduct<cute::Shape<int, cute::Shape<cute::_8, cute::_2, int>, int, int>,
                                       cute::Shape<cute::_128, cute::Shape<cute::_8, cute::_2, cute::_16>, cute::_64>,
                                       PairedStride, GatedRows>;

}  // namespace

Status swiglu_product(const SwiGluProduct& a, Stream stream) {
  if (!product::operands_valid(a.rows, a.width, a.in, a.in_stride, a.weight) || a.inner < 8 || a.inner % 8 != 0 ||
      a.inner > product::kMost / 2 || a.product == nullptr || !aligned_16(a.product)) {
    return Status::invalid_argument;
  }
  const auto rows = static_cast<int>(a.rows);
  const auto inner = static_cast<int>(a.inner);
  return Product::run({rows, {cute::_8{}, cute::_2{}, inner / 8}, static_cast<int>(a.width), 1}, a.in, a.in_stride,
                      a.weight, {{a.width, a.inner * a.width, 8 * a.width}, cute::_1{}, 0},
                      {static_cast<Bfloat16*>(a.product), rows, inner}, stream);
}

}  // namespace foxscope::kernels::cuda

// CUTLASS's matrix product for Hopper (TMA, wgmma, two warpgroups on 128 rows, 256 columns) with an epilogue of our
// own. Private to kernels/cuda.
#pragma once

#include <cutlass/cutlass.h>
#include <cutlass/epilogue/thread/linear_combination.h>
#include <cutlass/gemm/device/gemm_universal_adapter.h>

#include <cstdint>
#include <cute/tensor.hpp>
#include <cutlass/epilogue/collective/default_epilogue.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>

#include "kernels/cuda/device.h"
#include "kernels/cuda/errors.cuh"
#include "kernels/cuda/row_access.cuh"

namespace foxscope::kernels::cuda::product {

using Element = cutlass::bfloat16_t;
using RowStride = cute::Stride<std::int64_t, cute::_1, std::int64_t>;

constexpr int kRows = 128;
constexpr int kColumns = 256;

/// Most of a size.
constexpr std::int64_t kMost = std::int64_t{1} << 30;

/// What CUTLASS wants to know of an epilogue besides what it computes. One of ours has `Outputs`, where it leaves its
/// results, and store().
template <class OutputsOf>
struct Epilogue
    : cutlass::epilogue::collective::DefaultEpilogue<
          Element, RowStride, RowStride, cutlass::epilogue::thread::LinearCombination<Element, 1, float, float>,
          cutlass::gemm::EpilogueDefault> {
  using Base = cutlass::epilogue::collective::DefaultEpilogue<
      Element, RowStride, RowStride, cutlass::epilogue::thread::LinearCombination<Element, 1, float, float>,
      cutlass::gemm::EpilogueDefault>;
  using Arguments = OutputsOf;
  using Params = OutputsOf;
  using SharedStorage = typename Base::SharedStorage;

  template <class Problem>
  static constexpr Params to_underlying_arguments(const Problem& /*problem*/, const Arguments& outputs,
                                                  void* /*workspace*/) {
    return outputs;
  }
  template <class Problem>
  static std::size_t get_workspace_size(const Problem& /*problem*/, const Arguments& /*outputs*/) {
    return 0;
  }
  template <class Problem>
  static cutlass::Status initialize_workspace(const Problem& /*problem*/, const Arguments& /*outputs*/,
                                              void* /*workspace*/, cudaStream_t /*stream*/,
                                              cutlass::CudaHostAdapter* /*adapter*/ = nullptr) {
    return cutlass::Status::kSuccess;
  }
  template <class Problem>
  static bool can_implement(const Problem& /*problem*/, const Arguments& /*outputs*/) {
    return true;
  }

  CUTLASS_HOST_DEVICE explicit Epilogue(const Params& p, const SharedStorage& /*storage*/ = SharedStorage())
      : Base(typename Base::Params{}), outputs(p) {}

  /// A thread's sums are of rows row and row + 8: sums(4 j + 2 r + c) of row + 8 r and column 8 j + 2 (lane % 4) + c.
  template <class Problem, class TileShape, class At, class Sums, class Product, class Rest>
  CUTLASS_DEVICE void operator()(const Problem& problem, const TileShape& tile, const At& at, const Sums& sums,
                                 const Product& /*product*/, const Rest& /*rest*/, int thread, char* /*shared*/) {
    static_assert(cute::size<0>(TileShape{}) == kRows && cute::size<1>(TileShape{}) == kColumns);
    static_assert(cute::size(Sums{}) == kColumns / 2, "a warpgroup has 64 rows");
    const int row = static_cast<int>(cute::get<0>(at)) * kRows + thread / 32 * 16 + thread % 32 / 4;
    const auto column_tile = static_cast<int>(
        cute::crd2idx(cute::get<1>(at), cute::ceil_div(cute::shape<1>(problem), cute::shape<1>(tile))));
    outputs.store(sums, row, column_tile, thread % 32);
  }

  Params outputs;
};

/// @tparam Problem       (rows, columns, depth, 1)
/// @tparam Tile          of rows, columns, depth
/// @tparam WeightStride  of columns, depth, 1
template <class Problem, class Tile, class WeightStride, class Outputs>
struct HopperProduct {
  using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, RowStride, 8, Element, WeightStride, 8, float, Tile,
      cute::Shape<cute::_2, cute::_1, cute::_1>, cutlass::gemm::collective::StageCountAutoCarveout<1024>,
      cutlass::gemm::KernelTmaWarpSpecializedCooperative>::CollectiveOp;
  using Gemm = cutlass::gemm::device::GemmUniversalAdapter<cutlass::gemm::kernel::GemmUniversal<
      Problem, Mainloop, cutlass::epilogue::collective::detail::Sm90TmaWarpSpecializedAdapter<Epilogue<Outputs>>,
      cutlass::gemm::PersistentScheduler>>;

  /// How many tiles of rows go side by side through the columns, so that the weight is read from the L2 cache: up to
  /// eight, since CUTLASS fills both numbers of tiles up to multiples.
  static int tiles_beside(const Problem& problem) {
    const auto filled = [](std::int64_t tiles, std::int64_t to) { return (tiles + to - 1) / to * to; };
    const std::int64_t rows = filled(cute::size<0>(problem), kRows) / kRows;
    const std::int64_t columns = filled(cute::size<1>(problem), kColumns) / kColumns;
    int beside = 8;
    while (beside > 1 && 32 * filled(rows, 2 * beside) * filled(columns, beside) > 33 * filled(rows, 2) * columns) {
      beside /= 2;
    }
    return beside;
  }

  /// @returns unavailable without a device of compute capability 9.0
  static Status run(const Problem& problem, const void* in, std::int64_t in_stride, const void* weight,
                    const WeightStride& weight_stride, const Outputs& outputs, cudaStream_t stream) {
    int device = 0;
    int major = 0;
    int minor = 0;
    int multiprocessors = 0;
    const auto get = [&](int& value, cudaDeviceAttr attribute) {
      return succeeded(cudaDeviceGetAttribute(&value, attribute, device));
    };
    if (!is_available() || !succeeded(cudaGetDevice(&device)) || !get(major, cudaDevAttrComputeCapabilityMajor) ||
        !get(minor, cudaDevAttrComputeCapabilityMinor) || !get(multiprocessors, cudaDevAttrMultiProcessorCount) ||
        major != 9 || minor != 0) {
      return Status::unavailable;
    }
    typename Gemm::Arguments arguments{cutlass::gemm::GemmUniversalMode::kGemm,
                                       problem,
                                       {static_cast<const Element*>(in),
                                        {in_stride, cute::_1{}, 0},
                                        static_cast<const Element*>(weight),
                                        weight_stride},
                                       outputs};
    arguments.hw_info.sm_count = multiprocessors;
    arguments.scheduler.max_swizzle_size = tiles_beside(problem);
    Gemm gemm;
    if (gemm.can_implement(arguments) != cutlass::Status::kSuccess) return Status::invalid_argument;
    const bool done = gemm.initialize(arguments, nullptr, stream) == cutlass::Status::kSuccess &&
                      gemm.run(stream) == cutlass::Status::kSuccess;
    const Status status = launched();
    return done ? status : Status::failed;
  }
};

/// Whether rows and weights can be read 16 bytes at a time.
inline bool operands_valid(std::int64_t rows, std::int64_t width, const void* in, std::int64_t in_stride,
                           const void* weight) {
  return rows >= 1 && rows <= kMost && width >= 8 && width <= kMost && width % 8 == 0 && in_stride % 8 == 0 &&
         in_stride >= width && in != nullptr && weight != nullptr && aligned_16(in) && aligned_16(weight);
}

}  // namespace foxscope::kernels::cuda::product

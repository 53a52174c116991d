// CUTLASS's product for Hopper (TMA, wgmma, two warpgroups on 128 rows) with an epilogue of our own.
//
// The weight's rows are read as groups of eight gates and eight values in turn: [8, 2, I / 8] with strides D, I D, 8 D,
// which a tensor map does in passing. So a thread's accumulators hold two gates and the two values that belong to them.
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
#include "kernels/cuda/steps/swiglu_product.h"
#include "kernels/cuda/tensor_core.cuh"

namespace foxscope::kernels::cuda {
namespace {

using Element = cutlass::bfloat16_t;
using RowStride = cute::Stride<std::int64_t, cute::_1, std::int64_t>;
using PairedStride = cute::Stride<cute::Stride<std::int64_t, std::int64_t, std::int64_t>, cute::_1, std::int64_t>;
using PairedTile = cute::Shape<cute::_128, cute::Shape<cute::_8, cute::_2, cute::_16>, cute::_64>;
using PairedProblem = cute::Shape<int, cute::Shape<cute::_8, cute::_2, int>, int, int>;
using Unused = cutlass::epilogue::thread::LinearCombination<Element, 1, float, float>;
using Epilogue = cutlass::epilogue::collective::DefaultEpilogue<Element, RowStride, RowStride, Unused,
                                                                cutlass::gemm::EpilogueDefault>;

/// Stores silu(gate) value of a tile, 16 bytes a lane.
struct SwiGluEpilogue : Epilogue {
  Params parameters;

  CUTLASS_HOST_DEVICE explicit SwiGluEpilogue(const Params& p, const SharedStorage& storage = SharedStorage())
      : Epilogue(p, storage), parameters(p) {}

  template <class Problem, class TileShape, class At, class Sums, class Product, class Rest>
  CUTLASS_DEVICE void operator()(const Problem& problem, const TileShape& tile, const At& at, const Sums& sums,
                                 const Product& /*product*/, const Rest& /*rest*/, int thread, char* /*shared*/) {
    constexpr int kTileRows = cute::size<0>(TileShape{});
    constexpr int kTileColumns = cute::size<1>(TileShape{}) / 2;  // of what is stored
    static_assert(cute::size(Sums{}) == kTileColumns, "a warpgroup has 64 rows");
    const int lane = thread % 32;
    const int row = static_cast<int>(cute::get<0>(at)) * kTileRows + thread / 32 * 16 + lane / 4;
    const int tile_column = static_cast<int>(
        cute::crd2idx(cute::get<1>(at), cute::ceil_div(cute::shape<1>(problem), cute::shape<1>(tile))));
    const int rows = cute::get<0>(problem);
    const int columns = static_cast<int>(cute::size<1>(problem)) / 2;
    const std::int64_t stride = cute::get<0>(parameters.dD);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
      for (int first = 0; first < kTileColumns; first += 32) {
        std::uint32_t pairs[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int gate = (first / 8 + i) * 8 + 2 * r;
          const auto weighed = [&](int n) { return sums(gate + n) * sigmoid(sums(gate + n)) * sums(gate + 4 + n); };
          pairs[i] = narrow(weighed(0), weighed(1));
        }
        transpose_quad(pairs);
        const int column = tile_column * kTileColumns + first + lane % 4 * 8;
        if (row + 8 * r >= rows || column >= columns) continue;
        *reinterpret_cast<uint4*>(parameters.ptr_D + (row + 8 * r) * stride + column) = {pairs[0], pairs[1], pairs[2],
                                                                                         pairs[3]};
      }
    }
  }
};

using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, RowStride, 8, Element, PairedStride, 8, float,
    PairedTile, cute::Shape<cute::_2, cute::_1, cute::_1>, cutlass::gemm::collective::StageCountAutoCarveout<1024>,
    cutlass::gemm::KernelTmaWarpSpecializedCooperative>::CollectiveOp;
using Gemm = cutlass::gemm::device::GemmUniversalAdapter<cutlass::gemm::kernel::GemmUniversal<
    PairedProblem, Mainloop, cutlass::epilogue::collective::detail::Sm90TmaWarpSpecializedAdapter<SwiGluEpilogue>,
    cutlass::gemm::PersistentScheduler>>;

constexpr std::int64_t kMost = std::int64_t{1} << 30;

bool is_hopper(int& multiprocessors) {
  int device = 0;
  int major = 0;
  int minor = 0;
  return is_available() && succeeded(cudaGetDevice(&device)) &&
         succeeded(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device)) &&
         succeeded(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device)) &&
         succeeded(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device)) && major == 9 &&
         minor == 0;
}

}  // namespace

Status swiglu_product(const SwiGluProduct& a, Stream stream) {
  if (a.rows < 1 || a.width < 1 || a.inner < 1 || a.rows > kMost || a.width > kMost || a.inner > kMost / 2) {
    return Status::invalid_argument;
  }
  if (a.width % 8 != 0 || a.inner % 8 != 0 || a.in_stride % 8 != 0 || a.in_stride < a.width) {
    return Status::invalid_argument;
  }
  for (const void* data : {a.in, a.weight, static_cast<const void*>(a.product)}) {
    if (data == nullptr || !aligned_16(data)) return Status::invalid_argument;
  }
  int multiprocessors = 0;
  if (!is_hopper(multiprocessors)) return Status::unavailable;
  const RowStride product_stride = {a.inner, cute::_1{}, 0};
  const PairedStride weight_stride = {{a.width, a.inner * a.width, 8 * a.width}, cute::_1{}, 0};
  typename Gemm::Arguments arguments{
      cutlass::gemm::GemmUniversalMode::kGemm,
      {static_cast<int>(a.rows), {cute::_8{}, cute::_2{}, static_cast<int>(a.inner / 8)}, static_cast<int>(a.width), 1},
      {static_cast<const Element*>(a.in),
       {a.in_stride, cute::_1{}, 0},
       static_cast<const Element*>(a.weight),
       weight_stride},
      {{}, nullptr, product_stride, static_cast<Element*>(a.product), product_stride}};
  arguments.hw_info.sm_count = multiprocessors;
  Gemm gemm;
  if (gemm.can_implement(arguments) != cutlass::Status::kSuccess) return Status::invalid_argument;
  const bool done = gemm.initialize(arguments, nullptr, stream) == cutlass::Status::kSuccess &&
                    gemm.run(stream) == cutlass::Status::kSuccess;
  const Status status = launched();
  return done ? status : Status::failed;
}

}  // namespace foxscope::kernels::cuda

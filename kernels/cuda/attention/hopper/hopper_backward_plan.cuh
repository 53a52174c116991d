// Tiles, shared memory and products of the backward of forgetting attention on Hopper. Private to kernels/cuda.
#pragma once

#include <cstddef>
#include <cute/arch/mma_sm90_gmma.hpp>
#include <cute/arch/mma_sm90_gmma_ext.hpp>
#include <utility>

#include "kernels/cuda/attention/backward_parameters.cuh"
#include "kernels/cuda/attention/hopper/hopper_plan.cuh"

namespace foxscope::kernels::cuda::hopper {

namespace products = SM90::GMMA;
using products::Major;
using products::ScaleOut;

/// How a head dimension is computed: 128 keys of a thread block, 64 of each of two warpgroups.
/// Rows  of a block of rows
template <int HeadDim, int Rows>
struct BackwardPlan {
  static constexpr int kHeadDim = HeadDim;
  static constexpr int kRows = Rows;
  static constexpr int kKeys = 128;
  static constexpr TileShape kTile = {Rows, kKeys};
  static constexpr int kHalves = HeadDim / 64;  // of a row, 128 bytes each
  static constexpr int kParts = Rows / 64;
  static constexpr int kSlots = 2;
  static constexpr int kWarpgroups = 2;
  static constexpr int kThreads = 128 * (kWarpgroups + 1);
  static constexpr int kLoaderRegisters = 24;
  static constexpr int kConsumerRegisters = 240;
  static_assert(HeadDim * Rows == 64 * 128, "dQ of a warpgroup is 64 x 64");

  // Rows of a tile: 64 columns after the other, each swizzled in pieces of eight rows.
  template <int N>
  using TileLayout =
      decltype(tile_to_shape(GMMA::Layout_K_SW128_Atom<Element>{}, Shape<Int<N>, Int<HeadDim>>{}, Step<_1, _2>{}));
  template <int N>
  static auto copy_rows(const TensorView& x, int length, int heads, int batch) {
    const auto tensor =
        make_tensor(make_gmem_ptr(static_cast<const Element*>(x.data)),
                    make_shape(length, Int<HeadDim>{}, heads, batch), make_stride(x.row, _1{}, x.head, x.batch));
    return make_tma_copy(SM90_TMA_LOAD{}, tensor, TileLayout<N>{}, Shape<Int<N>, Int<HeadDim>>{}, _1{});
  }
  using CopyRows = decltype(copy_rows<Rows>(TensorView{}, 1, 1, 1));
  using CopyKeys = decltype(copy_rows<kKeys>(TensorView{}, 1, 1, 1));
  struct Copies {
    CopyRows query, output_gradient;
    CopyKeys key, value;
  };
  static constexpr int kRowsBytes = Rows * HeadDim * 2;
  static constexpr int kKeysBytes = kKeys * HeadDim * 2;
  static constexpr int kStatisticsBytes = kParts * static_cast<int>(sizeof(RowStatistics));

  static constexpr int kOnes = 1024;                                  // 2 KiB: 16 rows of 64 columns
  static constexpr int kSums = Rows / kSumRows * sum_piece(HeadDim);  // dQ of a block of rows, and its sums of dS

  struct Storage {
    alignas(1024) Element key[kKeys * HeadDim];
    alignas(1024) Element value[kKeys * HeadDim];
    alignas(1024) Element query[kSlots][Rows * HeadDim];
    alignas(1024) Element output_gradient[kSlots][Rows * HeadDim];
    alignas(1024) Element logit_gradient[kSlots][Rows * kKeys];  // dS: 64 rows after the other, of each the keys
    alignas(1024) Element ones[kOnes];
    alignas(128) float sums[kSums];
    RowStatistics rows[kSlots][kParts];
    double gates[kKeys];       // of the keys, nats
    float column_sums[kKeys];  // of dS, of the heads before
    FullBarrier keys_full;
    FullBarrier query_full[kSlots];
    FullBarrier gradient_full[kSlots];
    EmptyBarrier empty[kSlots];
    EmptyBarrier logit_gradient_full[kSlots];
    EmptyBarrier sums_full[kSlots];
    EmptyBarrier sums_empty;
    int item;
  };
};

/// Where an operand of a product lies, as wgmma wants it (PTX, matrix descriptor): 128-byte swizzle, 1024 bytes from
/// eight rows to the next.
/// @param address  of shared memory; with its swizzle, of 128 bytes of a row
/// @param leading  bytes from 64 columns to the next where columns run across the sum, else not looked at
__device__ __forceinline__ std::uint64_t operand(std::uint32_t address, std::uint32_t leading) {
  constexpr std::uint64_t kUpper = std::uint64_t{0x40000000U | 1024U >> 4} << 32;
  return kUpper | ((address >> 4) + (leading >> 4 << 16));
}

template <class Product, int N, std::size_t... I>
__device__ __forceinline__ void multiply_shared(std::uint64_t a, std::uint64_t b, float (&sum)[N], ScaleOut scale,
                                                std::index_sequence<I...> /*all*/) {
  Product::fma(a, b, sum[I]..., scale);
}
/// sum = a b (Zero) or sum += a b (One), both from shared memory.
template <class Product, int N>
__device__ __forceinline__ void multiply_shared(std::uint64_t a, std::uint64_t b, float (&sum)[N], ScaleOut scale) {
  multiply_shared<Product>(a, b, sum, scale, std::make_index_sequence<N>{});
}

template <class Product, int N, std::size_t... I>
__device__ __forceinline__ void multiply_registers(const std::uint32_t (&a)[4], std::uint64_t b, float (&sum)[N],
                                                   std::index_sequence<I...> /*all*/) {
  Product::fma(a[0], a[1], a[2], a[3], b, sum[I]..., ScaleOut::One);
}
/// sum += a b, a from registers.
template <class Product, int N>
__device__ __forceinline__ void multiply_registers(const std::uint32_t (&a)[4], std::uint64_t b, float (&sum)[N]) {
  multiply_registers<Product>(a, b, sum, std::make_index_sequence<N>{});
}

template <int N>
__device__ __forceinline__ void hold(float (&x)[N]) {
#pragma unroll
  for (float& a : x) warpgroup_fence_operand(a);
}

}  // namespace foxscope::kernels::cuda::hopper

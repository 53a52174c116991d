// Tiles of rows in shared memory as cp.async writes and ldmatrix reads them. Private to kernels/cuda.
#pragma once

#include <cstdint>

#include "kernels/cuda/attention/attention_parameters.cuh"
#include "kernels/cuda/tensor_core.cuh"

namespace foxscope::kernels::cuda::portable {

/// Two numbers as bfloat16, the first in the lower half.
__device__ __forceinline__ std::uint32_t pack(float low, float high) {
  std::uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

/// Adds four numbers that lie together.
__device__ __forceinline__ void add_to_memory(float* to, const float (&x)[4]) {
#if __CUDA_ARCH__ >= 900
  asm volatile("red.relaxed.gpu.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to), "f"(x[0]), "f"(x[1]), "f"(x[2]),
               "f"(x[3])
               : "memory");
#else
#pragma unroll
  for (int i = 0; i < 4; ++i) atomicAdd(to + i, x[i]);
#endif
}

/// c += the sum of a's rows, where it is wanted. Predicated, as a branch would keep loads from being started early.
__device__ __forceinline__ void multiply_ones(float (&c)[4], const std::uint32_t (&a)[4], bool wanted) {
  asm volatile(
      "{\n.reg .pred wanted;\nsetp.ne.s32 wanted, %9, 0;\n"
      "@wanted mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %8}, "
      "{%0, %1, %2, %3};\n}"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(0x3f803f80U), "r"(static_cast<int>(wanted)));
}

/// Whether a multiprocessor has room for all thread blocks of a plan.
template <class P>
constexpr bool has_room(int shared_bytes) {
  constexpr int kReserved = 1024;  // that each block takes besides
  return P::kBlocks * (P::kBytes + kReserved) <= shared_bytes;
}

/// Rows of `Columns` bfloat16 without gaps. Their pieces of 16 bytes are swizzled so that the same piece of eight rows
/// lies in different banks.
template <int Columns>
struct SwizzledRows {
  static constexpr int kPieces = Columns / 8;
  static constexpr int kRowBytes = 2 * Columns;
  static_assert(kPieces % 4 == 0 || kPieces == 2);

  /// Bytes from the first row.
  __device__ static constexpr std::uint32_t offset(int row, int piece) {
    const int flip = kPieces % 8 == 0 ? row % 8 : kPieces % 4 == 0 ? row / 2 % 4 : row / 4 % 2;
    return static_cast<std::uint32_t>(row * kRowBytes + (piece ^ flip) * 16);
  }

  /// Starts copying rows [first, first + Rows); zeros from `length` on.
  /// @param to       in shared memory
  /// @param of_head  elements from the tensor's begin to the head's first row
  template <int Rows, int Threads>
  __device__ static void load(std::uint32_t to, const TensorView& from, std::int64_t of_head, int first, int length,
                              bool aligned) {
    const auto* source = static_cast<const std::uint16_t*>(from.data) + of_head + first * from.row;
    const auto each = [&](const auto& copy) {
      constexpr int kAll = Rows * kPieces;
#pragma unroll
      for (int start = 0; start < kAll; start += Threads) {
        const int i = start + static_cast<int>(threadIdx.x);
        if (kAll % Threads != 0 && i >= kAll) break;
        const int row = i / kPieces;
        copy(to + offset(row, i % kPieces), source + row * from.row + i % kPieces * 8, first + row < length);
      }
    };
    if (aligned) {
      each([](std::uint32_t place, const std::uint16_t* at, bool inside) {  // nothing is read of 0 bytes
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(at), "r"(inside ? 16 : 0)
                     : "memory");
      });
    } else {
      each([](std::uint32_t place, const std::uint16_t* at, bool inside) {
        std::uint32_t pairs[4];
#pragma unroll
        for (int x = 0; x < 4; ++x) pairs[x] = inside ? at[2 * x] | static_cast<std::uint32_t>(at[2 * x + 1]) << 16 : 0;
        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(place), "r"(pairs[0]), "r"(pairs[1]),
                     "r"(pairs[2]), "r"(pairs[3])
                     : "memory");
      });
    }
  }
};

/// Where a lane reads its row of four 8x8 matrices, for every 16 columns of a tile.
template <int Columns>
struct FragmentAddress {
  using Rows = SwizzledRows<Columns>;
  static constexpr int kSteps = Rows::kPieces % 8 == 0 ? 4 : Rows::kPieces % 4 == 0 ? 2 : 1;  // that swizzling mixes
  std::uint32_t at[kSteps];

  /// @param row, piece  of the lane in the first 16 columns
  __device__ FragmentAddress(int row, int piece) {
#pragma unroll
    for (int step = 0; step < kSteps; ++step) at[step] = Rows::offset(row, 2 * step + piece);
  }
  /// @param tile  in shared memory
  /// @param row   a multiple of 16
  /// @param step  of 16 columns
  __device__ std::uint32_t operator()(std::uint32_t tile, int row, int step) const {
    return tile + at[step % kSteps] + static_cast<std::uint32_t>(row * Rows::kRowBytes + step / kSteps * kSteps * 32);
  }
};

/// Stores a row of a product.
/// @param products  eight columns after the other; a quad of lanes has two rows of them
/// @param r         which of the two
/// @param factor    that all are multiplied with
template <int Columns>
__device__ __forceinline__ void store_row(std::uint16_t* to, bool inside, bool aligned,
                                          const float (&products)[Columns / 8][4], int r, float factor) {
  constexpr int kAtOnce = Columns % 32 == 0 ? 4 : 2;  // eights of columns
  const unsigned lane = threadIdx.x % 4;
#pragma unroll
  for (int x = 0; x < Columns / 8; x += kAtOnce) {
    std::uint32_t pairs[4];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      pairs[i] = pack(products[x + i][2 * r] * factor, products[x + i][2 * r + 1] * factor);
    }
    if (kAtOnce == 4 && aligned) {
      transpose_quad(pairs);
      if (inside) *reinterpret_cast<uint4*>(to + 8 * (x + lane)) = {pairs[0], pairs[1], pairs[2], pairs[3]};
      continue;
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (!inside) break;
      std::uint16_t* pair = to + 8 * (x + i) + lane * 2;
      pair[0] = static_cast<std::uint16_t>(pairs[i]);
      pair[1] = static_cast<std::uint16_t>(pairs[i] >> 16);
    }
  }
}

}  // namespace foxscope::kernels::cuda::portable

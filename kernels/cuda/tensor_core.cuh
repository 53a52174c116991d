// Tensor cores and asynchronous copies since compute capability 8.0. Private to kernels/cuda.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace foxscope::kernels::cuda {

__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Pending>
__device__ __forceinline__ void wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}
/// @param inside  else zeros are written, and `from` is not read
template <int Bytes>
__device__ __forceinline__ void copy_async(void* to, const void* from, bool inside) {
  asm volatile(
      "cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(to))),
      "l"(from), "n"(Bytes), "r"(inside ? Bytes : 0)
      : "memory");
}

/// Four 8x8 matrices of two bytes an entry; a lane gives the place of the lane % 8-th row of the matrix lane / 8.
__device__ __forceinline__ void load_fragment(const void* at, std::uint32_t (&f)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(at)))
               : "memory");
}
/// The same, each matrix transposed.
__device__ __forceinline__ void load_transposed(const void* at, std::uint32_t (&f)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(at)))
               : "memory");
}

/// c += a b of bfloat16, 16 x 8 entries, 16 deep.
__device__ __forceinline__ void multiply(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                         std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

}  // namespace foxscope::kernels::cuda

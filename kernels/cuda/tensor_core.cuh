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

/// Four 8x8 matrices of two bytes an entry; a lane gives the address in shared memory of the lane % 8-th row of the
/// matrix lane / 8.
__device__ __forceinline__ void load_fragment(std::uint32_t at, std::uint32_t (&f)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
               : "r"(at)
               : "memory");
}
__device__ __forceinline__ void load_fragment(const void* at, std::uint32_t (&f)[4]) {
  load_fragment(static_cast<std::uint32_t>(__cvta_generic_to_shared(at)), f);
}
/// The same, each matrix transposed.
__device__ __forceinline__ void load_transposed(std::uint32_t at, std::uint32_t (&f)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(f[0]), "=r"(f[1]), "=r"(f[2]), "=r"(f[3])
               : "r"(at)
               : "memory");
}
__device__ __forceinline__ void load_transposed(const void* at, std::uint32_t (&f)[4]) {
  load_transposed(static_cast<std::uint32_t>(__cvta_generic_to_shared(at)), f);
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
/// c = a b.
__device__ __forceinline__ void multiply_first(float (&c)[4], const std::uint32_t (&a)[4], std::uint32_t b0,
                                               std::uint32_t b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%10, %10, %10, %10};"
      : "=f"(c[0]), "=f"(c[1]), "=f"(c[2]), "=f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "f"(0.0F));
}
/// c += a b, 8 deep: a0 holds rows lane / 4, a1 the eight rows after them.
__device__ __forceinline__ void multiply_eight(float (&c)[4], std::uint32_t a0, std::uint32_t a1, std::uint32_t b) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a0), "r"(a1), "r"(b));
}

/// Transposes four values of each of four neighbouring lanes: lane l of them gets the l-th of each.
__device__ __forceinline__ void transpose_quad(std::uint32_t (&x)[4]) {
#pragma unroll
  for (unsigned step = 1; step < 4; step *= 2) {
    const bool upper = (threadIdx.x & step) != 0;
#pragma unroll
    for (unsigned i = 0; i < 4; ++i) {
      if ((i & step) != 0) continue;
      const std::uint32_t given = upper ? x[i] : x[i | step];
      const std::uint32_t got = __shfl_xor_sync(0xffffffffU, given, static_cast<int>(step));
      (upper ? x[i] : x[i | step]) = got;
    }
  }
}

}  // namespace foxscope::kernels::cuda

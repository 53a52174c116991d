#pragma once

#include <vector>

#include <ATen/ATen.h>

#include "backend/base/error.h"
#include "kernels/cuda/linear/linear_chunks.h"

// Tensors of chunks of positions as kernels/cuda/linear takes them: B sequences, H heads, N chunks of T positions.
namespace foxscope {

inline constexpr std::int64_t kChunk = kernels::cuda::kLinearChunk;

inline void require_step(kernels::Status status) {
  if (status != kernels::Status::ok) throw Error("the GPU refused a step of a linear mixer: try --device cpu");
}

inline at::TensorOptions floats_like(const at::Tensor& x) { return x.options().dtype(at::kFloat).requires_grad(false); }
inline at::TensorOptions halves_like(const at::Tensor& x) {
  return x.options().dtype(at::kBFloat16).requires_grad(false);
}

/// [B, heads, n, width] as kernels read them, 16 bytes at a time.
inline at::Tensor readable(const at::Tensor& rows) {
  const bool whole = rows.stride(3) == 1 && rows.storage_offset() % 4 == 0 && rows.stride(0) % 4 == 0 &&
                     rows.stride(1) % 4 == 0 && rows.stride(2) % 4 == 0;
  return whole ? rows : rows.contiguous();
}

inline kernels::cuda::HeadRows head_rows(const at::Tensor& x) {
  return {x.const_data_ptr<float>(), x.stride(0), x.stride(1), x.stride(2)};
}

/// Axis 2 up to whole chunks, by zeros.
inline at::Tensor padded(const at::Tensor& x) {
  const std::int64_t missing = (kChunk - x.size(2) % kChunk) % kChunk;
  if (missing == 0) return x;
  std::vector<std::int64_t> padding(static_cast<std::size_t>(2 * (x.dim() - 2)));
  padding.back() = missing;
  return at::constant_pad_nd(x, padding);
}

/// [B, H, N, T, ...]
inline at::Tensor chunked(const at::Tensor& x) { return x.unflatten(2, {x.size(2) / kChunk, kChunk}); }

/// Splits x in one pass, heads first, as products read them.
inline at::Tensor halves_in_chunks(const at::Tensor& x) {
  return chunked(padded(x.to(at::kBFloat16, /*non_blocking=*/false, /*copy=*/false, at::MemoryFormat::Contiguous)));
}

/// [B, H, n, d] float32 of [B, H, N, T, d], without what fills the last chunk.
inline at::Tensor floats_of_chunks(const at::Tensor& x, std::int64_t length) {
  return x.flatten(2, 3).slice(2, 0, length).to(at::kFloat);
}

/// M V + Q S, [B, H, N, T, d_v].
inline at::Tensor mixed(const at::Tensor& scores, const at::Tensor& value, const at::Tensor& query,
                        const at::Tensor& before) {
  const at::Tensor within = at::matmul(scores, value);
  return at::baddbmm(within.flatten(0, 2), query.flatten(0, 2), before.flatten(0, 2)).view(within.sizes());
}

}  // namespace foxscope

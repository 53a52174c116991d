#pragma once

#include <ATen/core/Tensor.h>

#include "backend/model/layer/cuda/cuda_pass_torch.h"

namespace foxscope {

/// The SwiGLU MLP in bfloat16 on a GPU.
class CudaMlp {
 public:
  /// @param pass  must outlive it
  explicit CudaMlp(CudaPass& pass) : cuda_(pass) {}

  /// Keeps the memory of all rows where it is from here on, from pass to pass.
  void keep_memory();
  /// x += down(silu(g) * u) of norm(x), a block of rows at a time.
  void add(int layer);

 private:
  /// The same with SwiGLU in the registers of its product.  @returns false where the kernel does not take it
  [[nodiscard]] bool add_gated(int layer);

  CudaPass& cuda_;
  at::Tensor wide_;     ///< [B n, 2 I] bf16, where it is kept
  at::Tensor product_;  ///< [B n, I] bf16 likewise
};

}  // namespace foxscope

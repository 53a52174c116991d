#pragma once

#include <ATen/core/Tensor.h>

#include "backend/model/layer/cuda/cuda_pass_torch.h"
#include "backend/model/layer/torch/attention_torch.h"
#include "kernels/cuda/steps/steps.h"

namespace foxscope {

/// TorchAttentionSteps in bfloat16 on a GPU: cuBLAS for the matrices, kernels/cuda for everything between them. The
/// operands of gates are float32. Attention is TorchAttentionSteps', whose kernels take what this takes.
class CudaAttentionSteps : public TorchAttentionSteps {
 public:
  /// Whether there are kernels for a model's heads.
  static bool takes(const TorchWeights& weights);

  /// @param pass  must outlive it
  explicit CudaAttentionSteps(CudaPass& pass);

  bool project(int layer) override;
  void sum_gates(int layer) override;
  bool project_output(int layer) override;

 protected:
  /// Makes query_, key_ and value_ from the projection.
  virtual void split_heads(int layer);
  /// The arguments that are the same for a text and for its next position.
  [[nodiscard]] kernels::cuda::ProjectedHeads projected_heads(int layer) const;

  CudaPass& cuda_;

 private:
  at::Tensor projected_;  ///< [B n, (H + 2 H_kv) d, and H d of an output gate] bf16
};

}  // namespace foxscope

#pragma once

#include <ATen/core/Tensor.h>

#include "backend/model/layer/cuda/cuda_pass_torch.h"
#include "backend/model/layer/torch/linear_torch.h"

namespace foxscope {

/// TorchLinearSteps in bfloat16 on a GPU: the norm, the logits of decays and the last product are CudaPass's.
class CudaLinearSteps final : public TorchLinearSteps {
 public:
  /// Whether a model's mixer makes its decays of norm(x).
  static bool takes(const TorchWeights& weights);

  /// @param pass  must outlive it
  explicit CudaLinearSteps(CudaPass& pass);

  bool project(int layer) override;
  bool project_output(int layer) override;

 private:
  CudaPass& cuda_;
  at::Tensor gates_;  ///< [B n, G] float32, LinearColumns' from `precise` on
};

}  // namespace foxscope

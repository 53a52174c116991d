#pragma once

#include <ATen/core/Tensor.h>

#include "backend/model/layer/mixer_steps.h"
#include "backend/model/layer/torch/linear_torch.h"

namespace foxscope {

/// The mixer of RWKV-7 by LibTorch's operations (Rwkv7Cpu has its equations).
class TorchRwkv7Steps final : public TorchLinearSteps {
 public:
  explicit TorchRwkv7Steps(TorchPass& pass) : TorchLinearSteps(pass) {}

  bool project(int layer) override;
  bool project_output(int layer) override;

 private:
  at::Tensor gate_;          ///< [B, n, D] g
  at::Tensor first_values_;  ///< [B, n, D] v of the first layer
};

}  // namespace foxscope

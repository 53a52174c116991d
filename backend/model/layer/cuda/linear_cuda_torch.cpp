#include "backend/model/layer/cuda/linear_cuda_torch.h"

#include <ATen/ATen.h>

namespace foxscope {

bool CudaLinearSteps::takes(const TorchWeights& weights) {
  const LinearMixer& mixer = *weights.config.linear;
  return !mixer.is_selective() && !mixer.shifts_tokens();
}

CudaLinearSteps::CudaLinearSteps(CudaPass& pass)
    : TorchLinearSteps(pass.torch()), cuda_(pass), gates_(pass.empty_gates()) {
  if (!gates_.defined()) gates_ = at::empty({pass_.rows(), 0}, pass_.weights().options(at::kFloat));
}

bool CudaLinearSteps::project(int layer) {
  cuda_.norm(pass_.weights(layer).attention_norm, 0, /*rest=*/true);
  if (gates_.size(1) > 0) cuda_.make_gates(layer, gates_);
  project_rows(layer, cuda_.normed(), gates_);
  return true;
}

bool CudaLinearSteps::project_output(int layer) {
  at::Tensor output = take_output(layer).to(pass_.weights().matrix);
  cuda_.add_output(layer, output);
  return true;
}

}  // namespace foxscope

#include "backend/model/layer/cuda/cuda_next_forward_torch.h"

#include <utility>

#include <ATen/ATen.h>

namespace foxscope {

bool CudaNextForward::takes(const TorchWeights& weights) {
  return CudaForward::takes(weights) && weights.config.attends();
}

CudaNextForward::CudaNextForward(const TorchWeights& weights, std::int64_t batch) : CudaForward(weights, batch, 1) {
  const at::TensorOptions floats = weights.options(at::kFloat);
  pass_.residual = at::empty({batch, config().hidden_size}, floats);
  if (!config().rotaries.empty()) cuda_.rotation = at::empty({batch, config().head_dim / 2, 2}, floats);
  mlp_.keep_memory();
  mixer(0);  // makes its memory
}

std::unique_ptr<MixerSteps> CudaNextForward::make_attention() {
  auto steps = std::make_unique<CudaNextAttentionSteps>(cuda_);
  next_ = steps.get();
  return steps;
}

void CudaNextForward::begin() {
  pass_.begin_run(*this);
  report().attention_kernel = "cuda";
  const at::Tensor ids = next_->begin();
  at::index_select_out(pass_.residual, pass_.weights().embedding, 0, ids);
  if (config().rotaries.empty()) return;
  pass_.check(kernels::cuda::next_rotations(next_->sequences(0), batch(), config().head_dim / 2,
                                            pass_.weights().frequencies[0].const_data_ptr<double>(),
                                            cuda_.rotation.mutable_data_ptr<float>(), cuda_.stream()),
              "the table of rotations");
}

bool CudaNextForward::run_layers() {
  if (next_->changes()) return Forward::run_layers();
  if (graph_ != nullptr) {
    pass_.check(graph_->launch(cuda_.stream()), "a recorded step");
    return true;
  }
  // LibTorch must not make its lazy state while its work is recorded.
  if (std::exchange(run_before_, true)) {
    graph_ = kernels::cuda::DeviceGraph::record(cuda_.stream(), [&] { Forward::run_layers(); });
    if (graph_ != nullptr) return run_layers();
  }
  return Forward::run_layers();
}

bool CudaNextForward::finish() {
  next_->finish();
  return true;
}

}  // namespace foxscope

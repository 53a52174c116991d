#pragma once

#include <cstdint>
#include <memory>

#include <ATen/core/Tensor.h>

#include "backend/model/layer/cuda/cuda_pass_torch.h"
#include "backend/model/layer/cuda/mlp_cuda_torch.h"
#include "backend/model/layer/torch/torch_forward_torch.h"

namespace foxscope {

/// The steps in bfloat16 on a GPU: cuBLAS for the matrices, kernels/cuda for everything between them. The residual
/// stream, what makes gates, norms and logits are float32. Nothing waits for the GPU inside a layer but what the caller
/// keeps in pageable memory, and interventions on gates, which change log f on the host. Mixers, MLP and prediction are
/// attention_cuda, linear_cuda, mlp_cuda and prediction_cuda.
class CudaForward : public TorchForward {
 public:
  /// Whether there are kernels for what a model's layers are made of.
  static bool takes(const TorchWeights& weights);
  /// Bytes that a pass takes of a GPU's memory: the kernels write where the pass has its arrays.
  static PassBytes bytes(const ModelConfig& config, const KeepSet& keep) {
    return TorchPass::bytes(config, DType::bfloat16, keep);
  }

  /// @param weights  that it takes, on the current device; must outlive it
  CudaForward(const TorchWeights& weights, std::int64_t batch, std::int64_t length);

 protected:
  void begin() override;
  std::unique_ptr<MixerSteps> make_attention() override;
  std::unique_ptr<MixerSteps> make_linear() override;
  bool feed_forward(int layer) override;
  bool predict() override;
  at::Tensor final_norm(std::int64_t first_row) override;
  at::Tensor logits(const at::Tensor& normed) override;

  CudaPass cuda_;
  CudaMlp mlp_;
};

}  // namespace foxscope

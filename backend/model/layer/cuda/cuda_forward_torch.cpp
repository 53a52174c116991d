#include "backend/model/layer/cuda/cuda_forward_torch.h"

#include <ATen/ATen.h>

#include "backend/model/layer/cuda/attention_cuda_torch.h"
#include "backend/model/layer/cuda/linear_cuda_torch.h"
#include "backend/model/layer/cuda/prediction_cuda_torch.h"

namespace foxscope {

bool CudaForward::takes(const TorchWeights& weights) {
  const ModelConfig& config = weights.config;
  if (!weights.on_gpu() || weights.dtype != DType::bfloat16 || config.norm != NormKind::rms ||
      config.mlp != MlpKind::swiglu || config.parallel_residual || config.mlp_bias || config.is_hybrid() ||
      !config.pre_norm || config.post_norm || config.embedding_factor != 1 || config.residual_factor != 1 ||
      config.logit_factor != 1 || config.logit_cap != 0 || config.mixture || config.latent || config.path ||
      config.normed_residual) {
    return false;
  }
  return config.attends() ? CudaAttentionSteps::takes(weights) : CudaLinearSteps::takes(weights);
}

CudaForward::CudaForward(const TorchWeights& weights, std::int64_t batch, std::int64_t length)
    : TorchForward(weights, batch, length), cuda_(pass_), mlp_(cuda_) {}

void CudaForward::begin() {
  TorchForward::begin();
  cuda_.begin();
}

std::unique_ptr<MixerSteps> CudaForward::make_attention() { return std::make_unique<CudaAttentionSteps>(cuda_); }

std::unique_ptr<MixerSteps> CudaForward::make_linear() { return std::make_unique<CudaLinearSteps>(cuda_); }

bool CudaForward::feed_forward(int layer) {
  mlp_.add(layer);
  return true;
}

at::Tensor CudaForward::final_norm(std::int64_t first_row) {
  cuda_.norm(pass_.weights().final_norm, first_row, /*rest=*/false);
  return cuda_.normed().slice(0, first_row);
}

at::Tensor CudaForward::logits(const at::Tensor& normed) { return cuda_logits(cuda_, normed); }

bool CudaForward::predict() {
  keep_hidden(config().layers);
  if (!keeps(Keep::loss) && !keeps(Keep::logits)) return true;
  return record_cuda_predictions(cuda_, final_norm(0));
}

}  // namespace foxscope

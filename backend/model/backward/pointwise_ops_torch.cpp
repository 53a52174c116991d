#include "backend/model/backward/pointwise_ops_torch.h"

#include "backend/model/backward/cpu_pointwise_ops_torch.h"
#include "backend/model/backward/cuda_pointwise_ops_torch.h"

namespace foxscope {

bool PointwiseOps::take(const TorchWeights& weights) {
  const ModelConfig& config = weights.config;
  const bool device = weights.on_gpu() ? weights.dtype == DType::bfloat16 && config.head_dim % 8 == 0 &&
                                             (config.rotaries.empty() || config.head_dim % 16 == 0)
                                       : weights.dtype == DType::float32;
  return device && config.norm == NormKind::rms && config.mlp == MlpKind::swiglu && !config.parallel_residual &&
         !config.mlp_bias && !config.output_bias && config.learned_positions == 0 && config.turns_plainly() &&
         config.query_key_norm != QueryKeyNorm::whole && config.pre_norm && !config.post_norm &&
         config.embedding_factor == 1 && config.residual_factor == 1 && config.logit_factor == 1 &&
         config.attention_cap == 0 && config.logit_cap == 0 && !config.sinks && config.projection_limit == 0 &&
         !config.mixture && !config.path;
}

std::unique_ptr<PointwiseOps> PointwiseOps::make(const TorchWeights& weights, std::int64_t length) {
  return weights.on_gpu() ? make_cuda_pointwise_ops(weights, length) : make_cpu_pointwise_ops(weights, length);
}

}  // namespace foxscope

#include "backend/model/layer/cuda/attention_cuda_torch.h"

#include <ATen/ATen.h>

#include "backend/model/layer/torch/cuda_attention_torch.h"

namespace foxscope {
namespace {

namespace cuda = kernels::cuda;

}  // namespace

bool CudaAttentionSteps::takes(const TorchWeights& weights) {
  const ModelConfig& config = weights.config;
  return cuda_attention_takes(config.head_dim, weights.matrix) && config.head_dim % 8 == 0 && config.turns_plainly() &&
         (config.rotaries.empty() || config.head_dim % 16 == 0) && !config.output_bias &&
         config.query_key_norm != QueryKeyNorm::whole && config.attention_cap == 0 && !config.sinks &&
         config.projection_limit == 0;
}

CudaAttentionSteps::CudaAttentionSteps(CudaPass& pass) : TorchAttentionSteps(pass.torch()), cuda_(pass) {
  gates_ = cuda_.empty_gates();
  projected_ =
      at::empty({pass_.rows(), pass_.weights(0).projection_and_gate.size(0)}, pass_.weights().options(at::kBFloat16));
}

bool CudaAttentionSteps::project(int layer) {
  const TorchLayer& weights = pass_.weights(layer);
  cuda_.norm(weights.attention_norm, 0, /*rest=*/true);
  cuda_.make_gates(layer, gates_);
  cuda_.multiply(projected_, cuda_.normed(), weights.projection_and_gate, CudaPass::Sum::no, kAlikeRows);
  if (weights.projection_bias.defined()) {
    projected_.slice(1, 0, weights.projection_bias.size(0)).add_(weights.projection_bias);
  }
  split_heads(layer);
  // Attention's blocks of rows go by the longest of their queries.
  if (cuda_.filling.defined()) query_.masked_fill_(cuda_.filling, 0);
  return true;
}

/// Shift, norm and rotation of heads; views of the projection where there is none of them.
void CudaAttentionSteps::split_heads(int layer) {
  const ModelConfig& config = pass_.config();
  const ProjectionColumns& columns = pass_.weights().columns;
  const std::int64_t length = pass_.length();
  const std::int64_t dim = config.head_dim;
  const auto split = [&](const at::Tensor& x) { return x.unflatten(0, {pass_.batch(), length}).transpose(1, 2); };
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    return projected_.slice(1, begin, end).unflatten(1, {(end - begin) / dim, dim});
  };
  const bool shifts = config.key_shift || config.value_shift;
  if (!shifts && config.rotaries.empty() && !pass_.weights(layer).query_norm.defined()) {
    query_ = split(part(0, columns.key));
    key_ = split(part(columns.key, columns.value));
    value_ = split(part(columns.value, columns.key_shift));
    return;
  }
  const at::TensorOptions half = projected_.options();
  cuda::ProjectedHeads step = projected_heads(layer);
  // A store in GPU memory holds [H, L, d], and is written without a copy.
  Recorder* const into = pass_.batch() == 1 ? pass_.recorder(0) : nullptr;
  void* const store = into == nullptr ? nullptr : into->stored_on_device(TraceArray::query, layer);
  if (store != nullptr) {
    void* const key_store = into->stored_on_device(TraceArray::key, layer);
    query_ = at::from_blob(store, {1, config.heads, length, dim}, half);
    key_ = at::from_blob(key_store, {1, config.key_heads, length, dim}, half);
    step.layout = cuda::HeadLayout::heads_first;
  } else {
    query_ = split(at::empty({pass_.rows(), config.heads, dim}, half));
    key_ = split(at::empty({pass_.rows(), config.key_heads, dim}, half));
  }
  value_ = split(at::empty({pass_.rows(), config.key_heads, dim}, half));
  step.query = memory_of(query_);
  step.key = memory_of(key_);
  step.value = memory_of(value_);
  pass_.check(cuda::project_heads(step, cuda_.stream()), "the shift and norm of heads");
  for (std::int64_t b = 0; shifts && pass_.has_states() && b < pass_.batch(); ++b) {
    const at::Tensor last = projected_[b * length + pass_.text_length(b) - 1];
    pass_.torch_state(b).keep_last(layer, last.slice(0, columns.key, columns.value),
                                   last.slice(0, columns.value, columns.key_shift));
  }
}

cuda::ProjectedHeads CudaAttentionSteps::projected_heads(int layer) const {
  const ModelConfig& config = pass_.config();
  const TorchLayer& weights = pass_.weights(layer);
  const ProjectionColumns& columns = pass_.weights().columns;
  cuda::ProjectedHeads step;
  step.rows = pass_.rows();
  step.length = pass_.length();
  step.heads = config.heads;
  step.key_heads = config.key_heads;
  step.head_dim = config.head_dim;
  step.projected = memory_of(projected_);
  step.projected_stride = projected_.stride(0);
  if (config.key_shift) step.key_shift_logits = floats_of(gates_);
  if (config.value_shift) {
    step.value_shift_logits = floats_of(gates_) + (columns.value_shift - columns.key_shift);
  }
  if (gates_.defined()) step.shift_stride = gates_.stride(0);
  step.query_norm = floats_of(weights.query_norm);
  step.key_norm = floats_of(weights.key_norm);
  step.norm_epsilon = static_cast<float>(config.query_key_norm_epsilon);
  step.rotation = floats_of(cuda_.rotation);
  return step;
}

/// Behind a text nothing is forgotten: attention takes gates relative to those at the end of a block.
void CudaAttentionSteps::sum_gates(int layer) {
  TorchAttentionSteps::sum_gates(layer);
  if (cuda_.filling.defined() && cumulative_.defined()) {
    cumulative_ = cumulative_.gather(2, cuda_.last.expand_as(cumulative_));
  }
}

bool CudaAttentionSteps::project_output(int layer) {
  const ModelConfig& config = pass_.config();
  const TorchLayer& weights = pass_.weights(layer);
  at::Tensor output = attended_.flatten(1);
  if (config.output_norm || config.output_gate) {
    cuda::GatedOutput step;
    step.rows = pass_.rows();
    step.heads = config.heads;
    step.head_dim = config.head_dim;
    step.attended = memory_of(attended_);
    step.norm = floats_of(weights.output_norm);
    step.norm_epsilon = static_cast<float>(config.norm_epsilon);
    if (config.output_gate) step.gate = memory_of(projected_.slice(1, weights.projection.size(0)));
    step.gate_stride = projected_.stride(0);
    step.activation = config.gates_by_silu() ? cuda::OutputGateActivation::silu : cuda::OutputGateActivation::sigmoid;
    step.output = memory_of(output);
    pass_.check(cuda::gate_output(step, cuda_.stream()), "the output's norm and gate");
  }
  cuda_.add_output(layer, output);
  return true;
}

}  // namespace foxscope

#include "backend/model/layer/cuda/attention_kernels_torch.h"

#include <ATen/ATen.h>

#include "backend/base/error.h"
#include "backend/model/layer/cpu/cpu_team.h"
#include "backend/model/layer/torch/cuda_attention_torch.h"
#include "kernels/cpu/forgetting_attention_backward.h"

namespace foxscope {
namespace {

void check_attention(kernels::Status status) {
  if (status == kernels::Status::ok) return;
  throw Error("the attention kernels refused heads of this size: leave saliency out of --keep");
}

kernels::cpu::AttentionStrides strides_of_heads(const at::Tensor& x) { return {x.stride(0), x.stride(1), x.stride(2)}; }

kernels::cpu::ForgettingAttention cpu_arguments(const AttentionTensors& tensors) {
  kernels::cpu::ForgettingAttention arguments;
  arguments.batch = tensors.query.size(0);
  arguments.heads = tensors.query.size(1);
  arguments.key_heads = tensors.key.size(1);
  arguments.length = tensors.query.size(2);
  arguments.head_dim = tensors.query.size(3);
  arguments.query = tensors.query.const_data_ptr<float>();
  arguments.query_strides = strides_of_heads(tensors.query);
  arguments.key = tensors.key.const_data_ptr<float>();
  arguments.key_strides = strides_of_heads(tensors.key);
  arguments.value = tensors.value.const_data_ptr<float>();
  arguments.value_strides = strides_of_heads(tensors.value);
  if (tensors.cumulative.defined()) arguments.cumulative_log_gate = tensors.cumulative.const_data_ptr<double>();
  arguments.output = tensors.output.mutable_data_ptr<float>();
  arguments.output_strides = strides_of_heads(tensors.output);
  arguments.log_normalizer = tensors.log_normalizer.mutable_data_ptr<float>();
  if (tensors.log_normalizer_without_gate.defined()) {
    arguments.log_normalizer_without_gate = tensors.log_normalizer_without_gate.mutable_data_ptr<float>();
  }
  arguments.scale = static_cast<float>(tensors.scale);
  arguments.window_size = tensors.window_size;
  arguments.pruning_tolerance = tensors.pruning_tolerance;
  return arguments;
}

CudaAttention cuda_arguments(const AttentionTensors& tensors) {
  CudaAttention arguments;
  arguments.query = tensors.query;
  arguments.key = tensors.key;
  arguments.value = tensors.value;
  arguments.output = tensors.output;
  arguments.cumulative_log_gate = tensors.cumulative;
  arguments.log_normalizer = tensors.log_normalizer;
  arguments.blocks = tensors.blocks;
  arguments.scale = tensors.scale;
  arguments.window_size = tensors.window_size;
  arguments.pruning_tolerance = tensors.pruning_tolerance;
  return arguments;
}

AttentionDone attend_on_gpu(const AttentionTensors& tensors) {
  if (tensors.log_normalizer_without_gate.defined()) {
    CudaAttention ungated = cuda_arguments(tensors);
    ungated.cumulative_log_gate = ungated.blocks = at::Tensor();
    ungated.log_normalizer = tensors.log_normalizer_without_gate;
    cuda_forgetting_attention(ungated);
  }
  return {cuda_forgetting_attention(cuda_arguments(tensors))};
}

}  // namespace

bool attention_kernels_take(const TorchWeights& weights) {
  return weights.on_gpu() ? cuda_attention_back_takes(weights.config.head_dim, weights.matrix)
                          : weights.matrix == at::kFloat;
}

AttentionDone attend(const AttentionTensors& tensors, const std::stop_token& stop) {
  if (tensors.query.is_cuda()) return attend_on_gpu(tensors);
  LibTorchTeam team;
  kernels::cpu::AttentionBlocks blocks;
  const kernels::Status status = kernels::cpu::forgetting_attention(cpu_arguments(tensors), team, stop, &blocks);
  if (status == kernels::Status::cancelled) return {nullptr};
  check_attention(status);
  return {"cpu-tiled", blocks.total, blocks.skipped};
}

void attend_backward(const AttentionTensors& tensors, const at::Tensor& grad_output,
                     const AttentionGradients& gradients) {
  if (tensors.query.is_cuda()) {
    cuda_forgetting_attention_backward(cuda_arguments(tensors), {grad_output, gradients.grad_query, gradients.grad_key,
                                                                 gradients.grad_value, gradients.grad_log_gate});
    return;
  }
  kernels::cpu::ForgettingAttentionBackward arguments;
  arguments.forward = cpu_arguments(tensors);
  arguments.output_gradient = grad_output.const_data_ptr<float>();
  arguments.output_gradient_strides = strides_of_heads(grad_output);
  arguments.query_gradient = gradients.grad_query.mutable_data_ptr<float>();
  arguments.query_gradient_strides = strides_of_heads(gradients.grad_query);
  arguments.key_gradient = gradients.grad_key.mutable_data_ptr<float>();
  arguments.key_gradient_strides = strides_of_heads(gradients.grad_key);
  arguments.value_gradient = gradients.grad_value.mutable_data_ptr<float>();
  arguments.value_gradient_strides = strides_of_heads(gradients.grad_value);
  arguments.log_gate_gradient = gradients.grad_log_gate.mutable_data_ptr<float>();
  LibTorchTeam team;
  check_attention(kernels::cpu::forgetting_attention_backward(arguments, team, {}, nullptr));
}

}  // namespace foxscope

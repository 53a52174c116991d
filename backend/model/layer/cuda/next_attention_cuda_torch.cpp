#include "backend/model/layer/cuda/next_attention_cuda_torch.h"

#include <algorithm>
#include <span>

#include <ATen/ATen.h>

#include "backend/base/index.h"

namespace foxscope {
namespace {

using kernels::cuda::HeldSequence;

}  // namespace

CudaNextAttentionSteps::CudaNextAttentionSteps(CudaPass& pass) : CudaAttentionSteps(pass) {
  const ModelConfig& config = pass_.config();
  const TorchWeights& weights = pass_.weights();
  const std::int64_t batch = pass_.batch();
  const at::TensorOptions half = weights.options(at::kBFloat16);
  query_ = at::empty({batch, config.heads, 1, config.head_dim}, half);
  attended_ = at::empty({batch, config.heads, config.head_dim}, half);
  const auto bytes = batch * config.layers * static_cast<std::int64_t>(sizeof(HeldSequence)) + batch * 4;
  host_ = at::empty({bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(true));
  on_device_ = at::empty({bytes}, weights.options(at::kByte));
  const std::size_t workspace = kernels::cuda::next_attention_workspace_bytes(batch, config.heads, config.head_dim);
  workspace_ = at::zeros({static_cast<std::int64_t>(workspace)}, weights.options(at::kByte));
}

const HeldSequence* CudaNextAttentionSteps::sequences(int layer) const {
  return static_cast<const HeldSequence*>(on_device_.const_data_ptr()) + layer * pass_.batch();
}

bool CudaNextAttentionSteps::changes() const {
  return std::ranges::any_of(pass_.probes(), [](const Probe& probe) { return probe.changes(); });
}

at::Tensor CudaNextAttentionSteps::begin() {
  const ModelConfig& config = pass_.config();
  const std::int64_t batch = pass_.batch();
  const std::int64_t shifted = config.key_size();
  const std::span<HeldSequence> held(static_cast<HeldSequence*>(host_.mutable_data_ptr()),
                                     static_cast<std::size_t>(config.layers * batch));
  std::ranges::fill(held, HeldSequence{});
  // Addresses alone: a tensor for each array of each sequence and layer would take longer than the GPU does.
  for (std::int64_t b = 0; b < batch; ++b) {
    if (!pass_.has_state(b)) continue;
    for (int layer = 0; layer < config.layers; ++layer) {
      TorchState::Layer& cache = pass_.torch_state(b).layer(layer);
      HeldSequence& sequence = held[index_of(layer * batch + b)];
      const GrowingTensor::Place key = cache.key.reserve_place(1);
      const GrowingTensor::Place value = cache.value.reserve_place(1);
      sequence.key = key.first;
      sequence.key_stride = key.stride;
      sequence.value = value.first;
      sequence.value_stride = value.stride;
      if (cache.gated()) {
        const GrowingTensor::Place gates = cache.cumulative_log_gate.reserve_place(1);
        sequence.cumulative = static_cast<double*>(gates.first);
        sequence.gate_stride = gates.stride;
      }
      if (config.key_shift || config.value_shift) {
        auto* const last = static_cast<at::BFloat16*>(pass_.torch_state(b).last_place(layer));
        sequence.key_before = last;
        sequence.value_before = last + shifted;
      }
      sequence.position = pass_.first_position(b);
      sequence.rows = cache.key.size() + 1;
      if (const std::int64_t window = config.attention[index_of(layer)].window_size; window > 0) {
        sequence.hidden_rows = std::max<std::int64_t>(0, sequence.position - window + 1 - cache.first);
      }
    }
  }
  std::ranges::copy(pass_.input().ids, reinterpret_cast<std::int32_t*>(held.data() + held.size()));
  on_device_.copy_(host_, /*non_blocking=*/true);
  return on_device_.slice(0, static_cast<std::int64_t>(held.size_bytes())).view(at::kInt);
}

void CudaNextAttentionSteps::split_heads(int layer) {
  kernels::cuda::ProjectedHeads step = projected_heads(layer);
  step.query = query_.mutable_data_ptr();
  pass_.check(kernels::cuda::project_next_heads(step, sequences(layer), cuda_.stream()), "the shift and norm of heads");
}

/// Attention sums the gates of its position itself, unless an intervention changes them.
void CudaNextAttentionSteps::sum_gates(int layer) {
  if (!changes() || !pass_.gated(layer)) return;
  CudaAttentionSteps::sum_gates(layer);
  GrowingTensor& sums = pass_.torch_state().layer(layer).cumulative_log_gate;
  sums.reserve(1).slice(1, sums.size()).copy_(cumulative_[0]);
}

bool CudaNextAttentionSteps::attend(int layer) {
  const ModelConfig& config = pass_.config();
  const ProjectionColumns& columns = pass_.weights().columns;
  const at::Tensor& constant = pass_.weights(layer).constant_gate;
  kernels::cuda::NextAttention step;
  step.batch = pass_.batch();
  step.heads = config.heads;
  step.key_heads = config.key_heads;
  step.head_dim = config.head_dim;
  step.sequences = sequences(layer);
  step.query = query_.const_data_ptr();
  if (config.gated() && !changes()) {
    if (constant.defined()) {
      step.constant_logits = constant.const_data_ptr<float>();
    } else {
      step.gate_logits = gates_.const_data_ptr<float>() + (columns.forget - columns.key_shift);
      step.gate_stride = gates_.stride(0);
    }
  }
  step.scale = static_cast<float>(softmax_scale<double>(config.head_dim));
  step.output = attended_.mutable_data_ptr();
  step.workspace = workspace_.mutable_data_ptr();
  pass_.check(kernels::cuda::next_attention(step, cuda_.stream()), "attention");
  return true;
}

void CudaNextAttentionSteps::finish() {
  const ModelConfig& config = pass_.config();
  for (std::int64_t b = 0; b < pass_.batch(); ++b) {
    if (!pass_.has_state(b)) continue;
    for (int layer = 0; layer < config.layers; ++layer) {
      TorchState::Layer& cache = pass_.torch_state(b).layer(layer);
      cache.key.commit(1);
      cache.value.commit(1);
      if (cache.gated()) cache.cumulative_log_gate.commit(1);
      pass_.torch_state(b).drop_keys(layer, config.attention[index_of(layer)].window_size,
                                     pass_.weights(layer).logit_bound);
    }
  }
}

}  // namespace foxscope

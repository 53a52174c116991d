#include <algorithm>
#include <cmath>
#include <span>

#include <ATen/ATen.h>

#include "backend/model/layer/cuda/cuda_next_forward_torch.h"

namespace foxscope {
namespace {

namespace cuda = kernels::cuda;
using cuda::HeldSequence;

}  // namespace

bool CudaNextForward::takes(const TorchWeights& weights) {
  return CudaForward::takes(weights) && !weights.config.linear;
}

CudaNextForward::CudaNextForward(const TorchWeights& weights, std::int64_t batch) : CudaForward(weights, batch, 1) {
  const at::TensorOptions half = weights.options(at::kBFloat16);
  residual_ = at::empty({batch, config().hidden_size}, weights.options(at::kFloat));
  query_ = at::empty({batch, config().heads, 1, config().head_dim}, half);
  attended_ = at::empty({batch, config().heads, config().head_dim}, half);
  if (config().rope) rotation_ = at::empty({batch, config().head_dim / 2, 2}, weights.options(at::kFloat));
  mlp_wide_ = at::empty({batch, 2 * config().intermediate_size}, half);
  mlp_product_ = at::empty({batch, config().intermediate_size}, half);
  const auto count = batch * config().layers;
  const auto bytes = count * static_cast<std::int64_t>(sizeof(HeldSequence)) + batch * 4;
  host_ = at::empty({bytes}, at::TensorOptions().dtype(at::kByte).pinned_memory(true));
  on_device_ = at::empty({bytes}, weights.options(at::kByte));
  workspace_ = at::zeros(
      {static_cast<std::int64_t>(cuda::next_attention_workspace_bytes(batch, config().heads, config().head_dim))},
      weights.options(at::kByte));
}

const HeldSequence* CudaNextForward::sequences(int layer) const {
  return static_cast<const HeldSequence*>(on_device_.const_data_ptr()) + layer * batch();
}

bool CudaNextForward::changes() const {
  return std::ranges::any_of(probes(), [](const Probe& probe) { return probe.changes(); });
}

/// Room for one position more of every layer, where all that is held lies, and what is read.
void CudaNextForward::begin() {
  report().attention_kernel = "cuda";
  const std::int64_t batch = this->batch();
  const std::span<HeldSequence> held(static_cast<HeldSequence*>(host_.mutable_data_ptr()),
                                     static_cast<std::size_t>(config().layers * batch));
  std::ranges::fill(held, HeldSequence{});
  for (std::int64_t b = 0; b < batch; ++b) {
    if (!has_state(b)) continue;
    for (int layer = 0; layer < config().layers; ++layer) {
      TorchState::Layer& cache = torch_state(b).layer(layer);
      HeldSequence& sequence = held[static_cast<std::size_t>(layer * batch + b)];
      const at::Tensor key = cache.key.reserve(1);
      const at::Tensor value = cache.value.reserve(1);
      sequence.key = key.mutable_data_ptr();
      sequence.key_stride = key.stride(0);
      sequence.value = value.mutable_data_ptr();
      sequence.value_stride = value.stride(0);
      if (cache.gated()) {
        const at::Tensor gates = cache.cumulative_log_gate.reserve(1);
        sequence.cumulative = gates.mutable_data_ptr<double>();
        sequence.gate_stride = gates.stride(0);
      }
      if (config().key_shift || config().value_shift) {
        const at::Tensor last = torch_state(b).last(layer);
        sequence.key_before = last[0].mutable_data_ptr();
        sequence.value_before = last[1].mutable_data_ptr();
      }
      sequence.position = first_position(b);
      sequence.rows = key.size(1);
      if (config().window_size > 0) {
        sequence.hidden_rows = std::max<std::int64_t>(0, sequence.position - config().window_size + 1 - cache.first);
      }
    }
  }
  std::ranges::copy(input().ids, reinterpret_cast<std::int32_t*>(held.data() + held.size()));
  on_device_.copy_(host_, /*non_blocking=*/true);
  const at::Tensor ids = on_device_.slice(0, static_cast<std::int64_t>(held.size_bytes())).view(at::kInt);
  at::index_select_out(residual_, weights().embedding, 0, ids);
  if (!config().rope) return;
  check(cuda::next_rotations(sequences(0), batch, config().head_dim / 2, weights().frequencies.const_data_ptr<double>(),
                             rotation_.mutable_data_ptr<float>(), stream()),
        "the table of rotations");
}

bool CudaNextForward::run_layers() {
  if (changes()) return Forward::run_layers();
  if (graph_ != nullptr) {
    check(graph_->launch(stream()), "a recorded step");
    return true;
  }
  // What LibTorch makes when it is first needed must not be made while its work is recorded.
  if (std::exchange(run_before_, true)) {
    graph_ = cuda::DeviceGraph::record(stream(), [&] { Forward::run_layers(); });
    if (graph_ != nullptr) return run_layers();
  }
  return Forward::run_layers();
}

void CudaNextForward::split_heads(int layer) {
  cuda::ProjectedHeads step = projected_heads(layer);
  step.query = query_.mutable_data_ptr();
  check(cuda::project_next_heads(step, sequences(layer), stream()), "the shift and norm of heads");
}

/// Attention sums the gates of its position itself, unless an intervention changes them.
void CudaNextForward::sum_gates(int layer) {
  if (!changes() || !gated(layer)) return;
  CudaForward::sum_gates(layer);
  GrowingTensor& sums = torch_state().layer(layer).cumulative_log_gate;
  sums.reserve(1).slice(1, sums.size()).copy_(cumulative_[0]);
}

bool CudaNextForward::attend(int layer) {
  const ProjectionColumns& columns = weights().columns;
  const at::Tensor& constant = weights_of(layer).constant_gate;
  cuda::NextAttention step;
  step.batch = batch();
  step.heads = config().heads;
  step.key_heads = config().key_heads;
  step.head_dim = config().head_dim;
  step.sequences = sequences(layer);
  step.query = query_.const_data_ptr();
  if (config().gated() && !changes()) {
    if (constant.defined()) {
      step.constant_logits = constant.const_data_ptr<float>();
    } else {
      step.gate_logits = gates_.const_data_ptr<float>() + (columns.forget - columns.key_shift);
      step.gate_stride = gates_.stride(0);
    }
  }
  step.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(config().head_dim)));
  step.output = attended_.mutable_data_ptr();
  step.workspace = workspace_.mutable_data_ptr();
  check(cuda::next_attention(step, stream()), "attention");
  return true;
}

/// What was written is held from here on.
bool CudaNextForward::finish() {
  for (std::int64_t b = 0; b < batch(); ++b) {
    if (!has_state(b)) continue;
    for (int layer = 0; layer < config().layers; ++layer) {
      TorchState::Layer& cache = torch_state(b).layer(layer);
      cache.key.commit(1);
      cache.value.commit(1);
      if (cache.gated()) cache.cumulative_log_gate.commit(1);
      torch_state(b).drop_keys(layer, config().window_size, weights_of(layer).logit_bound);
    }
  }
  return true;
}

}  // namespace foxscope

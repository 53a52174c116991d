#include "backend/model/backward/differentiable_mixers_torch.h"

#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

#include "backend/base/index.h"
#include "backend/model/backward/differentiable_attention_torch.h"
#include "backend/model/backward/differentiable_gates_torch.h"
#include "backend/model/backward/differentiable_scan_torch.h"
#include "backend/model/layer/torch/recording_torch.h"
#include "backend/model/spec/interventions.h"

namespace foxscope {

void DifferentiableAttentionSteps::sum_gates(int layer) {
  log_gate_ = log_gates(layer);
  if (pass_.changes_gates(layer)) log_gate_ = change_gates(log_gate_, layer, pass_.probes());
  if (log_gates_.wanted) {
    // Without gates of its own the layer still tells what a gate would change.
    if (!log_gate_.requires_grad()) log_gate_ = log_gate_.detach().requires_grad_();
    log_gates_.grad_layer[index_of(layer)] = log_gate_;
  }
  cumulative_ = pass_.gated(layer) ? sum_log_gates(log_gate_.detach()) : at::Tensor();
  keep_gate_sum(layer);
}

bool DifferentiableAttentionSteps::attend(int layer) {
  if (!(by_kernel_ ? attend_by_kernel(layer) : attend_composed(layer))) return false;
  record_heads(pass_, layer, query_, key_, value_, cumulative_);
  if (erase_read_.defined()) record_erasing(pass_, layer, erase_read_.detach(), erase_write_.detach());
  return true;
}

bool DifferentiableAttentionSteps::attend_by_kernel(int layer) {
  AttentionTensors attention = attention_of(layer, query_, key_, value_, cumulative_);
  if (pass_.blocks.defined()) attention.blocks = pass_.blocks[layer];
  const auto attended = differentiable_attention(attention, log_gate_, pass_.keeps(Keep::ungated), pass_.job().stop);
  if (!attended) return false;
  report_attention(attended->done);
  attended_ = attended->output.transpose(1, 2).reshape({pass_.rows(), pass_.config().heads, pass_.config().head_dim});
  record_normalizers(pass_, layer, attended->log_normalizer, attended->log_normalizer_without_gate);
  return true;
}

bool DifferentiableAttentionSteps::attend_composed(int layer) {
  if (!attend_in_tiles(layer, log_gate_.clamp_min(kLowestLogGate).cumsum(2), /*tolerance=*/0)) return false;
  pass_.report().attention_kernel = "composed";
  return true;
}

void DifferentiableLinearSteps::sum_gates(int layer) {
  TorchLinearSteps::sum_gates(layer);
  at::Tensor& log_decay = operands_.log_decay;
  if (!log_gates_.wanted || !log_decay.defined() || operands_.decays_by_channel()) return;
  if (!log_decay.requires_grad()) log_decay = log_decay.detach().requires_grad_();
  log_gates_.grad_layer[index_of(layer)] = log_decay;
}

void DifferentiableLinearSteps::check_decays(int layer) {
  if (!checked_[index_of(layer)]) TorchLinearSteps::check_decays(layer);
  checked_[index_of(layer)] = true;
}

/// Whole texts carry no state on.
std::optional<at::Tensor> DifferentiableLinearSteps::mix(at::Tensor& state) {
  if (!by_kernel_ || !differentiable_scan_takes(operands_)) return TorchLinearSteps::mix(state);
  return differentiable_scan(operands_, pass_.job().stop);
}

}  // namespace foxscope

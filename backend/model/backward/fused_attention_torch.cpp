#include "backend/model/backward/fused_attention_torch.h"

#include <utility>

#include <ATen/ATen.h>

#include "backend/base/index.h"
#include "backend/model/layer/torch/recording_torch.h"
#include "backend/model/spec/interventions.h"

namespace foxscope {

FusedAttentionSteps::FusedAttentionSteps(FusedPass& pass, std::vector<at::Tensor>& gate_sums)
    : GradientAttentionSteps(pass.torch(), gate_sums),
      fused_(pass),
      layers_(static_cast<std::size_t>(pass.torch().config().layers)) {}

bool FusedAttentionSteps::project(int layer) {
  const TorchLayer& weight = pass_.weights(layer);
  Layer& keeps = kept(layer);
  keeps.entered = pass_.residual;
  const at::Tensor normed = fused_.normed_rows(pass_.residual, weight.attention_norm, /*with_rest=*/true);
  const std::int64_t matrix_columns = weight.projection.size(0);
  const std::int64_t gate_columns = weight.output_gate.defined() ? weight.output_gate.size(0) : 0;
  keeps.projected = at::empty({pass_.rows(), matrix_columns + gate_columns}, normed.options());
  if (weight.projection_and_gate.defined()) {
    at::mm_out(keeps.projected, normed, weight.projection_and_gate.t());
  } else {
    at::Tensor matrices = keeps.projected.slice(1, 0, matrix_columns);
    at::mm_out(matrices, normed, weight.projection.t());
    at::Tensor gate = keeps.projected.slice(1, matrix_columns);
    if (gate_columns > 0) at::mm_out(gate, normed, weight.output_gate.t());
  }
  if (weight.projection_bias.defined()) keeps.projected.slice(1, 0, matrix_columns).add_(weight.projection_bias);
  if (weight.gates.size(0) > 0) {
    keeps.gates = weight.gates_bias.defined()
                      ? weight.gates_bias.expand({pass_.rows(), -1}).clone()
                      : at::zeros({pass_.rows(), weight.gates.size(0)}, pass_.residual.options());
    if (pass_.weights().on_gpu()) {
      // The product is as exact as CudaPass's: up to 2^-17 of each product.
      keeps.gates = fused_.add_product(keeps.gates, fused_.normed_pair().flatten(1), weight.gates_high);
      keeps.gates = fused_.add_product(keeps.gates, normed, weight.gates_rest);
    } else {
      keeps.gates = fused_.add_product(keeps.gates, normed, weight.gates);
    }
  }
  gates_ = keeps.gates;
  set_heads(layer);
  return !pass_.job().stopped();
}

void FusedAttentionSteps::set_heads(int layer) {
  const auto heads = [&](std::int64_t count) {
    return at::empty({pass_.rows(), count, pass_.config().head_dim}, fused_.normed_pair().options());
  };
  const PointwiseOps::QueryKeyValue made = {heads(pass_.config().heads), heads(pass_.config().key_heads),
                                            heads(pass_.config().key_heads)};
  fused_.ops().heads(heads_of(layer), made);
  query_ = by_heads(made.query);
  key_ = by_heads(made.key);
  value_ = by_heads(made.value);
}

at::Tensor FusedAttentionSteps::by_heads(const at::Tensor& rows) const {
  return rows.unflatten(0, {pass_.batch(), pass_.length()}).transpose(1, 2);
}

PointwiseOps::Heads FusedAttentionSteps::heads_of(int layer) const {
  const Layer& keeps = layers_[index_of(layer)];
  return {keeps.projected.slice(1, 0, pass_.weights().columns.key_shift), keeps.gates, &pass_.weights(layer)};
}

PointwiseOps::Gated FusedAttentionSteps::gated_of(int layer) const {
  const Layer& keeps = layers_[index_of(layer)];
  const TorchLayer& weight = pass_.weights(layer);
  const at::Tensor gate =
      weight.output_gate.defined() ? keeps.projected.slice(1, pass_.weights().columns.key_shift) : at::Tensor();
  return {keeps.attended, gate, weight.output_norm};
}

void FusedAttentionSteps::sum_gates(int layer) {
  TorchAttentionSteps::sum_gates(layer);
  keep_gate_sum(layer);
  kept(layer).cumulative = cumulative_;
}

AttentionTensors FusedAttentionSteps::attention_of(int layer) {
  const Layer& keeps = kept(layer);
  AttentionTensors attention = GradientAttentionSteps::attention_of(layer, query_, key_, value_, keeps.cumulative);
  attention.output = by_heads(keeps.attended);
  attention.log_normalizer = keeps.log_normalizer;
  return attention;
}

bool FusedAttentionSteps::attend(int layer) {
  Layer& keeps = kept(layer);
  keeps.attended =
      at::empty({pass_.rows(), pass_.config().heads, pass_.config().head_dim}, fused_.normed_pair().options());
  keeps.log_normalizer = at::empty({pass_.batch(), pass_.config().heads, pass_.length()}, pass_.residual.options());
  AttentionTensors attention = attention_of(layer);
  if (pass_.keeps(Keep::ungated)) attention.log_normalizer_without_gate = at::empty_like(keeps.log_normalizer);
  if (pass_.blocks.defined()) attention.blocks = pass_.blocks[layer];
  const AttentionDone done = foxscope::attend(attention, pass_.job().stop);
  if (done.kernel == nullptr) return false;
  report_attention(done);
  record_normalizers(pass_, layer, keeps.log_normalizer, attention.log_normalizer_without_gate);
  record_heads(pass_, layer, query_, key_, value_, cumulative_);
  return true;
}

bool FusedAttentionSteps::project_output(int layer) {
  output_ = at::empty({pass_.rows(), pass_.config().query_size()}, fused_.normed_pair().options());
  fused_.ops().gated(gated_of(layer), output_);
  pass_.cut_heads(layer, output_);
  pass_.residual = fused_.add_product(pass_.residual, output_, pass_.weights(layer).output);
  return !pass_.job().stopped();
}

void FusedAttentionSteps::end_layer(int layer, bool recomputes) {
  drop_heads();
  output_ = at::Tensor();
  if (!recomputes) return;
  Layer only;
  only.entered = kept(layer).entered;
  kept(layer) = only;
}

bool FusedAttentionSteps::backward(int layer, bool to_input, const Job& job, Gradients& gradients) {
  const at::Tensor grad_projected = at::empty_like(kept(layer).projected);
  const at::Tensor grad_attended = project_output_backward(layer, grad_projected);
  if (job.stopped()) return false;
  const PointwiseOps::QueryKeyValue grad_heads = attend_backward(layer, grad_attended, gradients);
  if (to_input) {
    const at::Tensor grad_gates = kept(layer).gates.defined() ? at::zeros_like(kept(layer).gates) : at::Tensor();
    fused_.ops().heads_backward(heads_of(layer), grad_heads,
                                grad_projected.slice(1, 0, pass_.weights().columns.key_shift), grad_gates,
                                fused_.grad_weights(layer));
    log_gates_backward(layer, grad_log_gate_, grad_gates);
    project_backward(layer, grad_projected, grad_gates);
  }
  kept(layer) = {};
  return true;
}

/// @returns the gradient by what attention made, [R, H, d]
at::Tensor FusedAttentionSteps::project_output_backward(int layer, const at::Tensor& grad_projected) {
  const TorchLayer& weight = pass_.weights(layer);
  const TorchLayer& grad_layer = fused_.grad_weights(layer);
  const PointwiseOps::Gated step = gated_of(layer);
  const at::Tensor& grad_sum = fused_.grad_rounded();
  at::Tensor grad_output = at::mm(grad_sum, weight.output);
  pass_.cut_heads(layer, grad_output);
  fused_.add_weight_gradient(grad_layer.output, grad_sum, std::exchange(output_, at::Tensor()));
  at::Tensor grad_attended = at::empty_like(step.attended);
  const at::Tensor grad_gate =
      step.gate.defined() ? grad_projected.slice(1, pass_.weights().columns.key_shift) : at::Tensor();
  fused_.ops().gated_backward(step, grad_output, grad_attended, grad_gate, grad_layer.output_norm);
  return grad_attended;
}

PointwiseOps::QueryKeyValue FusedAttentionSteps::attend_backward(int layer, const at::Tensor& grad_attended,
                                                                 Gradients& gradients) {
  const Layer& keeps = kept(layer);
  set_heads(layer);
  const auto like = [](const at::Tensor& heads) { return at::empty_like(heads.transpose(1, 2).flatten(0, 1)); };
  PointwiseOps::QueryKeyValue grad_heads = {like(query_), like(key_), like(value_)};
  grad_log_gate_ = at::empty({pass_.batch(), pass_.config().heads, pass_.length()}, fused_.grad_residual().options());
  foxscope::attend_backward(
      attention_of(layer), by_heads(grad_attended),
      {by_heads(grad_heads.query), by_heads(grad_heads.key), by_heads(grad_heads.value), grad_log_gate_});
  drop_heads();
  if (keeps.cumulative.defined()) {
    // Held at its lowest, log f moves nothing.
    const at::Tensor steps = at::diff(keeps.cumulative, 1, 2,
                                      at::zeros({pass_.batch(), pass_.config().heads, 1}, keeps.cumulative.options()));
    grad_log_gate_.masked_fill_(steps <= kLowestLogGate, 0.0);
  }
  if (fused_.options().log_gates) gradients.log_gates[index_of(layer)] = grad_log_gate_;
  return grad_heads;
}

void FusedAttentionSteps::log_gates_backward(int layer, const at::Tensor& grad_log_gate, const at::Tensor& grad_gates) {
  if (!pass_.config().gated()) return;
  at::Tensor grad_own = grad_log_gate;
  if (pass_.changes_gates(layer)) {
    gates_ = kept(layer).gates;
    const at::Tensor log_gate = log_gates(layer).to(at::kCPU).contiguous();
    const at::Tensor gradient = grad_log_gate.to(at::kCPU, at::kDouble).contiguous();
    const std::int64_t size = pass_.config().heads * pass_.length();
    for (std::int64_t b = 0; b < pass_.batch(); ++b) {
      pass_.probes()[index_of(b)].pull_back_gates(layer, pass_.config().heads, pass_.length(),
                                                  log_gate.const_data_ptr<double>() + b * size,
                                                  gradient.mutable_data_ptr<double>() + b * size);
    }
    grad_own = gradient.to(grad_log_gate.device(), at::kFloat);
  }
  fused_.ops().log_gate_backward(heads_of(layer), grad_own, grad_gates, fused_.grad_weights(layer).constant_gate);
}

/// The gradient by x from before attention to what enters the layer.
void FusedAttentionSteps::project_backward(int layer, const at::Tensor& grad_projected, const at::Tensor& grad_gates) {
  const TorchLayer& weight = pass_.weights(layer);
  const TorchLayer& grad_layer = fused_.grad_weights(layer);
  const std::int64_t matrix_columns = weight.projection.size(0);
  const at::Tensor grad_matrices = grad_projected.slice(1, 0, matrix_columns);
  const at::Tensor grad_output_gate = grad_projected.slice(1, matrix_columns);
  at::Tensor grad_normed;
  if (weight.projection_and_gate.defined()) {
    grad_normed = at::mm(grad_projected, weight.projection_and_gate);
  } else {
    grad_normed = at::mm(grad_matrices, weight.projection);
    if (weight.output_gate.defined()) grad_normed.addmm_(grad_output_gate, weight.output_gate);
  }
  const at::Tensor rounded_gates = grad_gates.defined() ? grad_gates.to(pass_.weights().matrix) : at::Tensor();
  if (grad_gates.defined()) grad_normed.addmm_(rounded_gates, weight.gates.to(pass_.weights().matrix));
  if (fused_.wants_weights()) {
    const at::Tensor normed = fused_.normed_rows(kept(layer).entered, weight.attention_norm, /*with_rest=*/false);
    if (grad_layer.projection_and_gate.defined()) {
      fused_.add_weight_gradient(grad_layer.projection_and_gate, grad_projected, normed);
    } else {
      fused_.add_weight_gradient(grad_layer.projection, grad_matrices, normed);
      if (weight.output_gate.defined()) fused_.add_weight_gradient(grad_layer.output_gate, grad_output_gate, normed);
    }
    if (grad_gates.defined()) fused_.add_weight_gradient(grad_layer.gates, rounded_gates, normed);
    if (grad_layer.projection_bias.defined()) {
      grad_layer.projection_bias.add_(grad_matrices.sum(at::IntArrayRef({0}), false, at::kFloat));
    }
    if (grad_gates.defined() && grad_layer.gates_bias.defined()) {
      grad_layer.gates_bias.add_(grad_gates.sum(at::IntArrayRef({0})));
    }
  }
  fused_.norm_backward({kept(layer).entered, weight.attention_norm}, grad_normed, grad_layer.attention_norm);
}

}  // namespace foxscope

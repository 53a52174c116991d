#include <algorithm>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "backend/model/backward/fused_gradient_forward_torch.h"
#include "backend/model/spec/interventions.h"

namespace foxscope {

bool FusedGradientForward::takes(const TorchWeights& weights) {
  return !weights.config.linear && SmallSteps::take(weights) && attention_kernels_take(weights);
}

FusedGradientForward::FusedGradientForward(const TorchWeights& weights, std::int64_t batch, std::int64_t length,
                                           const at::Tensor& loss_weights, const GradientOptions& options)
    : GradientForward(weights, batch, length, loss_weights, options),
      steps_(SmallSteps::make(weights, length)),
      layers_(static_cast<std::size_t>(weights.config.layers)) {}

void FusedGradientForward::begin() {
  TorchForward::begin();
  const at::TensorOptions run = residual_.options().dtype(weights().matrix);
  normed_pair_ = at::empty({rows(), weights().on_gpu() ? 2 : 1, config().hidden_size}, run);
}

at::Tensor FusedGradientForward::normed_rows(const at::Tensor& x, const at::Tensor& weight, bool with_rest) {
  const at::Tensor rest = with_rest && normed_pair_.size(1) > 1 ? normed_pair_.select(1, 1) : at::Tensor();
  steps_->norm({x, weight}, normed_pair_.select(1, 0), rest);
  return normed_pair_.select(1, 0);
}

at::Tensor FusedGradientForward::by_heads(const at::Tensor& rows) const {
  return rows.unflatten(0, {batch(), length()}).transpose(1, 2);
}

at::Tensor FusedGradientForward::add_product(const at::Tensor& sum, const at::Tensor& in,
                                             const at::Tensor& weight) const {
  at::Tensor out = at::empty_like(sum);
  if (weights().on_gpu()) {
    at::addmm_out(out, sum, in, weight.t(), at::kFloat);
  } else {
    at::addmm_out(out, sum, in, weight.t());
  }
  return out;
}

void FusedGradientForward::add_weight_gradient(const at::Tensor& of_weight, const at::Tensor& of_out,
                                               const at::Tensor& in) const {
  if (!of_weight.defined()) return;
  at::Tensor sum = of_weight;
  if (weights().on_gpu()) {
    at::addmm_out(sum, sum, of_out.t(), in, at::kFloat);
  } else {
    at::addmm_out(sum, sum, of_out.t(), in);
  }
}

bool FusedGradientForward::project(int layer) {
  const TorchLayer& weight = weights_of(layer);
  Layer& keeps = kept(layer);
  keeps.entered = residual_;
  const at::Tensor normed = normed_rows(residual_, weight.attention_norm, /*with_rest=*/true);
  const std::int64_t matrix_columns = weight.projection.size(0);
  const std::int64_t gate_columns = weight.output_gate.defined() ? weight.output_gate.size(0) : 0;
  keeps.projected = at::empty({rows(), matrix_columns + gate_columns}, normed.options());
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
    keeps.gates = weight.gates_bias.defined() ? weight.gates_bias.expand({rows(), -1}).clone()
                                              : at::zeros({rows(), weight.gates.size(0)}, residual_.options());
    if (weights().on_gpu()) {
      // As CudaForward: up to 2^-17 of each product.
      keeps.gates = add_product(keeps.gates, normed_pair_.flatten(1), weight.gates_high);
      keeps.gates = add_product(keeps.gates, normed, weight.gates_rest);
    } else {
      keeps.gates = add_product(keeps.gates, normed, weight.gates);
    }
  }
  gates_ = keeps.gates;
  set_heads(layer);
  return !job().stopped();
}

void FusedGradientForward::set_heads(int layer) {
  const auto heads = [&](std::int64_t count) {
    return at::empty({rows(), count, config().head_dim}, normed_pair_.options());
  };
  const SmallSteps::QueryKeyValue made = {heads(config().heads), heads(config().key_heads), heads(config().key_heads)};
  steps_->heads(heads_of(layer), made);
  query_ = by_heads(made.query);
  key_ = by_heads(made.key);
  value_ = by_heads(made.value);
}

SmallSteps::Heads FusedGradientForward::heads_of(int layer) const {
  const Layer& keeps = layers_[static_cast<std::size_t>(layer)];
  return {keeps.projected.slice(1, 0, weights().columns.key_shift), keeps.gates, &weights_of(layer)};
}

SmallSteps::Gated FusedGradientForward::gated_of(int layer) const {
  const Layer& keeps = layers_[static_cast<std::size_t>(layer)];
  const TorchLayer& weight = weights_of(layer);
  const at::Tensor gate =
      weight.output_gate.defined() ? keeps.projected.slice(1, weights().columns.key_shift) : at::Tensor();
  return {keeps.attended, gate, weight.output_norm};
}

void FusedGradientForward::sum_gates(int layer) {
  GradientForward::sum_gates(layer);
  kept(layer).cumulative = cumulative_;
}

AttentionTensors FusedGradientForward::attention_of(const Layer& layer) const {
  AttentionTensors attention = GradientForward::attention_of(query_, key_, value_, layer.cumulative);
  attention.output = by_heads(layer.attended);
  attention.log_normalizer = layer.log_normalizer;
  return attention;
}

bool FusedGradientForward::attend(int layer) {
  Layer& keeps = kept(layer);
  keeps.attended = at::empty({rows(), config().heads, config().head_dim}, normed_pair_.options());
  keeps.log_normalizer = at::empty({batch(), config().heads, length()}, residual_.options());
  AttentionTensors attention = attention_of(keeps);
  if (this->keeps(Keep::ungated)) attention.log_normalizer_without_gate = at::empty_like(keeps.log_normalizer);
  if (blocks_.defined()) attention.blocks = blocks_[layer];
  const AttentionDone done = foxscope::attend(attention, job().stop);
  if (done.kernel == nullptr) return false;
  report_attention(done);
  keep_normalizers(layer, keeps.log_normalizer, attention.log_normalizer_without_gate);
  keep_heads(layer);
  return true;
}

bool FusedGradientForward::project_output(int layer) {
  at::Tensor output = at::empty({rows(), config().query_size()}, normed_pair_.options());
  steps_->gated(gated_of(layer), output);
  cut_heads(layer, output);
  residual_ = add_product(residual_, output, weights_of(layer).output);
  kept(layer).middle = residual_;
  return !job().stopped();
}

bool FusedGradientForward::feed_forward(int layer) {
  const TorchLayer& weight = weights_of(layer);
  Layer& keeps = kept(layer);
  const at::Tensor normed = normed_rows(residual_, weight.mlp_norm, /*with_rest=*/false);
  keeps.wide = mlp_inputs(layer, normed);
  const at::Tensor product = at::empty({rows(), config().intermediate_size}, normed.options());
  steps_->swiglu(keeps.wide, product);
  residual_ = add_product(residual_, product, weight.mlp_out);
  return !job().stopped();
}

at::Tensor FusedGradientForward::mlp_inputs(int layer, const at::Tensor& normed) const {
  return at::mm(normed, weights_of(layer).mlp_in.t());
}

void FusedGradientForward::end_layer(int layer) {
  Layer& keeps = kept(layer);
  if (options().recompute == Recompute::mlp) keeps.wide = at::Tensor();
  if (recomputes_layers()) {
    Layer only;
    only.entered = keeps.entered;
    keeps = only;
  }
  GradientForward::end_layer(layer);
  drop_heads();
}

void FusedGradientForward::drop_heads() { query_ = key_ = value_ = at::Tensor(); }

bool FusedGradientForward::make_again(int layer) {
  Layer& keeps = kept(layer);
  if (!keeps.middle.defined()) {
    residual_ = keeps.entered;
    const bool made = again([&] {
      if (!project(layer)) return false;
      sum_gates(layer);
      return attend(layer) && project_output(layer);
    });
    residual_ = at::Tensor();
    if (!made) return false;
  }
  if (!keeps.wide.defined()) {
    keeps.wide = mlp_inputs(layer, normed_rows(keeps.middle, weights_of(layer).mlp_norm, /*with_rest=*/false));
  }
  return true;
}

/// Losses, and on the same logits the gradient of what makes them: logits are made once, and never all at a time.
bool FusedGradientForward::predict() {
  keep_hidden(config().layers);
  const at::Tensor normed = normed_rows(residual_, weights().final_norm, /*with_rest=*/false);
  const std::int64_t vocabulary = config().vocabulary_size;
  const at::Tensor& head = weights().padded_head;
  const at::Tensor wanted = labels();
  const at::Tensor loss = at::empty({rows()}, residual_.options());
  const std::int64_t most = logit_rows();
  const at::Tensor chunk = at::empty({most, head.size(0)}, residual_.options());
  for (std::int64_t begin = 0; begin < rows(); begin += most) {
    if (job().stopped()) return false;
    const std::int64_t end = std::min(begin + most, rows());
    const at::Tensor normed_chunk = normed.slice(0, begin, end);
    at::Tensor logits = chunk.slice(0, 0, end - begin);
    if (weights().on_gpu()) {
      at::mm_out(logits, normed_chunk, head.t(), at::kFloat);
    } else {
      at::mm_out(logits, normed_chunk, head.t());
    }
    keep_logits(begin, logits.slice(1, 0, vocabulary));
    const at::Tensor of_logits = steps_->loss_back(logits.slice(1, 0, vocabulary), wanted.slice(0, begin, end),
                                                   loss_weights_.slice(0, begin, end), loss.slice(0, begin, end));
    add_weight_gradient(of_weights().padded_head, of_logits, normed_chunk);
    // What the head read is not needed any more: its gradient takes the place.
    at::Tensor of_chunk = normed_chunk;
    at::mm_out(of_chunk, of_logits, head);
  }
  finish_losses(loss);
  return true;
}

std::optional<Gradients> FusedGradientForward::differentiate(const Job& job) {
  const at::NoGradGuard no_graph;
  Gradients gradients;
  gradients.log_gates.resize(layers_.size());
  of_residual_ = at::zeros_like(residual_);
  steps_->norm_back({residual_, weights().final_norm}, normed_pair_.select(1, 0), of_residual_,
                    of_weights().final_norm);
  residual_ = at::Tensor();
  for (int layer = config().layers - 1; layer >= 0; --layer) {
    tell_back(job, config().layers - 1 - layer);
    if (job.stopped() || !make_again(layer)) return std::nullopt;
    feed_forward_back(layer);
    const at::Tensor of_projected = at::empty_like(kept(layer).projected);
    const at::Tensor of_attended = project_output_back(layer, of_projected);
    if (job.stopped()) return std::nullopt;
    const SmallSteps::QueryKeyValue of_heads = attend_back(layer, of_attended, gradients);
    if (layer > 0 || wants_weights()) {
      const at::Tensor of_gates = kept(layer).gates.defined() ? at::zeros_like(kept(layer).gates) : at::Tensor();
      steps_->heads_back(heads_of(layer), of_heads, of_projected.slice(1, 0, weights().columns.key_shift), of_gates,
                         of_weights(layer));
      log_gates_back(layer, of_log_gate_, of_gates);
      project_back(layer, of_projected, of_gates);
    }
    kept(layer) = {};
    if (options().layer_done) options().layer_done(layer);
  }
  if (of_weights().embedding.defined()) {
    const auto ids = at::tensor(at::ArrayRef<std::int32_t>(input().ids.data(), input().ids.size()), at::kInt);
    steps_->embedding_back(ids.to(weights().place), of_residual_, of_weights().embedding);
  }
  tell_back(job, config().layers);
  return gradients;
}

/// of_residual_ from behind the MLP to before it.
void FusedGradientForward::feed_forward_back(int layer) {
  const TorchLayer& weight = weights_of(layer);
  const TorchLayer& of_layer = of_weights(layer);
  Layer& keeps = kept(layer);
  const at::Tensor of_sum = of_residual_.to(weights().matrix);
  const at::Tensor product = at::mm(of_sum, weight.mlp_out);
  steps_->swiglu_back(keeps.wide, product, wants_weights());
  const at::Tensor of_normed = at::mm(keeps.wide, weight.mlp_in);
  if (wants_weights()) {
    add_weight_gradient(of_layer.mlp_out, of_sum, product);
    add_weight_gradient(of_layer.mlp_in, keeps.wide, normed_rows(keeps.middle, weight.mlp_norm, /*with_rest=*/false));
  }
  steps_->norm_back({keeps.middle, weight.mlp_norm}, of_normed, of_residual_, of_layer.mlp_norm);
  keeps.middle = keeps.wide = at::Tensor();
}

/// @returns the gradient by what attention made, [R, H, d]
at::Tensor FusedGradientForward::project_output_back(int layer, const at::Tensor& of_projected) {
  const TorchLayer& weight = weights_of(layer);
  const TorchLayer& of_layer = of_weights(layer);
  const SmallSteps::Gated step = gated_of(layer);
  const at::Tensor of_sum = of_residual_.to(weights().matrix);
  at::Tensor of_output = at::mm(of_sum, weight.output);
  cut_heads(layer, of_output);
  if (wants_weights()) {
    at::Tensor output = at::empty_like(of_output);
    steps_->gated(step, output);
    cut_heads(layer, output);
    add_weight_gradient(of_layer.output, of_sum, output);
  }
  at::Tensor of_attended = at::empty_like(step.attended);
  const at::Tensor of_gate = step.gate.defined() ? of_projected.slice(1, weights().columns.key_shift) : at::Tensor();
  steps_->gated_back(step, of_output, of_attended, of_gate, of_layer.output_norm);
  return of_attended;
}

SmallSteps::QueryKeyValue FusedGradientForward::attend_back(int layer, const at::Tensor& of_attended,
                                                            Gradients& gradients) {
  const Layer& keeps = kept(layer);
  set_heads(layer);
  const auto like = [](const at::Tensor& heads) { return at::empty_like(heads.transpose(1, 2).flatten(0, 1)); };
  SmallSteps::QueryKeyValue of_heads = {like(query_), like(key_), like(value_)};
  of_log_gate_ = at::empty({batch(), config().heads, length()}, of_residual_.options());
  foxscope::attend_back(attention_of(keeps), by_heads(of_attended),
                        {by_heads(of_heads.query), by_heads(of_heads.key), by_heads(of_heads.value), of_log_gate_});
  drop_heads();
  if (keeps.cumulative.defined()) {
    // Held at its lowest, log f moves nothing.
    const at::Tensor steps =
        at::diff(keeps.cumulative, 1, 2, at::zeros({batch(), config().heads, 1}, keeps.cumulative.options()));
    of_log_gate_.masked_fill_(steps <= kLowestLogGate, 0.0);
  }
  if (options().log_gates) gradients.log_gates[static_cast<std::size_t>(layer)] = of_log_gate_;
  return of_heads;
}

void FusedGradientForward::log_gates_back(int layer, const at::Tensor& of_log_gate, const at::Tensor& of_gates) {
  if (!config().gated()) return;
  at::Tensor of_own = of_log_gate;
  if (std::ranges::any_of(probes(), [layer](const Probe& probe) { return probe.changes_gates(layer); })) {
    gates_ = kept(layer).gates;
    const at::Tensor log_gate = log_gates(layer).to(at::kCPU).contiguous();
    const at::Tensor gradient = of_log_gate.to(at::kCPU, at::kDouble).contiguous();
    const std::int64_t size = config().heads * length();
    for (std::int64_t b = 0; b < batch(); ++b) {
      probes()[static_cast<std::size_t>(b)].pull_back_gates(layer, config().heads, length(),
                                                            log_gate.const_data_ptr<double>() + b * size,
                                                            gradient.mutable_data_ptr<double>() + b * size);
    }
    of_own = gradient.to(of_log_gate.device(), at::kFloat);
  }
  steps_->log_gate_back(heads_of(layer), of_own, of_gates, of_weights(layer).constant_gate);
}

/// of_residual_ from before attention to what enters the layer.
void FusedGradientForward::project_back(int layer, const at::Tensor& of_projected, const at::Tensor& of_gates) {
  const TorchLayer& weight = weights_of(layer);
  const TorchLayer& of_layer = of_weights(layer);
  const std::int64_t matrix_columns = weight.projection.size(0);
  const at::Tensor of_matrices = of_projected.slice(1, 0, matrix_columns);
  const at::Tensor of_output_gate = of_projected.slice(1, matrix_columns);
  at::Tensor of_normed;
  if (weight.projection_and_gate.defined()) {
    of_normed = at::mm(of_projected, weight.projection_and_gate);
  } else {
    of_normed = at::mm(of_matrices, weight.projection);
    if (weight.output_gate.defined()) of_normed.addmm_(of_output_gate, weight.output_gate);
  }
  const at::Tensor rounded_gates = of_gates.defined() ? of_gates.to(weights().matrix) : at::Tensor();
  if (of_gates.defined()) of_normed.addmm_(rounded_gates, weight.gates.to(weights().matrix));
  if (wants_weights()) {
    const at::Tensor normed = normed_rows(kept(layer).entered, weight.attention_norm, /*with_rest=*/false);
    if (of_layer.projection_and_gate.defined()) {
      add_weight_gradient(of_layer.projection_and_gate, of_projected, normed);
    } else {
      add_weight_gradient(of_layer.projection, of_matrices, normed);
      if (weight.output_gate.defined()) add_weight_gradient(of_layer.output_gate, of_output_gate, normed);
    }
    if (of_gates.defined()) add_weight_gradient(of_layer.gates, rounded_gates, normed);
    if (of_layer.projection_bias.defined())
      of_layer.projection_bias.add_(of_matrices.sum(at::IntArrayRef({0}), false, at::kFloat));
    if (of_gates.defined() && of_layer.gates_bias.defined())
      of_layer.gates_bias.add_(of_gates.sum(at::IntArrayRef({0})));
  }
  steps_->norm_back({kept(layer).entered, weight.attention_norm}, of_normed, of_residual_, of_layer.attention_norm);
}

}  // namespace foxscope

#include "backend/model/backward/fused_gradient_forward_torch.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "backend/model/layer/chunk_sizes.h"
#include "backend/model/layer/torch/recording_torch.h"

namespace foxscope {

bool FusedGradientForward::takes(const TorchWeights& weights) {
  return !weights.config.linear && PointwiseOps::take(weights) && attention_kernels_take(weights);
}

FusedGradientForward::FusedGradientForward(const TorchWeights& weights, std::int64_t batch, std::int64_t length,
                                           const at::Tensor& loss_weights, const GradientOptions& options)
    : GradientForward(weights, batch, length, loss_weights, options),
      fused_(pass_, this->options(), wants_weights()),
      layers_(static_cast<std::size_t>(weights.config.layers)) {}

std::unique_ptr<MixerSteps> FusedGradientForward::make_attention() {
  auto steps = std::make_unique<FusedAttentionSteps>(fused_, gate_sums_);
  attention_ = steps.get();
  return steps;
}

void FusedGradientForward::begin() {
  TorchForward::begin();
  fused_.begin();
}

bool FusedGradientForward::feed_forward(int layer) {
  const TorchLayer& weight = pass_.weights(layer);
  Layer& keeps = kept(layer);
  keeps.middle = pass_.residual;
  const at::Tensor normed = fused_.normed_rows(keeps.middle, weight.mlp_norm, /*with_rest=*/false);
  keeps.wide = mlp_inputs(layer, normed);
  const at::Tensor product = at::empty({rows(), config().intermediate_size}, normed.options());
  fused_.ops().swiglu(keeps.wide, product);
  pass_.residual = fused_.add_product(keeps.middle, product, weight.mlp_out);
  return !job().stopped();
}

at::Tensor FusedGradientForward::mlp_inputs(int layer, const at::Tensor& normed) const {
  return at::mm(normed, pass_.weights(layer).mlp_in.t());
}

void FusedGradientForward::end_layer(int layer) {
  Layer& keeps = kept(layer);
  if (options().recompute != Recompute::none) keeps.wide = at::Tensor();
  keeps.middle = at::Tensor();
  GradientForward::end_layer(layer);
  attention_->end_layer(layer, options().recompute == Recompute::layers);
}

bool FusedGradientForward::make_again(int layer) {
  Layer& keeps = kept(layer);
  pass_.residual = attention_->entered(layer);
  const bool made = again([&] {
    if (options().recompute == Recompute::layers) {
      if (!attention_->project(layer)) return false;
      attention_->sum_gates(layer);
      if (!attention_->attend(layer)) return false;
    }
    return attention_->project_output(layer);
  });
  keeps.middle = std::exchange(pass_.residual, at::Tensor());
  if (!made) return false;
  if (!keeps.wide.defined()) {
    const at::Tensor& weight = pass_.weights(layer).mlp_norm;
    keeps.wide = mlp_inputs(layer, fused_.normed_rows(keeps.middle, weight, /*with_rest=*/false));
  }
  return true;
}

/// Losses, and on the same logits the gradient of what makes them: logits are made once, and never all at a time.
bool FusedGradientForward::predict() {
  keep_hidden(config().layers);
  const at::Tensor normed = fused_.normed_rows(pass_.residual, pass_.weights().final_norm, /*with_rest=*/false);
  const std::int64_t vocabulary = config().vocabulary_size;
  const at::Tensor& head = pass_.weights().padded_head;
  const at::Tensor wanted = pass_.put(input().labels);
  const at::Tensor loss = at::empty({rows()}, pass_.residual.options());
  const std::int64_t most = logit_rows();
  const at::Tensor chunk = at::empty({most, head.size(0)}, pass_.residual.options());
  const bool whole = for_blocks(rows(), most, job(), [&](std::int64_t begin, std::int64_t end) {
    const at::Tensor normed_chunk = normed.slice(0, begin, end);
    at::Tensor logits = chunk.slice(0, 0, end - begin);
    if (pass_.weights().on_gpu()) {
      at::mm_out(logits, normed_chunk, head.t(), at::kFloat);
    } else {
      at::mm_out(logits, normed_chunk, head.t());
    }
    record_logits(pass_, begin, logits.slice(1, 0, vocabulary));
    const at::Tensor grad_logits =
        fused_.ops().loss_backward(logits.slice(1, 0, vocabulary), wanted.slice(0, begin, end),
                                   loss_weights_.slice(0, begin, end), loss.slice(0, begin, end));
    fused_.add_weight_gradient(grad_weights().padded_head, grad_logits, normed_chunk);
    // The gradient takes the place of the head's input, which is not needed any more.
    at::Tensor grad_chunk = normed_chunk;
    at::mm_out(grad_chunk, grad_logits, head);
  });
  if (whole) finish_losses(loss);
  return whole;
}

std::optional<Gradients> FusedGradientForward::backward(const Job& job) {
  const at::NoGradGuard no_graph;
  Gradients gradients;
  gradients.log_gates.resize(layers_.size());
  fused_.begin_backward();
  fused_.norm_backward({pass_.residual, pass_.weights().final_norm}, fused_.normed_pair().select(1, 0),
                       grad_weights().final_norm);
  pass_.residual = at::Tensor();
  for (int layer = config().layers - 1; layer >= 0; --layer) {
    report_backward(job, config().layers - 1 - layer);
    if (job.stopped() || !make_again(layer)) return std::nullopt;
    if (options().layer_begins) options().layer_begins(layer);
    feed_forward_backward(layer);
    if (!attention_->backward(layer, layer > 0 || wants_weights(), job, gradients)) return std::nullopt;
    if (options().layer_done) options().layer_done(layer);
  }
  if (grad_weights().embedding.defined()) {
    fused_.ops().embedding_backward(pass_.put(input().ids), fused_.grad_residual(), grad_weights().embedding);
  }
  report_backward(job, config().layers);
  return gradients;
}

/// The gradient by x from behind the MLP to before it.
void FusedGradientForward::feed_forward_backward(int layer) {
  const TorchLayer& weight = pass_.weights(layer);
  const TorchLayer& grad_layer = grad_weights(layer);
  Layer& keeps = kept(layer);
  const at::Tensor& grad_sum = fused_.grad_rounded();
  const at::Tensor product = at::mm(grad_sum, weight.mlp_out);
  fused_.ops().swiglu_backward(keeps.wide, product, wants_weights());
  const at::Tensor grad_normed = at::mm(keeps.wide, weight.mlp_in);
  if (wants_weights()) {
    fused_.add_weight_gradient(grad_layer.mlp_out, grad_sum, product);
    fused_.add_weight_gradient(grad_layer.mlp_in, keeps.wide,
                               fused_.normed_rows(keeps.middle, weight.mlp_norm, /*with_rest=*/false));
  }
  fused_.norm_backward({keeps.middle, weight.mlp_norm}, grad_normed, grad_layer.mlp_norm);
  keeps.middle = keeps.wide = at::Tensor();
}

}  // namespace foxscope

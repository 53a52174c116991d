#include "backend/model/backward/differentiable_forward_torch.h"

#include <algorithm>
#include <utility>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/autograd.h>

#include "backend/base/index.h"
#include "backend/model/backward/differentiable_mixers_torch.h"
#include "backend/model/backward/pointwise_ops_torch.h"
#include "backend/model/layer/chunk_sizes.h"
#include "backend/model/layer/torch/composed_steps_torch.h"
#include "backend/model/layer/torch/mlp_torch.h"
#include "backend/model/layer/torch/recording_torch.h"
#include "kernels/cuda/device.h"

namespace foxscope {
namespace {

/// Tensors that a result is differentiated by, each with the place of its gradient.
class Sought {
 public:
  void add(const at::Tensor& by, at::Tensor& gradient) {
    if (!by.defined() || !by.requires_grad()) return;
    by_.push_back(by);
    gradients_.push_back(&gradient);
    sums_.emplace_back();
  }
  /// @param sum  the gradient is added to it; undefined: it is not sought
  void add_to(const at::Tensor& by, const at::Tensor& sum) {
    if (!sum.defined()) return;
    by_.push_back(by);
    gradients_.push_back(nullptr);
    sums_.push_back(sum);
  }
  /// @param gradient  of the loss by `of`
  void find(const at::Tensor& of, const at::Tensor& gradient) {
    const torch::autograd::variable_list found =
        torch::autograd::grad({of}, by_, {gradient}, /*retain_graph=*/false, /*create_graph=*/false,
                              /*allow_unused=*/true);
    for (std::size_t n = 0; n < found.size(); ++n) {
      if (gradients_[n] == nullptr) {
        if (found[n].defined()) sums_[n].add_(found[n]);
      } else {
        *gradients_[n] = found[n].defined() ? found[n] : at::zeros_like(by_[n]);
      }
    }
  }

 private:
  torch::autograd::variable_list by_;
  std::vector<at::Tensor*> gradients_;  ///< null where it is added to a sum
  std::vector<at::Tensor> sums_;
};

}  // namespace

DifferentiableForward::DifferentiableForward(const TorchWeights& weights, std::int64_t batch, std::int64_t length,
                                             const at::Tensor& loss_weights, const GradientOptions& options,
                                             Steps steps)
    : GradientForward(weights, batch, length, loss_weights, options),
      steps_(steps),
      layers_(static_cast<std::size_t>(weights.config.layers) + 1) {
  pass_.keep_sums_apart();
  log_gates_.wanted = options.log_gates;
  log_gates_.grad_layer.resize(static_cast<std::size_t>(weights.config.layers));
}

std::unique_ptr<MixerSteps> DifferentiableForward::make_attention() {
  const bool by_kernel = steps_ == Steps::kernels && attention_kernels_take(pass_.weights()) &&
                         config().attention_cap == 0 && !config().sinks && !config().path;
  return std::make_unique<DifferentiableAttentionSteps>(pass_, gate_sums_, log_gates_, by_kernel);
}

std::unique_ptr<MixerSteps> DifferentiableForward::make_linear() {
  return std::make_unique<DifferentiableLinearSteps>(pass_, log_gates_, steps_ == Steps::kernels);
}

void DifferentiableForward::begin() {
  TorchForward::begin();
  embedded_ = pass_.residual;
  enter(input().first_layer);
}

/// Cuts x off from the operations that made it: their backward begins at x.
void DifferentiableForward::enter(int layer) {
  pass_.residual = pass_.residual.detach().requires_grad_();
  layers_[index_of(layer)].entered = pass_.residual;
  at::GradMode::set_enabled(!made_again(layer));
  pass_.kept = kept(layer);
}

KeptResults* DifferentiableForward::kept(int layer) {
  return made_again(layer) && options().recompute == Recompute::mlp ? &layers_[index_of(layer)].kept : nullptr;
}

void DifferentiableForward::end_layer(int layer) {
  GradientForward::end_layer(layer);
  layers_[index_of(layer)].left = pass_.residual;
  enter(layer + 1);
}

bool DifferentiableForward::feed_forward(int layer) {
  const TakeChoice take = [&](const at::Tensor& experts, const at::Tensor& of_router) {
    at::Tensor weights = without_dropped(pass_, layer, 0, experts, of_router);
    record_experts(pass_, layer, experts, weights);
    return weights;
  };
  add_whole_mlp(pass_, layer, take);
  return !job().stopped();
}

/// Whether a kernel makes losses and the gradients of logits.
bool DifferentiableForward::predicts_by_kernel() const {
  const TorchWeights& weights = pass_.weights();
  return steps_ == Steps::kernels && weights.on_gpu() && weights.matrix == at::kBFloat16 && config().rotaries.empty() &&
         config().logit_cap == 0 && config().logit_factor == 1 && kernels::cuda::is_available();
}

/// Losses, and on the same logits the gradient of what makes them: logits are made once, and never all at a time.
bool DifferentiableForward::predict() {
  at::GradMode::set_enabled(true);
  keep_hidden(config().layers);
  normed_end_ = final_norm(0);
  const at::NoGradGuard no_graph;
  const at::Tensor normed = normed_end_.detach();
  const std::int64_t vocabulary = config().vocabulary_size;
  const double cap = config().logit_cap;
  const at::Tensor head = pass_.weights().padded_head.detach().slice(0, 0, vocabulary);
  const at::Tensor& grad_head = grad_weights().padded_head;
  normed_end_gradient_ = at::empty_like(normed);
  const at::Tensor labels = pass_.put(input().labels);
  const at::Tensor wanted = labels.to(at::kLong).unsqueeze(1);
  const at::Tensor loss = at::empty({rows()}, pass_.residual.options());
  const std::int64_t most = logit_rows();
  const std::unique_ptr<PointwiseOps> ops =
      predicts_by_kernel() ? PointwiseOps::make(pass_.weights(), length()) : nullptr;
  const auto predict_by_kernel = [&](std::int64_t begin, std::int64_t end) {
    const at::Tensor padded = pass_.weights().padded_head.detach();
    const at::Tensor in = normed.slice(0, begin, end);
    const at::Tensor logits = at::mm(in, padded.t(), at::kFloat).slice(1, 0, vocabulary);
    record_logits(pass_, begin, logits);
    const at::Tensor grad_logits = ops->loss_backward(logits, labels.slice(0, begin, end),
                                                      loss_weights_.slice(0, begin, end), loss.slice(0, begin, end));
    at::Tensor grad_normed = normed_end_gradient_.slice(0, begin, end);
    at::mm_out(grad_normed, grad_logits, padded);
    at::Tensor sum = grad_head;
    if (sum.defined()) at::addmm_out(sum, sum, grad_logits.t(), in, at::kFloat);
  };
  const bool whole = for_blocks(rows(), most, job(), [&](std::int64_t begin, std::int64_t end) {
    if (ops) return predict_by_kernel(begin, end);
    at::Tensor logits = composed_steps::linear_to_float(normed.slice(0, begin, end), head);
    if (config().logit_factor != 1) logits.mul_(config().logit_factor);
    at::Tensor slope;  // of the cap
    if (cap > 0) {
      logits = composed_steps::capped(logits, cap);
      slope = 1 - (logits / cap).square();
    }
    record_logits(pass_, begin, logits);
    const at::Tensor labelled = wanted.slice(0, begin, end);
    const at::Tensor of_label = logits.gather(1, labelled);
    const at::Tensor normalizer = at::logsumexp(logits, {1}, /*keepdim=*/true);
    loss.slice(0, begin, end).copy_((normalizer - of_label).squeeze(1));
    // d loss / d logits = (softmax - onehot) w, in the logits' place.
    const at::Tensor weight = loss_weights_.slice(0, begin, end).unsqueeze(1);
    logits.sub_(normalizer).exp_().mul_(weight).scatter_add_(1, labelled, -weight);
    if (slope.defined()) logits.mul_(slope);
    if (config().logit_factor != 1) logits.mul_(config().logit_factor);
    const at::Tensor grad_logits = logits.to(head.scalar_type());
    at::Tensor grad_normed = normed_end_gradient_.slice(0, begin, end);
    at::mm_out(grad_normed, grad_logits, head);
    if (grad_head.defined()) {
      grad_head.slice(0, 0, vocabulary)
          .add_(composed_steps::linear_to_float(grad_logits.t().contiguous(), normed.slice(0, begin, end).t()));
    }
  });
  if (whole) finish_losses(loss);
  return whole;
}

/// The graph of a layer.
/// @returns false if the job was stopped
bool DifferentiableForward::make_again(int layer) {
  const c10::InferenceMode normal(false);
  const at::AutoGradMode graph(true);
  Layer& at_hand = layers_[index_of(layer)];
  pass_.residual = at_hand.entered;
  at_hand.kept.take_from_here();
  pass_.kept = kept(layer);
  const bool made = again([&] { return run_layer(layer); });
  pass_.kept = nullptr;
  at_hand.left = std::exchange(pass_.residual, at::Tensor());
  return made;
}

std::optional<Gradients> DifferentiableForward::backward(const Job& job) {
  const int last = config().layers;
  const TorchWeights& weights = pass_.weights();
  Gradients gradients;
  gradients.log_gates.resize(static_cast<std::size_t>(last));
  at::Tensor grad_x;
  {
    Sought sought;
    sought.add(layers_[index_of(last)].entered, grad_x);
    sought.add_to(weights.final_norm, grad_weights().final_norm);
    sought.add_to(weights.final_norm_bias, grad_weights().final_norm_bias);
    sought.find(normed_end_, normed_end_gradient_);
  }
  for (int layer = last - 1; layer >= 0; --layer) {
    report_backward(job, last - 1 - layer);
    if (job.stopped()) return std::nullopt;
    const auto index = static_cast<std::size_t>(layer);
    if (made_again(layer) && !make_again(layer)) return std::nullopt;
    const Layer at_hand = std::exchange(layers_[index], {});
    if (options().layer_begins) options().layer_begins(layer);
    const at::Tensor log_gate = std::exchange(log_gates_.grad_layer[index], {});
    at::Tensor grad_entered;
    Sought sought;
    sought.add(at_hand.entered, grad_entered);
    if (options().log_gates) sought.add(log_gate, gradients.log_gates[index]);
    for (const auto member : differentiable_weights()) {
      sought.add_to(weights.layers[index].*member, grad_weights(layer).*member);
    }
    sought.add_to(weights.lower_bounds, grad_weights().lower_bounds);
    sought.find(at_hand.left, grad_x);
    grad_x = grad_entered;
  }
  if (wants_weights()) {
    Sought sought;
    sought.add_to(weights.embedding, grad_weights().embedding);
    sought.add_to(weights.positions, grad_weights().positions);
    sought.find(embedded_, grad_x);
  }
  report_backward(job, last);
  return gradients;
}

}  // namespace foxscope

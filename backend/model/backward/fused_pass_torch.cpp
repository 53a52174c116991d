#include "backend/model/backward/fused_pass_torch.h"

#include <ATen/ATen.h>

namespace foxscope {

FusedPass::FusedPass(TorchPass& pass, const GradientOptions& options, bool wants_weights)
    : torch_(pass),
      options_(options),
      wants_weights_(wants_weights),
      ops_(PointwiseOps::make(pass.weights(), pass.length())) {}

void FusedPass::begin() {
  const TorchWeights& weights = torch_.weights();
  normed_pair_ = at::empty({torch_.rows(), weights.on_gpu() ? 2 : 1, torch_.config().hidden_size},
                           weights.options(weights.matrix));
}

void FusedPass::begin_backward() {
  grad_residual_ = at::zeros_like(torch_.residual);
  const TorchWeights& weights = torch_.weights();
  if (weights.matrix != at::kFloat) rounded_ = at::empty(grad_residual_.sizes(), weights.options(weights.matrix));
}

void FusedPass::norm_backward(const PointwiseOps::Norm& step, const at::Tensor& grad_normed,
                              const at::Tensor& grad_weight) {
  ops_->norm_backward(step, grad_normed, grad_residual_, grad_weight, rounded_);
}

at::Tensor FusedPass::normed_rows(const at::Tensor& x, const at::Tensor& weight, bool with_rest) {
  const at::Tensor rest = with_rest && normed_pair_.size(1) > 1 ? normed_pair_.select(1, 1) : at::Tensor();
  ops_->norm({x, weight}, normed_pair_.select(1, 0), rest);
  return normed_pair_.select(1, 0);
}

at::Tensor FusedPass::add_product(const at::Tensor& sum, const at::Tensor& in, const at::Tensor& weight) const {
  at::Tensor out = at::empty_like(sum);
  if (torch_.weights().on_gpu()) {
    at::addmm_out(out, sum, in, weight.t(), at::kFloat);
  } else {
    at::addmm_out(out, sum, in, weight.t());
  }
  return out;
}

void FusedPass::add_weight_gradient(const at::Tensor& grad_weight, const at::Tensor& grad_out,
                                    const at::Tensor& in) const {
  if (!grad_weight.defined()) return;
  at::Tensor sum = grad_weight;
  if (torch_.weights().on_gpu()) {
    at::addmm_out(sum, sum, grad_out.t(), in, at::kFloat);
  } else {
    at::addmm_out(sum, sum, grad_out.t(), in);
  }
}

}  // namespace foxscope

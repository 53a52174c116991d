#include "backend/model/layer/torch/composed_steps_torch.h"

#include <cassert>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/custom_function.h>

namespace foxscope::composed_steps {
namespace {

/// x W^T of bfloat16 on a GPU, summed and left in float32: autograd itself has no backward pass through it.
struct ProductToFloat : torch::autograd::Function<ProductToFloat> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& in, const at::Tensor& weight) {
    context->save_for_backward({in, weight});
    return at::mm(in, weight.t(), at::kFloat);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor grad_out = gradients[0].to(saved[0].scalar_type());
    return {at::mm(grad_out, saved[1]), at::mm(grad_out.t(), saved[0])};
  }
};

/// x W^T, which may have been kept.
struct Product : torch::autograd::Function<Product> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& in, const at::Tensor& weight,
                            KeptResults* kept) {
    context->save_for_backward({in, weight});
    return result_of(kept, KeptResults::Of::product, [&] { return at::mm(in, weight.t()); });
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    return {at::mm(gradients[0], saved[1]), at::mm(gradients[0].t(), saved[0]), at::Tensor()};
  }
};

/// sum + x W^T in float32, which may have been kept.
struct SumWithProduct : torch::autograd::Function<SumWithProduct> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& sum, const at::Tensor& in,
                            const at::Tensor& weight, KeptResults* kept) {
    context->save_for_backward({in, weight});
    return result_of(kept, KeptResults::Of::sum, [&] {
      if (in.scalar_type() == at::kFloat) return at::addmm(sum, in, weight.t());
      at::Tensor out = at::empty_like(sum);
      return at::addmm_out(out, sum, in, weight.t(), at::kFloat);
    });
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor grad_out = gradients[0].to(saved[0].scalar_type());
    return {gradients[0], at::mm(grad_out, saved[1]), at::mm(grad_out.t(), saved[0]), at::Tensor()};
  }
};

}  // namespace

at::Tensor product(const at::Tensor& in, const at::Tensor& weight, KeptResults* kept) {
  const bool plain = kept == nullptr && !at::GradMode::is_enabled();
  return plain ? at::mm(in, weight.t()) : Product::apply(in, weight, kept);
}

at::Tensor add_product(const at::Tensor& sum, const at::Tensor& in, const at::Tensor& weight, KeptResults* kept) {
  const bool at_once = in.is_cuda() ? in.scalar_type() == at::kBFloat16 : in.scalar_type() == at::kFloat;
  return at_once ? SumWithProduct::apply(sum, in, weight, kept) : sum + linear_to_float(in, weight);
}

at::Tensor linear_to_float(const at::Tensor& in, const at::Tensor& weight) {
  assert(in.size(1) == weight.size(1) && in.scalar_type() == weight.scalar_type());
  if (in.scalar_type() == at::kFloat) return at::mm(in, weight.t());
  if (in.is_cuda())
    return at::GradMode::is_enabled() ? ProductToFloat::apply(in, weight) : at::mm(in, weight.t(), at::kFloat);
  return at::mm(in.to(at::kFloat), weight.to(at::kFloat).t());
}

at::Tensor affine(const at::Tensor& in, const at::Tensor& weight, const at::Tensor& bias) {
  at::Tensor out = linear_to_float(in, weight);
  if (bias.defined()) out += bias;
  return out;
}

at::Tensor products_to_float(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() == at::kFloat) return at::bmm(a, b);
  if (a.is_cuda()) return at::bmm(a, b, at::kFloat);
  return at::bmm(a.to(at::kFloat), b.to(at::kFloat));
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  if (!weight.defined()) return x;
  return x * (x.square().mean(-1, true) + epsilon).rsqrt() * weight;
}

at::Tensor capped(const at::Tensor& x, double cap) { return cap > 0 ? at::tanh(x / cap) * cap : x; }

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double epsilon) {
  const at::Tensor centred = x - x.mean(-1, true);
  return centred * (centred.square().mean(-1, true) + epsilon).rsqrt() * weight + bias;
}

at::Tensor rotate(const at::Tensor& x, const at::Tensor& frequencies, double factor, std::int64_t first_position) {
  const std::int64_t half = frequencies.size(-1);
  assert(x.dim() == 4 && x.size(3) >= 2 * half);
  const at::Tensor position =
      at::arange(first_position, first_position + x.size(1), x.options().dtype(at::kDouble)).view({1, -1, 1, 1});
  const at::Tensor angle = position * frequencies.view({-1, 1, 1, half});  // [1 or B, L, 1, r / 2]
  const at::Tensor cosine = (angle.cos() * factor).to(at::kFloat);
  const at::Tensor sine = (angle.sin() * factor).to(at::kFloat);
  const at::Tensor first = x.slice(3, 0, half);
  const at::Tensor second = x.slice(3, half, 2 * half);
  return at::cat({first * cosine - second * sine, second * cosine + first * sine, x.slice(3, 2 * half)}, 3);
}

at::Tensor shift(const at::Tensor& x, const at::Tensor& before, const at::Tensor& gate_logit) {
  assert(gate_logit.sizes() == x.sizes().slice(0, 3));
  assert(!before.defined() || (x.size(0) == 1 && before.sizes() == x.sizes().slice(2)));
  const at::Tensor a = at::sigmoid(gate_logit).unsqueeze(3);
  const at::Tensor start = before.defined() ? before.to(x.scalar_type()).view({1, 1, x.size(2), x.size(3)})
                                            : at::zeros_like(x.slice(1, 0, 1));
  const at::Tensor previous = at::cat({start, x.slice(1, 0, x.size(1) - 1)}, 1);
  return a * previous + (1 - a) * x;
}

}  // namespace foxscope::composed_steps

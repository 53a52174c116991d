#include <cassert>

#include <ATen/ATen.h>

#include "backend/model/composed_steps_torch.h"

namespace foxscope::composed_steps {

at::Tensor linear_to_float(const at::Tensor& in, const at::Tensor& weight) {
  assert(in.size(1) == weight.size(1) && in.scalar_type() == weight.scalar_type());
  if (in.scalar_type() == at::kFloat) return at::mm(in, weight.t());
  if (in.is_cuda()) return at::mm(in, weight.t(), at::kFloat);
  return at::mm(in.to(at::kFloat), weight.to(at::kFloat).t());
}

at::Tensor rms_norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  return x * (x.square().mean(-1, true) + epsilon).rsqrt() * weight;
}

at::Tensor layer_norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias, double epsilon) {
  const at::Tensor centred = x - x.mean(-1, true);
  return centred * (centred.square().mean(-1, true) + epsilon).rsqrt() * weight + bias;
}

at::Tensor rotate(const at::Tensor& x, std::span<const double> frequencies, std::int64_t first_position) {
  const auto half = static_cast<std::int64_t>(frequencies.size());
  assert(x.dim() == 3 && x.size(2) >= 2 * half);
  const at::TensorOptions options = x.options().dtype(at::kDouble);
  const at::Tensor frequency =
      at::tensor(at::ArrayRef<double>(frequencies.data(), frequencies.size()), at::kDouble).to(x.device());
  const at::Tensor angle =
      at::arange(first_position, first_position + x.size(0), options).unsqueeze(1) * frequency.unsqueeze(0);
  const at::Tensor cosine = angle.cos().to(at::kFloat).unsqueeze(1);
  const at::Tensor sine = angle.sin().to(at::kFloat).unsqueeze(1);
  const at::Tensor first = x.slice(2, 0, half);
  const at::Tensor second = x.slice(2, half, 2 * half);
  return at::cat({first * cosine - second * sine, second * cosine + first * sine, x.slice(2, 2 * half)}, 2);
}

at::Tensor shift(const at::Tensor& x, const at::Tensor& before, const at::Tensor& gate_logit) {
  assert(gate_logit.dim() == 2 && gate_logit.size(0) == x.size(0) && gate_logit.size(1) == x.size(1));
  assert(!before.defined() || before.sizes() == at::IntArrayRef({1, x.size(1), x.size(2)}));
  const at::Tensor a = at::sigmoid(gate_logit).unsqueeze(2);
  const at::Tensor previous =
      at::cat({before.defined() ? before : at::zeros_like(x.slice(0, 0, 1)), x.slice(0, 0, x.size(0) - 1)}, 0);
  return a * previous + (1 - a) * x;
}

}  // namespace foxscope::composed_steps

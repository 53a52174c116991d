#include "backend/model/layer/cuda/cuda_pass_torch.h"

#include <algorithm>

#include <ATen/ATen.h>

#include "backend/model/layer/chunk_sizes.h"
#include "backend/model/layer/torch/cuda_attention_torch.h"
#include "kernels/cuda/steps/steps.h"

namespace foxscope {
namespace {

namespace cuda = kernels::cuda;

}  // namespace

CudaPass::CudaPass(TorchPass& pass) : torch_(pass), stream_(current_stream(pass.weights().place)) {
  const ModelConfig& config = pass.config();
  const TorchWeights& weights = pass.weights();
  const bool gated = weights.layers.front().gates.size(0) > 0;
  normed_ = at::empty({pass.rows(), gated ? 2 : 1, config.hidden_size}, weights.options(at::kBFloat16));
  if (!config.rotaries.empty())
    rotation = at::empty({pass.length(), config.head_dim / 2, 2}, weights.options(at::kFloat));
}

void CudaPass::begin() {
  const TorchWeights& weights = torch_.weights();
  const std::int64_t length = torch_.length();
  const std::span<const std::int64_t> texts = torch_.input().lengths;
  filling = at::Tensor();
  if (std::ranges::any_of(texts, [length](std::int64_t text) { return text < length; })) {
    const at::Tensor lengths = at::tensor(at::ArrayRef<std::int64_t>(texts.data(), texts.size()))
                                   .to(weights.place)
                                   .view({torch_.batch(), 1, 1});
    const at::Tensor positions = at::arange(length, lengths.options());
    filling = (positions >= lengths).unsqueeze(3);
    last = at::minimum(positions, lengths - 1);
  }
  if (!rotation.defined()) return;
  torch_.check(cuda::rotary_table(torch_.first_position(), length, torch_.config().head_dim / 2,
                                  weights.frequencies[0].const_data_ptr<double>(), floats_of(rotation), stream_),
               "the table of rotations");
}

void CudaPass::norm(const at::Tensor& weight, std::int64_t first, bool rest) {
  const std::int64_t width = torch_.config().hidden_size;
  cuda::ResidualNorm step;
  step.rows = torch_.rows() - first;
  step.width = width;
  step.residual = floats_of(torch_.residual) + first * width;
  step.weight = floats_of(weight);
  step.epsilon = static_cast<float>(torch_.config().norm_epsilon);
  step.normed = normed_.slice(0, first).mutable_data_ptr();
  step.normed_stride = normed_.stride(0);
  if (rest && normed_.size(1) > 1) step.normed_rest = normed_.slice(0, first).select(1, 1).mutable_data_ptr();
  torch_.check(cuda::residual_norm(step, stream_), "a norm");
}

at::Tensor CudaPass::empty_gates() const {
  const std::int64_t gates = torch_.weights(0).gates.size(0);
  return gates > 0 ? at::empty({torch_.rows(), gates}, torch_.weights().options(at::kFloat)) : at::Tensor();
}

void CudaPass::make_gates(int layer, const at::Tensor& gates) const {
  if (!gates.defined()) return;
  const TorchLayer& weights = torch_.weights(layer);
  // (n + n') W^T up to 2^-17 of each product, where bfloat16 alone would give 2^-9: n W, n' W and n W', n' and W'
  // being what rounding took.
  if (weights.gates_joined.defined() && torch_.input().lengths.empty() && gates.size(0) >= kFewestThriftyRows) {
    const std::int64_t count = gates.size(1);
    const at::Tensor parts = at::empty({gates.size(0), 2 * count}, gates.options());
    multiply(parts, normed_.flatten(1), weights.gates_joined, Sum::no, kAlikeRows);
    at::Tensor sum = gates;
    at::add_out(sum, parts.slice(1, 0, count), parts.slice(1, count));
    if (weights.gates_bias.defined()) sum.add_(weights.gates_bias);
    return;
  }
  if (weights.gates_bias.defined()) gates.copy_(weights.gates_bias.expand_as(gates));
  multiply(gates, normed_.flatten(1), weights.gates_high, weights.gates_bias.defined() ? Sum::yes : Sum::no,
           kAlikeRows);
  multiply(gates, normed(), weights.gates_rest, Sum::yes, kAlikeRows);
}

void CudaPass::multiply(const at::Tensor& out, const at::Tensor& in, const at::Tensor& weight, Sum sum,
                        std::int64_t alike_rows) const {
  const auto multiply_rows = [&](at::Tensor into, const at::Tensor& from) {
    if (sum == Sum::yes) {
      at::addmm_out(into, into, from, weight.t(), at::kFloat);
    } else if (into.scalar_type() == at::kFloat) {
      at::mm_out(into, from, weight.t(), at::kFloat);
    } else {
      at::mm_out(into, from, weight.t());
    }
  };
  if (torch_.input().lengths.empty()) return multiply_rows(out, in);
  for (std::int64_t begin = 0; begin < in.size(0); begin += alike_rows) {
    const at::Tensor from = in.slice(0, begin, begin + alike_rows);
    const at::Tensor into = out.slice(0, begin, begin + alike_rows);
    if (from.size(0) == alike_rows) {
      multiply_rows(into, from);
      continue;
    }
    // The remaining rows, filled up with zeros.
    const at::Tensor filled =
        at::empty_strided({alike_rows, in.size(1)}, {std::max(in.stride(0), in.size(1)), 1}, in.options()).zero_();
    filled.slice(0, 0, from.size(0)).copy_(from);
    const at::Tensor made =
        at::empty_strided({alike_rows, out.size(1)}, {std::max(out.stride(0), out.size(1)), 1}, out.options()).zero_();
    if (sum == Sum::yes) made.slice(0, 0, into.size(0)).copy_(into);
    multiply_rows(made, filled);
    into.copy_(made.slice(0, 0, into.size(0)));
  }
}

void CudaPass::add_output(int layer, at::Tensor& output) {
  const TorchLayer& weights = torch_.weights(layer);
  torch_.cut_heads(layer, output);
  multiply(torch_.residual, output, weights.output, Sum::yes, kAlikeRows);
  if (weights.output_bias.defined()) torch_.residual += weights.output_bias;
}

}  // namespace foxscope

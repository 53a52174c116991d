#include <algorithm>

#include <ATen/ATen.h>

#include "backend/model/layer/chunk_sizes.h"
#include "backend/model/layer/cuda/cuda_forward_torch.h"
#include "backend/model/layer/torch/cuda_attention_torch.h"
#include "kernels/cuda/steps/steps.h"
#include "kernels/cuda/steps/token_loss.h"

namespace foxscope {
namespace {

namespace cuda = kernels::cuda;

/// Rows of a block of logits are a multiple of this.
constexpr std::int64_t kLossRows = 256;
/// Rows of a product whose rows are to be alike: of so many each goes the same way through cuBLAS.
constexpr std::int64_t kAlikeRows = 2048;

template <typename T>
T* data(const at::Tensor& x) {
  return x.defined() ? x.mutable_data_ptr<T>() : nullptr;
}

void* bytes(const at::Tensor& x) { return x.defined() ? x.mutable_data_ptr() : nullptr; }

}  // namespace

bool CudaForward::takes(const TorchWeights& weights) {
  const ModelConfig& config = weights.config;
  if (!weights.on_gpu() || weights.dtype != DType::bfloat16 || config.norm != NormKind::rms ||
      config.mlp != MlpKind::swiglu || config.parallel_residual || config.mlp_bias) {
    return false;
  }
  if (config.linear) return !config.is_hybrid() && !config.linear->selects();
  return cuda_attention_takes(config.head_dim, weights.matrix) && config.head_dim % 8 == 0 &&
         (!config.rope || (config.rotary_dim == config.head_dim && config.head_dim % 16 == 0)) && !config.output_bias;
}

CudaForward::CudaForward(const TorchWeights& weights, std::int64_t batch, std::int64_t length)
    : TorchForward(weights, batch, length), stream_(current_stream(weights.place)) {
  const ProjectionColumns& columns = weights.columns;
  const std::int64_t gates = config().linear ? weights_of(0).gates.size(0) : columns.count - columns.key_shift;
  const at::TensorOptions half = weights.options(at::kBFloat16);
  normed_ = at::empty({rows(), gates > 0 ? 2 : 1, config().hidden_size}, half);
  if (gates > 0) gates_ = at::empty({rows(), gates}, weights.options(at::kFloat));
  if (config().linear) return;
  projected_ = at::empty({rows(), weights_of(0).projection_and_gate.size(0)}, half);
  if (config().rope) rotation_ = at::empty({length, config().head_dim / 2, 2}, weights.options(at::kFloat));
}

void CudaForward::begin() {
  TorchForward::begin();
  filling_ = at::Tensor();
  if (std::ranges::any_of(input().lengths, [this](std::int64_t text) { return text < length(); })) {
    const at::Tensor lengths = at::tensor(at::ArrayRef<std::int64_t>(input().lengths.data(), input().lengths.size()))
                                   .to(weights().place)
                                   .view({batch(), 1, 1});
    const at::Tensor positions = at::arange(length(), lengths.options());
    filling_ = (positions >= lengths).unsqueeze(3);
    last_ = at::minimum(positions, lengths - 1);
  }
  if (!config().rope) return;
  check(cuda::rotary_table(first_position(), length(), config().head_dim / 2,
                           weights().frequencies.const_data_ptr<double>(), data<float>(rotation_), stream_),
        "the table of rotations");
}

void CudaForward::norm(const at::Tensor& weight, std::int64_t first, bool rest, const at::Tensor& exact) {
  cuda::ResidualNorm step;
  step.rows = rows() - first;
  step.width = config().hidden_size;
  step.residual = data<float>(residual_) + first * config().hidden_size;
  step.weight = data<float>(weight);
  step.epsilon = static_cast<float>(config().norm_epsilon);
  step.normed = normed_.slice(0, first).mutable_data_ptr();
  step.normed_stride = normed_.stride(0);
  if (rest && normed_.size(1) > 1) step.normed_rest = normed_.slice(0, first).select(1, 1).mutable_data_ptr();
  step.normed_float32 = data<float>(exact);
  check(cuda::residual_norm(step, stream_), "a norm");
}

void CudaForward::multiply(const at::Tensor& out, const at::Tensor& in, const at::Tensor& weight, Sum sum,
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
  if (!alike()) return multiply_rows(out, in);
  for (std::int64_t begin = 0; begin < in.size(0); begin += alike_rows) {
    const at::Tensor from = in.slice(0, begin, begin + alike_rows);
    const at::Tensor into = out.slice(0, begin, begin + alike_rows);
    if (from.size(0) == alike_rows) {
      multiply_rows(into, from);
      continue;
    }
    // What is left, filled up with zeros.
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

bool CudaForward::project(int layer) {
  const TorchLayer& weights = weights_of(layer);
  norm(weights.attention_norm, 0, /*rest=*/true, {});
  make_gates(weights);
  if (config().linear) {
    const at::Tensor none = at::empty({rows(), 0}, residual_.options());
    project_linear(layer, normed(), gates_.defined() ? gates_ : none);
    return true;
  }
  multiply(projected_, normed(), weights.projection_and_gate, Sum::no, kAlikeRows);
  if (weights.projection_bias.defined()) {
    projected_.slice(1, 0, weights.projection_bias.size(0)).add_(weights.projection_bias);
  }
  split_heads(layer);
  // Attention's blocks of rows go by the longest of their queries.
  if (filling_.defined()) query_.masked_fill_(filling_, 0);
  return true;
}

/// Behind a text nothing is forgotten: attention takes gates relative to those at the end of a block.
void CudaForward::sum_gates(int layer) {
  TorchForward::sum_gates(layer);
  if (filling_.defined() && cumulative_.defined()) cumulative_ = cumulative_.gather(2, last_.expand_as(cumulative_));
}

void CudaForward::make_gates(const TorchLayer& weights) {
  if (!gates_.defined()) return;
  // (n + n') W^T up to 2^-17 of each product, where bfloat16 alone would give 2^-9: n W, n' W and n W', n' and W'
  // being what rounding took.
  if (weights.gates_bias.defined()) {
    gates_.copy_(weights.gates_bias.expand_as(gates_));
    multiply(gates_, normed_.flatten(1), weights.gates_high, Sum::yes, kAlikeRows);
  } else {
    multiply(gates_, normed_.flatten(1), weights.gates_high, Sum::no, kAlikeRows);
  }
  multiply(gates_, normed(), weights.gates_rest, Sum::yes, kAlikeRows);
}

/// Shift, norm and rotation of heads; views of the projection where there is none of them.
void CudaForward::split_heads(int layer) {
  const TorchLayer& weights = weights_of(layer);
  const ProjectionColumns& columns = this->weights().columns;
  const std::int64_t heads = config().heads;
  const std::int64_t key_heads = config().key_heads;
  const std::int64_t dim = config().head_dim;
  const auto split = [&](const at::Tensor& x) { return x.unflatten(0, {batch(), length()}).transpose(1, 2); };
  const auto part = [&](std::int64_t begin, std::int64_t end) {
    return projected_.slice(1, begin, end).unflatten(1, {(end - begin) / dim, dim});
  };
  if (!config().key_shift && !config().value_shift && !config().rope && !weights.query_norm.defined()) {
    query_ = split(part(0, columns.key));
    key_ = split(part(columns.key, columns.value));
    value_ = split(part(columns.value, columns.key_shift));
    return;
  }
  const at::TensorOptions half = projected_.options();
  cuda::ProjectedHeads step = projected_heads(layer);
  // A store in GPU memory holds [H, L, d], and is written without a copy.
  Recorder* const into = batch() == 1 ? recorder(0) : nullptr;
  void* const store = into == nullptr ? nullptr : into->stored_on_device(TraceArray::query, layer);
  if (store != nullptr) {
    void* const key_store = into->stored_on_device(TraceArray::key, layer);
    query_ = at::from_blob(store, {1, heads, length(), dim}, half);
    key_ = at::from_blob(key_store, {1, key_heads, length(), dim}, half);
    step.layout = cuda::HeadLayout::heads_first;
  } else {
    query_ = split(at::empty({rows(), heads, dim}, half));
    key_ = split(at::empty({rows(), key_heads, dim}, half));
  }
  value_ = split(at::empty({rows(), key_heads, dim}, half));
  step.query = bytes(query_);
  step.key = bytes(key_);
  step.value = bytes(value_);
  check(cuda::project_heads(step, stream_), "the shift and norm of heads");
  const bool shifts = has_states() && (config().key_shift || config().value_shift);
  for (std::int64_t b = 0; shifts && b < batch(); ++b) {
    const at::Tensor last = projected_[(b + 1) * length() - 1];
    torch_state(b).keep_last(layer, last.slice(0, columns.key, columns.value),
                             last.slice(0, columns.value, columns.key_shift));
  }
}

cuda::ProjectedHeads CudaForward::projected_heads(int layer) const {
  const TorchLayer& weights = weights_of(layer);
  const ProjectionColumns& columns = this->weights().columns;
  cuda::ProjectedHeads step;
  step.rows = rows();
  step.length = length();
  step.heads = config().heads;
  step.key_heads = config().key_heads;
  step.head_dim = config().head_dim;
  step.projected = bytes(projected_);
  step.projected_stride = projected_.stride(0);
  if (config().key_shift) step.key_shift_logits = data<float>(gates_);
  if (config().value_shift) step.value_shift_logits = data<float>(gates_) + (columns.value_shift - columns.key_shift);
  if (gates_.defined()) step.shift_stride = gates_.stride(0);
  step.query_norm = data<float>(weights.query_norm);
  step.key_norm = data<float>(weights.key_norm);
  step.norm_epsilon = static_cast<float>(config().query_key_norm_epsilon);
  step.rotation = data<float>(rotation_);
  return step;
}

void CudaForward::add_output(int layer, at::Tensor& output) {
  const TorchLayer& weights = weights_of(layer);
  cut_heads(layer, output);
  multiply(residual_, output, weights.output, Sum::yes, kAlikeRows);
  if (weights.output_bias.defined()) residual_ += weights.output_bias;
}

bool CudaForward::project_output(int layer) {
  const TorchLayer& weights = weights_of(layer);
  if (config().linear) {
    at::Tensor output = linear_steps::finish(this->weights(), layer, attended_, linear_).to(this->weights().matrix);
    drop_mixed();
    add_output(layer, output);
    return true;
  }
  at::Tensor output = attended_.flatten(1);
  if (config().output_norm || config().output_gate) {
    cuda::GatedOutput step;
    step.rows = rows();
    step.heads = config().heads;
    step.head_dim = config().head_dim;
    step.attended = bytes(attended_);
    step.norm = data<float>(weights.output_norm);
    step.norm_epsilon = static_cast<float>(config().norm_epsilon);
    if (config().output_gate) step.gate = projected_.slice(1, weights.projection.size(0)).mutable_data_ptr();
    step.gate_stride = projected_.stride(0);
    // Behind an output norm the authors' gate is always a sigmoid.
    const bool silu = config().output_gate_activation == OutputGateActivation::silu && !config().output_norm;
    step.activation = silu ? cuda::OutputGateActivation::silu : cuda::OutputGateActivation::sigmoid;
    step.output = bytes(output);
    check(cuda::gate_output(step, stream_), "the output's norm and gate");
  }
  add_output(layer, output);
  return true;
}

bool CudaForward::feed_forward(int layer) {
  const TorchLayer& weights = weights_of(layer);
  norm(weights.mlp_norm, 0, /*rest=*/false, {});
  const std::int64_t inner = config().intermediate_size;
  const std::int64_t most = std::min(rows(), kDeviceMlpRows);
  const at::Tensor wide = mlp_wide_.defined() ? mlp_wide_ : at::empty({most, 2 * inner}, normed_.options());
  const at::Tensor product = mlp_product_.defined() ? mlp_product_ : at::empty({most, inner}, normed_.options());
  for (std::int64_t begin = 0; begin < rows(); begin += kDeviceMlpRows) {
    const std::int64_t end = std::min(begin + kDeviceMlpRows, rows());
    const at::Tensor wide_rows = wide.slice(0, 0, end - begin);
    const at::Tensor product_rows = product.slice(0, 0, end - begin);
    multiply(wide_rows, normed().slice(0, begin, end), weights.mlp_in, Sum::no, kAlikeRows);
    cuda::SwiGlu step;
    step.rows = end - begin;
    step.inner = inner;
    step.wide = bytes(wide_rows);
    step.product = bytes(product_rows);
    check(cuda::swiglu(step, stream_), "SwiGLU");
    multiply(residual_.slice(0, begin, end), product_rows, weights.mlp_out, Sum::yes, kAlikeRows);
  }
  return true;
}

at::Tensor CudaForward::final_norm(std::int64_t first_row) {
  norm(weights().final_norm, first_row, /*rest=*/false, {});
  return normed().slice(0, first_row);
}

at::Tensor CudaForward::logits(const at::Tensor& normed) {
  const at::Tensor head = weights().padded_head.slice(0, 0, config().vocabulary_size);
  at::Tensor made = at::empty({normed.size(0), head.size(0)}, residual_.options());
  // One row after the other, wherever they lay.
  multiply(made, normed.contiguous(), head, Sum::no, kLossRows);
  return made;
}

/// Logits and losses, a chunk of rows at a time.
bool CudaForward::predict() {
  keep_hidden(config().layers);
  if (!keeps(Keep::loss) && !keeps(Keep::logits)) return true;
  const at::Tensor rows_normed = final_norm(0);
  const at::Tensor wanted = labels();
  const at::Tensor loss = at::empty({rows()}, residual_.options());
  const at::Tensor& head = weights().padded_head;
  const std::int64_t most =
      std::min(rows(), std::max(kDeviceLogitElements / head.size(0) / kLossRows, std::int64_t{1}) * kLossRows);
  const at::Tensor chunk = at::empty({most, head.size(0)}, residual_.options());
  for (std::int64_t begin = 0; begin < rows(); begin += most) {
    if (job().stopped()) return false;
    const std::int64_t end = std::min(begin + most, rows());
    const at::Tensor logits = chunk.slice(0, 0, end - begin);
    multiply(logits, rows_normed.slice(0, begin, end), head, Sum::no, kLossRows);
    cuda::TokenLoss step;
    step.rows = end - begin;
    step.vocabulary = config().vocabulary_size;
    step.logits = bytes(logits);
    step.logits_type = cuda::ElementType::float32;
    step.logits_stride = logits.stride(0);
    step.labels = data<std::int32_t>(wanted) + begin;
    step.loss = data<float>(loss) + begin;
    check(cuda::token_loss(step, stream_), "the loss");
    keep_logits(begin, logits.slice(1, 0, config().vocabulary_size));
  }
  keep_losses(loss);
  return true;
}

}  // namespace foxscope

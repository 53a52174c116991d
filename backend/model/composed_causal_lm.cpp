#include "backend/model/composed_causal_lm.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/log.h"
#include "backend/model/composed_attention_torch.h"
#include "backend/model/composed_causal_lm_torch.h"
#include "backend/model/composed_continuation_torch.h"
#include "backend/model/composed_steps_torch.h"
#include "backend/model/cpu_causal_lm.h"
#include "backend/model/cuda_attention_torch.h"
#include "backend/model/cuda_sequence_pass_torch.h"
#include "backend/model/device_errors_torch.h"
#include "backend/model/interventions.h"
#include "backend/model/logit_bound.h"
#include "backend/model/prompt_pass.h"
#include "backend/model/query_key_record_torch.h"
#include "backend/model/weight_reader.h"
#include "kernels/cpu/forgetting_attention.h"
#include "kernels/cuda/device.h"

namespace foxscope {
namespace {

using composed_steps::linear_to_float;
using composed_steps::rms_norm;

/// in W^T + bias, float32.
at::Tensor affine(const at::Tensor& in, const at::Tensor& weight, const at::Tensor& bias) {
  at::Tensor out = linear_to_float(in, weight);
  if (bias.defined()) out += bias;
  return out;
}

/// Rows of the MLP, and numbers of a block of logits, at once.
constexpr std::int64_t kMlpRows = 8192;
constexpr std::int64_t kLogitElements = std::int64_t{1} << 26;
constexpr std::int64_t kHeadRows = 8;

/// Makes a model's GPU current for LibTorch and for the kernels, each of which has a CUDA runtime of its own.
class CurrentDevice {
 public:
  explicit CurrentDevice(const at::Device& device) : of_torch_(device) {
    if (device.is_cuda()) of_kernels_.emplace(device.index());
  }

 private:
  c10::DeviceGuard of_torch_;
  std::optional<kernels::cuda::DeviceScope> of_kernels_;
};

/// Copies to an array of the recorder.
template <typename T>
void take_down(const at::Tensor& tensor, std::span<T> into, at::ScalarType type) {
  if (into.empty()) return;
  assert(tensor.numel() <= static_cast<std::int64_t>(into.size()));
  at::from_blob(into.data(), tensor.sizes(), at::TensorOptions().dtype(type)).copy_(tensor);
}

}  // namespace

ComposedCausalLM::ComposedCausalLM(ModelConfig config, const Device& device, DType dtype)
    : config_(std::move(config)),
      device_(device),
      dtype_(dtype),
      place_(device.cuda ? at::Device(at::kCUDA, static_cast<at::DeviceIndex>(device.index)) : at::Device(at::kCPU)),
      matrix_(dtype == DType::bfloat16 ? at::kBFloat16 : at::kFloat),
      columns_(config_),
      frequencies_(rotary_frequencies(config_)) {
  const CurrentDevice current(place_);
  attends_on_cuda_ = device.cuda && cuda_attention_takes(config_.head_dim, matrix_);
  log_line(LogCategory::model, [&] {
    if (!device.cuda) return fmt::format("{} layers of LibTorch's operations", config_.layers);
    if (attends_on_cuda_) return fmt::format("attention is the kernels' own on {}", device.name());
    return fmt::format(
        "attention falls back to LibTorch's operations on {}: no kernel for heads of {} in {}, or no "
        "kernel for this GPU",
        device.name(), config_.head_dim, to_string(dtype));
  });
}

bool ComposedCausalLM::load(const Checkpoint& checkpoint, const Job& job) {
  WeightReader reader(checkpoint, job);
  const std::int64_t hidden = config_.hidden_size;
  {
    const auto outside = reader.read_outside();
    if (!outside) return false;
    embedding_ = place(outside->embedding, {config_.vocabulary_size, hidden}, at::kFloat);
    positions_ = place(outside->positions, {config_.learned_positions, hidden}, at::kFloat);
    const at::Tensor head = place(outside->head(), {config_.vocabulary_size, hidden}, matrix_);
    padded_head_ = at::constant_pad_nd(head, {0, 0, 0, (kHeadRows - config_.vocabulary_size % kHeadRows) % kHeadRows});
    final_norm_ = place(outside->final_norm, {hidden}, at::kFloat);
    final_norm_bias_ = place(outside->final_norm_bias, {hidden}, at::kFloat);
  }
  for (int layer = 0; layer < config_.layers; ++layer) {
    auto host = reader.read_layer(layer);
    if (!host) return false;
    host->logit_bound = bound_logits(config_, *host);
    layers_.push_back(place_layer(*host));
  }
  return true;
}

at::Tensor ComposedCausalLM::place(std::span<const float> values, at::IntArrayRef shape, at::ScalarType type) const {
  if (values.empty()) return {};
  return at::tensor(at::ArrayRef<float>(values.data(), values.size()), at::kFloat).view(shape).to(type).to(place_);
}

DeviceLayer ComposedCausalLM::place_layer(const LayerWeights& host) const {
  const std::int64_t hidden = config_.hidden_size;
  const std::int64_t inner = config_.intermediate_size;
  const std::int64_t wide = config_.mlp == MlpKind::swiglu ? 2 * inner : inner;
  const std::int64_t queries = config_.query_size();
  const std::int64_t matrix_rows = columns_.key_shift;
  DeviceLayer weights;
  weights.attention_norm = place(host.attention_norm, {hidden}, at::kFloat);
  weights.attention_norm_bias = place(host.attention_norm_bias, {hidden}, at::kFloat);
  const at::Tensor projection = place(host.projection, {columns_.count, hidden}, at::kFloat);
  weights.gates = projection.slice(0, matrix_rows).contiguous();
  if (matrix_ == at::kBFloat16) {
    const at::Tensor high = weights.gates.to(matrix_);
    weights.gates_high = at::cat({high, high}, 1);
    weights.gates_rest = (weights.gates - high).to(matrix_);
  }
  const at::Tensor bias = place(host.projection_bias, {columns_.count}, at::kFloat);
  if (bias.defined()) {
    weights.gates_bias = bias.slice(0, matrix_rows).contiguous();
    if (config_.query_key_value_bias) weights.projection_bias = bias.slice(0, 0, matrix_rows).contiguous();
  }
  weights.query_norm = place(host.query_norm, {config_.heads, config_.head_dim}, at::kFloat);
  weights.key_norm = place(host.key_norm, {config_.key_heads, config_.head_dim}, at::kFloat);
  weights.constant_gate = place(host.constant_gate, {1, config_.heads}, at::kFloat);
  weights.projection_and_gate = projection.slice(0, 0, matrix_rows).to(matrix_);
  if (config_.output_gate) {
    weights.projection_and_gate =
        at::cat({weights.projection_and_gate, place(host.output_gate, {queries, hidden}, matrix_)}, 0);
    weights.output_gate = weights.projection_and_gate.slice(0, matrix_rows);
  }
  weights.projection = weights.projection_and_gate.slice(0, 0, matrix_rows);
  weights.output_norm = place(host.output_norm, {config_.heads, config_.head_dim}, at::kFloat);
  weights.output = place(host.output, {hidden, queries}, matrix_);
  weights.output_bias = place(host.output_bias, {hidden}, at::kFloat);
  weights.mlp_norm = place(host.mlp_norm, {hidden}, at::kFloat);
  weights.mlp_norm_bias = place(host.mlp_norm_bias, {hidden}, at::kFloat);
  weights.mlp_in = place(host.mlp_in, {wide, hidden}, matrix_);
  weights.mlp_in_bias = place(host.mlp_in_bias, {wide}, at::kFloat);
  weights.mlp_out = place(host.mlp_out, {hidden, inner}, matrix_);
  weights.mlp_out_bias = place(host.mlp_out_bias, {hidden}, at::kFloat);
  weights.logit_bound = host.logit_bound;
  return weights;
}

at::Tensor ComposedCausalLM::embed(std::span<const std::int32_t> ids, std::int64_t first) const {
  const at::Tensor rows = at::tensor(at::ArrayRef<std::int32_t>(ids.data(), ids.size()), at::kInt).to(place_);
  at::Tensor embedded = embedding_.index_select(0, rows);
  if (positions_.defined()) embedded += positions_.slice(0, first, first + static_cast<std::int64_t>(ids.size()));
  return embedded;
}

at::Tensor ComposedCausalLM::enter(const SequencePass& pass) const {
  const std::span<const float> hidden = pass.request.start.hidden;
  if (hidden.empty()) return embed(pass.input_ids(), 0);
  const std::int64_t length = pass.request.length;
  const auto size = static_cast<std::size_t>(length * config_.hidden_size);
  const std::span<const float> rows = hidden.subspan(static_cast<std::size_t>(pass.row) * size, size);
  // A copy: the layers add to it in place.
  return at::tensor(at::ArrayRef<float>(rows.data(), rows.size()), at::kFloat)
      .view({length, config_.hidden_size})
      .to(place_);
}

at::Tensor ComposedCausalLM::attention_input(int index, const at::Tensor& residual) const {
  return norm(residual, layer(index).attention_norm, layer(index).attention_norm_bias);
}

at::Tensor ComposedCausalLM::norm(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) const {
  if (config_.norm == NormKind::rms) return rms_norm(x, weight, config_.norm_epsilon);
  return composed_steps::layer_norm(x, weight, bias, config_.norm_epsilon);
}

at::Tensor ComposedCausalLM::logits(const at::Tensor& residual) const {
  const at::Tensor normed = norm(residual, final_norm_, final_norm_bias_).to(matrix_);
  return linear_to_float(normed, padded_head_.slice(0, 0, config_.vocabulary_size));
}

at::Tensor ComposedCausalLM::log_gates(int index, const at::Tensor& gates) const {
  const std::int64_t length = gates.size(0);
  at::Tensor log_gate = at::zeros({config_.heads, length}, at::kDouble);
  if (!config_.gated()) return log_gate;
  const at::Tensor& constant = layer(index).constant_gate;
  const at::Tensor logits = constant.defined() ? constant.expand({length, config_.heads})
                                               : gates.slice(1, columns_.forget - columns_.key_shift);
  log_gate.copy_(at::log_sigmoid(logits.to(at::kDouble)).t());
  return log_gate;
}

/// c of a layer, into the recorder and [1, H, L] on the device; undefined where every f is 1. The sum is made on the
/// host, in compensated float64.
/// @param gates  [L, ...] logits of what is projected in float32
at::Tensor ComposedCausalLM::prepare_gates(const SequencePass& pass, int layer, const at::Tensor& gates) const {
  const std::span<double> cumulative = pass.recorder.cumulative_log_gate(layer);
  if (!config_.gated() && !changes_gates(pass.request.interventions, layer)) {
    std::fill(cumulative.begin(), cumulative.end(), 0.0);
    return {};
  }
  const std::int64_t length = pass.request.length;
  at::Tensor log_gate = log_gates(layer, gates);
  double* values = log_gate.mutable_data_ptr<double>();
  change_gates(pass.request.interventions, layer, {config_.heads, 0, length}, values);
  kernels::cpu::cumulative_log_gate(values, config_.heads, length, cumulative.data());
  return at::from_blob(cumulative.data(), {1, config_.heads, length}, at::TensorOptions().dtype(at::kDouble))
      .to(place_);
}

ComposedHeads ComposedCausalLM::project(int index, const at::Tensor& normed, const ComposedBefore& before) const {
  const DeviceLayer& weights = layer(index);
  assert(normed.dim() == 2 && normed.size(1) == config_.hidden_size && normed.scalar_type() == at::kFloat);
  const std::int64_t length = normed.size(0);
  const std::int64_t dim = config_.head_dim;
  const at::Tensor projected = affine(normed.to(matrix_), weights.projection, weights.projection_bias);
  ComposedHeads heads;
  heads.gates = affine(normed, weights.gates, weights.gates_bias);

  at::Tensor query = projected.slice(1, 0, columns_.key).reshape({length, config_.heads, dim});
  at::Tensor key = projected.slice(1, columns_.key, columns_.value).reshape({length, config_.key_heads, dim});
  at::Tensor value = projected.slice(1, columns_.value).reshape({length, config_.key_heads, dim});
  heads.next = {before.position + length, key.slice(0, length - 1).clone(), value.slice(0, length - 1).clone()};
  if (config_.key_shift) key = composed_steps::shift(key, before.key, heads.gates.slice(1, 0, config_.key_heads));
  if (config_.value_shift) {
    const std::int64_t first = columns_.value_shift - columns_.key_shift;
    value = composed_steps::shift(value, before.value, heads.gates.slice(1, first, first + config_.key_heads));
  }
  if (weights.query_norm.defined()) {
    query = rms_norm(query, weights.query_norm, config_.query_key_norm_epsilon);
    key = rms_norm(key, weights.key_norm, config_.query_key_norm_epsilon);
  }
  if (config_.rope) {
    query = composed_steps::rotate(query, frequencies_, before.position);
    key = composed_steps::rotate(key, frequencies_, before.position);
  }
  heads.query = query.transpose(0, 1).to(matrix_).contiguous();
  heads.key = key.transpose(0, 1).to(matrix_).contiguous();
  heads.value = value.transpose(0, 1).to(matrix_).contiguous();
  assert(heads.query.sizes() == at::IntArrayRef({config_.heads, length, dim}));
  assert(heads.key.sizes() == at::IntArrayRef({config_.key_heads, length, dim}));
  assert(heads.value.sizes() == heads.key.sizes());
  return heads;
}

/// o [L, D] float32 of the heads, before its norm and gate; undefined if the job was stopped. Takes down what the
/// recorder keeps.
at::Tensor ComposedCausalLM::attend(const SequencePass& pass, int layer, const ComposedHeads& heads) const {
  if (attends_on_cuda_) return attend_on_cuda(pass, layer, heads);
  Recorder& recorder = pass.recorder;
  ComposedAttention attention;
  attention.query = heads.query.unsqueeze(0);
  attention.key = heads.key.unsqueeze(0);
  attention.value = heads.value.unsqueeze(0);
  attention.cumulative_log_gate = prepare_gates(pass, layer, heads.gates);
  attention.scale = 1 / std::sqrt(static_cast<double>(config_.head_dim));
  attention.window_size = config_.window_size;
  attention.pruning_tolerance = pass.request.pruning_tolerance;
  attention.without_gate_as_well = recorder.keeps(Keep::ungated);
  const auto attended = composed_forgetting_attention(attention, pass.job.stop);
  if (!attended) return {};
  record_query_key(recorder, layer, heads.query, heads.key);
  take_down(attended->log_normalizer, recorder.log_normalizer(layer), at::kFloat);
  if (attention.without_gate_as_well) {
    take_down(attended->log_normalizer_without_gate, recorder.log_normalizer_without_gate(layer), at::kFloat);
  }
  pass.report.attention_blocks += attended->blocks;
  pass.report.skipped_blocks += attended->skipped_blocks;
  return attended->output[0].transpose(0, 1).to(at::kFloat);
}

/// The same by kernels/cuda.
at::Tensor ComposedCausalLM::attend_on_cuda(const SequencePass& pass, int layer, const ComposedHeads& heads) const {
  Recorder& recorder = pass.recorder;
  const std::int64_t length = pass.request.length;
  const at::Tensor output = at::empty({length, config_.heads, config_.head_dim}, heads.query.options());
  const at::Tensor blocks = at::zeros({2}, heads.query.options().dtype(at::kLong));
  CudaAttention attention;
  attention.query = heads.query;
  attention.key = heads.key;
  attention.value = heads.value;
  attention.output = output.transpose(0, 1);
  attention.log_normalizer = at::empty({config_.heads, length}, heads.query.options().dtype(at::kFloat));
  attention.scale = 1 / std::sqrt(static_cast<double>(config_.head_dim));
  attention.window_size = config_.window_size;
  if (recorder.keeps(Keep::ungated)) {
    cuda_forgetting_attention(attention);
    take_down(attention.log_normalizer, recorder.log_normalizer_without_gate(layer), at::kFloat);
  }
  const at::Tensor cumulative = prepare_gates(pass, layer, heads.gates);
  if (cumulative.defined()) attention.cumulative_log_gate = cumulative[0];
  attention.pruning_tolerance = pass.request.pruning_tolerance;
  attention.blocks = blocks;
  pass.report.attention_kernel = cuda_forgetting_attention(attention);
  take_down(attention.log_normalizer, recorder.log_normalizer(layer), at::kFloat);
  record_query_key(recorder, layer, heads.query, heads.key);
  pass.report.attention_blocks += blocks[0].item<std::int64_t>();
  pass.report.skipped_blocks += blocks[1].item<std::int64_t>();
  return output.to(at::kFloat);
}

/// o_proj(act(gate) * norm(o)).
at::Tensor ComposedCausalLM::project_output(int index, const at::Tensor& normed, const at::Tensor& attended,
                                            std::span<const Intervention> interventions) const {
  const DeviceLayer& weights = layer(index);
  const std::int64_t dim = config_.head_dim;
  assert(attended.sizes() == at::IntArrayRef({normed.size(0), config_.heads, dim}));
  at::Tensor output = attended;
  if (config_.output_norm) output = rms_norm(output, weights.output_norm, config_.norm_epsilon);
  output = output.reshape({normed.size(0), config_.query_size()});
  if (config_.output_gate) {
    const at::Tensor gate = linear_to_float(normed.to(matrix_), weights.output_gate);
    // Behind an output norm the authors' gate is always a sigmoid.
    const bool silu = config_.output_gate_activation == OutputGateActivation::silu && !config_.output_norm;
    output = output * (silu ? at::silu(gate) : at::sigmoid(gate));
  }
  for (int head = 0; head < config_.heads; ++head) {
    if (cuts_head(interventions, index, head)) output.slice(1, head * dim, (head + 1) * dim).zero_();
  }
  return affine(output.to(matrix_), weights.output, weights.output_bias);
}

void ComposedCausalLM::leave_layer(int index, const at::Tensor& normed, const at::Tensor& attended,
                                   std::span<const Intervention> interventions, at::Tensor& residual) const {
  const at::Tensor added = project_output(index, normed, attended, interventions);
  if (config_.parallel_residual) {
    feed_forward(index, residual);
    residual += added;
  } else {
    residual += added;
    feed_forward(index, residual);
  }
}

bool ComposedCausalLM::run_layer(const SequencePass& pass, int layer, at::Tensor& residual) const {
  take_down(residual, pass.recorder.hidden_states(layer, config_.hidden_size), at::kFloat);
  const at::Tensor normed = attention_input(layer, residual);
  const ComposedHeads heads = project(layer, normed, {});
  const at::Tensor attended = attend(pass, layer, heads);
  if (!attended.defined()) return false;
  if (pass.continuation != nullptr) {
    pass.continuation->take_layer(layer, heads, pass.recorder.cumulative_log_gate(layer));
  }
  leave_layer(layer, normed, attended, pass.request.interventions, residual);
  pass.recorder.release_layer(layer);
  return true;
}

void ComposedCausalLM::feed_forward(int index, at::Tensor& residual) const {
  const DeviceLayer& weights = layer(index);
  const std::int64_t inner = config_.intermediate_size;
  for (std::int64_t begin = 0; begin < residual.size(0); begin += kMlpRows) {
    at::Tensor rows = residual.slice(0, begin, std::min(begin + kMlpRows, residual.size(0)));
    const at::Tensor normed = norm(rows, weights.mlp_norm, weights.mlp_norm_bias).to(matrix_);
    const at::Tensor wide = affine(normed, weights.mlp_in, weights.mlp_in_bias);
    const at::Tensor units = config_.mlp == MlpKind::swiglu
                                 ? at::silu(wide.slice(1, 0, inner)) * wide.slice(1, inner)
                                 : at::gelu(wide, config_.mlp == MlpKind::gelu ? "none" : "tanh");
    rows += affine(units.to(matrix_), weights.mlp_out, weights.mlp_out_bias);
  }
}

void ComposedCausalLM::predict(const SequencePass& pass, const at::Tensor& residual) const {
  const std::int64_t length = residual.size(0);
  const std::int64_t vocabulary = config_.vocabulary_size;
  const at::Tensor normed = norm(residual, final_norm_, final_norm_bias_);
  take_down(normed, pass.recorder.hidden_states(config_.layers, config_.hidden_size), at::kFloat);
  const std::span<float> kept = pass.recorder.logits(vocabulary);
  if (!pass.recorder.keeps(Keep::loss) && kept.empty()) return;
  const std::int64_t rows = std::clamp(kLogitElements / vocabulary, std::int64_t{1}, length);
  const at::Tensor head = padded_head_.slice(0, 0, vocabulary);
  const std::span<const std::int32_t> labels = pass.labels();
  const at::Tensor wanted =
      at::tensor(at::ArrayRef<std::int32_t>(labels.data(), labels.size()), at::kInt).to(at::kLong).to(place_);
  for (std::int64_t begin = 0; begin < length && !pass.job.stopped(); begin += rows) {
    const std::int64_t end = std::min(begin + rows, length);
    const at::Tensor logits = linear_to_float(normed.slice(0, begin, end).to(matrix_), head);
    const at::Tensor of_label = logits.gather(1, wanted.slice(0, begin, end).unsqueeze(1)).squeeze(1);
    const std::span<float> loss = pass.recorder.per_token_loss();
    take_down(at::logsumexp(logits, {1}) - of_label,
              loss.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)), at::kFloat);
    if (!kept.empty()) {
      take_down(logits, kept.subspan(static_cast<std::size_t>(begin * vocabulary)), at::kFloat);
    }
  }
}

bool ComposedCausalLM::run_sequence(const SequencePass& pass) const {
  if (attends_on_cuda_ && CudaSequencePass::takes(config_, dtype_)) return CudaSequencePass(*this, pass).run();
  pass.report.attention_kernel = "composed";
  at::Tensor residual = enter(pass);
  for (int layer = pass.request.start.layer; layer < config_.layers; ++layer) {
    pass.tell(layer, config_.layers);
    if (pass.job.stopped() || !run_layer(pass, layer, residual)) return false;
  }
  pass.tell(config_.layers, config_.layers);
  predict(pass, residual);
  if (place_.is_cuda()) at::accelerator::synchronizeDevice(place_.index());
  if (pass.job.stopped()) return false;
  if (pass.continuation != nullptr) pass.continuation->take_residual(residual.slice(0, pass.request.length - 1));
  pass.tell(config_.layers + 1, config_.layers);
  return true;
}

std::optional<ForwardReport> ComposedCausalLM::forward(const ForwardRequest& request,
                                                       std::span<Recorder* const> recorders, const Job& job) {
  check_request(request, recorders, config_);
  const c10::InferenceMode guard;
  const CurrentDevice current(place_);
  ForwardReport report;
  return with_device_errors(device_, request.length, [&]() -> std::optional<ForwardReport> {
    for (std::int64_t row = 0; row < request.batch; ++row) {
      Recorder& recorder = *recorders[static_cast<std::size_t>(row)];
      if (!run_sequence({request, recorder, job, report, nullptr, row})) return std::nullopt;
    }
    return report;
  });
}

std::unique_ptr<Continuation> ComposedCausalLM::begin(const PromptRequest& request, const Job& job) {
  check_prompt(request, config_);
  PromptPass prompt(request, *this);
  const c10::InferenceMode guard;
  const CurrentDevice current(place_);
  ForwardReport report;
  return with_device_errors(device_, prompt.request().length, [&]() -> std::unique_ptr<Continuation> {
    auto continuation = std::make_unique<ComposedContinuation>(*this, request);
    if (!run_sequence({prompt.request(), prompt.recorder(), job, report, continuation.get(), 0})) return nullptr;
    return continuation;
  });
}

std::unique_ptr<CausalLM> load_composed_model(const Checkpoint& checkpoint, const Device& device, DType dtype,
                                              const Job& job) {
  const c10::InferenceMode guard;
  return with_device_errors(device, 0, [&] {
    auto model = std::make_unique<ComposedCausalLM>(checkpoint.config(), device, dtype);
    return model->load(checkpoint, job) ? std::move(model) : nullptr;
  });
}

}  // namespace foxscope

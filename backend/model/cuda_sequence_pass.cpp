#include <algorithm>
#include <cmath>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/model/composed_continuation_torch.h"
#include "backend/model/cuda_attention_torch.h"
#include "backend/model/cuda_sequence_pass_torch.h"
#include "backend/model/interventions.h"
#include "backend/model/query_key_record_torch.h"
#include "backend/model/run_memory.h"
#include "kernels/cpu/forgetting_attention.h"
#include "kernels/cuda/forgetting_attention.h"
#include "kernels/cuda/gate_scan.h"
#include "kernels/cuda/steps.h"
#include "kernels/cuda/token_loss.h"

namespace foxscope {
namespace {

namespace cuda = kernels::cuda;

/// Rows of a block of logits are a multiple of this.
constexpr std::int64_t kLossRows = 256;

template <typename T>
T* data(const at::Tensor& x) {
  return x.defined() ? x.mutable_data_ptr<T>() : nullptr;
}

void* bytes(const at::Tensor& x) { return x.defined() ? x.mutable_data_ptr() : nullptr; }

/// Copies to host memory of the caller's. Only a copy to pinned memory does not wait for the GPU.
void take_down(const at::Tensor& from, void* into) {
  at::from_blob(into, from.sizes(), at::TensorOptions().dtype(from.scalar_type())).copy_(from, /*non_blocking=*/true);
}

/// sum += in W^T, float32.
void add_product(const at::Tensor& sum, const at::Tensor& in, const at::Tensor& weight) {
  at::Tensor out = sum;
  at::addmm_out(out, sum, in, weight.t(), at::kFloat);
}

}  // namespace

bool CudaSequencePass::takes(const ModelConfig& config, DType dtype) {
  return dtype == DType::bfloat16 && config.norm == NormKind::rms && config.mlp == MlpKind::swiglu &&
         !config.parallel_residual && config.rotary_dim % config.head_dim == 0;
}

CudaSequencePass::CudaSequencePass(const ComposedCausalLM& model, const SequencePass& pass)
    : model_(model),
      config_(model.config()),
      pass_(pass),
      recorder_(pass.recorder),
      length_(pass.request.length),
      place_(at::kCUDA, static_cast<at::DeviceIndex>(model.device().index)),
      stream_(current_stream(place_)),
      downloads_(place_) {}

void CudaSequencePass::check(kernels::Status status, const char* step) const {
  if (status == kernels::Status::ok) return;
  throw Error(fmt::format("{}: the GPU refused {} in a forward pass over {} tokens: try --device cpu",
                          model_.device().name(), step, length_));
}

void CudaSequencePass::allocate() {
  const at::TensorOptions wide = at::TensorOptions().device(place_).dtype(at::kFloat);
  const at::TensorOptions half = wide.dtype(at::kBFloat16);
  const ProjectionColumns& columns = model_.columns();
  const std::int64_t gates = columns.count - columns.key_shift;
  residual_ = model_.enter(pass_);
  labels_ = at::tensor(at::ArrayRef<std::int32_t>(pass_.labels().data(), pass_.labels().size()), at::kInt).to(place_);
  normed_ = at::empty({length_, gates > 0 ? 2 : 1, config_.hidden_size}, half);
  projected_ = at::empty({length_, model_.layer(0).projection_and_gate.size(0)}, half);
  attended_ = at::empty({length_, config_.heads, config_.head_dim}, half);
  if (gates > 0) gates_ = at::empty({length_, gates}, wide);
  blocks_ = at::zeros({config_.layers, 2}, wide.dtype(at::kLong));
  if (!config_.rope) return;
  rotation_ = at::empty({length_, config_.head_dim / 2, 2}, wide);
  check(cuda::rotary_table(0, length_, config_.head_dim, config_.rope_base, data<float>(rotation_), stream_),
        "the table of rotations");
}

void CudaSequencePass::norm(const at::Tensor& weight, Rest rest, const at::Tensor& exact) {
  cuda::ResidualNorm step;
  step.rows = length_;
  step.width = config_.hidden_size;
  step.residual = data<float>(residual_);
  step.weight = data<float>(weight);
  step.epsilon = static_cast<float>(config_.norm_epsilon);
  step.normed = bytes(normed_);
  step.normed_stride = normed_.stride(0);
  if (rest == Rest::kept && normed_.size(1) > 1) step.normed_rest = normed_.select(1, 1).mutable_data_ptr();
  step.normed_float32 = data<float>(exact);
  check(cuda::residual_norm(step, stream_), "a norm");
}

void CudaSequencePass::project(const DeviceLayer& weights) {
  at::mm_out(projected_, normed(), weights.projection_and_gate.t());
  if (weights.projection_bias.defined()) {
    projected_.slice(1, 0, weights.projection_bias.size(0)).add_(weights.projection_bias);
  }
  if (!gates_.defined()) return;
  if (weights.gates_bias.defined()) {
    gates_.copy_(weights.gates_bias.expand_as(gates_));
  } else {
    gates_.zero_();
  }
  // (n + n') W^T up to 2^-17 of each product, where bfloat16 alone would give 2^-9: n W, n' W and n W', n' and W' being
  // what rounding took.
  add_product(gates_, normed_.flatten(1), weights.gates_high);
  add_product(gates_, normed(), weights.gates_rest);
}

/// c [H, L] float64 on the GPU; undefined where every f is 1.
at::Tensor CudaSequencePass::cumulative_gates(int layer) {
  if (changes_gates(pass_.request.interventions, layer)) return changed_gates(layer);
  if (!config_.gated()) return {};
  const at::TensorOptions options = at::TensorOptions().device(place_);
  const at::Tensor& constant = model_.layer(layer).constant_gate;
  at::Tensor cumulative = at::empty({config_.heads, length_}, options.dtype(at::kDouble));
  const auto workspace_bytes = static_cast<std::int64_t>(cuda::gate_scan_workspace_bytes(config_.heads, length_));
  const at::Tensor workspace = at::empty({workspace_bytes}, options.dtype(at::kByte));
  cuda::GateScan scan;
  scan.heads = config_.heads;
  scan.length = length_;
  if (constant.defined()) {
    scan.constant_logits = data<float>(constant);
  } else {
    scan.logits = data<float>(gates_) + (model_.columns().forget - model_.columns().key_shift);
    scan.logits_stride = gates_.stride(0);
  }
  scan.cumulative = data<double>(cumulative);
  scan.workspace = bytes(workspace);
  check(cuda::gate_scan(scan, stream_), "the sums of gates");
  return cumulative;
}

/// The same with interventions, which act on log f on the host.
at::Tensor CudaSequencePass::changed_gates(int layer) {
  at::Tensor log_gate = model_.log_gates(layer, gates_);
  change_gates(pass_.request.interventions, layer, {config_.heads, 0, length_}, data<double>(log_gate));
  const at::Tensor cumulative = at::empty_like(log_gate);
  kernels::cpu::cumulative_log_gate(data<double>(log_gate), config_.heads, length_, data<double>(cumulative));
  return cumulative.to(place_);
}

CudaSequencePass::Heads CudaSequencePass::heads(int layer) const {
  const DeviceLayer& weights = model_.layer(layer);
  const ProjectionColumns& columns = model_.columns();
  const std::int64_t dim = config_.head_dim;
  if (!config_.key_shift && !config_.value_shift && !config_.rope && !weights.query_norm.defined()) {
    return {projected_.slice(1, 0, columns.key).unflatten(1, {config_.heads, dim}),
            projected_.slice(1, columns.key, columns.value).unflatten(1, {config_.key_heads, dim}),
            projected_.slice(1, columns.value, columns.key_shift).unflatten(1, {config_.key_heads, dim})};
  }
  const at::TensorOptions half = projected_.options();
  Heads heads;
  cuda::ProjectedHeads step;
  // A store in GPU memory holds [H, L, d], and is written without a copy.
  if (void* query = recorder_.query_key_on_device(QueryKeyStore::Part::query, layer)) {
    void* key = recorder_.query_key_on_device(QueryKeyStore::Part::key, layer);
    heads.query = at::from_blob(query, {config_.heads, length_, dim}, half).transpose(0, 1);
    heads.key = at::from_blob(key, {config_.key_heads, length_, dim}, half).transpose(0, 1);
    step.layout = cuda::HeadLayout::heads_first;
  } else {
    heads.query = at::empty({length_, config_.heads, dim}, half);
    heads.key = at::empty({length_, config_.key_heads, dim}, half);
  }
  heads.value = at::empty({length_, config_.key_heads, dim}, half);
  step.rows = length_;
  step.heads = config_.heads;
  step.key_heads = config_.key_heads;
  step.head_dim = dim;
  step.projected = bytes(projected_);
  step.projected_stride = projected_.stride(0);
  if (config_.key_shift) step.key_shift_logits = data<float>(gates_);
  if (config_.value_shift) step.value_shift_logits = data<float>(gates_) + (columns.value_shift - columns.key_shift);
  if (gates_.defined()) step.shift_stride = gates_.stride(0);
  step.query_norm = data<float>(weights.query_norm);
  step.key_norm = data<float>(weights.key_norm);
  step.norm_epsilon = static_cast<float>(config_.query_key_norm_epsilon);
  step.rotation = data<float>(rotation_);
  step.query = bytes(heads.query);
  step.key = bytes(heads.key);
  step.value = bytes(heads.value);
  check(cuda::project_heads(step, stream_), "the shift and norm of heads");
  return heads;
}

void CudaSequencePass::attend(int layer, const Heads& heads, const at::Tensor& cumulative) {
  CudaAttention attention;
  attention.query = heads.query.transpose(0, 1);
  attention.key = heads.key.transpose(0, 1);
  attention.value = heads.value.transpose(0, 1);
  attention.output = attended_.transpose(0, 1);
  attention.scale = 1 / std::sqrt(static_cast<double>(config_.head_dim));
  attention.window_size = config_.window_size;
  const at::TensorOptions rows = at::TensorOptions().device(place_).dtype(at::kFloat);
  if (recorder_.keeps(Keep::ungated)) {
    attention.log_normalizer = at::empty({config_.heads, length_}, rows);
    cuda_forgetting_attention(attention);
    downloads_.take(attention.log_normalizer,
                    [this, layer] { return recorder_.log_normalizer_without_gate(layer).data(); });
  }
  attention.log_normalizer = recorder_.keeps(Keep::rows) ? at::empty({config_.heads, length_}, rows) : at::Tensor();
  attention.cumulative_log_gate = cumulative;
  attention.pruning_tolerance = pass_.request.pruning_tolerance;
  attention.blocks = blocks_[layer];
  pass_.report.attention_kernel = cuda_forgetting_attention(attention);
  if (attention.log_normalizer.defined()) {
    downloads_.take(attention.log_normalizer, [this, layer] { return recorder_.log_normalizer(layer).data(); });
  }
}

/// What the recorder keeps of gates, queries and keys.
void CudaSequencePass::record(int layer, const Heads& heads, const at::Tensor& cumulative) {
  if (recorder_.keeps(Keep::gates)) {
    if (cumulative.defined()) {
      downloads_.take(cumulative, [this, layer] { return recorder_.cumulative_log_gate(layer).data(); });
    } else {
      std::ranges::fill(recorder_.cumulative_log_gate(layer), 0.0);
    }
  }
  const void* store = recorder_.query_key_on_device(QueryKeyStore::Part::query, layer);
  if (store != nullptr && store == heads.query.const_data_ptr()) return;
  record_query_key(recorder_, layer, heads.query.transpose(0, 1), heads.key.transpose(0, 1));
}

void CudaSequencePass::continue_from(int layer, const Heads& heads, const at::Tensor& cumulative) const {
  const ProjectionColumns& columns = model_.columns();
  const at::Tensor last = projected_.slice(0, length_ - 1).to(at::kFloat);
  const auto last_heads = [&](std::int64_t begin, std::int64_t end) {
    return last.slice(1, begin, end).unflatten(1, {config_.key_heads, config_.head_dim}).clone();
  };
  ComposedHeads left;
  // Copies of their own: the originals may lie in a store that goes before the continuation does.
  left.key = heads.key.transpose(0, 1).clone(at::MemoryFormat::Contiguous);
  left.value = heads.value.transpose(0, 1).clone(at::MemoryFormat::Contiguous);
  left.next = {length_, last_heads(columns.key, columns.value), last_heads(columns.value, columns.key_shift)};
  const at::Tensor host = cumulative.defined() ? cumulative.to(at::kCPU) : at::Tensor();
  const std::span<const double> sums =
      host.defined() ? std::span(host.const_data_ptr<double>(), static_cast<std::size_t>(host.numel()))
                     : std::span<const double>();
  pass_.continuation->take_layer(layer, left, sums);
}

/// residual += o_proj(activation(gate) * norm(o)).
void CudaSequencePass::leave_attention(int layer) {
  const DeviceLayer& weights = model_.layer(layer);
  const std::int64_t dim = config_.head_dim;
  at::Tensor output = attended_.flatten(1);
  if (config_.output_norm || config_.output_gate) {
    cuda::GatedOutput step;
    step.rows = length_;
    step.heads = config_.heads;
    step.head_dim = dim;
    step.attended = bytes(attended_);
    step.norm = data<float>(weights.output_norm);
    step.norm_epsilon = static_cast<float>(config_.norm_epsilon);
    if (config_.output_gate) step.gate = projected_.slice(1, weights.projection.size(0)).mutable_data_ptr();
    step.gate_stride = projected_.stride(0);
    // Behind an output norm the authors' gate is always a sigmoid.
    const bool silu = config_.output_gate_activation == OutputGateActivation::silu && !config_.output_norm;
    step.activation = silu ? cuda::OutputGateActivation::silu : cuda::OutputGateActivation::sigmoid;
    step.output = bytes(output);
    check(cuda::gate_output(step, stream_), "the output's norm and gate");
  }
  for (int head = 0; head < config_.heads; ++head) {
    if (cuts_head(pass_.request.interventions, layer, head)) output.slice(1, head * dim, (head + 1) * dim).zero_();
  }
  add_product(residual_, output, weights.output);
}

void CudaSequencePass::feed_forward(const DeviceLayer& weights) {
  norm(weights.mlp_norm, Rest::dropped, {});
  const std::int64_t inner = config_.intermediate_size;
  const std::int64_t most = std::min(length_, kDeviceMlpRows);
  at::Tensor wide = at::empty({most, 2 * inner}, normed_.options());
  at::Tensor product = at::empty({most, inner}, normed_.options());
  for (std::int64_t begin = 0; begin < length_; begin += kDeviceMlpRows) {
    const std::int64_t end = std::min(begin + kDeviceMlpRows, length_);
    at::Tensor wide_rows = wide.slice(0, 0, end - begin);
    const at::Tensor product_rows = product.slice(0, 0, end - begin);
    at::mm_out(wide_rows, normed().slice(0, begin, end), weights.mlp_in.t());
    cuda::SwiGlu step;
    step.rows = end - begin;
    step.inner = inner;
    step.wide = bytes(wide_rows);
    step.product = bytes(product_rows);
    check(cuda::swiglu(step, stream_), "SwiGLU");
    add_product(residual_.slice(0, begin, end), product_rows, weights.mlp_out);
  }
}

void CudaSequencePass::run_layer(int layer) {
  const DeviceLayer& weights = model_.layer(layer);
  const std::span<float> hidden = recorder_.hidden_states(layer, config_.hidden_size);
  if (!hidden.empty()) take_down(residual_, hidden.data());
  norm(weights.attention_norm, Rest::kept, {});
  project(weights);
  const at::Tensor cumulative = cumulative_gates(layer);
  const Heads of_layer = heads(layer);
  attend(layer, of_layer, cumulative);
  record(layer, of_layer, cumulative);
  if (pass_.continuation != nullptr) continue_from(layer, of_layer, cumulative);
  leave_attention(layer);
  feed_forward(weights);
}

/// Final norm, lm_head and loss, a chunk of rows at a time.
void CudaSequencePass::predict() {
  const std::span<float> hidden = recorder_.hidden_states(config_.layers, config_.hidden_size);
  const at::Tensor exact = hidden.empty() ? at::Tensor() : at::empty_like(residual_);
  norm(model_.final_norm(), Rest::dropped, exact);
  if (!hidden.empty()) take_down(exact, hidden.data());
  const std::int64_t vocabulary = config_.vocabulary_size;
  const std::span<float> kept = recorder_.logits(vocabulary);
  if (!recorder_.keeps(Keep::loss) && kept.empty()) return;
  const at::Tensor loss = at::empty({length_}, residual_.options());
  const at::Tensor& head = model_.padded_head();
  const std::int64_t most =
      std::min(length_, std::max(kDeviceLogitElements / head.size(0) / kLossRows, std::int64_t{1}) * kLossRows);
  const at::Tensor chunk = at::empty({most, head.size(0)}, residual_.options());
  for (std::int64_t begin = 0; begin < length_ && !pass_.job.stopped(); begin += most) {
    const std::int64_t end = std::min(begin + most, length_);
    at::Tensor logits = chunk.slice(0, 0, end - begin);
    at::mm_out(logits, normed().slice(0, begin, end), head.t(), at::kFloat);
    cuda::TokenLoss step;
    step.rows = end - begin;
    step.vocabulary = vocabulary;
    step.logits = bytes(logits);
    step.logits_type = cuda::ElementType::float32;
    step.logits_stride = logits.stride(0);
    step.labels = data<std::int32_t>(labels_) + begin;
    step.loss = data<float>(loss) + begin;
    check(cuda::token_loss(step, stream_), "the loss");
    if (!kept.empty()) take_down(logits.slice(1, 0, vocabulary).contiguous(), kept.data() + begin * vocabulary);
  }
  downloads_.take(loss, [this] { return recorder_.per_token_loss().data(); });
}

bool CudaSequencePass::run() {
  allocate();
  const int first = pass_.request.start.layer;
  for (int layer = first; layer < config_.layers; ++layer) {
    pass_.tell(first + downloads_.layers_done(), config_.layers);
    if (pass_.job.stopped()) return false;
    run_layer(layer);
    downloads_.end_layer();
  }
  predict();
  downloads_.take(blocks_.sum(0), [this] { return &block_count_; });
  downloads_.finish();
  if (pass_.job.stopped()) return false;
  pass_.report.attention_blocks += block_count_.total;
  pass_.report.skipped_blocks += block_count_.skipped;
  if (pass_.continuation != nullptr) pass_.continuation->take_residual(residual_.slice(0, length_ - 1));
  pass_.tell(config_.layers + 1, config_.layers);
  return true;
}

}  // namespace foxscope

#include <ATen/ATen.h>

#include "backend/model/logit_bound.h"
#include "backend/model/torch_weights_torch.h"
#include "backend/model/weight_reader.h"

namespace foxscope {
namespace {

/// Rows of the head are a multiple of this.
constexpr std::int64_t kHeadRows = 8;

}  // namespace

TorchWeights::TorchWeights(const ModelConfig& model_config, const Device& on, DType type)
    : config(model_config),
      device(on),
      dtype(type),
      place(on.cuda ? at::Device(at::kCUDA, static_cast<at::DeviceIndex>(on.index)) : at::Device(at::kCPU)),
      matrix(type == DType::bfloat16 ? at::kBFloat16 : at::kFloat),
      columns(config) {}

bool TorchWeights::load(const Checkpoint& checkpoint, const Job& job) {
  WeightReader reader(checkpoint, job);
  const std::int64_t hidden = config.hidden_size;
  const std::vector<double> angles = rotary_frequencies(config);
  frequencies = at::tensor(at::ArrayRef<double>(angles.data(), angles.size()), at::kDouble).to(place);
  {
    const auto outside = reader.read_outside();
    if (!outside) return false;
    embedding = put(outside->embedding, {config.vocabulary_size, hidden}, at::kFloat);
    positions = put(outside->positions, {config.learned_positions, hidden}, at::kFloat);
    const at::Tensor head = put(outside->head(), {config.vocabulary_size, hidden}, matrix);
    padded_head = at::constant_pad_nd(head, {0, 0, 0, (kHeadRows - config.vocabulary_size % kHeadRows) % kHeadRows});
    final_norm = put(outside->final_norm, {hidden}, at::kFloat);
    final_norm_bias = put(outside->final_norm_bias, {hidden}, at::kFloat);
  }
  for (int layer = 0; layer < config.layers; ++layer) {
    auto host = reader.read_layer(layer);
    if (!host) return false;
    host->logit_bound = bound_logits(config, *host);
    layers.push_back(put_layer(*host));
  }
  return true;
}

at::Tensor TorchWeights::put(std::span<const float> values, at::IntArrayRef shape, at::ScalarType type) const {
  if (values.empty()) return {};
  return at::tensor(at::ArrayRef<float>(values.data(), values.size()), at::kFloat).view(shape).to(type).to(place);
}

TorchLayer TorchWeights::put_layer(const LayerWeights& host) const {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  const std::int64_t wide = config.mlp == MlpKind::swiglu ? 2 * inner : inner;
  const std::int64_t queries = config.query_size();
  const std::int64_t matrix_rows = columns.key_shift;
  TorchLayer weights;
  weights.attention_norm = put(host.attention_norm, {hidden}, at::kFloat);
  weights.attention_norm_bias = put(host.attention_norm_bias, {hidden}, at::kFloat);
  const at::Tensor projection = put(host.projection, {columns.count, hidden}, at::kFloat);
  weights.gates = projection.slice(0, matrix_rows).contiguous();
  if (matrix == at::kBFloat16) {
    const at::Tensor high = weights.gates.to(matrix);
    weights.gates_high = at::cat({high, high}, 1);
    weights.gates_rest = (weights.gates - high).to(matrix);
  }
  const at::Tensor bias = put(host.projection_bias, {columns.count}, at::kFloat);
  if (bias.defined()) {
    weights.gates_bias = bias.slice(0, matrix_rows).contiguous();
    if (config.query_key_value_bias) weights.projection_bias = bias.slice(0, 0, matrix_rows).contiguous();
  }
  weights.query_norm = put(host.query_norm, {config.heads, config.head_dim}, at::kFloat);
  weights.key_norm = put(host.key_norm, {config.key_heads, config.head_dim}, at::kFloat);
  weights.constant_gate = put(host.constant_gate, {1, config.heads}, at::kFloat);
  weights.projection_and_gate = projection.slice(0, 0, matrix_rows).to(matrix);
  if (config.output_gate) {
    weights.projection_and_gate =
        at::cat({weights.projection_and_gate, put(host.output_gate, {queries, hidden}, matrix)}, 0);
    weights.output_gate = weights.projection_and_gate.slice(0, matrix_rows);
  }
  weights.projection = weights.projection_and_gate.slice(0, 0, matrix_rows);
  weights.output_norm = put(host.output_norm, {config.heads, config.head_dim}, at::kFloat);
  weights.output = put(host.output, {hidden, queries}, matrix);
  weights.output_bias = put(host.output_bias, {hidden}, at::kFloat);
  weights.mlp_norm = put(host.mlp_norm, {hidden}, at::kFloat);
  weights.mlp_norm_bias = put(host.mlp_norm_bias, {hidden}, at::kFloat);
  weights.mlp_in = put(host.mlp_in, {wide, hidden}, matrix);
  weights.mlp_in_bias = put(host.mlp_in_bias, {wide}, at::kFloat);
  weights.mlp_out = put(host.mlp_out, {hidden, inner}, matrix);
  weights.mlp_out_bias = put(host.mlp_out_bias, {hidden}, at::kFloat);
  weights.logit_bound = host.logit_bound;
  return weights;
}

}  // namespace foxscope

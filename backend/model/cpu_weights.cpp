#include "backend/model/cpu_weights.h"

#include <algorithm>
#include <string>
#include <utility>

#include "backend/model/logit_bound.h"

namespace foxscope {
namespace {

void append(FloatArray& values, const FloatArray& more) { values.insert(values.end(), more.begin(), more.end()); }

/// A norm's weight with one number a column: one that all heads share is repeated. Nothing, where reading was stopped.
FloatArray repeat_for_heads(FloatArray weight, std::int64_t columns) {
  const FloatArray once = weight;
  while (!once.empty() && static_cast<std::int64_t>(weight.size()) < columns) append(weight, once);
  return weight;
}

}  // namespace

WeightReader::WeightReader(const Checkpoint& checkpoint, const Job& job) : checkpoint_(checkpoint), job_(job) {
  for (const auto& [name, view] : checkpoint.tensors()) total_ += static_cast<std::int64_t>(view.bytes.size());
}

FloatArray WeightReader::read(const std::string& name) {
  if (stopped()) return {};
  const TensorView& view = checkpoint_.tensor(name);
  FloatArray values;
  // Memory is touched piece by piece too: that of a large table takes seconds.
  values.reserve(static_cast<std::size_t>(view.elements()));
  checkpoint_.read(name, [&](std::span<const float> piece) {
    values.insert(values.end(), piece.begin(), piece.end());
    done_ += static_cast<std::int64_t>(piece.size() * size_of(view.dtype));
    job_.tell({done_, total_, "bytes", "load"});
    return !stopped();
  });
  return values;
}

std::optional<CpuLayerWeights> WeightReader::read_layer(int layer) {
  const ModelConfig& config = checkpoint_.config();
  const LayerNames names = layer_names(config, layer);
  const auto optional = [this](const std::string& name) { return name.empty() ? FloatArray{} : read(name); };
  CpuLayerWeights weights;
  weights.attention_norm = read(names.attention_norm);
  for (const std::string& name :
       {names.query, names.key, names.value, names.key_shift, names.value_shift, names.forget}) {
    append(weights.projection, optional(name));
  }
  const ProjectionColumns columns(config);
  if (config.query_key_value_bias || config.forget_gate == ForgetGate::full) {
    weights.projection_bias.assign(static_cast<std::size_t>(columns.count), 0.0F);
    const auto place = [&](const std::string& name, std::int64_t column) {
      const FloatArray bias = optional(name);
      std::copy(bias.begin(), bias.end(), weights.projection_bias.begin() + column);
    };
    place(names.query_bias, 0);
    place(names.key_bias, columns.key);
    place(names.value_bias, columns.value);
    if (config.forget_gate == ForgetGate::full) place(names.forget_bias, columns.forget);
  }
  if (config.forget_gate == ForgetGate::bias_only || config.forget_gate == ForgetGate::fixed) {
    weights.constant_gate = read(names.forget_bias);
  }
  if (config.query_key_norm != QueryKeyNorm::none) {
    weights.query_norm = repeat_for_heads(read(names.query_norm), config.hidden_size);
    weights.key_norm = repeat_for_heads(read(names.key_norm), config.key_size());
  }
  weights.output_gate = optional(names.output_gate);
  weights.output_norm = optional(names.output_norm);
  weights.output = read(names.output);
  weights.mlp_norm = read(names.mlp_norm);
  weights.mlp_gate_up = read(names.mlp_gate);
  append(weights.mlp_gate_up, optional(names.mlp_up));
  weights.mlp_down = read(names.mlp_down);
  if (stopped()) return std::nullopt;
  weights.logit_bound = bound_logits(config, weights);
  return weights;
}

ProjectionColumns::ProjectionColumns(const ModelConfig& config) {
  key = config.hidden_size;
  value = key + config.key_size();
  key_shift = value + config.key_size();
  value_shift = key_shift + (config.key_shift ? config.key_heads : 0);
  forget = value_shift + (config.value_shift ? config.key_heads : 0);
  count = forget + (config.forget_gate == ForgetGate::full ? config.heads : 0);
}

std::optional<CpuWeights> CpuWeights::read(const Checkpoint& checkpoint, const Job& job) {
  WeightReader reader(checkpoint, job);
  CpuWeights weights;
  weights.embedding = reader.read(kEmbeddingName);
  for (int layer = 0; layer < reader.config().layers; ++layer) {
    auto of_layer = reader.read_layer(layer);
    if (!of_layer) return std::nullopt;
    weights.layers.push_back(std::move(*of_layer));
  }
  weights.final_norm = reader.read(kFinalNormName);
  if (!reader.config().tie_word_embeddings) weights.language_model_head = reader.read(kLanguageModelHeadName);
  if (reader.stopped()) return std::nullopt;
  return weights;
}

}  // namespace foxscope

#include "backend/model/cpu_weights.h"

#include <algorithm>
#include <string>

#include "backend/model/logit_bound.h"

namespace foxscope {
namespace {

FloatArray read(const Checkpoint& checkpoint, const std::string& name) {
  const std::vector<float> values = checkpoint.read(name);
  return {values.begin(), values.end()};
}

void append(FloatArray& values, const FloatArray& more) { values.insert(values.end(), more.begin(), more.end()); }

/// A norm's weight with one number a column: one that all heads share is repeated.
FloatArray repeat_for_heads(FloatArray weight, std::int64_t columns) {
  const FloatArray once = weight;
  while (static_cast<std::int64_t>(weight.size()) < columns) append(weight, once);
  return weight;
}

}  // namespace

CpuLayerWeights read_layer_weights(const Checkpoint& checkpoint, int layer) {
  const ModelConfig& config = checkpoint.config();
  const LayerNames names = layer_names(config, layer);
  const auto optional = [&checkpoint](const std::string& name) {
    return name.empty() ? FloatArray{} : read(checkpoint, name);
  };
  CpuLayerWeights weights;
  weights.attention_norm = read(checkpoint, names.attention_norm);
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
    weights.constant_gate = read(checkpoint, names.forget_bias);
  }
  if (config.query_key_norm != QueryKeyNorm::none) {
    weights.query_norm = repeat_for_heads(read(checkpoint, names.query_norm), config.hidden_size);
    weights.key_norm = repeat_for_heads(read(checkpoint, names.key_norm), config.key_size());
  }
  weights.output_gate = optional(names.output_gate);
  weights.output_norm = optional(names.output_norm);
  weights.output = read(checkpoint, names.output);
  weights.mlp_norm = read(checkpoint, names.mlp_norm);
  weights.mlp_gate_up = read(checkpoint, names.mlp_gate);
  append(weights.mlp_gate_up, optional(names.mlp_up));
  weights.mlp_down = read(checkpoint, names.mlp_down);
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

CpuWeights::CpuWeights(const Checkpoint& checkpoint) {
  embedding = read(checkpoint, kEmbeddingName);
  for (int layer = 0; layer < checkpoint.config().layers; ++layer)
    layers.push_back(read_layer_weights(checkpoint, layer));
  final_norm = read(checkpoint, kFinalNormName);
  if (!checkpoint.config().tie_word_embeddings) language_model_head = read(checkpoint, kLanguageModelHeadName);
}

}  // namespace foxscope

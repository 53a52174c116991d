#include "backend/model/cpu_weights.h"

#include <algorithm>
#include <string>

namespace foxscope {
namespace {

void append(std::vector<float>& values, const std::vector<float>& more) {
  values.insert(values.end(), more.begin(), more.end());
}

/// A norm's weight with one number a column: one that all heads share is repeated.
std::vector<float> repeat_for_heads(std::vector<float> weight, std::int64_t columns) {
  const std::vector<float> once = weight;
  while (static_cast<std::int64_t>(weight.size()) < columns) append(weight, once);
  return weight;
}

}  // namespace

CpuLayerWeights read_layer_weights(const Checkpoint& checkpoint, int layer) {
  const ModelConfig& config = checkpoint.config();
  const LayerNames names = layer_names(config, layer);
  const auto optional = [&checkpoint](const std::string& name) {
    return name.empty() ? std::vector<float>{} : checkpoint.read(name);
  };
  CpuLayerWeights weights;
  weights.attention_norm = checkpoint.read(names.attention_norm);
  for (const std::string& name :
       {names.query, names.key, names.value, names.key_shift, names.value_shift, names.forget}) {
    append(weights.projection, optional(name));
  }
  const ProjectionColumns columns(config);
  if (config.query_key_value_bias || config.forget_gate == ForgetGate::full) {
    weights.projection_bias.assign(static_cast<std::size_t>(columns.count), 0.0F);
    const auto place = [&](const std::string& name, std::int64_t column) {
      const std::vector<float> bias = optional(name);
      std::copy(bias.begin(), bias.end(), weights.projection_bias.begin() + column);
    };
    place(names.query_bias, 0);
    place(names.key_bias, columns.key);
    place(names.value_bias, columns.value);
    if (config.forget_gate == ForgetGate::full) place(names.forget_bias, columns.forget);
  }
  if (config.forget_gate == ForgetGate::bias_only || config.forget_gate == ForgetGate::fixed) {
    weights.constant_gate = checkpoint.read(names.forget_bias);
  }
  if (config.query_key_norm != QueryKeyNorm::none) {
    weights.query_norm = repeat_for_heads(checkpoint.read(names.query_norm), config.hidden_size);
    weights.key_norm = repeat_for_heads(checkpoint.read(names.key_norm), config.key_size());
  }
  weights.output_gate = optional(names.output_gate);
  weights.output_norm = optional(names.output_norm);
  weights.output = checkpoint.read(names.output);
  weights.mlp_norm = checkpoint.read(names.mlp_norm);
  weights.mlp_gate_up = checkpoint.read(names.mlp_gate);
  append(weights.mlp_gate_up, optional(names.mlp_up));
  weights.mlp_down = checkpoint.read(names.mlp_down);
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
  embedding = checkpoint.read(kEmbeddingName);
  for (int layer = 0; layer < checkpoint.config().layers; ++layer)
    layers.push_back(read_layer_weights(checkpoint, layer));
  final_norm = checkpoint.read(kFinalNormName);
  if (!checkpoint.config().tie_word_embeddings) language_model_head = checkpoint.read(kLanguageModelHeadName);
}

}  // namespace foxscope

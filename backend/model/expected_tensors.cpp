#include <fmt/format.h>

#include "backend/model/model_config.h"

namespace foxscope {

LayerNames layer_names(const ModelConfig& config, int layer) {
  const std::string block = fmt::format("model.layers.{}.", layer);
  const std::string attention = block + "attn.";
  const bool fla = config.dialect == Dialect::fla;
  LayerNames names;
  names.attention_norm = block + "attn_norm.weight";
  names.mlp_norm = block + "mlp_norm.weight";
  names.query = attention + "q_proj.weight";
  names.key = attention + (config.key_shift ? "k_proj.linear.weight" : "k_proj.weight");
  names.value = attention + (config.value_shift ? "v_proj.linear.weight" : "v_proj.weight");
  if (config.key_shift) names.key_shift = attention + "k_proj.shift_proj.weight";
  if (config.value_shift) names.value_shift = attention + "v_proj.shift_proj.weight";
  if (config.query_key_value_bias) {
    names.query_bias = attention + "q_proj.bias";
    names.key_bias = attention + "k_proj.bias";
    names.value_bias = attention + "v_proj.bias";
  }
  if (config.query_key_norm != QueryKeyNorm::none) {
    names.query_norm = attention + "q_norm.weight";
    names.key_norm = attention + "k_norm.weight";
  }
  const std::string gate = attention + (fla ? "f_proj" : "fgate_proj");
  switch (config.forget_gate) {
    case ForgetGate::full:
      names.forget = gate + ".weight";
      names.forget_bias = gate + ".bias";
      break;
    case ForgetGate::bias_only:
    case ForgetGate::fixed:
      names.forget_bias = attention + "fgate_bias";
      break;
    case ForgetGate::none:
      break;
  }
  if (config.output_gate) names.output_gate = attention + (fla ? "g_proj.weight" : "ogate_proj.weight");
  if (config.output_norm) names.output_norm = attention + "output_norm.weight";
  names.output = attention + "o_proj.weight";
  names.mlp_gate = block + "mlp.gate_proj.weight";
  if (fla) names.mlp_up = block + "mlp.up_proj.weight";
  names.mlp_down = block + "mlp.down_proj.weight";
  return names;
}

std::vector<ExpectedTensor> expected_tensors(const ModelConfig& config) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t keys = config.key_size();
  const std::int64_t inner = config.intermediate_size;
  const bool shared = config.query_key_norm == QueryKeyNorm::shared;
  std::vector<ExpectedTensor> expected;
  const auto expect = [&expected](const std::string& name, std::vector<std::int64_t> shape) {
    if (!name.empty()) expected.push_back({name, std::move(shape)});
  };
  expect(kEmbeddingName, {config.vocabulary_size, hidden});
  for (int layer = 0; layer < config.layers; ++layer) {
    const LayerNames names = layer_names(config, layer);
    expect(names.attention_norm, {hidden});
    expect(names.query, {hidden, hidden});
    expect(names.query_bias, {hidden});
    expect(names.key, {keys, hidden});
    expect(names.key_bias, {keys});
    expect(names.key_shift, {config.key_heads, hidden});
    expect(names.value, {keys, hidden});
    expect(names.value_bias, {keys});
    expect(names.value_shift, {config.key_heads, hidden});
    expect(names.query_norm, {shared ? config.head_dim : hidden});
    expect(names.key_norm, {shared ? config.head_dim : keys});
    expect(names.forget, {config.heads, hidden});
    expect(names.forget_bias, {config.heads});
    expect(names.output_gate, {hidden, hidden});
    expect(names.output_norm, {hidden});
    expect(names.output, {hidden, hidden});
    expect(names.mlp_norm, {hidden});
    expect(names.mlp_gate, {names.mlp_up.empty() ? 2 * inner : inner, hidden});
    expect(names.mlp_up, {inner, hidden});
    expect(names.mlp_down, {hidden, inner});
  }
  expect(kFinalNormName, {hidden});
  if (!config.tie_word_embeddings) expect(kLanguageModelHeadName, {config.vocabulary_size, hidden});
  return expected;
}

}  // namespace foxscope

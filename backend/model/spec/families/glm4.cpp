// GLM-4: Llama with norms before and behind attention and MLP, one matrix for gate and up, and heads of which a part
// turns, pair by pair.
#include "backend/model/spec/families/glm4.h"

#include <string>

#include <fmt/format.h>

#include "backend/model/spec/families/llama.h"

namespace foxscope::family {
namespace {

void read_glm4(const ConfigKeys& keys, ModelConfig& config) {
  read_llama_layers(
      keys, config,
      {.head_dim = 128, .key_heads = 2, .epsilon = 1.5625e-7, .fraction = "partial_rotary_factor", .turning = 0.5});
  config.post_norm = true;
  config.query_key_value_bias = keys.flag("attention_bias", true);
  keys.refuse_others(harmless_keys());
}

void list_glm4_layer(const ModelConfig& config, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  const ProjectionColumns columns(config);
  using W = LayerWeights;
  const auto project = [&](const char* name, std::int64_t rows, std::int64_t column, ParameterLayout layout) {
    const std::string of = fmt::format("self_attn.{}_proj.", name);
    list.add(of + "weight", {rows, hidden}, &W::projection, column * hidden, layout);
    if (config.query_key_value_bias) list.add(of + "bias", {rows}, &W::projection_bias, column, layout);
  };
  list.add("input_layernorm.weight", {hidden}, &W::attention_norm);
  project("q", config.query_size(), 0, ParameterLayout::turning_pairs);
  project("k", config.key_size(), columns.key, ParameterLayout::turning_pairs);
  project("v", config.key_size(), columns.value, ParameterLayout::rows);
  list.add("self_attn.o_proj.weight", {hidden, config.query_size()}, &W::output);
  list.add("post_self_attn_layernorm.weight", {hidden}, &W::attention_post_norm);
  list.add("post_attention_layernorm.weight", {hidden}, &W::mlp_norm);
  list.add("mlp.gate_up_proj.weight", {2 * inner, hidden}, &W::mlp_in);
  list.add("mlp.down_proj.weight", {hidden, inner}, &W::mlp_out);
  list.add("post_mlp_layernorm.weight", {hidden}, &W::mlp_post_norm);
}

void list_glm4(const ModelConfig& config, ParameterList& list) {
  list.add("embed_tokens.weight", {config.vocabulary_size, config.hidden_size}, &ModelWeights::embedding);
  for (int layer = 0; layer < config.layers; ++layer) {
    list.begin_layer(layer, fmt::format("layers.{}.", layer));
    list_glm4_layer(config, list);
  }
  list.add("norm.weight", {config.hidden_size}, &ModelWeights::final_norm);
  list.add_head();
}

}  // namespace

const ModelFamily kGlm4 = {"glm4", "GLM-4", "model.", read_glm4, list_glm4, "lm_head.weight", is_llama_buffer};

}  // namespace foxscope::family

// GPT-NeoX, and with it Pythia.
#include "backend/model/spec/families/gpt_neox.h"

#include <string_view>

#include <fmt/format.h>

namespace foxscope::family {
namespace {

void read_gpt_neox(const ConfigKeys& keys, ModelConfig& config) {
  read_sizes(keys, {.key_heads = nullptr, .head_dim = nullptr}, config);
  config.intermediate_size = keys.integer("intermediate_size", 1, kMaxIntermediate);
  config.norm = NormKind::layer;
  config.norm_epsilon = keys.number("layer_norm_eps", 0.0, 1.0, 1e-5);
  config.tie_word_embeddings = keys.flag("tie_word_embeddings", false);
  config.parallel_residual = keys.flag("use_parallel_residual", true);
  config.forget_gate = ForgetGate::none;
  config.query_key_value_bias = config.output_bias = keys.flag("attention_bias", true);
  config.mlp_bias = true;
  read_bos(keys, config);
  read_gelu(keys, "hidden_act", "gelu", config);
  read_rotary(keys, {"rotary_emb_base", "rotary_pct", 0.25}, config);
  keys.refuse_others(harmless_keys());
}

void list_gpt_neox(const ModelConfig& config, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  using W = LayerWeights;
  list.add("embed_in.weight", {config.vocabulary_size, hidden}, &ModelWeights::embedding);
  for (int layer = 0; layer < config.layers; ++layer) {
    list.begin_layer(layer, fmt::format("layers.{}.", layer));
    list.add("input_layernorm.weight", {hidden}, &W::attention_norm);
    list.add("input_layernorm.bias", {hidden}, &W::attention_norm_bias);
    list.add("attention.query_key_value.weight", {3 * hidden, hidden}, &W::projection, 0, ParameterLayout::per_head);
    list.add("attention.dense.weight", {hidden, hidden}, &W::output);
    if (config.output_bias) {
      list.add("attention.query_key_value.bias", {3 * hidden}, &W::projection_bias, 0, ParameterLayout::per_head);
      list.add("attention.dense.bias", {hidden}, &W::output_bias);
    }
    list.add("post_attention_layernorm.weight", {hidden}, &W::mlp_norm);
    list.add("post_attention_layernorm.bias", {hidden}, &W::mlp_norm_bias);
    list.add("mlp.dense_h_to_4h.weight", {inner, hidden}, &W::mlp_in);
    list.add("mlp.dense_h_to_4h.bias", {inner}, &W::mlp_in_bias);
    list.add("mlp.dense_4h_to_h.weight", {hidden, inner}, &W::mlp_out);
    list.add("mlp.dense_4h_to_h.bias", {hidden}, &W::mlp_out_bias);
  }
  list.add("final_layer_norm.weight", {hidden}, &ModelWeights::final_norm);
  list.add("final_layer_norm.bias", {hidden}, &ModelWeights::final_norm_bias);
  list.add_head();
}

/// Masks and tables of frequencies that older files hold.
bool is_gpt_neox_buffer(std::string_view name) {
  return name.ends_with(".attention.bias") || name.ends_with(".attention.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq");
}

}  // namespace

const ModelFamily kGptNeox = {"gpt_neox",    "GPT-NeoX",         "gpt_neox.",       read_gpt_neox,
                              list_gpt_neox, "embed_out.weight", is_gpt_neox_buffer};

}  // namespace foxscope::family

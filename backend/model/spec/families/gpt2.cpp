// GPT-2.
#include "backend/model/spec/families/gpt2.h"

#include <cmath>
#include <string_view>

#include <fmt/format.h>

namespace foxscope::family {
namespace {

void read_gpt2(const ConfigKeys& keys, ModelConfig& config) {
  read_sizes(keys,
             {.hidden = "n_embd", .layers = "n_layer", .heads = "n_head", .key_heads = nullptr, .head_dim = nullptr},
             config);
  config.intermediate_size = keys.integer("n_inner", 1, kMaxIntermediate, 4 * config.hidden_size);
  config.learned_positions = keys.integer("n_positions", 1, kMaxVocabulary, 1024);
  config.norm = NormKind::layer;
  config.norm_epsilon = keys.number("layer_norm_epsilon", 0.0, 1.0, 1e-5);
  config.tie_word_embeddings = keys.flag("tie_word_embeddings", true);
  config.forget_gate = ForgetGate::none;
  config.query_key_value_bias = config.output_bias = config.mlp_bias = true;
  read_bos(keys, config);
  read_gelu(keys, "activation_function", "gelu_new", config);
  if (!keys.flag("scale_attn_weights", true)) config.query_factor = std::sqrt(static_cast<double>(config.head_dim));
  config.query_factor_by_layer = keys.flag("scale_attn_by_inverse_layer_idx", false);
  // The key names another order of the same products.
  static_cast<void>(keys.has("reorder_and_upcast_attn"));
  keys.refuse_others(harmless_keys());
}

void list_gpt2(const ModelConfig& config, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  using W = LayerWeights;
  constexpr auto kTransposed = ParameterLayout::transposed;
  list.add("wte.weight", {config.vocabulary_size, hidden}, &ModelWeights::embedding);
  list.add("wpe.weight", {config.learned_positions, hidden}, &ModelWeights::positions);
  for (int layer = 0; layer < config.layers; ++layer) {
    list.begin_layer(layer, fmt::format("h.{}.", layer));
    list.add("ln_1.weight", {hidden}, &W::attention_norm);
    list.add("ln_1.bias", {hidden}, &W::attention_norm_bias);
    list.add("attn.c_attn.weight", {hidden, 3 * hidden}, &W::projection, 0, kTransposed);
    list.add("attn.c_attn.bias", {3 * hidden}, &W::projection_bias);
    list.add("attn.c_proj.weight", {hidden, hidden}, &W::output, 0, kTransposed);
    list.add("attn.c_proj.bias", {hidden}, &W::output_bias);
    list.add("ln_2.weight", {hidden}, &W::mlp_norm);
    list.add("ln_2.bias", {hidden}, &W::mlp_norm_bias);
    list.add("mlp.c_fc.weight", {hidden, inner}, &W::mlp_in, 0, kTransposed);
    list.add("mlp.c_fc.bias", {inner}, &W::mlp_in_bias);
    list.add("mlp.c_proj.weight", {inner, hidden}, &W::mlp_out, 0, kTransposed);
    list.add("mlp.c_proj.bias", {hidden}, &W::mlp_out_bias);
  }
  list.add("ln_f.weight", {hidden}, &ModelWeights::final_norm);
  list.add("ln_f.bias", {hidden}, &ModelWeights::final_norm_bias);
  list.add_head();
}

/// Masks that older files hold.
bool is_gpt2_buffer(std::string_view name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias");
}

}  // namespace

const ModelFamily kGpt2 = {"gpt2", "GPT-2", "transformer.", read_gpt2, list_gpt2, "lm_head.weight", is_gpt2_buffer};

}  // namespace foxscope::family

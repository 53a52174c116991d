// Llama, and the families that write a layer as it does: Mistral, Qwen 2, Qwen 3.

#include <algorithm>
#include <limits>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/model/families/families.h"

namespace foxscope::family {
namespace {

constexpr std::int64_t kLargestWindow = std::numeric_limits<std::int32_t>::max();
/// Of a file that does not say; null is no window.
constexpr std::int64_t kWindowOtherwise = 4096;

/// @param head_dim  where the file does not say; 0: hidden size / heads
void read_layers(const ConfigKeys& keys, ModelConfig& config, int head_dim = 0) {
  read_sizes(keys, {.head_dim_otherwise = head_dim}, config);
  config.intermediate_size = keys.integer("intermediate_size", 1, kMaxIntermediate);
  config.norm_epsilon = keys.number("rms_norm_eps", 0.0, 1.0, 1e-6);
  config.query_key_norm_epsilon = config.norm_epsilon;
  config.tie_word_embeddings = keys.flag("tie_word_embeddings", false);
  config.forget_gate = ForgetGate::none;
  read_bos(keys, config);
  if (const std::string activation = keys.word("hidden_act", "silu"); activation != "silu" && activation != "swish") {
    keys.refuse("hidden_act", "\"silu\"");
  }
  read_rotary(keys, "rope_theta", nullptr, 1.0, config);
}

void refuse_rest(const ConfigKeys& keys) {
  // Slices of matrices that are multiplied one after the other give the same up to rounding.
  static_cast<void>(keys.has("pretraining_tp"));
  keys.refuse_others(harmless_keys());
}

void read_llama(const ConfigKeys& keys, ModelConfig& config) {
  read_layers(keys, config);
  config.query_key_value_bias = config.output_bias = keys.flag("attention_bias", false);
  config.mlp_bias = keys.flag("mlp_bias", false);
  refuse_rest(keys);
}

void read_mistral(const ConfigKeys& keys, ModelConfig& config) {
  read_layers(keys, config);
  if (!keys.is_null("sliding_window")) {
    config.window_size = keys.integer("sliding_window", 1, kLargestWindow, kWindowOtherwise);
  }
  refuse_rest(keys);
}

/// How many layers slide: `layer_types` where it is there, else those from max_window_layers on.
std::int64_t count_sliding_layers(const ConfigKeys& keys, const ModelConfig& config) {
  const std::int64_t first = keys.integer("max_window_layers", 0, kMaxLayers, 28);
  if (!keys.has("layer_types")) return std::max<std::int64_t>(0, config.layers - first);
  const nlohmann::json& types = keys.value("layer_types");
  const auto known = [](const nlohmann::json& type) { return type == "full_attention" || type == "sliding_attention"; };
  if (!types.is_array() || std::ssize(types) != config.layers || !std::all_of(types.begin(), types.end(), known)) {
    keys.fail("layer_types",
              fmt::format("\"full_attention\" or \"sliding_attention\" for each of {} layers", config.layers));
  }
  return std::count(types.begin(), types.end(), "sliding_attention");
}

/// A window that all layers have, or none.
void read_qwen_window(const ConfigKeys& keys, ModelConfig& config) {
  const bool slides = keys.flag("use_sliding_window", false) && !keys.is_null("sliding_window");
  const std::int64_t window = keys.integer("sliding_window", 1, kLargestWindow, kWindowOtherwise);
  const std::int64_t sliding = count_sliding_layers(keys, config);
  if (!slides && keys.has("layer_types") && sliding > 0) {
    keys.fail("layer_types", "\"full_attention\" for every layer of a model that uses no window");
  }
  if (!slides || sliding == 0) return;
  if (sliding < config.layers) {
    keys.refuse(keys.has("layer_types") ? "layer_types" : "max_window_layers",
                fmt::format("a window that all {} layers have or none, and {} would have it", config.layers, sliding));
  }
  config.window_size = window;
}

void read_qwen2(const ConfigKeys& keys, ModelConfig& config) {
  read_layers(keys, config);
  config.query_key_value_bias = true;
  read_qwen_window(keys, config);
  refuse_rest(keys);
}

void read_qwen3(const ConfigKeys& keys, ModelConfig& config) {
  constexpr int kHeadDimOtherwise = 128;
  read_layers(keys, config, kHeadDimOtherwise);
  config.query_key_norm = QueryKeyNorm::shared;
  config.query_key_value_bias = config.output_bias = keys.flag("attention_bias", false);
  read_qwen_window(keys, config);
  refuse_rest(keys);
}

void list_llama(const ModelConfig& config, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  const ProjectionColumns columns(config);
  using W = LayerWeights;
  list.add("embed_tokens.weight", {config.vocabulary_size, hidden}, &ModelWeights::embedding);
  for (int layer = 0; layer < config.layers; ++layer) {
    list.begin_layer(layer, fmt::format("layers.{}.", layer));
    list.add("input_layernorm.weight", {hidden}, &W::attention_norm);
    struct Part {
      const char* name;
      std::int64_t rows;
      std::int64_t column;
    };
    for (const Part& part : {Part{"q_proj", config.query_size(), 0}, Part{"k_proj", config.key_size(), columns.key},
                             Part{"v_proj", config.key_size(), columns.value}}) {
      list.add(fmt::format("self_attn.{}.weight", part.name), {part.rows, hidden}, &W::projection,
               part.column * hidden);
      if (!config.query_key_value_bias) continue;
      list.add(fmt::format("self_attn.{}.bias", part.name), {part.rows}, &W::projection_bias, part.column);
    }
    if (config.query_key_norm != QueryKeyNorm::none) {
      list.add("self_attn.q_norm.weight", {config.head_dim}, &W::query_norm, 0, ParameterLayout::every_head);
      list.add("self_attn.k_norm.weight", {config.head_dim}, &W::key_norm, 0, ParameterLayout::every_head);
    }
    list.add("self_attn.o_proj.weight", {hidden, config.query_size()}, &W::output);
    if (config.output_bias) list.add("self_attn.o_proj.bias", {hidden}, &W::output_bias);
    list.add("post_attention_layernorm.weight", {hidden}, &W::mlp_norm);
    list.add("mlp.gate_proj.weight", {inner, hidden}, &W::mlp_in);
    list.add("mlp.up_proj.weight", {inner, hidden}, &W::mlp_in, inner * hidden);
    list.add("mlp.down_proj.weight", {hidden, inner}, &W::mlp_out);
    if (!config.mlp_bias) continue;
    list.add("mlp.gate_proj.bias", {inner}, &W::mlp_in_bias);
    list.add("mlp.up_proj.bias", {inner}, &W::mlp_in_bias, inner);
    list.add("mlp.down_proj.bias", {hidden}, &W::mlp_out_bias);
  }
  list.add("norm.weight", {hidden}, &ModelWeights::final_norm);
  list.add_head();
}

/// Tables of frequencies that older files hold.
bool is_llama_buffer(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

}  // namespace

const ModelFamily kLlama = {"llama", "Llama", "model.", read_llama, list_llama, "lm_head.weight", is_llama_buffer};
const ModelFamily kMistral = {"mistral",  "Mistral",        "model.",       read_mistral,
                              list_llama, "lm_head.weight", is_llama_buffer};
const ModelFamily kQwen2 = {"qwen2", "Qwen 2", "model.", read_qwen2, list_llama, "lm_head.weight", is_llama_buffer};
const ModelFamily kQwen3 = {"qwen3", "Qwen 3", "model.", read_qwen3, list_llama, "lm_head.weight", is_llama_buffer};

}  // namespace foxscope::family

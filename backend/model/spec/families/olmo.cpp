// OLMo 2 and OLMo 3: norms behind attention and MLP, none before, and norms of queries and keys over all heads
// together. OLMoE: the latter, and experts.
#include "backend/model/spec/families/olmo.h"

#include "backend/base/index.h"
#include "backend/model/spec/families/experts.h"
#include "backend/model/spec/families/llama.h"

namespace foxscope::family {
namespace {

void read_olmo(const ConfigKeys& keys, ModelConfig& config) {
  read_llama_layers(keys, config, {.epsilon = 1e-5});
  config.pre_norm = false;
  config.post_norm = true;
  config.query_key_norm = QueryKeyNorm::whole;
  config.query_key_value_bias = config.output_bias = keys.flag("attention_bias", false);
}

void read_olmo2(const ConfigKeys& keys, ModelConfig& config) {
  read_olmo(keys, config);
  keys.refuse_others(harmless_keys());
}

/// Three layers of four have a window, and turn as if the text were not stretched.
void read_olmo3(const ConfigKeys& keys, ModelConfig& config) {
  constexpr int kFullInterval = 4;
  read_olmo(keys, config);
  const std::int64_t window = read_window(keys);
  read_windows(
      keys, window, [&](int layer) { return window > 0 && (layer + 1) % kFullInterval != 0; }, config);
  const Rotary& stretched = config.rotaries.front();
  if (stretched.scaling.kind != RopeScaling::Kind::none) {
    config.rotaries.push_back({.base = stretched.base, .dim = stretched.dim});
    for (AttentionLayer& layer : config.attention) layer.rotary = layer.window_size > 0 ? 1 : 0;
  }
  keys.refuse_others(harmless_keys());
}

/// Llama with norms of queries and keys over all heads together, and experts in every layer.
void read_olmoe(const ConfigKeys& keys, ModelConfig& config) {
  constexpr double kMostLimit = 1e6;
  read_llama_layers(keys, config, {.epsilon = 1e-5, .experts_alone = true});
  config.query_key_norm = QueryKeyNorm::whole;
  config.query_key_value_bias = config.output_bias = keys.flag("attention_bias", false);
  if (keys.has("clip_qkv")) config.projection_limit = keys.number("clip_qkv", 1e-6, kMostLimit);
  ExpertMixture mixture;
  read_experts(
      keys,
      {.experts_otherwise = 64, .chosen_otherwise = 8, .size = "intermediate_size", .normalized = "norm_topk_prob"},
      mixture);
  use_experts(
      mixture, [](int /*layer*/) { return true; }, config);
  keys.refuse_others(harmless_keys());
}

void list_olmo(const ModelConfig& config, ParameterList& list) { list_llama_layers(config, {}, list); }

void list_olmoe(const ModelConfig& config, ParameterList& list) {
  list_llama_layers(
      config,
      {.list_experts = [](const ModelConfig& of, ParameterList& into) { list_experts(of, ExpertNames(), into); }},
      list);
}

}  // namespace

const ModelFamily kOlmo2 = {"olmo2", "OLMo 2", "model.", read_olmo2, list_olmo, "lm_head.weight", is_llama_buffer};
const ModelFamily kOlmoe = {"olmoe", "OLMoE", "model.", read_olmoe, list_olmoe, "lm_head.weight", is_llama_buffer};
const ModelFamily kOlmo3 = {"olmo3", "OLMo 3", "model.", read_olmo3, list_olmo, "lm_head.weight", is_llama_buffer};

}  // namespace foxscope::family

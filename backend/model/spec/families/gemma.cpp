// Gemma 2 and Gemma 3: zero-centred norms before and behind attention and MLP, a GELU with a gate, embeddings times
// sqrt(D), and a scale of logits of its own. Gemma 2 caps logits; Gemma 3 norms queries and keys, and its windowed
// layers have another rotary base.
#include "backend/model/spec/families/gemma.h"

#include <cmath>
#include <functional>
#include <string>

#include <fmt/format.h>

#include "backend/model/spec/families/llama.h"

namespace foxscope::family {
namespace {

constexpr double kMostScalar = 1e6;
constexpr double kMostCap = 1e6;

void read_gemma(const ConfigKeys& keys, const LlamaDefaults& otherwise, ModelConfig& config) {
  LlamaDefaults all = otherwise;
  all.head_dim = 256;
  all.tied = true;
  all.activation_key = "hidden_activation";
  all.activation = "gelu_pytorch_tanh";
  all.mlp = MlpKind::geglu;
  read_llama_layers(keys, config, all);
  config.post_norm = true;
  config.query_key_value_bias = config.output_bias = keys.flag("attention_bias", false);
  config.embedding_factor = std::sqrt(static_cast<double>(config.hidden_size));
  const double scalar = keys.number("query_pre_attn_scalar", 1e-6, kMostScalar, 256);
  config.query_factor = std::sqrt(static_cast<double>(config.head_dim) / scalar);
  // The library reads hidden_activation alone, and chooses a cache by the other key.
  static_cast<void>(keys.has("hidden_act"));
  static_cast<void>(keys.has("cache_implementation"));
}

/// A cap; null is none.
double read_cap(const ConfigKeys& keys, const char* key, double otherwise) {
  return keys.is_null(key) ? 0 : keys.number(key, 1e-6, kMostCap, otherwise);
}

/// Layers with a window; the library runs none of them without its size.
void read_gemma_windows(const ConfigKeys& keys, const std::function<bool(int layer)>& slides, ModelConfig& config) {
  const std::int64_t window = read_window(keys);
  read_windows(keys, window, slides, config);
  if (window > 0 || keys.has("layer_types")) return;
  for (int layer = 0; layer < config.layers; ++layer) {
    if (slides(layer)) keys.fail("sliding_window", fmt::format("a window: layer {} has one", layer));
  }
}

void read_gemma2(const ConfigKeys& keys, ModelConfig& config) {
  read_gemma(keys, {}, config);
  config.attention_cap = read_cap(keys, "attn_logit_softcapping", 50);
  config.logit_cap = read_cap(keys, "final_logit_softcapping", 30);
  read_gemma_windows(
      keys, [](int layer) { return layer % 2 == 0; }, config);
  keys.refuse_others(harmless_keys());
}

/// Where layers are not listed, every so manieth sees all.
std::int64_t read_pattern(const ConfigKeys& keys) {
  static_cast<void>(keys.has("sliding_window_pattern"));  // some files have both
  const char* const key = keys.has("_sliding_window_pattern") ? "_sliding_window_pattern" : "sliding_window_pattern";
  return keys.integer(key, 1, kMaxLayers, 6);
}

void read_gemma3(const ConfigKeys& keys, ModelConfig& config) {
  read_gemma(keys, {.heads = 8, .key_heads = 4, .base = 1e6, .rotary_by_kind = true}, config);
  config.query_key_norm = QueryKeyNorm::shared;
  if (keys.has("attn_logit_softcapping")) keys.refuse("attn_logit_softcapping", "null");
  config.logit_cap = read_cap(keys, "final_logit_softcapping", 0);
  constexpr double kMostBase = 1e15;
  const std::int64_t pattern = read_pattern(keys);
  read_gemma_windows(
      keys, [&](int layer) { return (layer + 1) % pattern != 0; }, config);
  read_windowed_rotary(keys, keys.number("rope_local_base_freq", 1, kMostBase, 10000), config);
  keys.refuse_others(harmless_keys());
}

void list_gemma(const ModelConfig& config, ParameterList& list) {
  list_llama_layers(config, {.zero_centered_norms = true}, list);
}

}  // namespace

const ModelFamily kGemma2 = {"gemma2", "Gemma 2", "model.", read_gemma2, list_gemma, "lm_head.weight", is_llama_buffer};
const ModelFamily kGemma3 = {"gemma3_text", "Gemma 3",        "model.",       read_gemma3,
                             list_gemma,    "lm_head.weight", is_llama_buffer};

}  // namespace foxscope::family

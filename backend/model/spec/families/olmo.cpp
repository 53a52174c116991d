// OLMo 2 and OLMo 3: norms behind attention and MLP, none before, and norms of queries and keys over all heads
// together. OLMo Hybrid: such layers, and layers of Gated DeltaNet with norms before. OLMoE: norms before, and experts.
#include "backend/model/spec/families/olmo.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "backend/base/index.h"
#include "backend/model/spec/families/experts.h"
#include "backend/model/spec/families/llama.h"

namespace foxscope::family {
namespace {

void read_olmo(const ConfigKeys& keys, const LlamaDefaults& otherwise, ModelConfig& config) {
  read_llama_layers(keys, config, otherwise);
  config.pre_norm = false;
  config.post_norm = true;
  config.query_key_norm = QueryKeyNorm::whole;
  config.query_key_value_bias = config.output_bias = keys.flag("attention_bias", false);
}

void read_olmo2(const ConfigKeys& keys, ModelConfig& config) {
  read_olmo(keys, {.epsilon = 1e-5}, config);
  keys.refuse_others(harmless_keys());
}

/// Three layers of four have a window. Unless rope_parameters says otherwise, these turn by a base that no other key
/// gives, as transformers has it, and as if the text were not stretched.
void read_olmo3(const ConfigKeys& keys, ModelConfig& config) {
  constexpr int kFullInterval = 4;
  constexpr double kBaseOtherwise = 5e5;
  read_olmo(keys, {.epsilon = 1e-5, .base = kBaseOtherwise, .rotary_by_kind = true}, config);
  const std::int64_t window = read_window(keys);
  read_windows(
      keys, window, [&](int layer) { return window > 0 && (layer + 1) % kFullInterval != 0; }, config);
  read_windowed_rotary(keys, kBaseOtherwise, config);
  keys.refuse_others(harmless_keys());
}

/// Where layers are not listed, every fourth attends, or the last where there are fewer.
std::vector<Mixer> usual_hybrid_layers(int layers) {
  constexpr int kInterval = 4;
  std::vector<Mixer> mixers(index_of(layers), Mixer::delta_rule);
  for (int layer = kInterval - 1; layer < layers; layer += kInterval) mixers[index_of(layer)] = Mixer::attention;
  if (layers < kInterval) mixers.back() = Mixer::attention;
  return mixers;
}

/// A mixer of Gated DeltaNet whose norm has an epsilon of its own.
void read_delta_mixer(const ConfigKeys& keys, ModelConfig& config) {
  constexpr double kNormEpsilon = 1e-5;
  LinearMixer mixer;
  mixer.kind = Mixer::delta_rule;
  mixer.query_heads = mixer.key_heads =
      static_cast<int>(keys.integer("linear_num_key_heads", 1, kMaxHidden, config.heads));
  mixer.heads = mixer.value_heads =
      static_cast<int>(keys.integer("linear_num_value_heads", 1, kMaxHidden, config.heads));
  if (mixer.heads % mixer.key_heads != 0) {
    keys.fail("linear_num_value_heads", fmt::format("a multiple of linear_num_key_heads {}", mixer.key_heads));
  }
  const std::int64_t usual = 3 * config.hidden_size / (4 * std::int64_t{mixer.key_heads});
  mixer.key_dim = static_cast<int>(keys.integer("linear_key_head_dim", 1, kMaxHeadDim, usual));
  mixer.value_dim = static_cast<int>(keys.integer("linear_value_head_dim", 1, kMaxHeadDim, 2 * mixer.key_dim));
  mixer.convolution = static_cast<int>(keys.integer("linear_conv_kernel_dim", 1, 64, 4));
  for (const char* of_untrained :
       {"linear_a_log_min", "linear_a_log_max", "linear_dt_min", "linear_dt_max", "linear_dt_init_floor"}) {
    static_cast<void>(keys.has(of_untrained));  // weights before training are drawn by it
  }
  mixer.query_activation = mixer.key_activation = mixer.value_activation = LinearActivation::silu;
  mixer.query_norm = mixer.key_norm = LinearNorm::l2;
  mixer.query_factor = softmax_scale<double>(mixer.key_dim);
  mixer.decay = LinearDecay::rate;
  mixer.beta = keys.flag("linear_allow_neg_eigval", true) ? LinearBeta::twice_sigmoid : LinearBeta::sigmoid;
  mixer.norm_size = mixer.value_dim;
  mixer.norm_epsilon = kNormEpsilon;
  mixer.gate = LinearGate::after_norm;
  config.linear = mixer;
}

void read_olmo_hybrid(const ConfigKeys& keys, ModelConfig& config) {
  read_olmo(keys, {}, config);
  // Layers of attention have norms behind, the others before.
  config.pre_norm = true;
  if (keys.has("rope_parameters") && keys.under("rope_parameters").is_null("rope_theta")) {
    config.rotaries.clear();
    for (AttentionLayer& layer : config.attention) layer.rotary = -1;
  }
  read_delta_mixer(keys, config);
  config.mixers = read_mixer_words(keys, "layer_types", Mixer::delta_rule, config.layers)
                      .value_or(usual_hybrid_layers(config.layers));
  if (!config.attends()) {
    config.rotaries.clear();
    config.attention.clear();
    config.query_key_norm = QueryKeyNorm::none;
    config.query_key_value_bias = config.output_bias = false;
    use_linear_mixer_alone(config);
  }
  keys.refuse_others(harmless_keys());
}

void list_delta_mixer(const ModelConfig& config, ParameterList& list) {
  const LinearMixer& mixer = *config.linear;
  const LinearColumns columns(mixer);
  const std::int64_t hidden = config.hidden_size;
  using W = LayerWeights;
  const auto project = [&](std::string_view name, std::int64_t rows, std::int64_t column) {
    list.add(fmt::format("linear_attn.{}_proj.weight", name), {rows, hidden}, &W::projection, column * hidden);
  };
  // transformers cuts the convolution of all columns into thirds when it saves it.
  const std::int64_t third = (columns.convolved_size() + 2) / 3;
  std::int64_t first = 0;  // of the convolution's columns
  const auto mix = [&](std::string_view name, std::int64_t rows, std::int64_t column) {
    project(name, rows, column);
    const std::int64_t own = config.resaved ? std::min(third, columns.convolved_size() - first) : rows;
    list.add(fmt::format("linear_attn.{}_conv1d.weight", name), {own, 1, mixer.convolution}, &W::convolution,
             first * mixer.convolution);
    first += own;
  };
  mix("q", mixer.query_size(), columns.query);
  mix("k", mixer.key_size(), columns.key);
  mix("v", mixer.value_size(), columns.value);
  project("g", mixer.output_size(), 0);
  project("b", mixer.heads, columns.beta);
  project("a", mixer.heads, columns.decay);
  list.add("linear_attn.A_log", {mixer.heads}, &W::decay_rate);
  list.add("linear_attn.dt_bias", {mixer.heads}, &W::decay_bias);
  list.add("linear_attn.o_norm.weight", {mixer.value_dim}, &W::output_norm);
  list.add("linear_attn.o_proj.weight", {hidden, mixer.output_size()}, &W::output);
}

void list_olmo_hybrid(const ModelConfig& config, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  using W = LayerWeights;
  list.add("embed_tokens.weight", {config.vocabulary_size, hidden}, &ModelWeights::embedding);
  for (int layer = 0; layer < config.layers; ++layer) {
    const bool attends = config.is_attention(layer);
    list.begin_layer(layer, fmt::format("layers.{}.", layer));
    if (attends) {
      list_llama_attention(config, {}, list);
      list.add(config.resaved ? "feedforward_layer_norm.weight" : "post_attention_layernorm.weight", {hidden},
               &W::attention_post_norm);
      list.add("post_feedforward_layernorm.weight", {hidden}, &W::mlp_post_norm);
    } else {
      list.add("attention_layer_norm.weight", {hidden}, &W::attention_norm);
      list_delta_mixer(config, list);
      list.add("feedforward_layer_norm.weight", {hidden}, &W::mlp_norm);
    }
    list.add("mlp.gate_proj.weight", {inner, hidden}, &W::mlp_in);
    list.add("mlp.up_proj.weight", {inner, hidden}, &W::mlp_in, inner * hidden);
    list.add("mlp.down_proj.weight", {hidden, inner}, &W::mlp_out);
  }
  list.add("norm.weight", {hidden}, &ModelWeights::final_norm);
  list.add_head();
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
const ModelFamily kOlmoHybrid = {"olmo_hybrid",    "OLMo Hybrid",    "model.",       read_olmo_hybrid,
                                 list_olmo_hybrid, "lm_head.weight", is_llama_buffer};
const ModelFamily kOlmoe = {"olmoe", "OLMoE", "model.", read_olmoe, list_olmoe, "lm_head.weight", is_llama_buffer};
const ModelFamily kOlmo3 = {"olmo3", "OLMo 3", "model.", read_olmo3, list_olmo, "lm_head.weight", is_llama_buffer};

}  // namespace foxscope::family

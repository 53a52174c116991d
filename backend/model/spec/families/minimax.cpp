// MiniMax-Text-01 (2025): layers of Lightning Attention, linear attention whose heads decay by a slope each, and of
// softmax attention; experts in every layer. x goes on as its norm (NormedResidual).
#include "backend/model/spec/families/minimax.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "backend/model/spec/families/experts.h"

namespace foxscope::family {
namespace {

/// Where layers are not listed, they take turns.
std::vector<Mixer> usual_lightning_layers(int layers) {
  std::vector<Mixer> mixers;
  for (int layer = 0; layer < layers; ++layer) {
    mixers.push_back(layer % 2 == 0 ? Mixer::attention : Mixer::gated_linear_attention);
  }
  return mixers;
}

void use_lightning(ModelConfig& config) {
  LinearMixer mixer;
  mixer.kind = Mixer::gated_linear_attention;
  mixer.heads = mixer.query_heads = mixer.key_heads = mixer.value_heads = config.heads;
  mixer.key_dim = mixer.value_dim = config.head_dim;
  mixer.query_activation = mixer.key_activation = mixer.value_activation = LinearActivation::silu;
  mixer.decay = LinearDecay::slope;
  mixer.gate = LinearGate::after_norm;
  mixer.gate_activation = LinearActivation::sigmoid;
  mixer.norm_size = mixer.output_size();
  mixer.norm_epsilon = 1e-6;
  config.linear = mixer;
}

NormedResidual read_residual(const ConfigKeys& keys) {
  constexpr double kLeast = 1e-6;
  constexpr double kMost = 1e6;
  const auto number = [&](const char* key) { return keys.number(key, kLeast, kMost, 1); };
  return {.attention = number("full_attn_alpha_factor"),
          .linear = number("linear_attn_alpha_factor"),
          .mlp = number("mlp_alpha_factor"),
          .attention_factor = number("full_attn_beta_factor"),
          .linear_factor = number("linear_attn_beta_factor"),
          .mlp_factor = number("mlp_beta_factor")};
}

void read_minimax(const ConfigKeys& keys, ModelConfig& config) {
  constexpr double kBaseOtherwise = 1e6;
  read_sizes(keys, {}, config);
  config.norm_epsilon = keys.number("rms_norm_eps", 0.0, 1.0, 1e-5);
  config.tie_word_embeddings = keys.flag("tie_word_embeddings", false);
  config.forget_gate = ForgetGate::none;
  read_bos(keys, config);
  if (const std::string found = keys.word("hidden_act", "silu"); found != "silu") keys.refuse("hidden_act", "\"silu\"");
  read_rotary(keys, {.otherwise = {}, .base_otherwise = kBaseOtherwise}, config);
  if (keys.has("sliding_window")) keys.refuse("sliding_window", "null");
  config.normed_residual = read_residual(keys);
  use_lightning(config);
  config.mixers = read_mixer_words(keys, "layer_types", Mixer::gated_linear_attention, config.layers)
                      .value_or(usual_lightning_layers(config.layers));
  ExpertMixture mixture;
  read_experts(
      keys,
      {.experts = "num_local_experts", .experts_otherwise = 8, .chosen_otherwise = 2, .size = "intermediate_size"},
      mixture);
  mixture.normalized = true;
  // The sum is in parts of the factor that multiplies x behind it.
  mixture.factor = config.normed_residual->mlp_factor / config.normed_residual->mlp;
  use_experts(
      mixture, [](int /*layer*/) { return true; }, config);
  if (!config.attends()) {
    config.rotaries.clear();
    config.attention.clear();
    use_linear_mixer_alone(config);
  }
  // The library looks at none of them.
  for (const char* key : {"block_size", "postnorm", "rotary_dim", "shared_intermediate_size", "shared_moe_mode",
                          "attn_type_list", "use_cache"}) {
    static_cast<void>(keys.has(key));
  }
  keys.refuse_others(harmless_keys());
}

void list_lightning(const ModelConfig& config, float factor, ParameterList& list) {
  const LinearMixer& mixer = *config.linear;
  const LinearColumns columns(mixer);
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t size = mixer.output_size();
  using W = LayerWeights;
  list.add("self_attn.qkv_proj.weight", {3 * size, hidden}, &W::projection, columns.query * hidden,
           ParameterLayout::per_head);
  list.add("self_attn.output_gate.weight", {size, hidden}, &W::projection);
  list.add("self_attn.norm.weight", {size}, &W::output_norm);
  list.add("self_attn.out_proj.weight", {hidden, size}, &W::output);
  list.scaled(factor);
}

void list_full_attention(const ModelConfig& config, float factor, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const ProjectionColumns columns(config);
  using W = LayerWeights;
  const auto project = [&](const char* part, std::int64_t rows, std::int64_t column) {
    list.add(fmt::format("self_attn.{}_proj.weight", part), {rows, hidden}, &W::projection, column * hidden);
  };
  project("q", config.query_size(), 0);
  project("k", config.key_size(), columns.key);
  project("v", config.key_size(), columns.value);
  list.add("self_attn.o_proj.weight", {hidden, config.query_size()}, &W::output);
  list.scaled(factor);
}

void list_minimax(const ModelConfig& config, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const NormedResidual& residual = *config.normed_residual;
  using W = LayerWeights;
  list.add("embed_tokens.weight", {config.vocabulary_size, hidden}, &ModelWeights::embedding);
  for (int layer = 0; layer < config.layers; ++layer) {
    list.begin_layer(layer, fmt::format("layers.{}.", layer));
    list.add("input_layernorm.weight", {hidden}, &W::residual_norm);
    if (config.is_attention(layer)) {
      list_full_attention(config, static_cast<float>(residual.attention_factor / residual.attention), list);
    } else {
      list_lightning(config, static_cast<float>(residual.linear_factor / residual.linear), list);
    }
    list.add("post_attention_layernorm.weight", {hidden}, &W::mlp_residual_norm);
    list_experts(config,
                 {.router = "block_sparse_moe.gate",
                  .expert = "block_sparse_moe.experts.{}.",
                  .gate = "w1",
                  .up = "w3",
                  .down = "w2"},
                 list);
  }
  list.add("norm.weight", {hidden}, &ModelWeights::final_norm);
  list.add_head();
}

/// Tables of decays, which a layer's number makes.
bool is_table(std::string_view name) {
  constexpr auto kTables = std::to_array<std::string_view>(
      {".slope_rate", ".query_decay", ".key_decay", ".diagonal_decay", ".rotary_emb.inv_freq"});
  return std::ranges::any_of(kTables, [&](std::string_view table) { return name.ends_with(table); });
}

}  // namespace

const ModelFamily kMiniMax = {"minimax", "MiniMax", "model.", read_minimax, list_minimax, "lm_head.weight", is_table};

}  // namespace foxscope::family

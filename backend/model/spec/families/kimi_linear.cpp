// Kimi Linear (Kimi Team 2025): layers of Kimi Delta Attention, and of attention by way of a low rank whose heads do
// not turn; experts from some layer on.
#include "backend/model/spec/families/kimi_linear.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/model/spec/families/experts.h"

namespace foxscope::family {
namespace {

constexpr std::int64_t kMostLatent = 1 << 16;

/// Notes the layers of a kind, which the file counts from 1.
void put_kind(const ConfigKeys& keys, const char* key, Mixer kind, std::vector<std::optional<Mixer>>& mixers) {
  const nlohmann::json layers = keys.has(key) ? keys.value(key) : nlohmann::json::array();
  const auto is_layer = [&](const nlohmann::json& layer) {
    return layer.is_number_integer() && layer >= 1 && layer <= mixers.size();
  };
  if (!layers.is_array() || !std::all_of(layers.begin(), layers.end(), is_layer)) {
    keys.fail(key, fmt::format("a list of layers from 1 to {}", mixers.size()));
  }
  for (const nlohmann::json& layer : layers) {
    std::optional<Mixer>& mixer = mixers[layer.get<std::size_t>() - 1];
    if (mixer) keys.fail("kda_layers", "such that each layer is in it or in full_attn_layers");
    mixer = kind;
  }
}

/// Which layers attend, by the lists of linear_attn_config.
std::vector<Mixer> read_listed_layers(const ConfigKeys& keys, int layers) {
  std::vector<std::optional<Mixer>> listed(index_of(layers));
  put_kind(keys, "kda_layers", Mixer::delta_rule, listed);
  put_kind(keys, "full_attn_layers", Mixer::attention, listed);
  std::vector<Mixer> mixers;
  for (const std::optional<Mixer>& one : listed) {
    if (!one) keys.fail("kda_layers", "such that each layer is in it or in full_attn_layers");
    mixers.push_back(*one);
  }
  return mixers;
}

/// Which layers attend, by layer_types as transformers saves them, or by the lists; else every fourth behind the first.
/// @param lists  linear_attn_config
std::vector<Mixer> read_kimi_layers(const ConfigKeys& keys, const std::optional<ConfigKeys>& lists, int layers) {
  constexpr int kInterval = 4;
  const bool are_listed = lists && (lists->has("kda_layers") || lists->has("full_attn_layers"));
  const auto said = read_mixer_words(keys, "layer_types", Mixer::delta_rule, layers);
  if (are_listed) {
    std::vector<Mixer> listed = read_listed_layers(*lists, layers);
    if (said && *said != listed) keys.fail("layer_types", "what linear_attn_config says");
    return listed;
  }
  if (said) return *said;
  std::vector<Mixer> mixers(index_of(layers), Mixer::delta_rule);
  for (int layer = kInterval; layer < layers; layer += kInterval) mixers[index_of(layer)] = Mixer::attention;
  return mixers;
}

/// Kimi Delta Attention, and which layers have it. Its sizes stand under linear_attn_config, and where transformers has
/// saved the file beside it too.
void read_kimi_delta(const ConfigKeys& keys, ModelConfig& config) {
  std::optional<ConfigKeys> within;
  if (keys.has("linear_attn_config")) within.emplace(keys.under("linear_attn_config"));
  const auto size = [&](const char* key, const char* beside, std::int64_t most) {
    static_cast<void>(keys.has(beside));
    return static_cast<int>(within && within->has(key) ? within->integer(key, 1, most) : keys.integer(beside, 1, most));
  };
  LinearMixer mixer;
  mixer.kind = Mixer::delta_rule;
  mixer.heads = size("num_heads", "linear_num_heads", kMaxHidden);
  mixer.query_heads = mixer.key_heads = mixer.value_heads = mixer.heads;
  mixer.key_dim = mixer.value_dim = size("head_dim", "linear_head_dim", kMaxHeadDim);
  constexpr std::int64_t kMostTapsOfKimi = 64;
  const auto taps = keys.integer("linear_conv_kernel_dim", 1, kMostTapsOfKimi, 4);
  mixer.convolution =
      static_cast<int>(within ? within->integer("short_conv_kernel_size", 1, kMostTapsOfKimi, taps) : taps);
  mixer.query_activation = mixer.key_activation = mixer.value_activation = LinearActivation::silu;
  mixer.query_norm = mixer.key_norm = LinearNorm::l2;
  mixer.query_factor = softmax_scale<double>(mixer.key_dim);
  mixer.decay = LinearDecay::channel_rate;
  mixer.decay_rank = mixer.gate_rank = mixer.key_dim;
  mixer.beta = LinearBeta::sigmoid;
  mixer.norm_size = mixer.value_dim;
  mixer.norm_epsilon = config.norm_epsilon;
  mixer.gate = LinearGate::after_norm;
  mixer.gate_activation = LinearActivation::sigmoid;
  config.linear = mixer;
  config.mixers = read_kimi_layers(keys, within, config.layers);
  if (within) within->refuse_others({});
}

void read_latent(const ConfigKeys& keys, ModelConfig& config) {
  LatentKeys latent;
  latent.rank = static_cast<int>(keys.integer("kv_lora_rank", 1, kMostLatent));
  latent.own_dim = static_cast<int>(keys.integer("qk_nope_head_dim", 1, kMaxHeadDim));
  latent.shared_dim = static_cast<int>(keys.integer("qk_rope_head_dim", 1, kMaxHeadDim));
  if (config.key_heads != config.heads) {
    keys.fail("num_key_value_heads", fmt::format("num_attention_heads, {}", config.heads));
  }
  config.head_dim = latent.own_dim + latent.shared_dim;
  if (config.head_dim > kMaxHeadDim) {
    keys.fail("qk_nope_head_dim", fmt::format("such that heads have at most {} numbers", kMaxHeadDim));
  }
  latent.value_dim = static_cast<int>(keys.integer("v_head_dim", 1, config.head_dim));
  if (keys.has("q_lora_rank")) keys.refuse("q_lora_rank", "null");
  if (!keys.flag("mla_use_nope", true)) keys.refuse("mla_use_nope", "true");
  config.latent = latent;
}

/// Which layers have experts: mlp_layer_types as transformers saves them, else those from some layer on.
std::vector<bool> read_sparse_layers(const ConfigKeys& keys, int layers) {
  constexpr const char* kTypes = "mlp_layer_types";
  const std::int64_t dense = keys.integer("first_k_dense_replace", 0, kMaxLayers, 1);
  std::vector<bool> sparse;
  for (int layer = 0; layer < layers; ++layer) sparse.push_back(layer >= dense);
  if (!keys.has(kTypes)) return sparse;
  const nlohmann::json& types = keys.value(kTypes);
  const auto known = [](const nlohmann::json& type) { return type == "dense" || type == "sparse"; };
  if (!types.is_array() || std::ssize(types) != layers || !std::all_of(types.begin(), types.end(), known)) {
    keys.fail(kTypes, fmt::format("\"dense\" or \"sparse\" for each of {} layers", layers));
  }
  std::transform(types.begin(), types.end(), sparse.begin(), [](const auto& type) { return type == "sparse"; });
  return sparse;
}

void read_kimi_experts(const ConfigKeys& keys, ModelConfig& config) {
  constexpr double kMostFactorOfKimi = 1e3;
  constexpr double kFactorOtherwise = 2.446;
  const std::vector<bool> sparse = read_sparse_layers(keys, config.layers);
  if (!keys.has("num_experts")) {
    for (const char* of_experts :
         {"moe_layer_freq", "num_experts_per_token", "moe_intermediate_size", "num_shared_experts", "moe_renormalize",
          "moe_router_activation_func", "routed_scaling_factor", "num_expert_group", "topk_group"}) {
      static_cast<void>(keys.has(of_experts));  // without experts they change nothing
    }
    return;
  }
  ExpertMixture mixture;
  // transformers 5.24 takes sigmoids whatever the key says, and the authors' code what it says.
  if (keys.word("moe_router_activation_func", "sigmoid") != "sigmoid") {
    keys.refuse("moe_router_activation_func", "\"sigmoid\"");
  }
  mixture.scores = ExpertMixture::Scores::sigmoid;
  mixture.selection_bias = true;
  read_experts(keys, {.chosen = "num_experts_per_token", .normalized = "moe_renormalize", .normalized_otherwise = true},
               mixture);
  mixture.factor = keys.number("routed_scaling_factor", 1e-6, kMostFactorOfKimi, kFactorOtherwise);
  mixture.groups = static_cast<int>(keys.integer("num_expert_group", 1, mixture.experts, 1));
  mixture.chosen_groups = static_cast<int>(keys.integer("topk_group", 1, mixture.groups, 1));
  if (mixture.experts % mixture.groups != 0) {
    keys.fail("num_expert_group", fmt::format("such that it divides num_experts {}", mixture.experts));
  }
  mixture.shared_size = mixture.size * keys.integer("num_shared_experts", 0, 1 << 10, 1);
  if (keys.integer("moe_layer_freq", 1, kMaxLayers, 1) != 1) keys.refuse("moe_layer_freq", "1");
  use_experts(
      mixture, [&](int layer) { return sparse[index_of(layer)]; }, config);
}

void read_kimi_linear(const ConfigKeys& keys, ModelConfig& config) {
  read_sizes(keys, {.head_dim_otherwise = 1}, config);
  config.intermediate_size = keys.integer("intermediate_size", 1, kMaxIntermediate);
  config.norm_epsilon = keys.number("rms_norm_eps", 0.0, 1.0, 1e-5);
  config.tie_word_embeddings = keys.flag("tie_word_embeddings", false);
  config.forget_gate = ForgetGate::none;
  read_bos(keys, config);
  if (const std::string found = keys.word("hidden_act", "silu"); found != "silu") keys.refuse("hidden_act", "\"silu\"");
  read_latent(keys, config);
  read_kimi_experts(keys, config);
  read_kimi_delta(keys, config);
  if (!config.attends()) {
    config.latent.reset();
    config.attention.clear();
    use_linear_mixer_alone(config);
  }
  // Heads do not turn, what predicts further tokens is not run, and some widths are other keys' sums.
  for (const char* key :
       {"rope_theta", "rope_scaling", "rope_parameters", "use_grouped_topk", "auto_map", "model_max_length",
        "num_nextn_predict_layers", "qk_head_dim", "pretraining_tp", "output_router_logits"}) {
    static_cast<void>(keys.has(key));
  }
  keys.refuse_others(harmless_keys());
}

void list_kimi_delta(const ModelConfig& config, ParameterList& list) {
  const LinearMixer& mixer = *config.linear;
  const LinearColumns columns(mixer);
  const std::int64_t hidden = config.hidden_size;
  using W = LayerWeights;
  const auto project = [&](const char* name, std::int64_t rows, std::int64_t column) {
    list.add(fmt::format("self_attn.{}_proj.weight", name), {rows, hidden}, &W::projection, column * hidden);
  };
  const auto mix = [&](const char* name, std::int64_t rows, std::int64_t column) {
    project(name, rows, column);
    list.add(fmt::format("self_attn.{}_conv1d.weight", name), {rows, 1, mixer.convolution}, &W::convolution,
             (column - columns.convolved) * mixer.convolution);
  };
  mix("q", mixer.query_size(), columns.query);
  mix("k", mixer.key_size(), columns.key);
  mix("v", mixer.value_size(), columns.value);
  project("g_a", mixer.gate_rank, 0);
  project("b", mixer.heads, columns.beta);
  project("f_a", mixer.decay_rank, columns.decay);
  list.add("self_attn.f_b_proj.weight", {mixer.key_size(), mixer.decay_rank}, &W::decay_up);
  list.add("self_attn.g_b_proj.weight", {mixer.output_size(), mixer.gate_rank}, &W::output_gate);
  list.add("self_attn.A_log", {1, 1, mixer.heads, 1}, &W::decay_rate);
  list.add("self_attn.dt_bias", {mixer.key_size()}, &W::decay_bias);
  list.add("self_attn.o_norm.weight", {mixer.value_dim}, &W::output_norm);
  list.add("self_attn.o_proj.weight", {hidden, mixer.output_size()}, &W::output);
}

void list_latent(const ModelConfig& config, ParameterList& list) {
  const LatentKeys& latent = *config.latent;
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t queries = config.query_size();
  const std::int64_t heads = config.heads;
  using W = LayerWeights;
  list.add("self_attn.q_proj.weight", {queries, hidden}, &W::projection);
  list.add("self_attn.kv_a_proj_with_mqa.weight", {latent.rank + latent.shared_dim, hidden}, &W::projection,
           queries * hidden);
  list.add("self_attn.kv_a_layernorm.weight", {latent.rank}, &W::latent_norm);
  list.add("self_attn.kv_b_proj.weight", {heads * (latent.own_dim + latent.value_dim), latent.rank}, &W::latent_up);
  list.add("self_attn.o_proj.weight", {hidden, heads * latent.value_dim}, &W::output);
}

/// The router and the experts, of which the one that all read has its matrices named as MLPs have.
void list_kimi_experts(const ModelConfig& config, ParameterList& list) {
  list_router(config,
              {.router = "block_sparse_moe.gate",
               .selection_bias = "block_sparse_moe.gate.e_score_correction_bias",
               .shared = "block_sparse_moe.shared_experts."},
              list);
  list_each_expert(config, {.expert = "block_sparse_moe.experts.{}.", .gate = "w1", .up = "w3", .down = "w2"}, list);
}

void list_kimi_linear(const ModelConfig& config, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  using W = LayerWeights;
  list.add("embed_tokens.weight", {config.vocabulary_size, hidden}, &ModelWeights::embedding);
  for (int layer = 0; layer < config.layers; ++layer) {
    list.begin_layer(layer, fmt::format("layers.{}.", layer));
    list.add("input_layernorm.weight", {hidden}, &W::attention_norm);
    config.is_attention(layer) ? list_latent(config, list) : list_kimi_delta(config, list);
    list.add("post_attention_layernorm.weight", {hidden}, &W::mlp_norm);
    if (config.mixture_at(layer) != nullptr) {
      list_kimi_experts(config, list);
      continue;
    }
    // transformers saves MLPs by the name that experts have.
    const std::string mlp = config.resaved ? "block_sparse_moe." : "mlp.";
    list.add(mlp + "gate_proj.weight", {inner, hidden}, &W::mlp_in);
    list.add(mlp + "up_proj.weight", {inner, hidden}, &W::mlp_in, inner * hidden);
    list.add(mlp + "down_proj.weight", {hidden, inner}, &W::mlp_out);
  }
  list.add("norm.weight", {hidden}, &ModelWeights::final_norm);
  list.add_head();
}

}  // namespace

const ModelFamily kKimiLinear = {"kimi_linear", "Kimi Linear", "model.", read_kimi_linear, list_kimi_linear};

}  // namespace foxscope::family

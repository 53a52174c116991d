// Hybrids of Mamba-2 and softmax attention as transformers writes them: Bamba, Granite 4 (granitemoehybrid), Nemotron-H
// (layers are a mixer, an MLP or a mixture of experts) and Falcon-H1 (both mixers read the same x).
#include "backend/model/spec/families/mamba2_hybrid.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/index.h"
#include "backend/model/spec/families/experts.h"
#include "backend/model/spec/families/mamba2.h"

namespace foxscope::family {
namespace {

constexpr double kMostMultiplier = 1e6;

/// Keys of the mixer that Bamba's files have, and what they have where they do not say.
constexpr Mamba2Keys kBambaKeys = {.heads = "mamba_n_heads",
                                   .head_dim = "mamba_d_head",
                                   .state = "mamba_d_state",
                                   .groups = "mamba_n_groups",
                                   .taps = "mamba_d_conv",
                                   .convolution_bias = "mamba_conv_bias",
                                   .bias = "mamba_proj_bias",
                                   .expand = "mamba_expand",
                                   .heads_otherwise = 128,
                                   .head_dim_otherwise = 0,
                                   .state_otherwise = 256,
                                   .groups_otherwise = 1};

void require_silu_alone(const ConfigKeys& keys, const char* key) {
  if (const std::string found = keys.word(key, "silu"); found != "silu" && found != "swish") {
    keys.refuse(key, "\"silu\"");
  }
}

/// @param key      of the norms' epsilon
/// @param epsilon  where the file does not say
void read_around_hybrid(const ConfigKeys& keys, const SizeKeys& sizes, const char* key, double epsilon,
                        ModelConfig& config) {
  read_sizes(keys, sizes, config);
  config.norm_epsilon = keys.number(key, 0.0, 1.0, epsilon);
  config.tie_word_embeddings = keys.flag("tie_word_embeddings", false);
  config.forget_gate = ForgetGate::none;
  read_bos(keys, config);
  config.query_key_value_bias = config.output_bias = keys.flag("attention_bias", false);
}

/// A factor that the file may give.
double read_factor(const ConfigKeys& keys, const char* key) { return keys.number(key, 1e-9, kMostMultiplier, 1); }

/// Attention where the list says so, Mamba-2 elsewhere.
void read_attention_layers(const ConfigKeys& keys, const char* key, ModelConfig& config) {
  config.mixers.assign(static_cast<std::size_t>(config.layers), Mixer::mamba2);
  if (!keys.has(key)) return;
  const nlohmann::json& layers = keys.value(key);
  const auto is_layer = [&](const nlohmann::json& layer) {
    return layer.is_number_integer() && layer >= 0 && layer < config.layers;
  };
  if (!layers.is_array() || !std::all_of(layers.begin(), layers.end(), is_layer)) {
    keys.fail(key, fmt::format("a list of layers from 0 to {}", config.layers - 1));
  }
  for (const nlohmann::json& layer : layers) config.mixers[layer.get<std::size_t>()] = Mixer::attention;
}

/// Where no layer attends, the mixer's sizes are the model's.
void settle_mixers(ModelConfig& config) {
  if (config.attends()) return;
  config.rotaries.clear();
  config.attention.clear();
  config.query_key_value_bias = config.output_bias = false;
  use_linear_mixer_alone(config);
}

void read_bamba(const ConfigKeys& keys, ModelConfig& config) {
  constexpr double kTurningShare = 0.5;
  read_around_hybrid(keys, {}, "rms_norm_eps", 1e-5, config);
  require_silu_alone(keys, "hidden_act");
  config.intermediate_size = keys.integer("intermediate_size", 1, kMaxIntermediate);
  config.mlp_bias = keys.flag("mlp_bias", false);
  read_rotary(keys, {.otherwise = kTurningShare}, config);
  read_mamba2_mixer(keys, kBambaKeys, config);
  read_attention_layers(keys, "attn_layer_indices", config);
  settle_mixers(config);
  static_cast<void>(keys.has("z_loss_coefficient"));  // of training
  refuse_mamba2_rest(keys);
}

/// Experts of every layer beside the MLP that all positions read; none where there are 0 of them.
void read_granite_hybrid_experts(const ConfigKeys& keys, ModelConfig& config) {
  constexpr int kExperts = 8;
  constexpr int kChosen = 2;
  if (keys.integer("num_local_experts", 0, kMaxHidden, kExperts) == 0) return;
  ExpertMixture mixture;
  read_experts(keys,
               {.experts = "num_local_experts",
                .experts_otherwise = kExperts,
                .chosen_otherwise = kChosen,
                .size = "intermediate_size"},
               mixture);
  mixture.normalized = true;  // a softmax over those that were chosen
  mixture.shared_size = config.intermediate_size;
  use_experts(
      mixture, [](int /*layer*/) { return true; }, config);
}

void read_granite_hybrid(const ConfigKeys& keys, ModelConfig& config) {
  read_around_hybrid(keys, {}, "rms_norm_eps", 1e-6, config);
  require_silu_alone(keys, "hidden_act");
  config.intermediate_size = keys.integer("shared_intermediate_size", 1, kMaxIntermediate, 1024);
  const std::string positions = keys.word("position_embedding_type", "nope");
  if (positions == "rope") {
    read_rotary(keys, {.otherwise = {}}, config);
  } else if (positions != "nope") {
    keys.refuse("position_embedding_type", "\"rope\" and \"nope\"");
  }
  config.embedding_factor = read_factor(keys, "embedding_multiplier");
  config.residual_factor = read_factor(keys, "residual_multiplier");
  config.logit_factor = 1 / read_factor(keys, "logits_scaling");
  config.query_factor = read_factor(keys, "attention_multiplier") * std::sqrt(static_cast<double>(config.head_dim));
  if (keys.word("normalization_function", "rmsnorm") != "rmsnorm") {
    keys.refuse("normalization_function", "\"rmsnorm\"");
  }
  read_mamba2_mixer(keys, kBambaKeys, config);
  config.mixers = read_mixer_words(keys, "layer_types", Mixer::mamba2, config.layers)
                      .value_or(std::vector<Mixer>(index_of(config.layers), Mixer::mamba2));
  settle_mixers(config);
  read_granite_hybrid_experts(keys, config);
  // Without experts and rotary embeddings these say nothing, and the others are of training.
  for (const char* key : {"intermediate_size", "num_experts_per_tok", "output_router_logits", "router_aux_loss_coef",
                          "rope_theta", "rope_scaling", "rope_parameters", "init_method"}) {
    static_cast<void>(keys.has(key));
  }
  refuse_mamba2_rest(keys);
}

/// A layer's kind by a letter.
Mixer mixer_of_letter(char letter) {
  if (letter == 'M') return Mixer::mamba2;
  return letter == '*' ? Mixer::attention : Mixer::none;
}

constexpr const char* kPattern = "hybrid_override_pattern";

/// The kinds of layers that a list of words says, as letters.
std::string letters_of_words(const ConfigKeys& keys, const char* key) {
  constexpr std::pair<const char*, char> kLetters[] = {
      {"linear_attention", 'M'}, {"mamba", 'M'}, {"full_attention", '*'},
      {"attention", '*'},        {"mlp", '-'},   {"moe", 'E'}};
  const nlohmann::json& words = keys.value(key);
  std::string letters;
  for (const nlohmann::json& word : words) {
    for (const auto& [name, letter] : kLetters) {
      if (word == name) letters += letter;
    }
  }
  if (!words.is_array() || letters.size() != words.size()) {
    keys.fail(key, R"(a list of "linear_attention", "full_attention", "mlp" and "moe")");
  }
  return letters;
}

/// The kinds of layers as letters: M (Mamba-2), * (attention), - (MLP) and E (experts). transformers 5 saves them as
/// words.
std::string read_pattern_of_layers(const ConfigKeys& keys) {
  std::string pattern = keys.word(kPattern, "");
  const char* key = kPattern;
  if (pattern.find_first_not_of("M*-E") != std::string::npos) {
    keys.fail(key, "of the letters M (Mamba-2), * (attention), - (MLP) and E (experts)");
  }
  const char* const of_words = keys.either("layers_block_type", "layer_types");
  if (keys.has(of_words)) {
    key = of_words;
    std::string letters = letters_of_words(keys, key);
    if (!pattern.empty() && letters != pattern) keys.fail(key, fmt::format("what {} says", kPattern));
    pattern = std::move(letters);
  }
  const std::int64_t layers = keys.integer("num_hidden_layers", 1, kMaxLayers, std::ssize(pattern));
  if (pattern.empty() || std::ssize(pattern) > kMaxLayers || std::ssize(pattern) != layers) {
    const std::string each = layers > 0 ? fmt::format("each of {} layers", layers) : "each layer";
    keys.fail(key, fmt::format("a {} for {}", key == kPattern ? "letter" : "word", each));
  }
  return pattern;
}

/// Sigmoids choose, with a bias that weights do not have, and one more expert is read by all positions.
void read_nemotron_experts(const ConfigKeys& keys, const std::string& pattern, ModelConfig& config) {
  constexpr double kMostFactorOfWeights = 1e3;
  ExpertMixture mixture;
  mixture.scores = ExpertMixture::Scores::sigmoid;
  mixture.selection_bias = true;
  read_experts(keys, {.experts = "n_routed_experts", .normalized = "norm_topk_prob", .normalized_otherwise = true},
               mixture);
  mixture.factor = keys.number("routed_scaling_factor", 1e-6, kMostFactorOfWeights, 1);
  mixture.groups = static_cast<int>(keys.integer("n_group", 1, mixture.experts, 1));
  mixture.chosen_groups = static_cast<int>(keys.integer("topk_group", 1, mixture.groups, 1));
  if (mixture.experts % mixture.groups != 0) {
    keys.fail("n_group", fmt::format("such that it divides n_routed_experts {}", mixture.experts));
  }
  mixture.shared_size = keys.integer("moe_shared_expert_intermediate_size", 1, kMaxIntermediate);
  mixture.latent = keys.integer("moe_latent_size", 1, kMaxHidden, 0);
  if (config.mlp_bias) keys.refuse("mlp_bias", "false beside experts");
  use_experts(
      mixture, [&](int layer) { return pattern[index_of(layer)] == 'E'; }, config);
}

void read_nemotron_h(const ConfigKeys& keys, ModelConfig& config) {
  constexpr int kHeadDimOtherwise = 128;
  const std::string pattern = read_pattern_of_layers(keys);
  config.layers = static_cast<int>(pattern.size());
  read_around_hybrid(keys, {.layers = nullptr, .head_dim_otherwise = kHeadDimOtherwise}, "layer_norm_epsilon", 1e-5,
                     config);
  require_silu_alone(keys, "mamba_hidden_act");
  if (const std::string activation = keys.word("mlp_hidden_act", "relu2"); activation != "relu2") {
    keys.refuse("mlp_hidden_act", "\"relu2\"");
  }
  config.mlp = MlpKind::relu_squared;
  config.mlp_alone = true;
  config.mlp_bias = keys.flag("mlp_bias", false);
  config.intermediate_size = keys.integer("intermediate_size", 1, kMaxIntermediate);
  if (keys.flag("mamba_proj_bias", false)) keys.refuse("mamba_proj_bias", "false");
  if (keys.has("sliding_window")) keys.refuse("sliding_window", "null");
  read_mamba2_mixer(keys,
                    {.heads = "mamba_num_heads",
                     .head_dim = "mamba_head_dim",
                     .state = "ssm_state_size",
                     .expand = nullptr,
                     .lowest = "time_step_min",
                     .groups_otherwise = 8},
                    config);
  for (const char letter : pattern) config.mixers.push_back(mixer_of_letter(letter));
  if (pattern.find('E') != std::string::npos) read_nemotron_experts(keys, pattern, config);
  if (pattern.find('-') == std::string::npos) config.intermediate_size = 0;
  if (std::ranges::all_of(config.mixers, [](Mixer mixer) { return mixer == Mixer::none; })) {
    keys.fail(keys.has(kPattern) ? kPattern : "layers_block_type", "with a mixer in some layer");
  }
  // Heads do not turn, widths stand under other keys, and what predicts further tokens is not run.
  for (const char* key : {"rope_theta",
                          "partial_rotary_factor",
                          "expand",
                          "rms_norm_eps",
                          "norm_eps",
                          "attention_head_dim",
                          "hidden_act",
                          "n_shared_experts",
                          "moe_intermediate_size",
                          "moe_shared_expert_intermediate_size",
                          "n_routed_experts",
                          "num_experts_per_tok",
                          "norm_topk_prob",
                          "routed_scaling_factor",
                          "n_group",
                          "topk_group",
                          "moe_latent_size",
                          "moe_shared_expert_overlap",
                          "mamba_ssm_cache_dtype",
                          "num_nextn_predict_layers",
                          "mtp_layers_block_type",
                          "mtp_hybrid_override_pattern"}) {
    static_cast<void>(keys.has(key));
  }
  config.unread.push_back({"mtp.", "multi-token prediction"});
  refuse_mamba2_rest(keys);
}

/// The list of so many factors under a key.
std::vector<double> read_factors(const ConfigKeys& keys, const char* key, std::size_t count) {
  if (!keys.has(key)) return std::vector<double>(count, 1);
  const nlohmann::json& factors = keys.value(key);
  const auto sound = [](const nlohmann::json& factor) {
    return factor.is_number() && factor.get<double>() != 0 && std::abs(factor.get<double>()) <= kMostMultiplier;
  };
  if (!factors.is_array() || factors.size() != count || !std::all_of(factors.begin(), factors.end(), sound)) {
    keys.fail(key, fmt::format("a list of {} numbers that are not 0", count));
  }
  return factors.get<std::vector<double>>();
}

/// Falcon-H1's layer n is two here: 2n attends, 2n + 1 is Mamba-2 with the MLP behind it.
void read_falcon_h1(const ConfigKeys& keys, ModelConfig& config) {
  read_around_hybrid(keys, {}, "rms_norm_eps", 1e-5, config);
  require_silu_alone(keys, "hidden_act");
  config.intermediate_size = keys.integer("intermediate_size", 1, kMaxIntermediate);
  config.mlp_bias = keys.flag("mlp_bias", false);
  read_rotary(keys, {.otherwise = {}}, config);
  config.embedding_factor = read_factor(keys, "embedding_multiplier");
  config.logit_factor = read_factor(keys, "lm_head_multiplier");
  Mamba2Keys names = kBambaKeys;
  // The width is said by itself, and where it is not by a part of the hidden size.
  if (keys.has("mamba_d_ssm")) {
    names.expand = nullptr;
    const std::int64_t heads = keys.integer(names.heads, 1, kMaxHidden, names.heads_otherwise);
    names.head_dim_otherwise =
        static_cast<int>(std::min(keys.integer("mamba_d_ssm", 1, kMaxHidden) / heads, kMaxHeadDim));
  }
  read_mamba2_mixer(keys, names, config);
  LinearMixer& mixer = *config.linear;
  if (keys.integer("mamba_d_ssm", 1, kMaxHidden, mixer.output_size()) != mixer.output_size()) {
    keys.fail("mamba_d_ssm", fmt::format("mamba_n_heads {} times mamba_d_head {}", mixer.heads, mixer.value_dim));
  }
  mixer.output_bias = keys.flag("projectors_bias", false);
  const bool before = keys.flag_or_null("mamba_norm_before_gate", true);
  if (!keys.flag("mamba_rms_norm", false)) {
    mixer.norm_size = 0;
  } else if (before) {
    mixer.gate = LinearGate::after_norm;
  }
  if (keys.has("attn_layer_indices")) keys.refuse("attn_layer_indices", "null: every layer has both mixers");
  for (const char* key : {"attention_in_multiplier", "attention_out_multiplier", "ssm_in_multiplier",
                          "ssm_out_multiplier", "key_multiplier"}) {
    config.factors.emplace(key, read_factor(keys, key));
  }
  for (const auto& [key, count] : {std::pair("mlp_multipliers", 2), std::pair("ssm_multipliers", 5)}) {
    const std::vector<double> factors = read_factors(keys, key, static_cast<std::size_t>(count));
    for (int n = 0; n < count; ++n) config.factors.emplace(fmt::format("{}.{}", key, n), factors[index_of(n)]);
  }
  // Other keys say what the MLP and the mixer have.
  for (const char* key : {"mamba_expand", "mamba_use_mlp", "mlp_expansion_factor"}) static_cast<void>(keys.has(key));
  config.paired = true;
  const AttentionLayer attention = config.attention.front();
  config.layers *= 2;
  config.attention.assign(index_of(config.layers), attention);
  for (int layer = 0; layer < config.layers; ++layer) {
    config.mixers.push_back(layer % 2 == 0 ? Mixer::attention : Mixer::mamba2);
  }
  refuse_mamba2_rest(keys);
}

/// Attention's matrices are multiplied by these.
struct AttentionFactors {
  float input = 1;
  float key = 1;
  float output = 1;
};

void list_attention(const ModelConfig& config, const std::string& name, const AttentionFactors& factors,
                    ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const ProjectionColumns columns(config);
  using W = LayerWeights;
  const auto project = [&](const char* part, std::int64_t rows, std::int64_t column, float factor) {
    list.add(fmt::format("{}{}_proj.weight", name, part), {rows, hidden}, &W::projection, column * hidden);
    list.scaled(factors.input * factor);
    if (!config.query_key_value_bias) return;
    list.add(fmt::format("{}{}_proj.bias", name, part), {rows}, &W::projection_bias, column);
    list.scaled(factor);
  };
  project("q", config.query_size(), 0, 1);
  project("k", config.key_size(), columns.key, factors.key);
  project("v", config.key_size(), columns.value, 1);
  list.add(name + "o_proj.weight", {hidden, config.query_size()}, &W::output);
  list.scaled(factors.output);
  if (!config.output_bias) return;
  list.add(name + "o_proj.bias", {hidden}, &W::output_bias);
  list.scaled(factors.output);
}

/// An MLP of three matrices.
/// @param gate, output  what they are multiplied by
void list_mlp(const ModelConfig& config, const std::string& name, float gate, float output, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  using W = LayerWeights;
  list.add(name + "gate_proj.weight", {inner, hidden}, &W::mlp_in);
  list.scaled(gate);
  list.add(name + "up_proj.weight", {inner, hidden}, &W::mlp_in, inner * hidden);
  list.add(name + "down_proj.weight", {hidden, inner}, &W::mlp_out);
  list.scaled(output);
  if (!config.mlp_bias) return;
  list.add(name + "gate_proj.bias", {inner}, &W::mlp_in_bias);
  list.scaled(gate);
  list.add(name + "up_proj.bias", {inner}, &W::mlp_in_bias, inner);
  list.add(name + "down_proj.bias", {hidden}, &W::mlp_out_bias);
  list.scaled(output);
}

void list_ends(const ModelConfig& config, const char* norm, ParameterList& list) {
  list.add(norm, {config.hidden_size}, &ModelWeights::final_norm);
  list.add_head();
}

void list_bamba(const ModelConfig& config, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  list.add("embed_tokens.weight", {config.vocabulary_size, hidden}, &ModelWeights::embedding);
  for (int layer = 0; layer < config.layers; ++layer) {
    list.begin_layer(layer, fmt::format("layers.{}.", layer));
    list.add("input_layernorm.weight", {hidden}, &LayerWeights::attention_norm);
    config.is_attention(layer) ? list_attention(config, "self_attn.", {}, list)
                               : list_mamba2_mixer(config, "mamba.", {}, list);
    list.add("pre_ff_layernorm.weight", {hidden}, &LayerWeights::mlp_norm);
    list_mlp(config, "feed_forward.", 1, 1, list);
  }
  list_ends(config, "final_layernorm.weight", list);
}

void list_granite_hybrid(const ModelConfig& config, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  using W = LayerWeights;
  list.add("embed_tokens.weight", {config.vocabulary_size, hidden}, &ModelWeights::embedding);
  for (int layer = 0; layer < config.layers; ++layer) {
    list.begin_layer(layer, fmt::format("layers.{}.", layer));
    list.add("input_layernorm.weight", {hidden}, &W::attention_norm);
    config.is_attention(layer) ? list_attention(config, "self_attn.", {}, list)
                               : list_mamba2_mixer(config, "mamba.", {}, list);
    list.add("post_attention_layernorm.weight", {hidden}, &W::mlp_norm);
    if (config.mixture) {
      const ExpertMixture& mixture = *config.mixture;
      list.add("block_sparse_moe.router.layer.weight", {mixture.experts, hidden}, &W::router);
      list.add("block_sparse_moe.input_linear.weight", {mixture.experts, 2 * mixture.size, hidden}, &W::experts_in);
      list.add("block_sparse_moe.output_linear.weight", {mixture.experts, hidden, mixture.size}, &W::experts_out);
    }
    list.add("shared_mlp.input_linear.weight", {2 * inner, hidden}, &W::mlp_in);
    list.add("shared_mlp.output_linear.weight", {hidden, inner}, &W::mlp_out);
  }
  list_ends(config, "norm.weight", list);
}

/// Lists the matrices by which experts read and write fewer numbers than a position has.
void list_latent_projections(const ModelConfig& config, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t latent = config.mixture->latent;
  using W = LayerWeights;
  if (latent == 0) return;
  list.add("mixer.fc1_latent_proj.weight", {latent, hidden}, &W::experts_down);
  list.add("mixer.fc2_latent_proj.weight", {hidden, latent}, &W::experts_up);
}

void list_nemotron_h(const ModelConfig& config, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  using W = LayerWeights;
  list.add("embeddings.weight", {config.vocabulary_size, hidden}, &ModelWeights::embedding);
  for (int layer = 0; layer < config.layers; ++layer) {
    const bool mixes = config.has_mixer(layer);
    list.begin_layer(layer, fmt::format("layers.{}.", layer));
    list.add("norm.weight", {hidden}, mixes ? &W::attention_norm : &W::mlp_norm);
    if (mixes) {
      config.is_attention(layer) ? list_attention(config, "mixer.", {}, list)
                                 : list_mamba2_mixer(config, "mixer.", {}, list);
      continue;
    }
    if (config.mixture_at(layer) != nullptr) {
      list_experts(config,
                   {.router = "mixer.gate",
                    .expert = "mixer.experts.{}.",
                    .selection_bias = "mixer.gate.e_score_correction_bias",
                    .shared = "mixer.shared_experts."},
                   list);
      list_latent_projections(config, list);
      continue;
    }
    list.add("mixer.up_proj.weight", {inner, hidden}, &W::mlp_in);
    list.add("mixer.down_proj.weight", {hidden, inner}, &W::mlp_out);
    if (!config.mlp_bias) continue;
    list.add("mixer.up_proj.bias", {inner}, &W::mlp_in_bias);
    list.add("mixer.down_proj.bias", {hidden}, &W::mlp_out_bias);
  }
  list_ends(config, "norm_f.weight", list);
}

void list_falcon_h1(const ModelConfig& config, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const auto factor = [&](const std::string& key) { return static_cast<float>(config.factors.at(key)); };
  using W = LayerWeights;
  Mamba2Factors mixer{.input = factor("ssm_in_multiplier"), .parts = {}, .output = factor("ssm_out_multiplier")};
  auto& parts = mixer.parts.emplace();
  for (std::size_t n = 0; n < parts.size(); ++n) parts[n] = factor(fmt::format("ssm_multipliers.{}", n));
  const AttentionFactors attention{factor("attention_in_multiplier"), factor("key_multiplier"),
                                   factor("attention_out_multiplier")};
  list.add("embed_tokens.weight", {config.vocabulary_size, hidden}, &ModelWeights::embedding);
  for (int layer = 0; layer < config.layers; ++layer) {
    list.begin_layer(layer, fmt::format("layers.{}.", layer / 2));
    list.add("input_layernorm.weight", {hidden}, &W::attention_norm);
    if (config.is_attention(layer)) {
      list_attention(config, "self_attn.", attention, list);
      continue;
    }
    list_mamba2_mixer(config, "mamba.", mixer, list);
    list.add("pre_ff_layernorm.weight", {hidden}, &W::mlp_norm);
    list_mlp(config, "feed_forward.", factor("mlp_multipliers.0"), factor("mlp_multipliers.1"), list);
  }
  list_ends(config, "final_layernorm.weight", list);
}

}  // namespace

const ModelFamily kBamba = {"bamba", "Bamba", "model.", read_bamba, list_bamba};
const ModelFamily kGraniteHybrid = {"granitemoehybrid", "Granite 4", "model.", read_granite_hybrid,
                                    list_granite_hybrid};
const ModelFamily kNemotronH = {"nemotron_h", "Nemotron-H", "backbone.", read_nemotron_h, list_nemotron_h};
const ModelFamily kFalconH1 = {"falcon_h1", "Falcon-H1", "model.", read_falcon_h1, list_falcon_h1};

}  // namespace foxscope::family

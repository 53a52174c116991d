// RWKV-7 (Peng et al. 2025) as the FLA library writes it.
#include "backend/model/spec/families/rwkv7.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace foxscope::family {
namespace {

constexpr std::int64_t kMostRank = 1 << 14;

/// A rank, which grows with the root of the hidden size where the key is null.
/// @param absent  of its configuration class
int read_rank(const ConfigKeys& keys, const char* key, std::int64_t absent, double factor, const ModelConfig& config) {
  constexpr double kStep = 32;
  const double root = factor * std::sqrt(static_cast<double>(config.hidden_size));
  const auto otherwise = static_cast<std::int64_t>(std::max(kStep, std::round(root / kStep) * kStep));
  return static_cast<int>(keys.integer(key, 1, kMostRank, keys.is_null(key) ? otherwise : absent));
}

/// The widths of values by layer: all the hidden size.
void check_values(const ConfigKeys& keys, const ModelConfig& config) {
  if (!keys.has("value_dim")) return;
  const nlohmann::json& widths = keys.value("value_dim");
  const auto is_hidden = [&](const nlohmann::json& width) { return width == config.hidden_size; };
  const bool all = widths.is_array() ? std::all_of(widths.begin(), widths.end(), is_hidden) : is_hidden(widths);
  if (!all) keys.refuse("value_dim", fmt::format("values of hidden_size {} columns", config.hidden_size));
}

void read_heads(const ConfigKeys& keys, ModelConfig& config, LinearMixer& mixer) {
  constexpr int kHeadDim = 64;
  const bool by_heads = keys.is_null("head_dim") && keys.has("num_heads");
  const std::int64_t otherwise =
      by_heads ? config.hidden_size / keys.integer("num_heads", 1, config.hidden_size) : kHeadDim;
  const std::int64_t dim = keys.integer("head_dim", 1, kMaxHeadDim, std::max<std::int64_t>(otherwise, 1));
  if (config.hidden_size % dim != 0) {
    keys.fail("head_dim", fmt::format("such that it divides hidden_size {}", config.hidden_size));
  }
  const std::int64_t heads = config.hidden_size / dim;
  // The mixer counts its heads itself where it knows their width.
  static_cast<void>(keys.integer("num_heads", 1, config.hidden_size, heads));
  mixer.heads = mixer.query_heads = mixer.key_heads = mixer.value_heads = static_cast<int>(heads);
  mixer.key_dim = mixer.value_dim = static_cast<int>(dim);
}

void read_rwkv7(const ConfigKeys& keys, ModelConfig& config) {
  config.vocabulary_size = keys.integer("vocab_size", 1, kMaxVocabulary);
  config.hidden_size = keys.integer("hidden_size", 1, kMaxHidden);
  config.layers = static_cast<int>(keys.integer("num_hidden_layers", 1, kMaxLayers));
  const auto width =
      static_cast<std::int64_t>(static_cast<double>(config.hidden_size) * keys.number("hidden_ratio", 1e-3, 1e3, 4.0));
  constexpr std::int64_t kMultiple = 32;
  config.intermediate_size =
      keys.integer("intermediate_size", 1, kMaxIntermediate, (width + kMultiple - 1) / kMultiple * kMultiple);
  config.norm = NormKind::layer;
  config.norm_epsilon = keys.number("norm_eps", 0.0, 1.0, 1e-5);
  config.tie_word_embeddings = keys.flag("tie_word_embeddings", false);
  config.forget_gate = ForgetGate::none;
  read_bos(keys, config);
  if (const std::string found = keys.word("hidden_act", "sqrelu"); found != "sqrelu") {
    keys.refuse("hidden_act", "\"sqrelu\"");
  }
  config.mlp = MlpKind::relu_squared;
  for (const char* key : {"norm_bias", "norm_first"}) {
    if (!keys.flag(key, true)) keys.refuse(key, "true");
  }
  if (keys.has("attn")) keys.refuse("attn", "null: layers of one kind");
  LinearMixer mixer;
  mixer.kind = Mixer::diagonal_plus_low_rank;
  read_heads(keys, config, mixer);
  check_values(keys, config);
  const double wide = mixer.key_dim / 64.0;  // heads of more than 64 numbers have higher ranks
  mixer.decay = LinearDecay::bounded;
  mixer.decay_rank = read_rank(keys, "decay_low_rank_dim", 64, 2.5 * wide, config);
  mixer.erasing = LinearErasing::unit_keys;
  mixer.erase_rank = read_rank(keys, "a_low_rank_dim", 64, 2.5 * wide, config);
  mixer.value_rank = read_rank(keys, "v_low_rank_dim", 16, 1.7 * wide, config);
  mixer.gate = LinearGate::after_norm;
  mixer.gate_rank = read_rank(keys, "gate_low_rank_dim", 128, 5, config);
  mixer.norm_size = mixer.value_dim;
  mixer.norm_epsilon = config.norm_epsilon * mixer.key_dim;
  // Without the fused norm the library divides by the norm itself, unless it is below 1e-12.
  constexpr double kLeastSquare = 1e-24;
  mixer.unit_key_epsilon = keys.flag("fuse_norm", true) ? kLinearNormEpsilon : kLeastSquare;
  config.linear = mixer;
  use_linear_mixer_alone(config);
  constexpr auto kOfKernels = std::to_array<std::string_view>({"attn_mode", "fuse_*", "use_l2warp"});
  std::vector<std::string_view> harmless(kOfKernels.begin(), kOfKernels.end());
  harmless.insert(harmless.end(), harmless_keys().begin(), harmless_keys().end());
  keys.refuse_others(harmless);
}

void list_time_mix(const ModelConfig& config, int layer, ParameterList& list) {
  const LinearMixer& mixer = *config.linear;
  const std::int64_t hidden = config.hidden_size;
  using W = LayerWeights;
  std::int64_t at = 0;
  for (const char* part : {"r", "w", "k", "v", "a", "g"}) {
    list.add(fmt::format("attn.x_{}", part), {1, 1, hidden}, &W::shift, hidden * at++);
  }
  at = 0;
  for (const char* part : {"r", "k", "v"}) {
    list.add(fmt::format("attn.{}_proj.weight", part), {hidden, hidden}, &W::projection, hidden * hidden * at++);
  }
  const auto low_rank = [&](const char* part, std::int64_t rank, FloatArray W::*down, FloatArray W::*up,
                            FloatArray W::*bias) {
    list.add(fmt::format("attn.{}_lora.lora.0.weight", part), {rank, hidden}, down);
    list.add(fmt::format("attn.{}_lora.lora.2.weight", part), {hidden, rank}, up);
    if (bias != nullptr) list.add(fmt::format("attn.{}_lora.lora.2.bias", part), {hidden}, bias);
  };
  low_rank("w", mixer.decay_rank, &W::decay_down, &W::decay_up, &W::decay_bias);
  low_rank("a", mixer.erase_rank, &W::erase_down, &W::erase_up, &W::erase_bias);
  if (layer > 0) low_rank("v", mixer.value_rank, &W::value_down, &W::value_up, &W::value_bias);
  low_rank("g", mixer.gate_rank, &W::gate_down, &W::output_gate, nullptr);
  list.add("attn.k_k", {hidden}, &W::unit_key);
  list.add("attn.k_a", {hidden}, &W::key_share);
  list.add("attn.r_k", {mixer.heads, mixer.key_dim}, &W::bonus);
  list.add("attn.g_norm.weight", {hidden}, &W::output_norm);
  list.add("attn.g_norm.bias", {hidden}, &W::output_norm_bias);
  list.add("attn.o_proj.weight", {hidden, hidden}, &W::output);
}

void list_rwkv7(const ModelConfig& config, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  using W = LayerWeights;
  const auto norm = [&](const char* name, FloatArray W::*weight, FloatArray W::*bias) {
    list.add(fmt::format("{}.weight", name), {hidden}, weight);
    list.add(fmt::format("{}.bias", name), {hidden}, bias);
  };
  list.add("embeddings.weight", {config.vocabulary_size, hidden}, &ModelWeights::embedding);
  for (int layer = 0; layer < config.layers; ++layer) {
    list.begin_layer(layer, fmt::format("layers.{}.", layer));
    if (layer == 0) norm("pre_norm", &W::pre_norm, &W::pre_norm_bias);
    norm("attn_norm", &W::attention_norm, &W::attention_norm_bias);
    list_time_mix(config, layer, list);
    norm("ffn_norm", &W::mlp_norm, &W::mlp_norm_bias);
    list.add("ffn.x_k", {hidden}, &W::mlp_shift);
    list.add("ffn.key.weight", {inner, hidden}, &W::mlp_in);
    list.add("ffn.value.weight", {hidden, inner}, &W::mlp_out);
  }
  list.add("norm.weight", {hidden}, &ModelWeights::final_norm);
  list.add("norm.bias", {hidden}, &ModelWeights::final_norm_bias);
  list.add_head();
}

}  // namespace

const ModelFamily kRwkv7 = {"rwkv7", "RWKV-7", "model.", read_rwkv7, list_rwkv7};

}  // namespace foxscope::family

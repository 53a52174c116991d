// Mamba-2 (Dao and Gu 2024) as the FoX authors' baseline, the FLA library and Hugging Face write it.
#include "backend/model/spec/families/mamba2.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace foxscope::family {
namespace {

constexpr std::int64_t kLargestState = 1 << 14;
constexpr std::int64_t kMostTaps = 64;

/// A number of a list, which may be Infinity.
double limit_of(const nlohmann::json& found) {
  if (found.is_number()) return found.get<double>();
  if (found.is_object() && found.value("__float__", "") == "Infinity") return std::numeric_limits<double>::infinity();
  return std::numeric_limits<double>::quiet_NaN();
}

void read_step_limits(const ConfigKeys& keys, const char* key, LinearMixer& mixer) {
  if (!keys.has(key)) return;
  const nlohmann::json& limits = keys.value(key);
  if (limits.is_array() && limits.size() == 2) {
    mixer.lowest_step = limit_of(limits[0]);
    mixer.highest_step = limit_of(limits[1]);
    if (mixer.lowest_step >= 0 && mixer.lowest_step <= mixer.highest_step) return;
  }
  keys.fail(key, "two numbers, the least and the largest dt, with 0 <= least <= largest");
}

/// The numbers of a head. A width may be said by "auto".
int read_head_dim(const ConfigKeys& keys, const Mamba2Keys& names, std::int64_t otherwise) {
  const bool automatic = keys.has(names.head_dim) && keys.value(names.head_dim) == "auto";
  if (automatic) static_cast<void>(keys.word(names.head_dim, ""));
  return static_cast<int>(automatic ? otherwise : keys.integer(names.head_dim, 1, kMaxHeadDim, otherwise));
}

}  // namespace

void read_mamba2_mixer(const ConfigKeys& keys, const Mamba2Keys& names, ModelConfig& config) {
  LinearMixer mixer;
  mixer.kind = Mixer::mamba2;
  std::int64_t inner = 0;
  if (names.expand != nullptr) {
    inner =
        static_cast<std::int64_t>(static_cast<double>(config.hidden_size) * keys.number(names.expand, 1e-3, 1e3, 2.0));
  }
  const bool by_width = names.heads_otherwise == 0;
  const std::int64_t dim = by_width ? read_head_dim(keys, names, names.head_dim_otherwise) : 0;
  const std::int64_t heads = by_width ? std::max<std::int64_t>(inner / dim, 1) : names.heads_otherwise;
  mixer.heads = mixer.value_heads = static_cast<int>(keys.integer(names.heads, 1, kMaxHidden, heads));
  const std::int64_t share = std::clamp<std::int64_t>(inner / mixer.heads, 1, kMaxHeadDim);
  mixer.value_dim = by_width
                        ? static_cast<int>(dim)
                        : read_head_dim(keys, names, names.head_dim_otherwise > 0 ? names.head_dim_otherwise : share);
  mixer.key_dim = static_cast<int>(keys.integer(names.state, 1, kLargestState, names.state_otherwise));
  mixer.key_heads = mixer.query_heads =
      static_cast<int>(keys.integer(names.groups, 1, kMaxHidden, names.groups_otherwise));
  if (names.expand != nullptr && inner != mixer.output_size()) {
    keys.fail(names.heads, fmt::format("such that {} {} times {} {} is {} times hidden_size, {}", names.heads,
                                       mixer.heads, names.head_dim, mixer.value_dim, names.expand, inner));
  }
  if (mixer.heads % mixer.key_heads != 0) {
    keys.fail(names.groups, fmt::format("such that it divides {} {}", names.heads, mixer.heads));
  }
  mixer.convolution = static_cast<int>(keys.integer(names.taps, 1, kMostTaps, 4));
  mixer.convolution_bias = names.convolution_bias == nullptr || keys.flag_or_null(names.convolution_bias, true);
  mixer.query_activation = mixer.key_activation = mixer.value_activation = LinearActivation::silu;
  mixer.decay = LinearDecay::rate;
  mixer.beta = LinearBeta::step;
  read_step_limits(keys, names.limits, mixer);
  if (names.lowest != nullptr) {
    // transformers 5.24 holds dt at this or above whatever the limits say; mlx-lm holds it within the limits.
    constexpr double kLowestOtherwise = 1e-3;
    constexpr double kMostStep = 1e6;
    mixer.lowest_step = keys.number(names.lowest, 0, kMostStep, kLowestOtherwise);
    mixer.highest_step = std::numeric_limits<double>::infinity();
  }
  mixer.skip = LinearSkip::head;
  mixer.gate = LinearGate::before_norm;
  mixer.norm_size = mixer.output_size() / mixer.key_heads;
  mixer.norm_epsilon = config.norm_epsilon;
  mixer.projection_bias = mixer.output_bias = keys.flag(names.bias, false);
  config.linear = mixer;
}

void list_mamba2_mixer(const ModelConfig& config, const std::string& name, const Mamba2Factors& factors,
                       ParameterList& list) {
  const LinearMixer& mixer = *config.linear;
  const LinearColumns columns(mixer);
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = mixer.output_size();
  using W = LayerWeights;
  std::vector<float> rows;  // of the projection
  if (factors.parts) {
    const std::int64_t sizes[] = {inner, inner, mixer.key_size(), mixer.query_size(), mixer.heads};
    for (std::size_t part = 0; part < std::size(sizes); ++part) {
      rows.insert(rows.end(), static_cast<std::size_t>(sizes[part]), (*factors.parts)[part]);
    }
  }
  list.add(name + "in_proj.weight", {columns.count, hidden}, &W::projection);
  if (!rows.empty() || factors.input != 1) {
    std::vector<float> of_weight = rows.empty() ? std::vector<float>{1} : rows;
    for (float& factor : of_weight) factor *= factors.input;
    list.multiplied(std::move(of_weight));
  }
  if (mixer.projection_bias) {
    list.add(name + "in_proj.bias", {columns.count}, &W::projection_bias);
    list.multiplied(rows);
  }
  list.add(name + "conv1d.weight", {columns.convolved_size(), 1, mixer.convolution}, &W::convolution);
  if (mixer.convolution_bias) list.add(name + "conv1d.bias", {columns.convolved_size()}, &W::convolution_bias);
  list.add(name + "A_log", {mixer.heads}, &W::decay_rate);
  list.add(name + "dt_bias", {mixer.heads}, &W::decay_bias);
  list.add(name + "D", {mixer.skip == LinearSkip::channel ? inner : mixer.heads}, &W::skip);
  if (mixer.norm_size > 0) list.add(name + "norm.weight", {inner}, &W::output_norm);
  list.add(name + "out_proj.weight", {hidden, inner}, &W::output);
  list.scaled(factors.output);
  if (mixer.output_bias) {
    list.add(name + "out_proj.bias", {hidden}, &W::output_bias);
    list.scaled(factors.output);
  }
}

std::span<const std::string_view> mamba2_training_keys() {
  static constexpr auto kOfTraining = std::to_array<std::string_view>(
      {"time_step_rank", "time_step_min", "time_step_max", "time_step_floor", "time_step_init_scheme",
       "time_step_scale", "rescale_prenorm_residual", "residual_in_fp32", "chunk_size", "mamba_chunk_size", "fuse_*",
       "use_l2warp", "use_mamba_kernels", "use_mem_eff_path", "num_logits_to_keep"});
  return kOfTraining;
}

void refuse_mamba2_rest(const ConfigKeys& keys) {
  std::vector<std::string_view> harmless(mamba2_training_keys().begin(), mamba2_training_keys().end());
  harmless.insert(harmless.end(), harmless_keys().begin(), harmless_keys().end());
  keys.refuse_others(harmless);
}

namespace {

void read_mamba2_layers(const ConfigKeys& keys, const char* epsilon, const Mamba2Keys& names, ModelConfig& config) {
  config.vocabulary_size = keys.integer("vocab_size", 1, kMaxVocabulary);
  config.hidden_size = keys.integer("hidden_size", 1, kMaxHidden);
  config.layers = static_cast<int>(keys.integer("num_hidden_layers", 1, kMaxLayers));
  config.norm_epsilon = keys.number(epsilon, 0.0, 1.0, 1e-5);
  config.tie_word_embeddings = keys.flag("tie_word_embeddings", false);
  config.forget_gate = ForgetGate::none;
  read_bos(keys, config);
  if (const std::string activation = keys.word("hidden_act", "silu"); activation != "silu" && activation != "swish") {
    keys.refuse("hidden_act", "\"silu\"");
  }
  read_mamba2_mixer(keys, names, config);
}

void finish_layers(const ConfigKeys& keys, ModelConfig& config) {
  use_linear_mixer_alone(config);
  refuse_mamba2_rest(keys);
}

void read_mamba2_baseline(const ConfigKeys& keys, ModelConfig& config) {
  read_mamba2_layers(keys, "layer_norm_epsilon", {.heads_otherwise = 64, .state_otherwise = 64}, config);
  static_cast<void>(keys.has("rms_norm"));  // which the authors' mixer does not look at
  if (config.linear->key_heads != 1) keys.refuse("n_groups", "1, as the authors' code does");
  finish_layers(keys, config);
}

/// FLA's and Hugging Face's files have one model_type; their keys tell them apart.
void read_mamba2(const ConfigKeys& keys, ModelConfig& config) {
  constexpr auto kOfFla = std::to_array<const char*>({"norm_eps", "dt_limit", "D_has_hdim", "rmsnorm"});
  if (!std::ranges::any_of(kOfFla, [&](const char* key) { return keys.has(key); })) {
    read_mamba2_layers(keys, "layer_norm_epsilon", {}, config);
    // The library's mixer looks at neither: its norm is there, behind the gate.
    static_cast<void>(keys.has("rms_norm"));
    static_cast<void>(keys.has("norm_before_gate"));
    finish_layers(keys, config);
    return;
  }
  read_mamba2_layers(keys, "norm_eps", {.limits = "dt_limit", .heads_otherwise = 0, .groups_otherwise = 1}, config);
  LinearMixer& mixer = *config.linear;
  if (keys.flag("D_has_hdim", false)) mixer.skip = LinearSkip::channel;
  if (keys.flag("norm_before_gate", false)) mixer.gate = LinearGate::after_norm;
  if (!keys.flag("rmsnorm", true)) mixer.norm_size = 0;
  // Untrained weights are made by them.
  for (const char* key : {"rms_norm", "A_init_range", "conv_init", "dt_min", "dt_max", "dt_init_floor"}) {
    static_cast<void>(keys.has(key));
  }
  finish_layers(keys, config);
}

void list_mamba2(const ModelConfig& config, ParameterList& list) {
  using W = LayerWeights;
  list.add("embeddings.weight", {config.vocabulary_size, config.hidden_size}, &ModelWeights::embedding);
  for (int layer = 0; layer < config.layers; ++layer) {
    list.begin_layer(layer, fmt::format("layers.{}.", layer));
    list.add("norm.weight", {config.hidden_size}, &W::attention_norm);
    list_mamba2_mixer(config, "mixer.", {}, list);
  }
  list.add("norm_f.weight", {config.hidden_size}, &ModelWeights::final_norm);
  list.add_head();
}

}  // namespace

const ModelFamily kMamba2Baseline = {"mamba2-project_fox", "Mamba-2", "backbone.", read_mamba2_baseline, list_mamba2};
const ModelFamily kMamba2 = {"mamba2", "Mamba-2", "backbone.", read_mamba2, list_mamba2};

}  // namespace foxscope::family

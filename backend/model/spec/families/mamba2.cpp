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

/// Keys that concern training alone, or how a kernel is called.
constexpr auto kOfTraining = std::to_array<std::string_view>(
    {"time_step_rank", "time_step_min", "time_step_max", "time_step_floor", "rescale_prenorm_residual",
     "residual_in_fp32", "chunk_size", "fuse_*", "use_l2warp"});

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

struct Mamba2Dialect {
  const char* epsilon = "layer_norm_epsilon";
  const char* limits = "time_step_limit";
  int heads = 128;
  int state = 128;
  int groups = 8;
};

void read_mamba2_layers(const ConfigKeys& keys, const Mamba2Dialect& dialect, ModelConfig& config) {
  config.vocabulary_size = keys.integer("vocab_size", 1, kMaxVocabulary);
  config.hidden_size = keys.integer("hidden_size", 1, kMaxHidden);
  config.layers = static_cast<int>(keys.integer("num_hidden_layers", 1, kMaxLayers));
  config.norm_epsilon = keys.number(dialect.epsilon, 0.0, 1.0, 1e-5);
  config.tie_word_embeddings = keys.flag("tie_word_embeddings", false);
  config.forget_gate = ForgetGate::none;
  read_bos(keys, config);
  if (const std::string activation = keys.word("hidden_act", "silu"); activation != "silu" && activation != "swish") {
    keys.refuse("hidden_act", "\"silu\"");
  }
  LinearMixer mixer;
  mixer.kind = Mixer::mamba2;
  mixer.heads = mixer.value_heads = static_cast<int>(keys.integer("num_heads", 1, kMaxHidden, dialect.heads));
  mixer.value_dim = static_cast<int>(keys.integer("head_dim", 1, kMaxHeadDim, 64));
  mixer.key_dim = static_cast<int>(keys.integer("state_size", 1, kLargestState, dialect.state));
  mixer.key_heads = mixer.query_heads = static_cast<int>(keys.integer("n_groups", 1, kMaxHidden, dialect.groups));
  const double inner = static_cast<double>(config.hidden_size) * keys.number("expand", 1e-3, 1e3, 2.0);
  if (static_cast<std::int64_t>(inner) != mixer.output_size()) {
    keys.fail("num_heads", fmt::format("such that num_heads {} times head_dim {} is expand times hidden_size, {}",
                                       mixer.heads, mixer.value_dim, static_cast<std::int64_t>(inner)));
  }
  if (mixer.heads % mixer.key_heads != 0) {
    keys.fail("n_groups", fmt::format("such that it divides num_heads {}", mixer.heads));
  }
  mixer.convolution = static_cast<int>(keys.integer("conv_kernel", 1, kMostTaps, 4));
  mixer.convolution_bias = keys.flag("use_conv_bias", true);
  mixer.query_activation = mixer.key_activation = mixer.value_activation = LinearActivation::silu;
  mixer.decay = LinearDecay::rate;
  mixer.beta = LinearBeta::step;
  read_step_limits(keys, dialect.limits, mixer);
  mixer.skip = LinearSkip::head;
  mixer.gate = LinearGate::before_norm;
  mixer.norm_size = mixer.output_size() / mixer.key_heads;
  mixer.norm_epsilon = config.norm_epsilon;
  mixer.projection_bias = mixer.output_bias = keys.flag("use_bias", false);
  config.linear = mixer;
}

void finish_layers(const ConfigKeys& keys, ModelConfig& config) {
  use_linear_mixer_alone(config);
  std::vector<std::string_view> harmless(kOfTraining.begin(), kOfTraining.end());
  harmless.insert(harmless.end(), harmless_keys().begin(), harmless_keys().end());
  keys.refuse_others(harmless);
}

void read_mamba2_baseline(const ConfigKeys& keys, ModelConfig& config) {
  read_mamba2_layers(keys, {.heads = 64, .state = 64}, config);
  static_cast<void>(keys.has("rms_norm"));  // which the authors' mixer does not look at
  if (config.linear->key_heads != 1) keys.refuse("n_groups", "1, as the authors' code does");
  finish_layers(keys, config);
}

/// FLA's and Hugging Face's files have one model_type; their keys tell them apart.
void read_mamba2(const ConfigKeys& keys, ModelConfig& config) {
  constexpr auto kOfFla =
      std::to_array<const char*>({"norm_eps", "dt_limit", "D_has_hdim", "norm_before_gate", "rmsnorm"});
  if (!std::ranges::any_of(kOfFla, [&](const char* key) { return keys.has(key); })) {
    read_mamba2_layers(keys, {}, config);
    static_cast<void>(keys.has("rms_norm"));
    finish_layers(keys, config);
    return;
  }
  read_mamba2_layers(keys, {.epsilon = "norm_eps", .limits = "dt_limit", .heads = 64, .groups = 1}, config);
  LinearMixer& mixer = *config.linear;
  if (keys.flag("D_has_hdim", false)) mixer.skip = LinearSkip::channel;
  if (keys.flag("norm_before_gate", false)) mixer.gate = LinearGate::after_norm;
  if (!keys.flag("rmsnorm", true)) mixer.norm_size = 0;
  static_cast<void>(keys.has("rms_norm"));
  finish_layers(keys, config);
}

void list_mamba2(const ModelConfig& config, ParameterList& list) {
  const LinearMixer& mixer = *config.linear;
  const LinearColumns columns(mixer);
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = mixer.output_size();
  const std::int64_t heads = mixer.heads;
  using W = LayerWeights;
  list.add("embeddings.weight", {config.vocabulary_size, hidden}, &ModelWeights::embedding);
  for (int layer = 0; layer < config.layers; ++layer) {
    list.begin_layer(layer, fmt::format("layers.{}.", layer));
    list.add("norm.weight", {hidden}, &W::attention_norm);
    list.add("mixer.in_proj.weight", {columns.count, hidden}, &W::projection);
    if (mixer.projection_bias) list.add("mixer.in_proj.bias", {columns.count}, &W::projection_bias);
    list.add("mixer.conv1d.weight", {columns.convolved_size(), 1, mixer.convolution}, &W::convolution);
    if (mixer.convolution_bias) list.add("mixer.conv1d.bias", {columns.convolved_size()}, &W::convolution_bias);
    list.add("mixer.A_log", {heads}, &W::decay_rate);
    list.add("mixer.dt_bias", {heads}, &W::decay_bias);
    list.add("mixer.D", {mixer.skip == LinearSkip::channel ? inner : heads}, &W::skip);
    if (mixer.norm_size > 0) list.add("mixer.norm.weight", {inner}, &W::output_norm);
    list.add("mixer.out_proj.weight", {hidden, inner}, &W::output);
    if (mixer.output_bias) list.add("mixer.out_proj.bias", {hidden}, &W::output_bias);
  }
  list.add("norm_f.weight", {hidden}, &ModelWeights::final_norm);
  list.add_head();
}

}  // namespace

const ModelFamily kMamba2Baseline = {"mamba2-project_fox", "Mamba-2", "backbone.", read_mamba2_baseline, list_mamba2};
const ModelFamily kMamba2 = {"mamba2", "Mamba-2", "backbone.", read_mamba2, list_mamba2};

}  // namespace foxscope::family

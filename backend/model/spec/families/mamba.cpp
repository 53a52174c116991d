// The first Mamba (Gu and Dao 2023) as the FLA library and Hugging Face write it, and Samba (Ren et al. 2024), its
// hybrid with attention in a window, as the FoX authors' baseline.
#include "backend/model/spec/families/mamba.h"

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

constexpr std::int64_t kLargestMambaState = 1 << 14;
constexpr std::int64_t kMostMambaTaps = 64;
constexpr std::int64_t kSambaMlpMultiple = 256;

/// Keys that concern training alone, or how a kernel is called.
constexpr auto kOfMambaTraining = std::to_array<std::string_view>(
    {"time_step_scale", "time_step_min", "time_step_max", "time_step_floor", "time_step_init_scheme",
     "rescale_prenorm_residual", "residual_in_fp32", "fuse_*", "use_l2warp", "use_mambapy", "use_associative_scan"});

void require_silu(const ConfigKeys& keys) {
  if (const std::string activation = keys.word("hidden_act", "silu"); activation != "silu" && activation != "swish") {
    keys.refuse("hidden_act", "\"silu\"");
  }
}

/// The rank of dt: "auto", or null, is a sixteenth of the hidden size.
int read_step_rank(const ConfigKeys& keys, std::int64_t hidden) {
  constexpr std::int64_t kShare = 16;
  const bool named = keys.has("time_step_rank") && keys.value("time_step_rank").is_string();
  if (!named) {
    return static_cast<int>(keys.integer("time_step_rank", 1, kMaxHidden, (hidden + kShare - 1) / kShare));
  }
  if (keys.word("time_step_rank", "auto") != "auto") keys.fail("time_step_rank", "a whole number or \"auto\"");
  return static_cast<int>((hidden + kShare - 1) / kShare);
}

/// The mixer, of which each channel is a head.
void read_mamba_mixer(const ConfigKeys& keys, ModelConfig& config) {
  LinearMixer mixer;
  mixer.kind = Mixer::mamba;
  const double inner = static_cast<double>(config.hidden_size) * keys.number("expand", 1e-3, 1e3, 2.0);
  if (inner < 1 || inner > static_cast<double>(kMaxHidden)) {
    keys.fail("expand",
              fmt::format("such that expand times hidden_size {} is 1 to {}", config.hidden_size, kMaxHidden));
  }
  mixer.heads = mixer.value_heads = static_cast<int>(inner);
  mixer.query_heads = mixer.key_heads = 1;
  mixer.value_dim = 1;
  mixer.key_dim = static_cast<int>(keys.integer("state_size", 1, kLargestMambaState, 16));
  mixer.convolution = static_cast<int>(keys.integer("conv_kernel", 1, kMostMambaTaps, 4));
  mixer.convolution_bias = keys.flag("use_conv_bias", true);
  mixer.value_activation = LinearActivation::silu;
  mixer.decay = LinearDecay::rates;
  mixer.decay_rank = read_step_rank(keys, config.hidden_size);
  mixer.beta = LinearBeta::step;
  mixer.skip = LinearSkip::head;
  mixer.gate = LinearGate::before_norm;
  mixer.projection_bias = mixer.output_bias = keys.flag("use_bias", false);
  require_silu(keys);
  config.linear = mixer;
}

void read_around_mamba(const ConfigKeys& keys, const char* epsilon, bool tied, ModelConfig& config) {
  config.vocabulary_size = keys.integer("vocab_size", 1, kMaxVocabulary);
  config.hidden_size = keys.integer("hidden_size", 1, kMaxHidden);
  config.layers = static_cast<int>(keys.integer("num_hidden_layers", 1, kMaxLayers));
  config.norm_epsilon = keys.number(epsilon, 0.0, 1.0, 1e-5);
  config.tie_word_embeddings = keys.flag("tie_word_embeddings", tied);
  config.forget_gate = ForgetGate::none;
  read_bos(keys, config);
  read_mamba_mixer(keys, config);
}

void refuse_mamba_rest(const ConfigKeys& keys) {
  std::vector<std::string_view> harmless(kOfMambaTraining.begin(), kOfMambaTraining.end());
  harmless.insert(harmless.end(), harmless_keys().begin(), harmless_keys().end());
  keys.refuse_others(harmless);
}

/// FLA's and Hugging Face's files have one model_type; their keys tell them apart.
void read_mamba(const ConfigKeys& keys, ModelConfig& config) {
  constexpr auto kOfFla = std::to_array<const char*>({"norm_eps", "fuse_norm", "fuse_cross_entropy"});
  const bool fla = std::ranges::any_of(kOfFla, [&](const char* key) { return keys.has(key); });
  read_around_mamba(keys, fla ? "norm_eps" : "layer_norm_epsilon", /*tied=*/!fla, config);
  if (keys.integer("intermediate_size", 1, kMaxHidden, config.linear->heads) != config.linear->heads) {
    keys.fail("intermediate_size", fmt::format("expand times hidden_size, {}", config.linear->heads));
  }
  if (keys.has("ssm_cfg") && !keys.value("ssm_cfg").empty()) keys.refuse("ssm_cfg", "{}");
  // Keys that files converted from those of the first Mamba's authors repeat, or that concern their kernels.
  for (const char* key : {"d_inner", "d_model", "n_layer", "rms_norm", "fused_add_norm", "pad_vocab_size_multiple"}) {
    static_cast<void>(keys.has(key));
  }
  use_linear_mixer_alone(config);
  refuse_mamba_rest(keys);
}

/// Falcon Mamba: the first Mamba whose step, keys and queries are normed. Its width is intermediate_size.
void read_falcon_mamba(const ConfigKeys& keys, ModelConfig& config) {
  read_around_mamba(keys, "layer_norm_epsilon", /*tied=*/true, config);
  LinearMixer& mixer = *config.linear;
  const std::int64_t width = keys.integer("intermediate_size", 1, kMaxHidden, mixer.heads);
  mixer.heads = mixer.value_heads = static_cast<int>(width);
  mixer.selected_norm_epsilon = keys.number("mixer_rms_eps", 0.0, 1.0, 1e-6);
  static_cast<void>(keys.has("use_falcon_mambapy"));  // how a kernel is called
  use_linear_mixer_alone(config);
  refuse_mamba_rest(keys);
}

/// The MLP's width of a kind of layer.
std::int64_t read_mlp_width(const ConfigKeys& keys, const char* key, double otherwise, std::int64_t hidden) {
  const double ratio = keys.number(key, 1e-3, 1e3, otherwise);
  const auto wanted = static_cast<std::int64_t>(static_cast<double>(hidden) * ratio * 2 / 3);
  const std::int64_t width = (wanted + kSambaMlpMultiple - 1) / kSambaMlpMultiple * kSambaMlpMultiple;
  if (width < 1 || width > kMaxIntermediate) {
    keys.fail(key, fmt::format("such that the MLP has 1 to {} units with hidden_size {}", kMaxIntermediate, hidden));
  }
  return width;
}

/// Every second layer is attention.
void read_samba_attention(const ConfigKeys& keys, double base, ModelConfig& config) {
  config.attention.assign(static_cast<std::size_t>(config.layers), {});
  const ConfigKeys attention = keys.under("attn");
  if (attention.has("layers")) {
    attention.refuse("layers", "null: every second layer is attention, as the authors' code has it");
  }
  const auto heads = static_cast<int>(attention.integer("num_heads", 1, config.hidden_size));
  const auto key_heads = static_cast<int>(attention.integer("num_kv_heads", 1, heads, heads));
  if (config.hidden_size % heads != 0 || config.hidden_size / heads > kMaxHeadDim) {
    attention.fail("num_heads", fmt::format("such that hidden_size {} is so many heads of 1 to {} numbers",
                                            config.hidden_size, kMaxHeadDim));
  }
  if (heads % key_heads != 0) attention.fail("num_kv_heads", fmt::format("such that it divides num_heads {}", heads));
  config.use_window(attention.integer("window_size", 1, std::numeric_limits<std::int32_t>::max(), 0));
  attention.refuse_others({});
  config.heads = heads;
  config.key_heads = key_heads;
  config.head_dim = static_cast<int>(config.hidden_size / heads);
  if (config.head_dim % 2 != 0) {
    attention.fail("num_heads",
                   fmt::format("such that heads have an even number of numbers, and they have {}", config.head_dim));
  }
  config.use_rotary({.base = base, .dim = config.head_dim});
}

void read_samba(const ConfigKeys& keys, ModelConfig& config) {
  read_around_mamba(keys, "norm_eps", /*tied=*/false, config);
  const double base = keys.number("rope_base", 1.0, 1e15, 500000.0);
  config.intermediate_size = read_mlp_width(keys, "attn_hidden_ratio", 4, config.hidden_size);
  config.linear_intermediate_size = read_mlp_width(keys, "mamba_hidden_ratio", 3, config.hidden_size);
  const bool hybrid = keys.has("attn");
  if (hybrid) read_samba_attention(keys, base, config);
  // The first layer is Mamba.
  if (hybrid && config.layers > 1) {
    for (int layer = 0; layer < config.layers; ++layer) {
      config.mixers.push_back(layer % 2 == 1 ? Mixer::attention : Mixer::mamba);
    }
  } else {
    config.rotaries.clear();
    config.attention.clear();
    use_linear_mixer_alone(config);
  }
  refuse_mamba_rest(keys);
}

void list_mamba_mixer(const ModelConfig& config, ParameterList& list) {
  const LinearMixer& mixer = *config.linear;
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = mixer.heads;
  using W = LayerWeights;
  constexpr auto kGateLast = ParameterLayout::gate_last;
  list.add("mixer.in_proj.weight", {2 * inner, hidden}, &W::projection, 0, kGateLast);
  if (mixer.projection_bias) list.add("mixer.in_proj.bias", {2 * inner}, &W::projection_bias, 0, kGateLast);
  list.add("mixer.conv1d.weight", {inner, 1, mixer.convolution}, &W::convolution);
  if (mixer.convolution_bias) list.add("mixer.conv1d.bias", {inner}, &W::convolution_bias);
  list.add("mixer.x_proj.weight", {mixer.x_proj_size(), inner}, &W::x_proj);
  list.add("mixer.dt_proj.weight", {inner, mixer.decay_rank}, &W::decay_up);
  list.add("mixer.dt_proj.bias", {inner}, &W::decay_bias);
  list.add("mixer.A_log", {inner, mixer.key_dim}, &W::decay_rate);
  list.add("mixer.D", {inner}, &W::skip);
  list.add("mixer.out_proj.weight", {hidden, inner}, &W::output);
  if (mixer.output_bias) list.add("mixer.out_proj.bias", {hidden}, &W::output_bias);
}

void list_samba_attention(const ModelConfig& config, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const ProjectionColumns columns(config);
  const auto project = [&](const char* name, std::int64_t rows, std::int64_t column) {
    list.add(fmt::format("mixer.{}.weight", name), {rows, hidden}, &LayerWeights::projection, column * hidden);
  };
  project("q_proj", config.query_size(), 0);
  project("k_proj", config.key_size(), columns.key);
  project("v_proj", config.key_size(), columns.value);
  list.add("mixer.o_proj.weight", {hidden, config.query_size()}, &LayerWeights::output);
}

void list_mamba(const ModelConfig& config, ParameterList& list) {
  list.add("embeddings.weight", {config.vocabulary_size, config.hidden_size}, &ModelWeights::embedding);
  for (int layer = 0; layer < config.layers; ++layer) {
    list.begin_layer(layer, fmt::format("layers.{}.", layer));
    list.add("norm.weight", {config.hidden_size}, &LayerWeights::attention_norm);
    list_mamba_mixer(config, list);
  }
  list.add("norm_f.weight", {config.hidden_size}, &ModelWeights::final_norm);
  list.add_head();
}

void list_samba(const ModelConfig& config, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  using W = LayerWeights;
  list.add("embeddings.weight", {config.vocabulary_size, hidden}, &ModelWeights::embedding);
  for (int layer = 0; layer < config.layers; ++layer) {
    const std::int64_t inner = config.intermediate_of(layer);
    list.begin_layer(layer, fmt::format("layers.{}.", layer));
    list.add("mixer_norm.weight", {hidden}, &W::attention_norm);
    if (config.is_linear(layer)) {
      list_mamba_mixer(config, list);
    } else {
      list_samba_attention(config, list);
    }
    list.add("mlp_norm.weight", {hidden}, &W::mlp_norm);
    list.add("mlp.gate_proj.weight", {2 * inner, hidden}, &W::mlp_in);
    list.add("mlp.down_proj.weight", {hidden, inner}, &W::mlp_out);
  }
  list.add("norm_f.weight", {hidden}, &ModelWeights::final_norm);
  list.add_head();
}

}  // namespace

const ModelFamily kSambaBaseline = {"samba-project_fox", "Samba", "backbone.", read_samba, list_samba};
const ModelFamily kFalconMamba = {"falcon_mamba", "Falcon Mamba", "backbone.", read_falcon_mamba, list_mamba};
const ModelFamily kMamba = {"mamba", "Mamba", "backbone.", read_mamba, list_mamba};

}  // namespace foxscope::family

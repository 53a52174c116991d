// HGRN2 (Qin et al. 2024), GLA (Yang et al. 2024), DeltaNet and Gated DeltaNet (Yang et al. 2024, 2025), as the FoX
// authors' baselines and as the FLA library writes them. As that library alone writes them: RetNet (Sun et al. 2023),
// linear attention (Katharopoulos et al. 2020), Kimi Delta Attention (Kimi Team 2025), Comba (Hu et al. 2025), Gated
// DeltaProduct (Siems et al. 2025).
#include "backend/model/spec/families/linear_attention.h"

#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace foxscope::family {

void use_linear_mixer_alone(ModelConfig& config) {
  const LinearMixer& mixer = *config.linear;
  config.heads = mixer.heads;
  config.key_heads = mixer.key_heads;
  config.head_dim = mixer.key_dim;
  config.mixers.assign(static_cast<std::size_t>(config.layers), mixer.kind);
}

namespace {

constexpr std::int64_t kLargestWidth = 1 << 18;
constexpr std::int64_t kMostConvolutionTaps = 64;
constexpr double kLargestRotaryBase = 1e15;
constexpr int kGlaRank = 16;
constexpr double kGlaNormalizer = 16;

/// Keys that concern training alone, or how a kernel is called.
constexpr auto kOfFlaKernels =
    std::to_array<std::string_view>({"attn_mode", "fuse_*", "use_l2warp", "gk", "use_gk", "use_gv"});

/// The two writings of one kind.
enum class Dialect { project_fox, fla };

/// @param ratio  hidden_ratio where the file does not say
void read_around_mixer(const ConfigKeys& keys, ModelConfig& config, double ratio = 4) {
  config.vocabulary_size = keys.integer("vocab_size", 1, kMaxVocabulary);
  config.hidden_size = keys.integer("hidden_size", 1, kMaxHidden);
  config.layers = static_cast<int>(keys.integer("num_hidden_layers", 1, kMaxLayers));
  read_swiglu_width(keys, config, ratio);
  config.norm_epsilon = keys.number("norm_eps", 0.0, 1.0, 1e-6);
  config.tie_word_embeddings = keys.flag("tie_word_embeddings", false);
  config.forget_gate = ForgetGate::none;
  read_bos(keys, config);
  if (!keys.flag("elementwise_affine", true)) {
    keys.fail("elementwise_affine", "true: norms without weights are not read");
  }
  if (keys.has("attnres_block_size")) keys.refuse("attnres_block_size", "null");
  LinearMixer mixer;
  mixer.norm_epsilon = config.norm_epsilon;
  config.linear = mixer;
}

/// The MLP's activation, which the mixer's gate has as well in GLA.
void require_swish(const ConfigKeys& keys) {
  if (const std::string found = keys.word("hidden_act", "swish"); found != "swish" && found != "silu") {
    keys.refuse("hidden_act", "\"swish\"");
  }
}

int width_of_head(const ConfigKeys& keys, const char* key, std::int64_t width, int heads) {
  if (width < heads || width % heads != 0 || width / heads > kMaxHeadDim) {
    keys.fail(key, fmt::format("such that {} columns are {} heads of 1 to {} numbers", width, heads, kMaxHeadDim));
  }
  return static_cast<int>(width / heads);
}

std::int64_t expanded(const ConfigKeys& keys, const char* key, double otherwise, std::int64_t size) {
  return static_cast<std::int64_t>(static_cast<double>(size) * keys.number(key, 1e-3, 1e3, otherwise));
}

void read_convolution(const ConfigKeys& keys, bool otherwise, LinearMixer& mixer) {
  const auto taps = keys.integer("conv_size", 1, kMostConvolutionTaps, 4);
  if (keys.flag("use_short_conv", otherwise)) mixer.convolution = static_cast<int>(taps);
}

/// The sizes of one group of softmax layers, and which layers they are. Groups differ in windows and in the base of the
/// rotary embedding alone.
/// @param attention  the keys of the group
void read_softmax_group(const ConfigKeys& attention, ModelConfig& config) {
  const auto heads = static_cast<int>(attention.integer("num_heads", 1, config.hidden_size));
  const auto key_heads = static_cast<int>(attention.integer("num_kv_heads", 1, heads, heads));
  if (heads % key_heads != 0) attention.fail("num_kv_heads", fmt::format("such that it divides num_heads {}", heads));
  const bool bias = attention.flag("qkv_bias", false);
  const int dim = width_of_head(attention, "num_heads", config.hidden_size, heads);
  if (dim % 2 != 0) {
    attention.fail("num_heads", fmt::format("such that heads have an even number of numbers, and they have {}", dim));
  }
  const bool first = config.rotaries.empty();
  if (!first && (heads != config.heads || key_heads != config.key_heads || bias != config.query_key_value_bias)) {
    attention.refuse("num_heads", "groups of attention layers that have the same heads and biases");
  }
  config.heads = heads;
  config.key_heads = key_heads;
  config.head_dim = dim;
  config.query_key_value_bias = bias;
  const double base = attention.number("rope_theta", 1, kLargestRotaryBase, 10000);
  const std::int64_t window = attention.integer("window_size", 1, std::numeric_limits<std::int32_t>::max(), 0);
  const nlohmann::json& layers = attention.has("layers") ? attention.value("layers") : nlohmann::json::array();
  const auto is_layer = [&](const nlohmann::json& layer) {
    return layer.is_number_integer() && layer >= 0 && layer < config.layers;
  };
  if (!layers.is_array() || !std::all_of(layers.begin(), layers.end(), is_layer)) {
    attention.fail("layers", fmt::format("a list of layers from 0 to {}", config.layers - 1));
  }
  for (const nlohmann::json& layer : layers) {
    const auto index = layer.get<std::size_t>();
    config.mixers[index] = Mixer::attention;
    config.attention[index] = {.window_size = window, .rotary = static_cast<int>(config.rotaries.size())};
  }
  config.rotaries.push_back({.base = base, .dim = dim});
  attention.refuse_others({});
}

/// The layers that are softmax attention: an object under `attn`, or a list of such.
void read_softmax_layers(const ConfigKeys& keys, Dialect dialect, ModelConfig& config) {
  if (!keys.has("attn")) return;
  if (dialect == Dialect::project_fox) keys.refuse("attn", "null, as the authors' baselines have it");
  config.mixers.assign(static_cast<std::size_t>(config.layers), config.linear->kind);
  config.attention.assign(static_cast<std::size_t>(config.layers), {});
  const nlohmann::json& attention = keys.value("attn");
  if (!attention.is_array()) {
    read_softmax_group(keys.under("attn"), config);
  } else {
    for (const nlohmann::json& group : attention) {
      if (!group.is_object()) keys.fail("attn", "an object, or a list of objects");
      read_softmax_group(ConfigKeys(group, keys.file(), "attn"), config);
    }
  }
  if (config.attends()) return;
  config.attention.clear();
  config.rotaries.clear();
  config.query_key_value_bias = false;
}

void finish_reading(const ConfigKeys& keys, Dialect dialect, ModelConfig& config) {
  read_softmax_layers(keys, dialect, config);
  if (config.mixers.empty() || !config.attends()) use_linear_mixer_alone(config);
  std::vector<std::string_view> harmless(kOfFlaKernels.begin(), kOfFlaKernels.end());
  harmless.insert(harmless.end(), harmless_keys().begin(), harmless_keys().end());
  keys.refuse_others(harmless);
}

void set_heads(LinearMixer& mixer, int heads, int others) {
  mixer.heads = mixer.query_heads = heads;
  mixer.key_heads = mixer.value_heads = others;
}

void read_hgrn2(const ConfigKeys& keys, Dialect dialect, ModelConfig& config) {
  read_around_mixer(keys, config);
  require_swish(keys);
  LinearMixer& mixer = *config.linear;
  mixer.kind = Mixer::gated_linear_attention;
  const auto hidden = config.hidden_size;
  const bool by_heads = keys.has("num_heads") && (dialect == Dialect::project_fox || keys.is_null("expand_ratio"));
  if (keys.is_null("expand_ratio") && !by_heads) keys.fail("num_heads", "there where expand_ratio is null");
  std::int64_t ratio = keys.integer("expand_ratio", 1, kMaxHeadDim, 128);
  const std::int64_t heads = by_heads ? keys.integer("num_heads", 1, hidden) : hidden / ratio;
  if (heads < 1 || hidden % heads != 0 || (!by_heads && hidden % ratio != 0)) {
    keys.fail(by_heads ? "num_heads" : "expand_ratio", fmt::format("such that it divides hidden_size {}", hidden));
  }
  if (keys.is_null("expand_ratio")) ratio = hidden / heads;
  set_heads(mixer, static_cast<int>(heads), static_cast<int>(heads));
  mixer.key_dim = static_cast<int>(ratio);
  mixer.value_dim = width_of_head(keys, "num_heads", hidden, mixer.heads);
  read_convolution(keys, false, mixer);
  mixer.query_activation = LinearActivation::silu;
  mixer.query_factor = softmax_scale<double>(mixer.key_dim);
  mixer.decay = LinearDecay::of_keys;
  mixer.norm_size = hidden;
  mixer.has_lower_bounds = keys.flag("use_lower_bound", true);
  // The authors' block does not hand the bound to its mixer; FLA's mixer does not hand norm_eps to its norm.
  mixer.lower_bound = mixer.has_lower_bounds && dialect == Dialect::fla;
  if (dialect == Dialect::fla) mixer.norm_epsilon = 1e-5;
  if (mixer.lower_bound && mixer.key_size() != hidden) {
    keys.fail("expand_ratio", fmt::format("such that keys have hidden_size {} columns, as their bounds do", hidden));
  }
  finish_reading(keys, dialect, config);
}

void read_gla(const ConfigKeys& keys, ModelConfig& config) {
  read_around_mixer(keys, config);
  LinearMixer& mixer = *config.linear;
  mixer.kind = Mixer::gated_linear_attention;
  const auto heads = static_cast<int>(keys.integer("num_heads", 1, config.hidden_size, 4));
  const auto key_heads = static_cast<int>(keys.integer("num_kv_heads", 1, heads, heads));
  if (heads % key_heads != 0) keys.fail("num_kv_heads", fmt::format("such that it divides num_heads {}", heads));
  set_heads(mixer, heads, key_heads);
  mixer.key_dim = width_of_head(keys, "expand_k", expanded(keys, "expand_k", 0.5, config.hidden_size), heads);
  mixer.value_dim = width_of_head(keys, "expand_v", expanded(keys, "expand_v", 1.0, config.hidden_size), heads);
  read_convolution(keys, false, mixer);
  if (mixer.convolution > 0) {
    mixer.query_activation = mixer.key_activation = mixer.value_activation = LinearActivation::silu;
  }
  if (keys.has("feature_map")) keys.refuse("feature_map", "null");
  mixer.query_factor = softmax_scale<double>(mixer.key_dim);
  mixer.decay = LinearDecay::low_rank;
  mixer.decay_rank = kGlaRank;
  mixer.decay_factor = 1 / kGlaNormalizer;
  if (keys.has("clamp_min")) mixer.lowest_log_decay = keys.number("clamp_min", -1e6, 0);
  mixer.norm_size = mixer.value_dim;
  if (keys.flag("use_output_gate", true)) mixer.gate = LinearGate::after_norm;
  require_swish(keys);
  config.fused_norm =
      keys.flag("fuse_norm", true) && mixer.gate != LinearGate::none && keys.word("hidden_act", "swish") == "swish";
  finish_reading(keys, Dialect::fla, config);
}

LinearNorm read_norm(const ConfigKeys& keys) {
  const std::string norm = keys.word("qk_norm", "l2");
  if (norm == "l2") return LinearNorm::l2;
  if (norm == "sum") return LinearNorm::sum;
  keys.fail("qk_norm", "\"l2\" or \"sum\"");
}

LinearActivation read_activation(const ConfigKeys& keys) {
  const std::string activation = keys.word("qk_activation", "silu");
  if (activation == "silu") return LinearActivation::silu;
  if (activation == "relu") return LinearActivation::relu;
  if (activation == "elu") return LinearActivation::elu_plus_one;
  if (activation == "identity") return LinearActivation::none;
  keys.fail("qk_activation", "\"silu\", \"relu\", \"elu\" or \"identity\"");
}

void read_delta_net(const ConfigKeys& keys, Dialect dialect, ModelConfig& config) {
  read_around_mixer(keys, config);
  require_swish(keys);
  LinearMixer& mixer = *config.linear;
  mixer.kind = Mixer::delta_rule;
  const auto heads = static_cast<int>(keys.integer("num_heads", 1, config.hidden_size, 16));
  set_heads(mixer, heads, heads);
  mixer.key_dim = width_of_head(keys, "expand_k", expanded(keys, "expand_k", 1.0, config.hidden_size), heads);
  mixer.value_dim = width_of_head(keys, "expand_v", expanded(keys, "expand_v", 1.0, config.hidden_size), heads);
  read_convolution(keys, true, mixer);
  mixer.query_activation = mixer.key_activation = read_activation(keys);
  // The authors' silu of queries and keys is their convolution's.
  const bool of_convolution = mixer.query_activation == LinearActivation::silu && dialect == Dialect::project_fox;
  if (of_convolution && mixer.convolution == 0) mixer.query_activation = mixer.key_activation = LinearActivation::none;
  mixer.value_activation = LinearActivation::silu;
  mixer.query_norm = mixer.key_norm = read_norm(keys);
  mixer.query_factor = softmax_scale<double>(mixer.key_dim);
  const bool twice = dialect == Dialect::fla && keys.flag("allow_neg_eigval", false);
  if (keys.flag("use_beta", true)) {
    mixer.beta = twice ? LinearBeta::twice_sigmoid : LinearBeta::sigmoid;
  } else if (twice) {
    keys.refuse("use_beta", "true where allow_neg_eigval is true");
  }
  static_cast<void>(keys.has("use_output_norm"));  // it is always there
  mixer.norm_size = mixer.value_dim;
  if (keys.flag("use_gate", false)) mixer.gate = LinearGate::after_norm;
  if (dialect == Dialect::project_fox) config.norm_first = keys.flag("norm_first", false);
  finish_reading(keys, dialect, config);
}

void read_gated_deltanet(const ConfigKeys& keys, ModelConfig& config) {
  read_around_mixer(keys, config);
  require_swish(keys);
  LinearMixer& mixer = *config.linear;
  mixer.kind = Mixer::delta_rule;
  const auto key_heads = static_cast<int>(keys.integer("num_heads", 1, kLargestWidth, 6));
  const auto heads = static_cast<int>(keys.integer("num_v_heads", 1, kLargestWidth, key_heads));
  if (heads % key_heads != 0) keys.fail("num_v_heads", fmt::format("a multiple of num_heads {}", key_heads));
  mixer.heads = mixer.value_heads = heads;
  mixer.query_heads = mixer.key_heads = key_heads;
  mixer.key_dim = static_cast<int>(keys.integer("head_dim", 1, kMaxHeadDim, 256));
  mixer.value_dim = static_cast<int>(expanded(keys, "expand_v", 2.0, mixer.key_dim));
  if (mixer.value_dim < 1 || mixer.value_dim > kMaxHeadDim) {
    keys.fail("expand_v", fmt::format("such that values have 1 to {} numbers a head", kMaxHeadDim));
  }
  read_convolution(keys, true, mixer);
  mixer.query_activation = mixer.key_activation = mixer.value_activation = LinearActivation::silu;
  mixer.query_norm = mixer.key_norm = LinearNorm::l2;
  mixer.query_factor = softmax_scale<double>(mixer.key_dim);
  mixer.decay = LinearDecay::rate;
  mixer.beta = keys.flag("allow_neg_eigval", false) ? LinearBeta::twice_sigmoid : LinearBeta::sigmoid;
  mixer.norm_size = mixer.value_dim;
  if (keys.flag("use_gate", true)) mixer.gate = LinearGate::after_norm;
  finish_reading(keys, Dialect::fla, config);
}

/// A number of heads that values share, which the groups of keys are.
int read_key_heads(const ConfigKeys& keys, int heads) {
  const auto key_heads = static_cast<int>(keys.integer("num_kv_heads", 1, heads, heads));
  if (heads % key_heads != 0) keys.fail("num_kv_heads", fmt::format("such that it divides num_heads {}", heads));
  return key_heads;
}

void read_retnet(const ConfigKeys& keys, ModelConfig& config) {
  constexpr double kRatio = 2;
  read_around_mixer(keys, config, kRatio);
  require_swish(keys);
  LinearMixer& mixer = *config.linear;
  mixer.kind = Mixer::gated_linear_attention;
  const auto heads = static_cast<int>(keys.integer("num_heads", 1, config.hidden_size, 8));
  set_heads(mixer, heads, read_key_heads(keys, heads));
  mixer.key_dim = width_of_head(keys, "expand_k", expanded(keys, "expand_k", 1.0, config.hidden_size), heads);
  mixer.value_dim = width_of_head(keys, "expand_v", expanded(keys, "expand_v", 2.0, config.hidden_size), heads);
  if (mixer.key_dim % 2 != 0) {
    keys.fail("expand_k",
              fmt::format("such that heads have an even number of numbers, and they have {}", mixer.key_dim));
  }
  // FLA's model does not hand them to its layer, which has no convolution.
  static_cast<void>(keys.has("use_short_conv"));
  static_cast<void>(keys.has("conv_size"));
  if (keys.has("feature_map")) keys.refuse("feature_map", "null");
  mixer.rotary = Rotary{.base = 10000, .dim = mixer.key_dim};
  mixer.query_factor = softmax_scale<double>(mixer.key_dim);
  mixer.decay = LinearDecay::retention;
  mixer.norm_size = mixer.value_dim;
  if (keys.flag("use_output_gate", true)) mixer.gate = LinearGate::after_norm;
  config.fused_norm =
      keys.flag("fuse_norm", true) && mixer.gate != LinearGate::none && keys.word("hidden_act", "swish") == "swish";
  finish_reading(keys, Dialect::fla, config);
}

void read_linear_attention(const ConfigKeys& keys, ModelConfig& config) {
  read_around_mixer(keys, config);
  require_swish(keys);
  LinearMixer& mixer = *config.linear;
  mixer.kind = Mixer::gated_linear_attention;
  const auto heads = static_cast<int>(keys.integer("num_heads", 1, config.hidden_size, 4));
  set_heads(mixer, heads, read_key_heads(keys, heads));
  mixer.key_dim = width_of_head(keys, "expand_k", expanded(keys, "expand_k", 1.0, config.hidden_size), heads);
  mixer.value_dim = width_of_head(keys, "expand_v", expanded(keys, "expand_v", 1.0, config.hidden_size), heads);
  const std::string map = keys.word("feature_map", "elementwise_product");
  if (map == "elementwise_product") {
    mixer.feature_map = LinearFeatureMap::product;
    if (keys.flag("tie_feature_map_qk", false)) keys.refuse("tie_feature_map_qk", "false");
  } else if (map == "elu") {
    mixer.query_activation = mixer.key_activation = LinearActivation::elu_plus_one;
  } else if (map == "relu") {
    mixer.query_activation = mixer.key_activation = LinearActivation::relu;
  } else if (map != "identity") {
    keys.refuse("feature_map", R"("elementwise_product", "elu", "relu" and "identity")");
  }
  static_cast<void>(keys.has("tie_feature_map_qk"));
  if (keys.flag("norm_q", false)) mixer.query_norm = LinearNorm::share;
  if (keys.flag("norm_k", false)) mixer.key_norm = LinearNorm::share;
  if (keys.flag("norm_feature_map", false)) keys.refuse("norm_feature_map", "false");
  mixer.query_factor = softmax_scale<double>(mixer.key_dim);
  mixer.norm_size = mixer.value_dim;
  finish_reading(keys, Dialect::fla, config);
}

/// Heads of keys and values of gated delta rules, their widths and convolutions.
/// @param shared  whether several heads of values may have a head of keys in common
void read_delta_heads(const ConfigKeys& keys, double expand, bool shared, LinearMixer& mixer) {
  const auto heads = static_cast<int>(keys.integer("num_heads", 1, kLargestWidth, mixer.heads));
  const auto value_heads = static_cast<int>(keys.integer("num_v_heads", 1, kLargestWidth, heads));
  if (value_heads != heads && !shared) {
    keys.refuse("num_v_heads", fmt::format("as many heads of values as of keys, {}", heads));
  }
  if (value_heads % heads != 0) keys.fail("num_v_heads", fmt::format("a multiple of num_heads {}", heads));
  set_heads(mixer, value_heads, value_heads);
  mixer.query_heads = heads;
  mixer.key_dim = static_cast<int>(keys.integer("head_dim", 1, kMaxHeadDim, mixer.key_dim));
  mixer.value_dim = static_cast<int>(expanded(keys, "expand_v", expand, mixer.key_dim));
  if (mixer.value_dim < 1 || mixer.value_dim > kMaxHeadDim) {
    keys.fail("expand_v", fmt::format("such that values have 1 to {} numbers a head", kMaxHeadDim));
  }
  read_convolution(keys, true, mixer);
  mixer.query_activation = mixer.key_activation = mixer.value_activation = LinearActivation::silu;
  mixer.query_norm = mixer.key_norm = LinearNorm::l2;
  mixer.query_factor = softmax_scale<double>(mixer.key_dim);
  mixer.norm_size = mixer.value_dim;
  mixer.gate_activation = LinearActivation::sigmoid;
}

void read_kda(const ConfigKeys& keys, ModelConfig& config) {
  constexpr double kLowestBound = -1e3;
  read_around_mixer(keys, config);
  require_swish(keys);
  LinearMixer& mixer = *config.linear;
  mixer.kind = Mixer::delta_rule;
  mixer.heads = 16;
  mixer.key_dim = 128;
  // Decays of a key's channels are a value head's, so each has keys of its own here.
  read_delta_heads(keys, 1, /*shared=*/true, mixer);
  mixer.decay = LinearDecay::channel_rate;
  mixer.decay_rank = mixer.value_dim;
  mixer.decay_bound = keys.number("lower_bound", kLowestBound, 0, 0);
  static_cast<void>(keys.has("safe_gate"));  // of a kernel: the bound does what it says
  mixer.beta = keys.flag("allow_neg_eigval", false) ? LinearBeta::twice_sigmoid : LinearBeta::sigmoid;
  mixer.gate = LinearGate::after_norm;
  mixer.gate_rank = mixer.value_dim;
  finish_reading(keys, Dialect::fla, config);
}

void read_comba(const ConfigKeys& keys, ModelConfig& config) {
  read_around_mixer(keys, config);
  require_swish(keys);
  LinearMixer& mixer = *config.linear;
  mixer.kind = Mixer::diagonal_plus_low_rank;
  mixer.heads = 6;
  mixer.key_dim = 256;
  read_delta_heads(keys, 2, /*shared=*/false, mixer);
  mixer.decay = LinearDecay::rate;
  mixer.beta = LinearBeta::sigmoid;
  mixer.erasing = LinearErasing::feedback;
  // FLA's model does not hand them to its layer, which does both, and the last is of untrained weights.
  for (const char* key : {"use_inner_decay", "use_output_correction", "correction_factor"}) {
    static_cast<void>(keys.has(key));
  }
  if (keys.flag("use_output_gate", true)) mixer.gate = LinearGate::after_norm;
  finish_reading(keys, Dialect::fla, config);
}

void read_gated_delta_product(const ConfigKeys& keys, ModelConfig& config) {
  constexpr std::int64_t kMostSteps = 64;
  read_around_mixer(keys, config);
  require_swish(keys);
  LinearMixer& mixer = *config.linear;
  mixer.heads = 6;
  mixer.key_dim = 256;
  read_delta_heads(keys, 2, /*shared=*/false, mixer);
  mixer.gate_activation = LinearActivation::silu;
  mixer.steps = static_cast<int>(keys.integer("num_householder", 1, kMostSteps, 1));
  // One step a position is the delta rule.
  mixer.kind = mixer.steps > 1 ? Mixer::delta_product : Mixer::delta_rule;
  mixer.heads *= mixer.steps;
  mixer.key_heads = mixer.value_heads = mixer.heads;
  if (keys.flag("use_forget_gate", false)) mixer.decay = LinearDecay::rate;
  mixer.beta = keys.flag("allow_neg_eigval", false) ? LinearBeta::twice_sigmoid : LinearBeta::sigmoid;
  if (keys.flag("use_output_gate", true)) mixer.gate = LinearGate::after_norm;
  if (keys.flag("conv_bias", false)) keys.refuse("conv_bias", "false");
  finish_reading(keys, Dialect::fla, config);
}

/// The names of a layer's tensors, where kinds differ.
struct LinearNames {
  std::string_view key = "k";  ///< before _proj and _conv1d
  std::string_view value = "v";
  std::string norm = "o_norm";
  bool one_mlp_matrix = false;
};

/// The feature map of queries or keys.
void list_feature_map(const LinearMixer& mixer, const char* which, FloatArray LayerWeights::*weight,
                      FloatArray LayerWeights::*bias, ParameterList& list) {
  const std::int64_t dim = mixer.key_dim;
  for (const int part : {0, 1}) {
    const std::string name = fmt::format("attn.feature_map_{}.layer{}.", which, part + 1);
    list.add(name + "weight", {dim, dim}, weight, part * dim * dim);
    list.add(name + "bias", {dim}, bias, part * dim);
  }
}

/// Lists the tensors of decays, where heads or channels have a rate A.
void list_rates(const ModelConfig& config, ParameterList& list) {
  const LinearMixer& mixer = *config.linear;
  const LinearColumns columns(mixer);
  const std::int64_t hidden = config.hidden_size;
  using W = LayerWeights;
  list.add("attn.A_log", {mixer.states()}, &W::decay_rate);
  if (mixer.decay == LinearDecay::rate) {
    list.add("attn.a_proj.weight", {mixer.states(), hidden}, &W::projection, columns.decay * hidden);
    list.add("attn.dt_bias", {mixer.states()}, &W::decay_bias);
    return;
  }
  list.add("attn.f_proj.0.weight", {mixer.decay_rank, hidden}, &W::projection, columns.decay * hidden);
  list.add("attn.f_proj.1.weight", {mixer.key_size(), mixer.decay_rank}, &W::decay_up);
  list.add("attn.dt_bias", {mixer.key_size()}, &W::decay_bias);
}

/// The output's gate.
void list_gate(const ModelConfig& config, ParameterList& list) {
  const LinearMixer& mixer = *config.linear;
  const std::int64_t hidden = config.hidden_size;
  using W = LayerWeights;
  if (mixer.gate_rank == 0) {
    list.add("attn.g_proj.weight", {mixer.output_size(), hidden}, &W::projection);
    return;
  }
  list.add("attn.g_proj.0.weight", {mixer.gate_rank, hidden}, &W::projection);
  list.add("attn.g_proj.1.weight", {mixer.output_size(), mixer.gate_rank}, &W::output_gate);
  list.add("attn.g_proj.1.bias", {mixer.output_size()}, &W::output_gate_bias);
}

void list_softmax_layer(const ModelConfig& config, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const ProjectionColumns columns(config);
  using W = LayerWeights;
  const auto project = [&](const char* name, std::int64_t rows, std::int64_t column) {
    list.add(fmt::format("attn.{}_proj.weight", name), {rows, hidden}, &W::projection, column * hidden);
    if (!config.query_key_value_bias) return;
    list.add(fmt::format("attn.{}_proj.bias", name), {rows}, &W::projection_bias, column);
  };
  project("q", config.query_size(), 0);
  project("k", config.key_size(), columns.key);
  project("v", config.key_size(), columns.value);
  list.add("attn.o_proj.weight", {hidden, config.query_size()}, &W::output);
}

void list_mixer(const ModelConfig& config, const LinearNames& names, ParameterList& list) {
  const LinearMixer& mixer = *config.linear;
  const LinearColumns columns(mixer);
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t heads = mixer.heads;
  using W = LayerWeights;
  const auto of_steps = mixer.steps > 1 ? ParameterLayout::steps_first : ParameterLayout::rows;
  const auto project = [&](std::string_view name, std::int64_t rows, std::int64_t column, ParameterLayout layout) {
    list.add(fmt::format("attn.{}_proj.weight", name), {rows, hidden}, &W::projection, column * hidden, layout);
  };
  const auto mix = [&](std::string_view name, std::int64_t rows, std::int64_t column, ParameterLayout layout) {
    project(name, rows, column, layout);
    if (mixer.convolution == 0) return;
    list.add(fmt::format("attn.{}_conv1d.weight", name), {rows, 1, mixer.convolution}, &W::convolution,
             (column - columns.convolved) * mixer.convolution, layout);
  };
  mix("q", mixer.query_size(), columns.query, ParameterLayout::rows);
  if (mixer.steps == 1 && mixer.key_heads > mixer.query_heads) {
    mix(names.key, mixer.query_size(), columns.key, ParameterLayout::heads_repeated);
  } else {
    mix(names.key, mixer.key_size(), columns.key, of_steps);
  }
  mix(names.value, mixer.value_size(), columns.value, of_steps);
  if (mixer.feature_map == LinearFeatureMap::product) {
    list_feature_map(mixer, "q", &W::query_map, &W::query_map_bias, list);
    list_feature_map(mixer, "k", &W::key_map, &W::key_map_bias, list);
  }
  if (mixer.gate != LinearGate::none) list_gate(config, list);
  if (mixer.beta != LinearBeta::one) project("b", heads, columns.beta, of_steps);
  if (mixer.erasing == LinearErasing::feedback) {
    list.add("attn.decay", {heads}, &W::feedback_decay);
    list.add("attn.D", {heads}, &W::query_correction);
  }
  if (mixer.decay == LinearDecay::rate || mixer.decay == LinearDecay::channel_rate) {
    list_rates(config, list);
  } else if (mixer.decay == LinearDecay::low_rank) {
    list.add("attn.gk_proj.0.weight", {mixer.decay_rank, hidden}, &W::projection, columns.decay * hidden);
    list.add("attn.gk_proj.1.weight", {mixer.key_size(), mixer.decay_rank}, &W::decay_up);
    list.add("attn.gk_proj.1.bias", {mixer.key_size()}, &W::decay_bias);
  }
  list.add("attn." + names.norm + ".weight", {mixer.norm_size}, &W::output_norm);
  list.add("attn.o_proj.weight", {hidden, mixer.output_size()}, &W::output);
}

void list_layer(const ModelConfig& config, bool softmax, const LinearNames& names, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  using W = LayerWeights;
  list.add(config.norm_first ? "attn.norm.weight" : "attn_norm.weight", {hidden}, &W::attention_norm);
  softmax ? list_softmax_layer(config, list) : list_mixer(config, names, list);
  list.add(config.norm_first ? "mlp.norm.weight" : "mlp_norm.weight", {hidden}, &W::mlp_norm);
  list.add("mlp.gate_proj.weight", {names.one_mlp_matrix ? 2 * inner : inner, hidden}, &W::mlp_in);
  if (!names.one_mlp_matrix) list.add("mlp.up_proj.weight", {inner, hidden}, &W::mlp_in, inner * hidden);
  list.add("mlp.down_proj.weight", {hidden, inner}, &W::mlp_out);
}

void list_model(const ModelConfig& config, const LinearNames& names, ParameterList& list) {
  list.add("embeddings.weight", {config.vocabulary_size, config.hidden_size}, &ModelWeights::embedding);
  if (config.linear->has_lower_bounds) {
    list.add("lower_bounds", {config.layers, config.hidden_size}, &ModelWeights::lower_bounds);
  }
  for (int layer = 0; layer < config.layers; ++layer) {
    list.begin_layer(layer, fmt::format("layers.{}.", layer));
    list_layer(config, config.is_attention(layer), names, list);
  }
  list.add("norm.weight", {config.hidden_size}, &ModelWeights::final_norm);
  list.add_head();
}

void read_hgrn2_baseline(const ConfigKeys& keys, ModelConfig& config) {
  read_hgrn2(keys, Dialect::project_fox, config);
}
void read_fla_hgrn2(const ConfigKeys& keys, ModelConfig& config) { read_hgrn2(keys, Dialect::fla, config); }
void read_delta_net_baseline(const ConfigKeys& keys, ModelConfig& config) {
  read_delta_net(keys, Dialect::project_fox, config);
}
void read_fla_delta_net(const ConfigKeys& keys, ModelConfig& config) { read_delta_net(keys, Dialect::fla, config); }

void list_hgrn2_baseline(const ModelConfig& config, ParameterList& list) {
  list_model(config, {"f", "i", "g_norm", true}, list);
}
void list_fla_hgrn2(const ModelConfig& config, ParameterList& list) {
  list_model(config, {"f", "i", "g_norm", false}, list);
}
void list_gla(const ModelConfig& config, ParameterList& list) {
  list_model(config, {.norm = config.fused_norm ? "g_norm_swish_gate" : "g_norm"}, list);
}
void list_delta_net_baseline(const ModelConfig& config, ParameterList& list) {
  list_model(config, {.one_mlp_matrix = true}, list);
}
void list_fla_delta_net(const ModelConfig& config, ParameterList& list) { list_model(config, {}, list); }
void list_linear_attention(const ModelConfig& config, ParameterList& list) {
  list_model(config, {.norm = "norm"}, list);
}

}  // namespace

const ModelFamily kHgrn2Baseline = {"hgrn2-project_fox", "HGRN2", "model.", read_hgrn2_baseline, list_hgrn2_baseline};
const ModelFamily kHgrn2 = {"hgrn2", "HGRN2", "model.", read_fla_hgrn2, list_fla_hgrn2};
const ModelFamily kGla = {"gla", "GLA", "model.", read_gla, list_gla};
const ModelFamily kDeltaNetBaseline = {"delta_net-project_fox", "DeltaNet", "model.", read_delta_net_baseline,
                                       list_delta_net_baseline};
const ModelFamily kDeltaNet = {"delta_net", "DeltaNet", "model.", read_fla_delta_net, list_fla_delta_net};
const ModelFamily kGatedDeltaNet = {"gated_deltanet", "Gated DeltaNet", "model.", read_gated_deltanet,
                                    list_fla_delta_net};
const ModelFamily kRetNet = {"retnet", "RetNet", "model.", read_retnet, list_gla};
const ModelFamily kLinearAttention = {"linear_attn", "linear attention", "model.", read_linear_attention,
                                      list_linear_attention};
const ModelFamily kKda = {"kda", "Kimi Delta Attention", "model.", read_kda, list_fla_delta_net};
const ModelFamily kGatedDeltaProduct = {"gated_deltaproduct", "Gated DeltaProduct", "model.", read_gated_delta_product,
                                        list_fla_delta_net};
const ModelFamily kComba = {"comba", "Comba", "model.", read_comba, list_fla_delta_net};

}  // namespace foxscope::family

// HGRN2 (Qin et al. 2024), GLA (Yang et al. 2024), DeltaNet and Gated DeltaNet (Yang et al. 2024, 2025), as the FoX
// authors' baselines and as the FLA library writes them.
#include "backend/model/spec/families/linear_attention.h"

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

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
constexpr int kGlaRank = 16;
constexpr double kGlaNormalizer = 16;

/// Keys that concern training alone, or how a kernel is called.
constexpr auto kOfFlaKernels =
    std::to_array<std::string_view>({"attn_mode", "fuse_*", "use_l2warp", "gk", "use_gk", "use_gv"});

/// The two writings of one kind.
enum class Dialect { project_fox, fla };

void read_around_mixer(const ConfigKeys& keys, ModelConfig& config) {
  config.vocabulary_size = keys.integer("vocab_size", 1, kMaxVocabulary);
  config.hidden_size = keys.integer("hidden_size", 1, kMaxHidden);
  config.layers = static_cast<int>(keys.integer("num_hidden_layers", 1, kMaxLayers));
  read_swiglu_width(keys, config);
  config.norm_epsilon = keys.number("norm_eps", 0.0, 1.0, 1e-6);
  config.tie_word_embeddings = keys.flag("tie_word_embeddings", false);
  config.forget_gate = ForgetGate::none;
  read_bos(keys, config);
  if (!keys.flag("elementwise_affine", true)) {
    keys.fail("elementwise_affine", "true: norms without weights are not read");
  }
  if (keys.has("attn")) keys.refuse("attn", "layers of one kind, without softmax attention in some");
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

void finish_reading(const ConfigKeys& keys, ModelConfig& config) {
  use_linear_mixer_alone(config);
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
  finish_reading(keys, config);
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
  finish_reading(keys, config);
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
  mixer.norm = read_norm(keys);
  mixer.query_factor = softmax_scale<double>(mixer.key_dim);
  if (keys.flag("use_beta", true)) {
    const bool twice = dialect == Dialect::fla && keys.flag("allow_neg_eigval", false);
    mixer.beta = twice ? LinearBeta::twice_sigmoid : LinearBeta::sigmoid;
  }
  static_cast<void>(keys.has("use_output_norm"));  // it is always there
  mixer.norm_size = mixer.value_dim;
  if (keys.flag("use_gate", false)) mixer.gate = LinearGate::after_norm;
  if (dialect == Dialect::project_fox) config.norm_first = keys.flag("norm_first", false);
  finish_reading(keys, config);
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
  mixer.norm = LinearNorm::l2;
  mixer.query_factor = softmax_scale<double>(mixer.key_dim);
  mixer.decay = LinearDecay::rate;
  mixer.beta = keys.flag("allow_neg_eigval", false) ? LinearBeta::twice_sigmoid : LinearBeta::sigmoid;
  mixer.norm_size = mixer.value_dim;
  if (keys.flag("use_gate", true)) mixer.gate = LinearGate::after_norm;
  finish_reading(keys, config);
}

/// The names of a layer's tensors, where kinds differ.
struct LinearNames {
  std::string_view key = "k";  ///< before _proj and _conv1d
  std::string_view value = "v";
  std::string norm = "o_norm";
  bool one_mlp_matrix = false;
};

void list_layer(const ModelConfig& config, const LinearNames& names, ParameterList& list) {
  const LinearMixer& mixer = *config.linear;
  const LinearColumns columns(mixer);
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  const std::int64_t heads = mixer.heads;
  using W = LayerWeights;
  list.add(config.norm_first ? "attn.norm.weight" : "attn_norm.weight", {hidden}, &W::attention_norm);
  const auto project = [&](std::string_view name, std::int64_t rows, std::int64_t column) {
    list.add(fmt::format("attn.{}_proj.weight", name), {rows, hidden}, &W::projection, column * hidden);
  };
  const auto mix = [&](std::string_view name, std::int64_t rows, std::int64_t column) {
    project(name, rows, column);
    if (mixer.convolution == 0) return;
    list.add(fmt::format("attn.{}_conv1d.weight", name), {rows, 1, mixer.convolution}, &W::convolution,
             (column - columns.convolved) * mixer.convolution);
  };
  mix("q", mixer.query_size(), columns.query);
  mix(names.key, mixer.key_size(), columns.key);
  mix(names.value, mixer.value_size(), columns.value);
  if (mixer.gate != LinearGate::none) project("g", mixer.output_size(), 0);
  if (mixer.beta != LinearBeta::one) project("b", heads, columns.beta);
  if (mixer.decay == LinearDecay::rate) {
    project("a", heads, columns.decay);
    list.add("attn.A_log", {heads}, &W::decay_rate);
    list.add("attn.dt_bias", {heads}, &W::decay_bias);
  } else if (mixer.decay == LinearDecay::low_rank) {
    list.add("attn.gk_proj.0.weight", {mixer.decay_rank, hidden}, &W::projection, columns.decay * hidden);
    list.add("attn.gk_proj.1.weight", {mixer.key_size(), mixer.decay_rank}, &W::decay_up);
    list.add("attn.gk_proj.1.bias", {mixer.key_size()}, &W::decay_bias);
  }
  list.add("attn." + names.norm + ".weight", {mixer.norm_size}, &W::output_norm);
  list.add("attn.o_proj.weight", {hidden, mixer.output_size()}, &W::output);
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
    list_layer(config, names, list);
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

}  // namespace

const ModelFamily kHgrn2Baseline = {"hgrn2-project_fox", "HGRN2", "model.", read_hgrn2_baseline, list_hgrn2_baseline};
const ModelFamily kHgrn2 = {"hgrn2", "HGRN2", "model.", read_fla_hgrn2, list_fla_hgrn2};
const ModelFamily kGla = {"gla", "GLA", "model.", read_gla, list_gla};
const ModelFamily kDeltaNetBaseline = {"delta_net-project_fox", "DeltaNet", "model.", read_delta_net_baseline,
                                       list_delta_net_baseline};
const ModelFamily kDeltaNet = {"delta_net", "DeltaNet", "model.", read_fla_delta_net, list_fla_delta_net};
const ModelFamily kGatedDeltaNet = {"gated_deltanet", "Gated DeltaNet", "model.", read_gated_deltanet,
                                    list_fla_delta_net};

}  // namespace foxscope::family

// The Forgetting Transformer and its Transformer baseline as the authors publish them (Lin et al. 2025), and as the FLA
// library writes them; as that library writes it, PaTH attention with a forget gate or without (Yang et al. 2025).
#include "backend/model/spec/families/fox.h"

#include <array>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace foxscope::family {
namespace {

/// Keys of training alone, of how a kernel is to be called, and of the Python that a checkpoint brings, which is its
/// authors' here: transformers has no such models.
constexpr auto kOfFoxTraining = std::to_array<std::string_view>({"fuse_*", "use_l2warp", "auto_map"});
/// Keys of the authors' configurations alone. The bias is one that their layers never have.
constexpr auto kOfAuthors =
    std::to_array<std::string_view>({"fgate_bias_init", "decay_time_min", "decay_time_max", "attention_bias"});

void refuse_fox_rest(const ConfigKeys& keys, bool authors) {
  std::vector<std::string_view> harmless(kOfFoxTraining.begin(), kOfFoxTraining.end());
  if (authors) harmless.insert(harmless.end(), kOfAuthors.begin(), kOfAuthors.end());
  harmless.insert(harmless.end(), harmless_keys().begin(), harmless_keys().end());
  keys.refuse_others(harmless);
}

void read_fox_sizes(const ConfigKeys& keys, ModelConfig& config) {
  read_sizes(keys, {.heads = "num_heads", .key_heads = "num_kv_heads", .head_dim = nullptr}, config);
  read_swiglu_width(keys, config);
}

/// Reads the keys about what is around attention.
void read_around_attention(const ConfigKeys& keys, ModelConfig& config) {
  config.norm_epsilon = keys.number("norm_eps", 0.0, 1.0, 1e-6);
  config.tie_word_embeddings = keys.flag("tie_word_embeddings", false);
  read_bos(keys, config);
  const std::string activation = keys.word("hidden_act", "swish");
  if (activation != "swish" && activation != "silu") keys.fail("hidden_act", "\"swish\" (or \"silu\")");
  if (!keys.flag("elementwise_affine", true)) {
    keys.fail("elementwise_affine", "true: norms without weights are not read");
  }
}

/// Reads the keys that all families of FoX have.
void read_common(const ConfigKeys& keys, ModelConfig& config) {
  read_fox_sizes(keys, config);
  read_around_attention(keys, config);
  config.output_gate = keys.flag("use_output_gate", false);
  if (keys.flag("qk_norm", false)) config.query_key_norm = QueryKeyNorm::per_head;
}

void read_project_fox(const ConfigKeys& keys, bool rope, ModelConfig& config) {
  read_common(keys, config);
  const bool turns = keys.flag("use_rope", rope);
  const double base = keys.number("rope_base", 1.0, 1e15, 500000.0);
  if (turns && config.head_dim % 2 != 0) {
    keys.fail("use_rope", fmt::format("false where the head dimension is odd, and it is {}", config.head_dim));
  }
  if (turns) config.use_rotary({.base = base, .dim = config.head_dim});
  const bool shared = keys.flag("qk_norm_share_param_across_head", false);
  if (config.query_key_norm != QueryKeyNorm::none) {
    // Checkpoints older than this key share the weight without saying so.
    config.query_key_norm_by_shape = !keys.has("qk_norm_share_param_across_head");
    if (shared) config.query_key_norm = QueryKeyNorm::shared;
  }
  config.use_window(keys.integer("window_size", 1, std::numeric_limits<std::int32_t>::max(), 0));
}

ForgetGate read_forget_gate(const ConfigKeys& keys) {
  const std::string type = keys.word("fgate_type", "full");
  if (type == "full") return ForgetGate::full;
  if (type == "bias_only") return ForgetGate::bias_only;
  if (type == "fixed") return ForgetGate::fixed;
  if (type == "none") return ForgetGate::none;
  keys.fail("fgate_type", "\"full\", \"bias_only\", \"fixed\" or \"none\"");
}

void read_fox(const ConfigKeys& keys, ModelConfig& config) {
  read_project_fox(keys, /*rope=*/false, config);
  config.forget_gate = read_forget_gate(keys);
  config.key_shift = keys.flag("use_k_shift", false);
  config.value_shift = keys.flag("use_v_shift", false);
  config.output_norm = keys.flag("use_output_norm", false);
  const std::string activation = keys.word("ogate_act", "sigmoid");
  if (activation != "sigmoid" && activation != "silu") keys.fail("ogate_act", "\"sigmoid\" or \"silu\"");
  if (activation == "silu") config.output_gate_activation = OutputGateActivation::silu;
  if (keys.has("log_pruning_tolerance")) {
    constexpr double kLargest = std::numeric_limits<double>::max();
    config.log_pruning_tolerance = keys.number("log_pruning_tolerance", -kLargest, kLargest, 0);
  }
  refuse_fox_rest(keys, /*authors=*/true);
}

void read_transformer(const ConfigKeys& keys, ModelConfig& config) {
  read_project_fox(keys, /*rope=*/true, config);
  config.forget_gate = ForgetGate::none;
  refuse_fox_rest(keys, /*authors=*/true);
}

void read_fla(const ConfigKeys& keys, ModelConfig& config) {
  read_common(keys, config);
  config.query_key_value_bias = keys.flag("qkv_bias", false);
  if (keys.has("attnres_block_size")) keys.refuse("attnres_block_size", "null");
  config.query_key_norm_by_shape = config.query_key_norm != QueryKeyNorm::none;
  if (keys.has("window_size")) {
    const std::int64_t window = keys.integer("window_size", 1, std::numeric_limits<std::int32_t>::max());
    config.notes.push_back(fmt::format(
        "config.json sets window_size {}, which the FLA library's forward does not apply: neither does this run",
        window));
  }
  refuse_fox_rest(keys, /*authors=*/false);
}

/// PaTH attention. FLA's layer has a norm of queries and keys that its model never asks for.
void read_path(const ConfigKeys& keys, ModelConfig& config) {
  constexpr int kHeads = 32;
  constexpr int kRank = 32;
  constexpr int kTaps = 3;
  read_sizes(keys, {.heads = "num_heads", .key_heads = "num_kv_heads", .head_dim = nullptr, .heads_otherwise = kHeads},
             config);
  read_swiglu_width(keys, config);
  read_around_attention(keys, config);
  config.path.emplace();
  if (keys.flag("use_low_rank_w", true)) config.path->rank = kRank;
  if (keys.flag("use_w_shortconv", true)) config.path->taps = kTaps;
  config.forget_gate = keys.flag("use_forget_gate", false) ? ForgetGate::full : ForgetGate::none;
  // Logits and gates are scaled together.
  if (config.gated()) config.log_gate_factor = softmax_scale<double>(config.head_dim);
  if (keys.has("attnres_block_size")) keys.refuse("attnres_block_size", "null");
  if (keys.flag("use_qk_norm", false)) keys.refuse("use_qk_norm", "false");
  refuse_fox_rest(keys, /*authors=*/false);
}

/// The names that differ between the libraries.
struct FoxNames {
  const char* forget;
  const char* output_gate;
  bool one_matrix;  ///< gate and up of the MLP lie in one
};

/// Lists the tensors that pass keys on.
void list_path_directions(const ModelConfig& config, ParameterList& list) {
  const PathDirections& path = *config.path;
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t keys = config.key_size();
  const ProjectionColumns columns(config);
  using W = LayerWeights;
  if (path.rank > 0) {
    list.add("attn.w_proj.0.weight", {path.rank, hidden}, &W::projection, columns.path * hidden);
    list.add("attn.w_proj.1.weight", {keys, path.rank}, &W::path_up);
  } else {
    list.add("attn.w_proj.weight", {keys, hidden}, &W::projection, columns.path * hidden);
  }
  if (path.taps > 0) list.add("attn.w_conv1d.weight", {keys, 1, path.taps}, &W::convolution);
  list.add("attn.bt_proj.weight", {config.key_heads, hidden}, &W::projection, columns.path_beta * hidden);
  list.add("attn.bt_proj.bias", {config.key_heads}, &W::projection_bias, columns.path_beta);
}

void list_fox_like(const ModelConfig& config, const FoxNames& names, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t queries = config.query_size();
  const std::int64_t keys = config.key_size();
  const std::int64_t inner = config.intermediate_size;
  const ProjectionColumns columns(config);
  using W = LayerWeights;
  list.add("embeddings.weight", {config.vocabulary_size, hidden}, &ModelWeights::embedding);
  for (int layer = 0; layer < config.layers; ++layer) {
    list.begin_layer(layer, fmt::format("layers.{}.", layer));
    list.add("attn_norm.weight", {hidden}, &W::attention_norm);
    const auto project = [&](const std::string& name, std::int64_t rows, std::int64_t column) {
      list.add("attn." + name + ".weight", {rows, hidden}, &W::projection, column * hidden);
    };
    const auto add_bias = [&](const std::string& name, std::int64_t rows, std::int64_t column) {
      list.add("attn." + name + ".bias", {rows}, &W::projection_bias, column);
    };
    project("q_proj", queries, 0);
    project(config.key_shift ? "k_proj.linear" : "k_proj", keys, columns.key);
    if (config.key_shift) project("k_proj.shift_proj", config.key_heads, columns.key_shift);
    project(config.value_shift ? "v_proj.linear" : "v_proj", keys, columns.value);
    if (config.value_shift) project("v_proj.shift_proj", config.key_heads, columns.value_shift);
    if (config.query_key_value_bias) {
      add_bias("q_proj", queries, 0);
      add_bias("k_proj", keys, columns.key);
      add_bias("v_proj", keys, columns.value);
    }
    if (config.query_key_norm != QueryKeyNorm::none) {
      const bool shared = config.query_key_norm == QueryKeyNorm::shared;
      const auto layout = shared ? ParameterLayout::every_head : ParameterLayout::rows;
      list.add("attn.q_norm.weight", {shared ? config.head_dim : queries}, &W::query_norm, 0, layout);
      list.add("attn.k_norm.weight", {shared ? config.head_dim : keys}, &W::key_norm, 0, layout);
    }
    if (config.forget_gate == ForgetGate::full) {
      project(names.forget, config.heads, columns.forget);
      add_bias(names.forget, config.heads, columns.forget);
    } else if (config.gated()) {
      list.add("attn.fgate_bias", {config.heads}, &W::constant_gate);
    }
    if (config.path) list_path_directions(config, list);
    if (config.output_gate) {
      list.add(fmt::format("attn.{}.weight", names.output_gate), {queries, hidden}, &W::output_gate);
    }
    if (config.output_norm) list.add("attn.output_norm.weight", {queries}, &W::output_norm);
    list.add("attn.o_proj.weight", {hidden, queries}, &W::output);
    list.add("mlp_norm.weight", {hidden}, &W::mlp_norm);
    list.add("mlp.gate_proj.weight", {names.one_matrix ? 2 * inner : inner, hidden}, &W::mlp_in);
    if (!names.one_matrix) list.add("mlp.up_proj.weight", {inner, hidden}, &W::mlp_in, inner * hidden);
    list.add("mlp.down_proj.weight", {hidden, inner}, &W::mlp_out);
  }
  list.add("norm.weight", {hidden}, &ModelWeights::final_norm);
  list.add_head();
}

void list_project_fox(const ModelConfig& config, ParameterList& list) {
  list_fox_like(config, {"fgate_proj", "ogate_proj", true}, list);
}

void list_fla(const ModelConfig& config, ParameterList& list) {
  list_fox_like(config, {"f_proj", "g_proj", false}, list);
}

void list_path(const ModelConfig& config, ParameterList& list) {
  list_fox_like(config, {"g_proj", nullptr, false}, list);
}

}  // namespace

const ModelFamily kFox = {"forgetting_transformer-project_fox", "", "model.", read_fox, list_project_fox};
const ModelFamily kTransformer = {"transformer-project_fox", "", "model.", read_transformer, list_project_fox};
const ModelFamily kFlaFox = {"forgetting_transformer", "FoX of the FLA library", "model.", read_fla, list_fla};
const ModelFamily kPath = {"path_attn", "PaTH and PaTH-FoX", "model.", read_path, list_path};

}  // namespace foxscope::family

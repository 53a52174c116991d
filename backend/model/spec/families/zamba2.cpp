// Zamba2 (Glorioso et al. 2024, arXiv:2411.15242) as transformers writes it: layers of Mamba-2, before some of which
// stands one of a few transformers that these layers share, with adapters of their own.
#include "backend/model/spec/families/zamba2.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/index.h"
#include "backend/model/spec/families/mamba2.h"

namespace foxscope::family {
namespace {

constexpr Mamba2Keys kZambaKeys = {.heads = "n_mamba_heads",
                                   .head_dim = "mamba_headdim",
                                   .state = "mamba_d_state",
                                   .groups = "mamba_ngroups",
                                   .taps = "mamba_d_conv",
                                   .convolution_bias = nullptr,
                                   .bias = "add_bias_linear",
                                   .expand = "mamba_expand",
                                   .lowest = "time_step_min",
                                   .heads_otherwise = 8,
                                   .head_dim_otherwise = 0,
                                   .state_otherwise = 64,
                                   .groups_otherwise = 1};

void read_zamba_sizes(const ConfigKeys& keys, ModelConfig& config) {
  read_sizes(keys, {.head_dim = nullptr}, config);
  const std::int64_t read = 2 * config.hidden_size;
  config.head_dim *= 2;
  if (keys.integer("attention_head_dim", 1, kMaxHidden, config.head_dim) != config.head_dim) {
    keys.fail("attention_head_dim",
              fmt::format("2 hidden_size / num_attention_heads {}, {}", config.heads, config.head_dim));
  }
  if (keys.integer("attention_hidden_size", 1, kMaxHidden, read) != read) {
    keys.fail("attention_hidden_size", fmt::format("2 hidden_size, {}", read));
  }
  if (config.head_dim > kMaxHeadDim) {
    keys.fail("num_attention_heads", fmt::format("such that heads have at most {} numbers", kMaxHeadDim));
  }
  constexpr std::int64_t kRatio = 4;
  config.intermediate_size = keys.integer("intermediate_size", 1, kMaxIntermediate, kRatio * config.hidden_size);
}

void read_zamba_activation(const ConfigKeys& keys, ModelConfig& config) {
  const std::string activation = keys.word("hidden_act", "gelu");
  if (activation == "gelu") {
    config.mlp = MlpKind::geglu_erf;
  } else if (activation == "gelu_pytorch_tanh" || activation == "gelu_new") {
    config.mlp = MlpKind::geglu;
  } else if (activation == "silu" || activation == "swish") {
    config.mlp = MlpKind::swiglu;
  } else {
    keys.refuse("hidden_act", R"("gelu", "gelu_pytorch_tanh" and "silu")");
  }
  if (!keys.flag("gated_linear_unit", true)) keys.refuse("gated_linear_unit", "true");
}

/// Which layers of the file are hybrid.
std::vector<bool> read_block_types(const ConfigKeys& keys, int layers) {
  const char* const key = keys.either("layers_block_type", "layer_types");
  const std::string words = fmt::format("\"linear_attention\" or \"hybrid\" for each of {} layers", layers);
  std::vector<bool> hybrid(index_of(layers));
  if (!keys.has(key)) {
    // The first model had 54 layers, and these were hybrid.
    constexpr int kLayers = 54;
    if (layers != kLayers) keys.fail(key, words);
    for (const int layer : {6, 12, 18, 24, 30, 36, 42, 47, 51}) hybrid[index_of(layer)] = true;
  } else {
    const nlohmann::json& types = keys.value(key);
    const auto known = [](const nlohmann::json& type) {
      return type == "linear_attention" || type == "mamba" || type == "hybrid";
    };
    if (!types.is_array() || std::ssize(types) != layers || !std::all_of(types.begin(), types.end(), known)) {
      keys.fail(key, words);
    }
    std::transform(types.begin(), types.end(), hybrid.begin(), [](const auto& type) { return type == "hybrid"; });
  }
  if (!keys.has("hybrid_layer_ids")) return hybrid;
  nlohmann::json said = nlohmann::json::array();
  for (int layer = 0; layer < layers; ++layer) {
    if (hybrid[index_of(layer)]) said.push_back(layer);
  }
  if (keys.value("hybrid_layer_ids") != said) {
    keys.fail("hybrid_layer_ids", fmt::format("the hybrid layers of {}, {}", key, said.dump()));
  }
  return hybrid;
}

void read_zamba_rotary(const ConfigKeys& keys, ModelConfig& config) {
  // Older code of the family scales the base of its rotary embedding then, transformers 5 does not.
  if (keys.flag("use_long_context", false)) keys.refuse("use_long_context", "false");
  if (!keys.flag("use_mem_rope", false)) {
    // Heads do not turn, whatever these say.
    for (const char* key : {"rope_theta", "rope_scaling", "rope_parameters"}) static_cast<void>(keys.has(key));
    return;
  }
  read_rotary(keys, {.otherwise = {}}, config);
}

/// A hybrid layer is two here: its transformer, which stands beside the stream, and Mamba-2.
void read_zamba2(const ConfigKeys& keys, ModelConfig& config) {
  read_zamba_sizes(keys, config);
  config.norm_epsilon = keys.number("rms_norm_eps", 0.0, 1.0, 1e-5);
  config.tie_word_embeddings = keys.flag("tie_word_embeddings", true);
  config.forget_gate = ForgetGate::none;
  read_bos(keys, config);
  read_zamba_activation(keys, config);
  read_mamba2_mixer(keys, kZambaKeys, config);
  config.mlp_bias = config.linear->projection_bias;
  config.linear->norm_epsilon = 1e-5;  // whatever the others' is
  read_zamba_rotary(keys, config);
  // Logits are q.k / sqrt(head_dim / 2).
  config.query_factor = std::sqrt(2.0);
  const std::vector<bool> hybrid = read_block_types(keys, config.layers);
  const AttentionLayer attention = config.attention.front();
  for (const bool both : hybrid) {
    if (both) config.mixers.push_back(Mixer::attention);
    config.mixers.push_back(Mixer::mamba2);
  }
  const auto hybrids = static_cast<int>(std::ranges::count(hybrid, true));
  config.layers += hybrids;
  config.attention.assign(index_of(config.layers), attention);
  config.side_attention = hybrids > 0;
  config.shared_blocks = static_cast<int>(keys.integer("num_mem_blocks", 1, kMaxLayers, 1));
  config.adapter_rank = static_cast<int>(keys.integer("adapter_rank", 1, kMaxHidden, 128));
  config.attention_adapters = keys.flag("use_shared_attention_adapter", false);
  if (config.attention_adapters && config.key_heads != config.heads) {
    keys.refuse("use_shared_attention_adapter", "false where num_key_value_heads is not num_attention_heads");
  }
  if (hybrids == 0) {
    config.attention.clear();
    config.rotaries.clear();
    config.query_factor = 1;
    config.intermediate_size = 0;
    use_linear_mixer_alone(config);
  }
  // The file has them, and the library's model reads none.
  for (const char* key : {"use_conv_bias", "use_shared_mlp_adapter", "kv_channels", "num_query_groups",
                          "ffn_hidden_size", "attention_dropout"}) {
    static_cast<void>(keys.has(key));
  }
  refuse_mamba2_rest(keys);
}

/// The transformer before a hybrid layer: weights of the block that it shares, and adapters of its own.
/// @param number  of the hybrid layer among them
/// @param owner   the file's layer that holds the block
void list_shared_block(const ModelConfig& config, int layer, int number, int owner, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t read = config.input_size(layer);
  const std::int64_t inner = config.intermediate_size;
  const std::int64_t rank = config.adapter_rank;
  const ProjectionColumns columns(config);
  using W = LayerWeights;
  list.begin_layer(layer, fmt::format("layers.{}.shared_transformer.", owner));
  list.add("input_layernorm.weight", {read}, &W::attention_norm);
  const auto project = [&](const char* part, std::int64_t rows, std::int64_t column, std::int64_t which) {
    list.add(fmt::format("self_attn.{}_proj.weight", part), {rows, read}, &W::projection, column * read);
    if (!config.attention_adapters) return;
    const std::string adapter = fmt::format("self_attn.linear_{}_adapter_list.{}.", part, number);
    list.add(adapter + "0.weight", {rank, read}, &W::projection_down, which * rank * read);
    list.add(adapter + "1.weight", {rows, rank}, &W::projection_up, column * rank);
  };
  project("q", config.query_size(), 0, 0);
  project("k", config.key_size(), columns.key, 1);
  project("v", config.key_size(), columns.value, 2);
  list.add("self_attn.o_proj.weight", {hidden, config.query_size()}, &W::output);
  list.add("pre_ff_layernorm.weight", {hidden}, &W::mlp_norm);
  list.add("feed_forward.gate_up_proj.weight", {2 * inner, hidden}, &W::mlp_in);
  list.add("feed_forward.down_proj.weight", {hidden, inner}, &W::mlp_out);
  if (config.mlp_bias) {
    list.add("feed_forward.gate_up_proj.bias", {2 * inner}, &W::mlp_in_bias);
    list.add("feed_forward.down_proj.bias", {hidden}, &W::mlp_out_bias);
  }
  const std::string adapter = fmt::format("feed_forward.gate_up_proj_adapter_list.{}.", number);
  list.add(adapter + "0.weight", {rank, hidden}, &W::mlp_in_down);
  list.add(adapter + "1.weight", {2 * inner, rank}, &W::mlp_in_up);
}

void list_zamba2(const ModelConfig& config, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  using W = LayerWeights;
  list.add("embed_tokens.weight", {config.vocabulary_size, hidden}, &ModelWeights::embedding);
  std::vector<int> hybrids;  // of the file's layers, so far
  for (int layer = 0; layer < config.layers; ++layer) {
    const int of_file = config.layer_of_file(layer);
    std::string name = fmt::format("layers.{}.", of_file);
    if (config.is_aside(layer)) {
      const auto number = static_cast<int>(hybrids.size());
      hybrids.push_back(of_file);
      list_shared_block(config, layer, number, hybrids[index_of(number % config.shared_blocks)], list);
      list.begin_layer(layer, name);
      list.add("linear.weight", {hidden, hidden}, &W::side_output);
      continue;
    }
    if (config.reads_with_previous(layer)) name += "mamba_decoder.";
    list.begin_layer(layer, name);
    list.add("input_layernorm.weight", {hidden}, &W::attention_norm);
    list_mamba2_mixer(config, "mamba.", {}, list);
  }
  list.add("final_layernorm.weight", {hidden}, &ModelWeights::final_norm);
  list.add_head();
}

}  // namespace

const ModelFamily kZamba2 = {"zamba2", "Zamba2", "model.", read_zamba2, list_zamba2};

}  // namespace foxscope::family

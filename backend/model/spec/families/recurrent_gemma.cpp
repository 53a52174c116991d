// RecurrentGemma (De et al. 2024): layers of RG-LRU, whose channels are heads, and of attention in a window. Norms hold
// what is beyond 1.
#include "backend/model/spec/families/recurrent_gemma.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace foxscope::family {
namespace {

constexpr std::int64_t kMostWindow = std::int64_t{1} << 31U;
constexpr std::int64_t kMostTapsOfGemma = 64;
constexpr double kMostGemmaCap = 1e6;

/// A number as bfloat16 has it, by the nearest one with an even last bit.
double rounded_to_bfloat16(double number) {
  auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(number));
  bits += 0x7FFFU + ((bits >> 16U) & 1U);
  return static_cast<double>(std::bit_cast<float>(bits & 0xFFFF0000U));
}

/// The kinds of layers, of which the list is gone through again and again.
void read_blocks(const ConfigKeys& keys, ModelConfig& config) {
  static_cast<void>(keys.has("_block_types"));
  nlohmann::json blocks = {"recurrent", "recurrent", "attention"};
  if (keys.has("block_types")) blocks = keys.value("block_types");
  const auto known = [](const nlohmann::json& block) { return block == "recurrent" || block == "attention"; };
  if (!blocks.is_array() || blocks.empty() || !std::all_of(blocks.begin(), blocks.end(), known)) {
    keys.fail("block_types", "a list of \"recurrent\" and \"attention\"");
  }
  for (int layer = 0; layer < config.layers; ++layer) {
    const bool recurs = blocks[index_of(layer) % blocks.size()] == "recurrent";
    config.mixers.push_back(recurs ? Mixer::mamba : Mixer::attention);
  }
}

void read_recurrence(const ConfigKeys& keys, ModelConfig& config) {
  LinearMixer mixer;
  mixer.kind = Mixer::mamba;
  mixer.heads = mixer.value_heads = static_cast<int>(keys.integer("lru_width", 1, kMaxHidden, config.hidden_size));
  if (mixer.heads % config.heads != 0) {
    keys.fail("lru_width", fmt::format("a multiple of num_attention_heads {}, the blocks of its gates", config.heads));
  }
  mixer.gate_blocks = config.heads;
  mixer.query_heads = mixer.key_heads = 1;
  mixer.key_dim = mixer.value_dim = 1;
  mixer.convolution = static_cast<int>(keys.integer("conv1d_width", 1, kMostTapsOfGemma, 4));
  mixer.convolution_bias = mixer.projection_bias = mixer.output_bias = true;
  mixer.decay = LinearDecay::recurrent_gate;
  mixer.beta = LinearBeta::complement;
  mixer.gate = LinearGate::before_norm;
  mixer.gate_activation = LinearActivation::gelu_tanh;
  config.linear = mixer;
}

void read_recurrent_gemma(const ConfigKeys& keys, ModelConfig& config) {
  constexpr double kTurningShare = 0.5;
  read_sizes(keys, {}, config);
  const std::int64_t both = keys.integer("intermediate_size", 2, kMaxIntermediate);
  if (both % 2 != 0) keys.fail("intermediate_size", "even: the MLP has half of it");
  config.intermediate_size = both / 2;
  config.mlp_bias = true;
  config.norm_epsilon = keys.number("rms_norm_eps", 0.0, 1.0, 1e-6);
  config.tie_word_embeddings = keys.flag("tie_word_embeddings", true);
  config.forget_gate = ForgetGate::none;
  read_bos(keys, config);
  if (keys.word("hidden_activation", "gelu_pytorch_tanh") != "gelu_pytorch_tanh") {
    keys.refuse("hidden_activation", "\"gelu_pytorch_tanh\"");
  }
  config.mlp = MlpKind::geglu;
  config.embedding_factor = rounded_to_bfloat16(std::sqrt(static_cast<double>(config.hidden_size)));
  config.logit_cap = keys.is_null("logits_soft_cap") ? 0 : keys.number("logits_soft_cap", 1e-6, kMostGemmaCap, 30);
  config.query_key_value_bias = keys.flag("attention_bias", false);
  config.output_bias = true;
  read_rotary(keys, {.fraction = "partial_rotary_factor", .otherwise = kTurningShare}, config);
  config.use_window(keys.integer("attention_window_size", 1, kMostWindow, 2048));
  read_recurrence(keys, config);
  read_blocks(keys, config);
  if (!config.attends()) {
    config.rotaries.clear();
    config.attention.clear();
    config.query_key_value_bias = config.output_bias = false;
    use_linear_mixer_alone(config);
  }
  // Untrained weights are drawn by these.
  static_cast<void>(keys.has("w_init_variance_scale"));
  static_cast<void>(keys.has("final_w_init_variance_scale"));
  keys.refuse_others(harmless_keys());
}

void list_recurrence(const ModelConfig& config, ParameterList& list) {
  const LinearMixer& mixer = *config.linear;
  const LinearColumns columns(mixer);
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t width = mixer.heads;
  const std::int64_t blocks = mixer.gate_blocks;
  const std::int64_t block = width / blocks;
  using W = LayerWeights;
  list.add("temporal_block.linear_y.weight", {width, hidden}, &W::projection);
  list.add("temporal_block.linear_y.bias", {width}, &W::projection_bias);
  list.add("temporal_block.linear_x.weight", {width, hidden}, &W::projection, columns.value * hidden);
  list.add("temporal_block.linear_x.bias", {width}, &W::projection_bias, columns.value);
  list.add("temporal_block.conv_1d.weight", {width, 1, mixer.convolution}, &W::convolution);
  list.add("temporal_block.conv_1d.bias", {width}, &W::convolution_bias);
  list.add("temporal_block.rg_lru.recurrent_gate_weight", {blocks, block, block}, &W::x_proj);
  list.add("temporal_block.rg_lru.recurrent_gate_bias", {blocks, block}, &W::x_proj_bias);
  list.add("temporal_block.rg_lru.input_gate_weight", {blocks, block, block}, &W::x_proj, width * block);
  list.add("temporal_block.rg_lru.input_gate_bias", {blocks, block}, &W::x_proj_bias, width);
  list.add("temporal_block.rg_lru.recurrent_param", {width}, &W::decay_rate);
  list.add("temporal_block.linear_out.weight", {hidden, width}, &W::output);
  list.add("temporal_block.linear_out.bias", {hidden}, &W::output_bias);
}

void list_windowed_attention(const ModelConfig& config, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const ProjectionColumns columns(config);
  using W = LayerWeights;
  const auto project = [&](const char* part, std::int64_t rows, std::int64_t column) {
    list.add(fmt::format("temporal_block.{}_proj.weight", part), {rows, hidden}, &W::projection, column * hidden);
    if (!config.query_key_value_bias) return;
    list.add(fmt::format("temporal_block.{}_proj.bias", part), {rows}, &W::projection_bias, column);
  };
  project("q", config.query_size(), 0);
  project("k", config.key_size(), columns.key);
  project("v", config.key_size(), columns.value);
  list.add("temporal_block.o_proj.weight", {hidden, config.query_size()}, &W::output);
  list.add("temporal_block.o_proj.bias", {hidden}, &W::output_bias);
}

void list_recurrent_gemma(const ModelConfig& config, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  using W = LayerWeights;
  list.add("embed_tokens.weight", {config.vocabulary_size, hidden}, &ModelWeights::embedding);
  for (int layer = 0; layer < config.layers; ++layer) {
    list.begin_layer(layer, fmt::format("layers.{}.", layer));
    list.add("temporal_pre_norm.weight", {hidden}, &W::attention_norm);
    list.zero_centered();
    config.is_attention(layer) ? list_windowed_attention(config, list) : list_recurrence(config, list);
    list.add("channel_pre_norm.weight", {hidden}, &W::mlp_norm);
    list.zero_centered();
    list.add("mlp_block.gate_proj.weight", {inner, hidden}, &W::mlp_in);
    list.add("mlp_block.gate_proj.bias", {inner}, &W::mlp_in_bias);
    list.add("mlp_block.up_proj.weight", {inner, hidden}, &W::mlp_in, inner * hidden);
    list.add("mlp_block.up_proj.bias", {inner}, &W::mlp_in_bias, inner);
    list.add("mlp_block.down_proj.weight", {hidden, inner}, &W::mlp_out);
    list.add("mlp_block.down_proj.bias", {hidden}, &W::mlp_out_bias);
  }
  list.add("final_norm.weight", {hidden}, &ModelWeights::final_norm);
  list.zero_centered();
  list.add_head();
}

}  // namespace

const ModelFamily kRecurrentGemma = {"recurrent_gemma", "RecurrentGemma", "model.", read_recurrent_gemma,
                                     list_recurrent_gemma};

}  // namespace foxscope::family

// Llama, and the families that write a layer as it does: Mistral, Mixtral, Ministral, SmolLM3, Qwen 2, Qwen 3,
// Qwen 3.5, Qwen3-Next.
#include "backend/model/spec/families/llama.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/model/spec/families/experts.h"

namespace foxscope::family {
namespace {

void refuse_rest(const ConfigKeys& keys) {
  // Slices of matrices that are multiplied one after the other give the same up to rounding.
  static_cast<void>(keys.has("pretraining_tp"));
  keys.refuse_others(harmless_keys());
}

/// Keys that have no part in the library's forward pass, whatever they say.
void drop(const ConfigKeys& keys, std::initializer_list<const char*> names) {
  for (const char* const name : names) static_cast<void>(keys.has(name));
}

void read_llama(const ConfigKeys& keys, ModelConfig& config) {
  read_llama_layers(keys, config);
  config.query_key_value_bias = config.output_bias = keys.flag("attention_bias", false);
  config.mlp_bias = keys.flag("mlp_bias", false);
  refuse_rest(keys);
}

void read_mistral(const ConfigKeys& keys, ModelConfig& config) {
  read_llama_layers(keys, config);
  config.use_window(read_window(keys));
  refuse_rest(keys);
}

void read_ministral3(const ConfigKeys& keys, ModelConfig& config) {
  constexpr int kHeadDimOtherwise = 128;
  if (!keys.has("rope_scaling") && !keys.has("rope_parameters")) {
    keys.fail("rope_parameters", "there: without it the family's own code stretches texts by a factor of 16");
  }
  read_llama_layers(keys, config, {.head_dim = kHeadDimOtherwise, .epsilon = 1e-5});
  config.use_window(read_window(keys, 0));
  refuse_rest(keys);
}

/// Mistral, of which some layers alone have the window.
void read_ministral(const ConfigKeys& keys, ModelConfig& config) {
  read_llama_layers(keys, config);
  const std::int64_t window = read_window(keys);
  read_windows(
      keys, window, [&](int /*layer*/) { return window > 0; }, config);
  refuse_rest(keys);
}

/// A window that layers have from max_window_layers on.
void read_qwen_window(const ConfigKeys& keys, ModelConfig& config) {
  const bool used = keys.flag("use_sliding_window", false);
  const std::int64_t said = read_window(keys);
  const std::int64_t window = used ? said : 0;
  const std::int64_t first = keys.integer("max_window_layers", 0, kMaxLayers, 28);
  read_windows(
      keys, window, [&](int layer) { return window > 0 && layer >= first; }, config);
}

void read_qwen2(const ConfigKeys& keys, ModelConfig& config) {
  read_llama_layers(keys, config);
  config.query_key_value_bias = true;
  read_qwen_window(keys, config);
  drop(keys, {"use_mrope"});
  refuse_rest(keys);
}

void read_qwen3(const ConfigKeys& keys, ModelConfig& config) {
  constexpr int kHeadDimOtherwise = 128;
  read_llama_layers(keys, config, {.head_dim = kHeadDimOtherwise});
  config.query_key_norm = QueryKeyNorm::shared;
  config.query_key_value_bias = config.output_bias = keys.flag("attention_bias", false);
  read_qwen_window(keys, config);
  drop(keys, {"use_mrope"});
  refuse_rest(keys);
}

/// SmolLM3: no_rope_layers says 1 of a layer whose heads turn, and 0 of one whose heads do not.
void read_turning_layers(const ConfigKeys& keys, ModelConfig& config) {
  const std::int64_t interval = keys.integer("no_rope_layer_interval", 1, kMaxLayers, 4);
  const bool said = keys.has("no_rope_layers");
  if (said) {
    const nlohmann::json& turns = keys.value("no_rope_layers");
    const auto known = [](const nlohmann::json& one) { return one == 0 || one == 1; };
    if (!turns.is_array() || std::ssize(turns) != config.layers || !std::all_of(turns.begin(), turns.end(), known)) {
      keys.fail("no_rope_layers", fmt::format("1 or 0 for each of {} layers", config.layers));
    }
  }
  for (int layer = 0; layer < config.layers; ++layer) {
    const bool turns = said ? keys.value("no_rope_layers")[index_of(layer)] == 1 : (layer + 1) % interval != 0;
    if (!turns) config.attention[index_of(layer)].rotary = -1;
  }
}

void read_smollm3(const ConfigKeys& keys, ModelConfig& config) {
  constexpr double kBaseOtherwise = 2e6;
  read_llama_layers(keys, config, {.base = kBaseOtherwise, .tied = true});
  config.query_key_value_bias = config.output_bias = keys.flag("attention_bias", false);
  config.mlp_bias = keys.flag("mlp_bias", false);
  read_turning_layers(keys, config);
  // layer_types decides alone; use_sliding_window counts where there is no such key.
  const std::int64_t window = keys.has("sliding_window") ? read_window(keys) : 0;
  const bool slides = keys.flag("use_sliding_window", false) && window > 0;
  read_windows(
      keys, window, [&](int layer) { return slides && config.rotary_at(layer) == nullptr; }, config);
  drop(keys, {"max_window_layers"});
  refuse_rest(keys);
}

/// The mixer of each layer: softmax attention or Gated DeltaNet.
std::vector<Mixer> read_layer_types(const ConfigKeys& keys, const ModelConfig& config) {
  const std::int64_t interval = keys.integer("full_attention_interval", 1, kMaxLayers, 4);
  if (auto said = read_mixer_words(keys, "layer_types", Mixer::delta_rule, config.layers)) return *std::move(said);
  std::vector<Mixer> mixers;
  for (int layer = 0; layer < config.layers; ++layer) {
    mixers.push_back((layer + 1) % interval == 0 ? Mixer::attention : Mixer::delta_rule);
  }
  return mixers;
}

/// Layers of Gated DeltaNet, and of attention whose output has a gate.
/// @param experts_alone  LlamaDefaults::experts_alone
void read_gated_layers(const ConfigKeys& keys, bool experts_alone, ModelConfig& config) {
  constexpr int kHeadDimOtherwise = 256;
  constexpr double kTurningShare = 0.25;
  read_llama_layers(keys, config,
                    {.head_dim = kHeadDimOtherwise,
                     .fraction = "partial_rotary_factor",
                     .turning = kTurningShare,
                     .experts_alone = experts_alone});
  config.query_key_norm = QueryKeyNorm::shared;
  // The output of attention has a gate whatever the key says, and what predicts further tokens is not run.
  drop(keys, {"attn_output_gate", "mamba_ssm_dtype", "mtp_num_hidden_layers", "mtp_use_dedicated_embeddings"});
  config.unread.push_back({"mtp.", "multi-token prediction"});
  if (keys.flag("attention_bias", false)) keys.refuse("attention_bias", "false");
  config.output_gate = true;
  LinearMixer mixer;
  mixer.kind = Mixer::delta_rule;
  mixer.query_heads = mixer.key_heads = static_cast<int>(keys.integer("linear_num_key_heads", 1, kMaxHidden, 16));
  mixer.heads = mixer.value_heads = static_cast<int>(keys.integer("linear_num_value_heads", 1, kMaxHidden, 32));
  if (mixer.heads % mixer.key_heads != 0) {
    keys.fail("linear_num_value_heads", fmt::format("a multiple of linear_num_key_heads {}", mixer.key_heads));
  }
  mixer.key_dim = static_cast<int>(keys.integer("linear_key_head_dim", 1, kMaxHeadDim, 128));
  mixer.value_dim = static_cast<int>(keys.integer("linear_value_head_dim", 1, kMaxHeadDim, 128));
  mixer.convolution = static_cast<int>(keys.integer("linear_conv_kernel_dim", 1, 64, 4));
  mixer.query_activation = mixer.key_activation = mixer.value_activation = LinearActivation::silu;
  mixer.query_norm = mixer.key_norm = LinearNorm::l2;
  mixer.query_factor = softmax_scale<double>(mixer.key_dim);
  mixer.decay = LinearDecay::rate;
  mixer.beta = LinearBeta::sigmoid;
  mixer.norm_size = mixer.value_dim;
  mixer.norm_epsilon = config.norm_epsilon;
  mixer.gate = LinearGate::after_norm;
  config.linear = mixer;
  config.mixers = read_layer_types(keys, config);
  if (std::ranges::none_of(config.mixers, [](Mixer kind) { return kind == Mixer::attention; })) {
    use_linear_mixer_alone(config);
  }
}

void read_qwen3_5(const ConfigKeys& keys, ModelConfig& config) {
  read_gated_layers(keys, /*experts_alone=*/false, config);
  drop(keys, {"mlp_only_layers"});  // of mixtures of experts, which this family has none of
  refuse_rest(keys);
}

/// An expert that all positions read, through a gate.
void read_shared_expert(const ConfigKeys& keys, ExpertMixture& mixture) {
  mixture.shared_size = keys.integer("shared_expert_intermediate_size", 1, kMaxIntermediate, 512);
  mixture.shared_gate = true;
}

/// Qwen 3.5 with a mixture of experts in every layer, whose weights are always divided by their sum.
void read_qwen3_5_moe(const ConfigKeys& keys, ModelConfig& config) {
  read_gated_layers(keys, /*experts_alone=*/true, config);
  ExpertMixture mixture;
  mixture.normalized = true;
  if (!keys.flag("norm_topk_prob", true)) keys.refuse("norm_topk_prob", "true");
  read_experts(keys, {.experts_otherwise = 256, .chosen_otherwise = 8}, mixture);
  read_shared_expert(keys, mixture);
  use_experts(
      mixture, [](int /*layer*/) { return true; }, config);
  drop(keys, {"intermediate_size", "mlp_only_layers"});
  refuse_rest(keys);
}

/// Which layers have an MLP in the place of a mixture of experts: those that mlp_only_layers names, and those that
/// decoder_sparse_step passes by; where there are no experts, all.
std::vector<bool> read_dense_layers(const ConfigKeys& keys, int layers, const char* of_experts, int experts_otherwise) {
  const std::int64_t step = keys.integer("decoder_sparse_step", 1, kMaxLayers, 1);
  const bool experts = keys.integer(of_experts, 0, kMaxHidden, experts_otherwise) > 0;
  std::vector<bool> dense;
  for (int layer = 0; layer < layers; ++layer) dense.push_back(!experts || (layer + 1) % step != 0);
  if (!keys.has("mlp_only_layers")) return dense;
  const nlohmann::json& named = keys.value("mlp_only_layers");
  const auto known = [](const nlohmann::json& one) { return one.is_number_integer(); };
  if (!named.is_array() || !std::all_of(named.begin(), named.end(), known)) {
    keys.fail("mlp_only_layers", "a list of numbers of layers");
  }
  for (int layer = 0; layer < layers; ++layer) {
    if (std::ranges::find(named, nlohmann::json(layer)) != named.end()) dense[index_of(layer)] = true;
  }
  return dense;
}

/// Experts of the layers that are not dense.
/// @param shared  whether all positions read one beside
void read_qwen_experts(const ConfigKeys& keys, int experts_otherwise, int chosen_otherwise, bool shared,
                       ModelConfig& config) {
  // Qwen 3 MoE's code has another name for it, by which transformers 5 saves it.
  const char* const of_experts = shared ? "num_experts" : keys.either("num_experts", "num_local_experts");
  const std::vector<bool> dense = read_dense_layers(keys, config.layers, of_experts, experts_otherwise);
  if (std::ranges::all_of(dense, [](bool one) { return one; })) {
    // Without experts these keys mean nothing.
    drop(keys, {"moe_intermediate_size", "shared_expert_intermediate_size", "num_experts_per_tok", "norm_topk_prob",
                "output_router_logits", "router_aux_loss_coef"});
    return;
  }
  ExpertMixture mixture;
  read_experts(keys,
               {.experts = of_experts,
                .experts_otherwise = experts_otherwise,
                .chosen_otherwise = chosen_otherwise,
                .normalized = "norm_topk_prob",
                .normalized_otherwise = shared},
               mixture);
  if (shared) read_shared_expert(keys, mixture);
  use_experts(
      mixture, [&](int layer) { return !dense[index_of(layer)]; }, config);
}

/// Reads what Qwen 3.5 has, in files that hold projections head by head, with experts in some layers.
void read_qwen3_next(const ConfigKeys& keys, ModelConfig& config) {
  read_gated_layers(keys, /*experts_alone=*/false, config);
  read_qwen_experts(keys, 512, 10, /*shared=*/true, config);
  drop(keys, {"use_sliding_window"});
  refuse_rest(keys);
}

/// Qwen 3 with experts in some layers.
void read_qwen3_moe(const ConfigKeys& keys, ModelConfig& config) {
  read_llama_layers(keys, config, {.key_heads = 4});
  config.query_key_norm = QueryKeyNorm::shared;
  config.query_key_value_bias = config.output_bias = keys.flag("attention_bias", false);
  config.use_window(keys.flag("use_sliding_window", false) ? read_window(keys) : 0);
  read_qwen_experts(keys, 128, 8, /*shared=*/false, config);
  drop(keys, {"sliding_window", "max_window_layers"});
  refuse_rest(keys);
}

/// Mistral with experts in every layer.
void read_mixtral(const ConfigKeys& keys, ModelConfig& config) {
  read_llama_layers(keys, config, {.key_heads = 8, .epsilon = 1e-5, .base = 1e6, .experts_alone = true});
  config.use_window(read_window(keys, 0));
  ExpertMixture mixture;
  mixture.normalized = true;
  read_experts(
      keys,
      {.experts = "num_local_experts", .experts_otherwise = 8, .chosen_otherwise = 2, .size = "intermediate_size"},
      mixture);
  use_experts(
      mixture, [](int /*layer*/) { return true; }, config);
  refuse_rest(keys);
}

void list_delta_layer(const ModelConfig& config, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const LinearMixer& mixer = *config.linear;
  const LinearColumns columns(mixer);
  using W = LayerWeights;
  const auto project = [&](const char* name, std::int64_t rows, std::int64_t column) {
    list.add(fmt::format("linear_attn.in_proj_{}.weight", name), {rows, hidden}, &W::projection, column * hidden);
  };
  if (config.family == &kQwen3Next) {
    list.add("linear_attn.in_proj_qkvz.weight", {columns.precise, hidden}, &W::projection, 0,
             ParameterLayout::qkvz_per_key_head);
    list.add("linear_attn.in_proj_ba.weight", {2 * mixer.heads, hidden}, &W::projection, columns.beta * hidden,
             ParameterLayout::ba_per_key_head);
  } else {
    project("qkv", columns.convolved_size(), columns.convolved);
    project("z", mixer.output_size(), 0);
    project("b", mixer.heads, columns.beta);
    project("a", mixer.heads, columns.decay);
  }
  list.add("linear_attn.conv1d.weight", {columns.convolved_size(), 1, mixer.convolution}, &W::convolution);
  list.add("linear_attn.A_log", {mixer.heads}, &W::decay_rate);
  list.add("linear_attn.dt_bias", {mixer.heads}, &W::decay_bias);
  list.add("linear_attn.norm.weight", {mixer.value_dim}, &W::output_norm);
  list.add("linear_attn.out_proj.weight", {hidden, mixer.output_size()}, &W::output);
}

void list_gated_attention(const ModelConfig& config, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const ProjectionColumns columns(config);
  using W = LayerWeights;
  const std::vector<std::int64_t> pairs = {2 * config.query_size(), hidden};
  list.add("self_attn.q_proj.weight", pairs, &W::projection, 0, ParameterLayout::query_of_pairs);
  list.add("self_attn.q_proj.weight", pairs, &W::output_gate, 0, ParameterLayout::gate_of_pairs);
  list.add("self_attn.k_proj.weight", {config.key_size(), hidden}, &W::projection, columns.key * hidden);
  list.add("self_attn.v_proj.weight", {config.key_size(), hidden}, &W::projection, columns.value * hidden);
  list.add("self_attn.q_norm.weight", {config.head_dim}, &W::query_norm, 0, ParameterLayout::every_head);
  list.zero_centered();
  list.add("self_attn.k_norm.weight", {config.head_dim}, &W::key_norm, 0, ParameterLayout::every_head);
  list.zero_centered();
  list.add("self_attn.o_proj.weight", {hidden, config.query_size()}, &W::output);
}

const ExpertNames kQwenExperts = {.shared = "mlp.shared_expert.", .shared_gate = "mlp.shared_expert_gate"};

/// Experts of Qwen 3.5 MoE: those of a layer are two tensors, gate and up one behind the other. transformers 5 saves
/// them one by one.
void list_fused_experts(const ModelConfig& config, ParameterList& list) {
  const ExpertMixture& mixture = *config.mixture;
  using W = LayerWeights;
  if (config.resaved) return list_experts(config, kQwenExperts, list);
  list_router(config, kQwenExperts, list);
  list.add("mlp.experts.gate_up_proj", {mixture.experts, 2 * mixture.size, config.hidden_size}, &W::experts_in);
  list.add("mlp.experts.down_proj", {mixture.experts, config.hidden_size, mixture.size}, &W::experts_out);
}

void list_qwen_experts(const ModelConfig& config, ParameterList& list) { list_experts(config, kQwenExperts, list); }

void list_qwen3_5(const ModelConfig& config, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  using W = LayerWeights;
  list.add("embed_tokens.weight", {config.vocabulary_size, hidden}, &ModelWeights::embedding);
  for (int layer = 0; layer < config.layers; ++layer) {
    list.begin_layer(layer, fmt::format("layers.{}.", layer));
    list.add("input_layernorm.weight", {hidden}, &W::attention_norm);
    list.zero_centered();
    if (config.is_linear(layer)) {
      list_delta_layer(config, list);
    } else {
      list_gated_attention(config, list);
    }
    list.add("post_attention_layernorm.weight", {hidden}, &W::mlp_norm);
    list.zero_centered();
    if (config.mixture_at(layer) != nullptr) {
      config.family == &kQwen3_5Moe ? list_fused_experts(config, list) : list_qwen_experts(config, list);
      continue;
    }
    list.add("mlp.gate_proj.weight", {inner, hidden}, &W::mlp_in);
    list.add("mlp.up_proj.weight", {inner, hidden}, &W::mlp_in, inner * hidden);
    list.add("mlp.down_proj.weight", {hidden, inner}, &W::mlp_out);
  }
  list.add("norm.weight", {hidden}, &ModelWeights::final_norm);
  list.zero_centered();
  list.add_head();
}

void list_llama(const ModelConfig& config, ParameterList& list) { list_llama_layers(config, {}, list); }

void list_qwen3_moe(const ModelConfig& config, ParameterList& list) {
  list_llama_layers(config, {.list_experts = list_qwen_experts}, list);
}

void list_mixtral_experts(const ModelConfig& config, ParameterList& list) {
  list_experts(config,
               {.router = "block_sparse_moe.gate",
                .expert = "block_sparse_moe.experts.{}.",
                .gate = "w1",
                .up = "w3",
                .down = "w2"},
               list);
}

void list_mixtral(const ModelConfig& config, ParameterList& list) {
  list_llama_layers(config, {.list_experts = list_mixtral_experts}, list);
}

/// Lists a vector of a norm.
void add_norm(const std::string& name, std::int64_t size, FloatArray LayerWeights::*weight, const LlamaLayout& layout,
              ParameterList& list, ParameterLayout order = ParameterLayout::rows) {
  list.add(name + ".weight", {size}, weight, 0, order);
  if (layout.zero_centered_norms) list.zero_centered();
}

void list_llama_projection(const ModelConfig& config, const LlamaLayout& layout, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const ProjectionColumns columns(config);
  using W = LayerWeights;
  struct Part {
    const char* name;
    std::int64_t rows;
    std::int64_t column;
    ParameterLayout order = ParameterLayout::rows;
  };
  const ParameterLayout turns = layout.turning_pairs ? ParameterLayout::turning_pairs : ParameterLayout::rows;
  std::vector<Part> parts = {{"q_proj", config.query_size(), 0, turns},
                             {"k_proj", config.key_size(), columns.key, turns},
                             {"v_proj", config.key_size(), columns.value}};
  if (layout.fused_attention) parts = {{"qkv_proj", config.query_size() + 2 * config.key_size(), 0}};
  for (const Part& part : parts) {
    const std::string of = fmt::format("self_attn.{}.", part.name);
    list.add(of + "weight", {part.rows, hidden}, &W::projection, part.column * hidden, part.order);
    if (!config.query_key_value_bias) continue;
    list.add(of + "bias", {part.rows}, &W::projection_bias, part.column, part.order);
  }
  if (config.query_key_norm == QueryKeyNorm::none) return;
  const bool whole = config.query_key_norm == QueryKeyNorm::whole;
  const ParameterLayout order = whole ? ParameterLayout::rows : ParameterLayout::every_head;
  add_norm("self_attn.q_norm", whole ? config.query_size() : config.head_dim, &W::query_norm, layout, list, order);
  add_norm("self_attn.k_norm", whole ? config.key_size() : config.head_dim, &W::key_norm, layout, list, order);
}

void list_llama_mlp(const ModelConfig& config, const LlamaLayout& layout, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t inner = config.intermediate_size;
  using W = LayerWeights;
  if (layout.fused_mlp) {
    list.add("mlp.gate_up_proj.weight", {2 * inner, hidden}, &W::mlp_in);
  } else {
    list.add("mlp.gate_proj.weight", {inner, hidden}, &W::mlp_in);
    list.add("mlp.up_proj.weight", {inner, hidden}, &W::mlp_in, inner * hidden);
  }
  list.add("mlp.down_proj.weight", {hidden, inner}, &W::mlp_out);
  if (!config.mlp_bias) return;
  list.add("mlp.gate_proj.bias", {inner}, &W::mlp_in_bias);
  list.add("mlp.up_proj.bias", {inner}, &W::mlp_in_bias, inner);
  list.add("mlp.down_proj.bias", {hidden}, &W::mlp_out_bias);
}

}  // namespace

void read_llama_layers(const ConfigKeys& keys, ModelConfig& config, const LlamaDefaults& otherwise) {
  read_sizes(keys,
             {.head_dim_otherwise = otherwise.head_dim,
              .heads_otherwise = otherwise.heads,
              .key_heads_otherwise = otherwise.key_heads},
             config);
  if (!otherwise.experts_alone) config.intermediate_size = keys.integer("intermediate_size", 1, kMaxIntermediate);
  config.norm_epsilon = keys.number("rms_norm_eps", 0.0, 1.0, otherwise.epsilon);
  config.query_key_norm_epsilon = config.norm_epsilon;
  config.tie_word_embeddings = keys.flag("tie_word_embeddings", otherwise.tied);
  config.forget_gate = ForgetGate::none;
  read_bos(keys, config);
  const std::string activation = keys.word(otherwise.activation_key, otherwise.activation);
  if (activation == "silu" || activation == "swish") {
    config.mlp = MlpKind::swiglu;
  } else if (otherwise.mlp == MlpKind::geglu && (activation == "gelu_pytorch_tanh" || activation == "gelu_new")) {
    config.mlp = MlpKind::geglu;
  } else {
    keys.refuse(otherwise.activation_key,
                otherwise.mlp == MlpKind::geglu ? R"("gelu_pytorch_tanh" and "silu")" : "\"silu\"");
  }
  read_rotary(keys,
              {.fraction = otherwise.fraction,
               .otherwise = otherwise.turning,
               .base_otherwise = otherwise.base,
               .by_kind = otherwise.rotary_by_kind},
              config);
}

bool is_llama_buffer(std::string_view name) { return name.ends_with(".rotary_emb.inv_freq"); }

void list_llama_attention(const ModelConfig& config, const LlamaLayout& layout, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  list_llama_projection(config, layout, list);
  list.add("self_attn.o_proj.weight", {hidden, config.query_size()}, &LayerWeights::output);
  if (config.output_bias) list.add("self_attn.o_proj.bias", {hidden}, &LayerWeights::output_bias);
  if (config.sinks) list.add("self_attn.sinks", {config.heads}, &LayerWeights::sinks);
}

void list_llama_layers(const ModelConfig& config, const LlamaLayout& layout, ParameterList& list) {
  const std::int64_t hidden = config.hidden_size;
  using W = LayerWeights;
  list.add("embed_tokens.weight", {config.vocabulary_size, hidden}, &ModelWeights::embedding);
  for (int layer = 0; layer < config.layers; ++layer) {
    list.begin_layer(layer, fmt::format("layers.{}.", layer));
    if (config.pre_norm) add_norm("input_layernorm", hidden, &W::attention_norm, layout, list);
    list_llama_attention(config, layout, list);
    if (config.post_norm) {
      add_norm(layout.attention_post_norm, hidden, &W::attention_post_norm, layout, list);
      if (config.pre_norm) add_norm(layout.mlp_norm, hidden, &W::mlp_norm, layout, list);
      add_norm(layout.mlp_post_norm, hidden, &W::mlp_post_norm, layout, list);
    } else {
      add_norm("post_attention_layernorm", hidden, &W::mlp_norm, layout, list);
    }
    if (layout.list_experts != nullptr && config.mixture_at(layer) != nullptr) {
      layout.list_experts(config, list);
    } else {
      list_llama_mlp(config, layout, list);
    }
  }
  list.add("norm.weight", {hidden}, &ModelWeights::final_norm);
  if (layout.zero_centered_norms) list.zero_centered();
  list.add_head();
}

const ModelFamily kLlama = {"llama", "Llama", "model.", read_llama, list_llama, "lm_head.weight", is_llama_buffer};
const ModelFamily kMistral = {"mistral",  "Mistral",        "model.",       read_mistral,
                              list_llama, "lm_head.weight", is_llama_buffer};
const ModelFamily kMinistral = {"ministral", "Ministral",      "model.",       read_ministral,
                                list_llama,  "lm_head.weight", is_llama_buffer};
const ModelFamily kMinistral3 = {"ministral3", "Ministral 3",    "model.",       read_ministral3,
                                 list_llama,   "lm_head.weight", is_llama_buffer};
const ModelFamily kSmolLm3 = {"smollm3",  "SmolLM3",        "model.",       read_smollm3,
                              list_llama, "lm_head.weight", is_llama_buffer};
const ModelFamily kQwen2 = {"qwen2", "Qwen 2", "model.", read_qwen2, list_llama, "lm_head.weight", is_llama_buffer};
const ModelFamily kQwen3_5 = {"qwen3_5_text", "Qwen 3.5",       "model.",       read_qwen3_5,
                              list_qwen3_5,   "lm_head.weight", is_llama_buffer};
const ModelFamily kQwen3Next = {"qwen3_next", "Qwen3-Next",     "model.",       read_qwen3_next,
                                list_qwen3_5, "lm_head.weight", is_llama_buffer};
const ModelFamily kQwen3_5Moe = {"qwen3_5_moe_text", "Qwen 3.5 MoE",   "model.",       read_qwen3_5_moe,
                                 list_qwen3_5,       "lm_head.weight", is_llama_buffer};
const ModelFamily kQwen3Moe = {"qwen3_moe",    "Qwen 3 MoE",     "model.",       read_qwen3_moe,
                               list_qwen3_moe, "lm_head.weight", is_llama_buffer};
const ModelFamily kMixtral = {"mixtral",    "Mixtral",        "model.",       read_mixtral,
                              list_mixtral, "lm_head.weight", is_llama_buffer};
const ModelFamily kQwen3 = {"qwen3", "Qwen 3", "model.", read_qwen3, list_llama, "lm_head.weight", is_llama_buffer};

}  // namespace foxscope::family

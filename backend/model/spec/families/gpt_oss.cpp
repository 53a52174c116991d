// gpt-oss: a logit of each head beside those of keys, windows in every other layer, and experts whose SwiGLU is
// clamped.
#include "backend/model/spec/families/gpt_oss.h"

#include "backend/model/spec/families/experts.h"
#include "backend/model/spec/families/llama.h"

namespace foxscope::family {
namespace {

void read_gpt_oss(const ConfigKeys& keys, ModelConfig& config) {
  constexpr double kMostLimit = 1e6;
  read_llama_layers(keys, config, {.head_dim = 64, .key_heads = 8, .epsilon = 1e-5, .base = 150000});
  if (!keys.has("rope_scaling") && !keys.has("rope_parameters")) {
    keys.fail("rope_scaling", "there: without it the family's own code stretches texts by a factor of 32");
  }
  config.query_key_value_bias = config.output_bias = keys.flag("attention_bias", true);
  config.sinks = true;
  config.mlp = MlpKind::clamped;
  config.mlp_limit = keys.number("swiglu_limit", 1e-6, kMostLimit, 7);
  constexpr double kAlpha = 1.702;  // as MlpKind::clamped has it
  if (keys.number("swiglu_alpha", 0, kMostLimit, kAlpha) != kAlpha) keys.refuse("swiglu_alpha", "1.702");
  const std::int64_t window = read_window(keys, 128);
  read_windows(
      keys, window, [&](int layer) { return window > 0 && layer % 2 == 0; }, config);
  ExpertMixture mixture;
  mixture.normalized = true;  // a softmax over the logits of the chosen
  mixture.router_bias = mixture.expert_bias = true;
  read_experts(
      keys,
      {.experts = "num_local_experts", .experts_otherwise = 128, .chosen_otherwise = 4, .size = "intermediate_size"},
      mixture);
  use_experts(
      mixture, [](int /*layer*/) { return true; }, config);
  // Older names of keys above, which the library does not look at.
  static_cast<void>(keys.has("experts_per_token"));
  static_cast<void>(keys.has("initial_context_length"));
  keys.refuse_others(harmless_keys());
}

/// Matrices of experts are [in, out], and gate and up stand in them by turns.
void list_gpt_oss_experts(const ModelConfig& config, ParameterList& list) {
  const ExpertMixture& mixture = *config.mixture;
  const std::int64_t hidden = config.hidden_size;
  const std::int64_t experts = mixture.experts;
  const std::int64_t size = mixture.size;
  using W = LayerWeights;
  list_router(config, {.router = "mlp.router"}, list);
  list.add("mlp.experts.gate_up_proj", {experts, hidden, 2 * size}, &W::experts_in, 0,
           ParameterLayout::expert_pairs_transposed);
  list.add("mlp.experts.gate_up_proj_bias", {experts, 2 * size}, &W::experts_in_bias, 0, ParameterLayout::expert_pairs);
  list.add("mlp.experts.down_proj", {experts, size, hidden}, &W::experts_out, 0, ParameterLayout::experts_transposed);
  list.add("mlp.experts.down_proj_bias", {experts, hidden}, &W::experts_out_bias);
}

void list_gpt_oss(const ModelConfig& config, ParameterList& list) {
  list_llama_layers(config, {.list_experts = list_gpt_oss_experts}, list);
}

}  // namespace

const ModelFamily kGptOss = {"gpt_oss",    "gpt-oss",        "model.",       read_gpt_oss,
                             list_gpt_oss, "lm_head.weight", is_llama_buffer};

}  // namespace foxscope::family

// Granite 3: Llama with factors of embeddings, of logits of attention, of what layers add and of logits; Granite MoE
// with experts in every layer besides.
#include "backend/model/spec/families/granite.h"

#include <cmath>

#include "backend/model/spec/families/experts.h"
#include "backend/model/spec/families/llama.h"

namespace foxscope::family {
namespace {

constexpr double kLeastFactor = 1e-9;
constexpr double kMostFactor = 1e9;

void read_granite_layers(const ConfigKeys& keys, bool experts_alone, ModelConfig& config) {
  read_llama_layers(keys, config, {.experts_alone = experts_alone});
  config.query_key_value_bias = config.output_bias = keys.flag("attention_bias", false);
  config.embedding_factor = keys.number("embedding_multiplier", kLeastFactor, kMostFactor, 1);
  config.residual_factor = keys.number("residual_multiplier", kLeastFactor, kMostFactor, 1);
  config.logit_factor = 1 / keys.number("logits_scaling", kLeastFactor, kMostFactor, 1);
  // Logits of attention are q.k times it, in the place of 1/sqrt(d).
  config.query_factor = keys.number("attention_multiplier", kLeastFactor, kMostFactor, 1) *
                        std::sqrt(static_cast<double>(config.head_dim));
}

void read_granite(const ConfigKeys& keys, ModelConfig& config) {
  read_granite_layers(keys, /*experts_alone=*/false, config);
  config.mlp_bias = keys.flag("mlp_bias", false);
  keys.refuse_others(harmless_keys());
}

void list_granite(const ModelConfig& config, ParameterList& list) { list_llama_layers(config, {}, list); }

void read_granite_moe(const ConfigKeys& keys, ModelConfig& config) {
  read_granite_layers(keys, /*experts_alone=*/true, config);
  ExpertMixture mixture;
  mixture.normalized = true;  // a softmax over the logits of the chosen
  read_experts(
      keys,
      {.experts = "num_local_experts", .experts_otherwise = 8, .chosen_otherwise = 2, .size = "intermediate_size"},
      mixture);
  use_experts(
      mixture, [](int /*layer*/) { return true; }, config);
  keys.refuse_others(harmless_keys());
}

/// Experts are two tensors a layer, gate and up one behind the other.
void list_granite_experts(const ModelConfig& config, ParameterList& list) {
  const ExpertMixture& mixture = *config.mixture;
  using W = LayerWeights;
  list_router(config, {.router = "block_sparse_moe.router.layer"}, list);
  list.add("block_sparse_moe.input_linear.weight", {mixture.experts, 2 * mixture.size, config.hidden_size},
           &W::experts_in);
  list.add("block_sparse_moe.output_linear.weight", {mixture.experts, config.hidden_size, mixture.size},
           &W::experts_out);
}

void list_granite_moe(const ModelConfig& config, ParameterList& list) {
  list_llama_layers(config, {.list_experts = list_granite_experts}, list);
}

}  // namespace

const ModelFamily kGranite = {"granite",    "Granite",        "model.",       read_granite,
                              list_granite, "lm_head.weight", is_llama_buffer};
const ModelFamily kGraniteMoe = {"granitemoe",     "Granite MoE",    "model.",       read_granite_moe,
                                 list_granite_moe, "lm_head.weight", is_llama_buffer};

}  // namespace foxscope::family

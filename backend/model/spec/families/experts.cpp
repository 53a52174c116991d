// Families with mixtures of experts share these readers and lists.
#include "backend/model/spec/families/experts.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace foxscope::family {

void read_experts(const ConfigKeys& keys, const ExpertKeys& names, ExpertMixture& mixture) {
  constexpr std::int64_t kMostExperts = 1 << 16;
  const auto integer = [&](const char* key, std::int64_t most, int otherwise) {
    return otherwise == 0 ? keys.integer(key, 1, most) : keys.integer(key, 1, most, otherwise);
  };
  mixture.experts = static_cast<int>(integer(names.experts, kMostExperts, names.experts_otherwise));
  mixture.chosen = static_cast<int>(integer(names.chosen, kMostExperts, names.chosen_otherwise));
  if (mixture.chosen > mixture.experts) {
    keys.fail(names.chosen, fmt::format("at most {} {}", names.experts, mixture.experts));
  }
  mixture.size = keys.integer(names.size, 1, kMaxIntermediate);
  if (names.normalized != nullptr) mixture.normalized = keys.flag_or_null(names.normalized, names.normalized_otherwise);
  for (const char* const key : {"output_router_logits", "router_aux_loss_coef", "router_jitter_noise"}) {
    static_cast<void>(keys.has(key));
  }
}

void use_experts(const ExpertMixture& mixture, const std::function<bool(int layer)>& is_sparse, ModelConfig& config) {
  config.sparse.clear();
  for (int layer = 0; layer < config.layers; ++layer) config.sparse.push_back(is_sparse(layer));
  if (std::ranges::find(config.sparse, true) == config.sparse.end()) {
    config.sparse.clear();
  } else {
    config.mixture = mixture;
  }
}

void list_router(const ModelConfig& config, const ExpertNames& names, ParameterList& list) {
  const ExpertMixture& mixture = *config.mixture;
  const std::int64_t hidden = config.hidden_size;
  using W = LayerWeights;
  list.add(names.router + ".weight", {mixture.experts, hidden}, &W::router);
  if (mixture.router_bias) list.add(names.router + ".bias", {mixture.experts}, &W::router_bias);
  if (mixture.selection_bias) list.add(names.selection_bias, {mixture.experts}, &W::selection_bias);
  if (mixture.shared_size == 0) return;
  const std::int64_t inner = mixture.shared_size;
  const bool gated = is_gated(config.mlp);
  if (gated) list.add(names.shared + names.gate + ".weight", {inner, hidden}, &W::mlp_in);
  list.add(names.shared + names.up + ".weight", {inner, hidden}, &W::mlp_in, gated ? inner * hidden : 0);
  list.add(names.shared + names.down + ".weight", {hidden, inner}, &W::mlp_out);
  if (mixture.shared_gate) list.add(names.shared_gate + ".weight", {1, hidden}, &W::shared_gate);
}

void list_experts(const ModelConfig& config, const ExpertNames& names, ParameterList& list) {
  list_router(config, names, list);
  list_each_expert(config, names, list);
}

void list_each_expert(const ModelConfig& config, const ExpertNames& names, ParameterList& list) {
  const ExpertMixture& mixture = *config.mixture;
  const std::int64_t hidden = config.expert_width();
  const std::int64_t matrix = mixture.size * hidden;
  const bool gated = is_gated(config.mlp);
  using W = LayerWeights;
  for (int expert = 0; expert < mixture.experts; ++expert) {
    const std::string name = fmt::format(fmt::runtime(names.expert), expert);
    const std::int64_t first = expert * (gated ? 2 : 1) * matrix;
    if (gated) list.add(name + names.gate + ".weight", {mixture.size, hidden}, &W::experts_in, first);
    list.add(name + names.up + ".weight", {mixture.size, hidden}, &W::experts_in, first + (gated ? matrix : 0));
    list.add(name + names.down + ".weight", {hidden, mixture.size}, &W::experts_out, expert * matrix);
  }
}

}  // namespace foxscope::family

#include "backend/model/layer/torch/mixture_torch.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <tuple>
#include <utility>

#include <ATen/ATen.h>

#include "backend/model/layer/torch/composed_steps_torch.h"
#include "backend/model/layer/torch/mlp_torch.h"

namespace foxscope {
namespace {

constexpr double kLeastWeights = 1e-20;

/// Scores with those of groups that are not eligible left out.
at::Tensor without_groups(const ExpertMixture& mixture, const at::Tensor& ranked) {
  if (mixture.chosen_groups >= mixture.groups) return ranked;
  const at::Tensor groups = ranked.view({ranked.size(0), mixture.groups, -1});
  const std::int64_t best = std::min<std::int64_t>(2, groups.size(2));
  const at::Tensor of_group = std::get<0>(groups.topk(best, 2)).sum(2);
  const at::Tensor eligible = std::get<1>(of_group.topk(mixture.chosen_groups, 1));
  const at::Tensor left = at::ones_like(of_group, of_group.options().dtype(at::kBool)).scatter(1, eligible, false);
  return groups.masked_fill(left.unsqueeze(2), -std::numeric_limits<double>::infinity()).flatten(1);
}

/// The experts that rows choose [rows, k], and what these are multiplied by.
std::pair<at::Tensor, at::Tensor> route(const ExpertMixture& mixture, const TorchLayer& weights,
                                        const at::Tensor& normed) {
  const at::Tensor logits = composed_steps::affine(normed, weights.router, weights.router_bias);
  const at::Tensor scores =
      mixture.scores == ExpertMixture::Scores::softmax ? at::softmax(logits, 1) : at::sigmoid(logits);
  const at::Tensor ranked = weights.selection_bias.defined() ? scores + weights.selection_bias : scores;
  const at::Tensor chosen = std::get<1>(without_groups(mixture, ranked.detach()).topk(mixture.chosen, 1));
  at::Tensor weight = scores.gather(1, chosen);
  if (mixture.normalized) weight = weight / weight.sum(1, /*keepdim=*/true).clamp_min(kLeastWeights);
  return {chosen, mixture.factor == 1 ? weight : weight * mixture.factor};
}

}  // namespace

at::Tensor without_dropped(const TorchPass& pass, int layer, std::int64_t first, const at::Tensor& experts,
                           const at::Tensor& weights) {
  at::Tensor left = weights;
  const int count = pass.config().mixture_at(layer)->experts;
  for (std::int64_t b = 0; b < pass.batch(); ++b) {
    const std::int64_t begin = std::clamp<std::int64_t>(b * pass.length() - first, 0, weights.size(0));
    const std::int64_t end = std::clamp<std::int64_t>((b + 1) * pass.length() - first, 0, weights.size(0));
    const Probe& probe = pass.probes()[index_of(b)];
    if (begin == end || !probe.drops_experts(layer)) continue;
    at::Tensor kept = at::ones_like(weights);
    for (int expert = 0; expert < count; ++expert) {
      if (!probe.drops_expert(layer, expert)) continue;
      kept.slice(0, begin, end).masked_fill_(experts.slice(0, begin, end) == expert, 0.0);
    }
    left = left * kept;
  }
  return left;
}

at::Tensor mixture_output(const TorchPass& pass, int layer, const at::Tensor& normed, const TakeChoice& take) {
  const ModelConfig& config = pass.config();
  const ExpertMixture& mixture = *config.mixture_at(layer);
  const TorchLayer& weights = pass.weights(layer);
  const at::ScalarType matrix = pass.weights().matrix;
  const auto [chosen, of_router] = route(mixture, weights, normed);
  const at::Tensor weight = take ? take(chosen, of_router) : of_router;
  // Pairs of a row and an expert, sorted by expert.
  const at::Tensor order = at::argsort(chosen.flatten(), /*stable=*/true, /*dim=*/0);
  const at::Tensor rows = order.div(mixture.chosen, "floor");
  const at::Tensor factors = weight.flatten().index_select(0, order).unsqueeze(1);
  const at::Tensor counts = at::bincount(chosen.flatten(), {}, mixture.experts).to(at::kCPU);
  at::Tensor in = normed.to(matrix);
  if (mixture.latent > 0) in = composed_steps::linear_to_float(in, weights.experts_down).to(matrix);
  at::Tensor made = at::zeros({normed.size(0), config.expert_width()}, normed.options());
  std::int64_t begin = 0;
  for (std::int64_t expert = 0; expert < mixture.experts; ++expert) {
    const std::int64_t end = begin + counts.const_data_ptr<std::int64_t>()[expert];
    if (begin == end) continue;
    const auto bias_of = [&](const at::Tensor& bias) { return bias.defined() ? bias[expert] : at::Tensor(); };
    const at::Tensor own = rows.slice(0, begin, end);
    const at::Tensor wide =
        composed_steps::affine(in.index_select(0, own), weights.experts_in[expert], bias_of(weights.experts_in_bias));
    const at::Tensor out = composed_steps::affine(mlp_units(config, wide).to(matrix), weights.experts_out[expert],
                                                  bias_of(weights.experts_out_bias));
    made = made.index_add(0, own, out * factors.slice(0, begin, end));
    begin = end;
  }
  if (mixture.latent == 0) return made;
  return composed_steps::linear_to_float(made.to(matrix), weights.experts_up);
}

}  // namespace foxscope

#include "backend/model/layer/expert_choice.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "backend/base/index.h"

namespace foxscope {
namespace {

constexpr float kOut = -std::numeric_limits<float>::infinity();
/// Weights are divided by their sum, which counts as this where no score is above 0.
constexpr double kLeastSum = 1e-20;

void make_scores(ExpertMixture::Scores kind, std::span<float> logits) {
  if (kind == ExpertMixture::Scores::sigmoid) {
    for (float& logit : logits) logit = 1.0F / (1.0F + std::exp(-logit));
    return;
  }
  const float largest = *std::ranges::max_element(logits);
  double sum = 0;
  for (float& logit : logits) {
    logit = std::exp(logit - largest);
    sum += static_cast<double>(logit);
  }
  for (float& logit : logits) logit = static_cast<float>(static_cast<double>(logit) / sum);
}

/// Leaves experts out whose groups are not eligible.
void leave_groups_out(const ExpertMixture& mixture, std::span<float> ranked) {
  if (mixture.chosen_groups >= mixture.groups) return;
  const std::size_t size = ranked.size() / index_of(mixture.groups);
  std::vector<std::pair<float, std::size_t>> groups;  // minus the sum of the two largest, so that the first is best
  for (std::size_t group = 0; group < index_of(mixture.groups); ++group) {
    float first = kOut;
    float second = kOut;
    for (const float score : ranked.subspan(group * size, size)) {
      if (score > first) {
        second = std::exchange(first, score);
      } else {
        second = std::max(second, score);
      }
    }
    groups.emplace_back(-(first + (size > 1 ? second : 0.0F)), group);
  }
  std::ranges::sort(groups);
  for (std::size_t n = index_of(mixture.chosen_groups); n < groups.size(); ++n) {
    std::ranges::fill(ranked.subspan(groups[n].second * size, size), kOut);
  }
}

}  // namespace

void choose_experts(const ExpertMixture& mixture, std::span<float> logits, std::span<const float> selection_bias,
                    std::span<ChosenExpert> chosen) {
  assert(std::ssize(logits) == mixture.experts && std::ssize(chosen) == mixture.chosen);
  make_scores(mixture.scores, logits);
  std::vector<float> ranked(logits.begin(), logits.end());
  for (std::size_t n = 0; n < selection_bias.size(); ++n) ranked[n] += selection_bias[n];
  leave_groups_out(mixture, ranked);
  double sum = 0;
  for (ChosenExpert& one : chosen) {
    // NaN compares as nothing does: the first that is left is taken then.
    const auto best = std::ranges::max_element(ranked);
    one.expert = static_cast<std::int32_t>(best - ranked.begin());
    one.weight = logits[index_of(one.expert)];
    sum += static_cast<double>(one.weight);
    *best = kOut;
  }
  const double factor = mixture.factor / (mixture.normalized ? std::max(sum, kLeastSum) : 1.0);
  for (ChosenExpert& one : chosen) one.weight = static_cast<float>(static_cast<double>(one.weight) * factor);
}

}  // namespace foxscope

#include "backend/model/layer/score.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <ranges>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/model/layer/checks.h"

namespace foxscope {
namespace {

/// Padding is at most one in this many of a text's positions.
constexpr std::int64_t kPaddingShare = 8;
/// Logits that are looked at together.
constexpr std::size_t kLogitsAtOnce = 256;

std::int64_t positions(const ScoredText& text) { return static_cast<std::int64_t>(text.input_ids.size()); }

void check_text(const ScoredText& text, std::size_t index, const ModelConfig& config) {
  const std::int64_t length = positions(text);
  if (length < 1) throw ShapeError(fmt::format("[score] text {}: it has no tokens to read", index));
  if (text.first < 0 || text.first >= text.end || text.end > length) {
    throw ShapeError(fmt::format("[score] text {}: positions {}:{}, expected A:B with 0 <= A < B <= {}", index,
                                 text.first, text.end, length));
  }
  if (static_cast<std::int64_t>(text.labels.size()) > text.end - text.first) {
    throw ShapeError(
        fmt::format("[score] text {}: {} labels for {} positions", index, text.labels.size(), text.end - text.first));
  }
  check_ids(text.input_ids, config.vocabulary_size, fmt::format("text {}", index));
  check_ids(text.labels, config.vocabulary_size, fmt::format("labels of text {}", index));
}

}  // namespace

void check_score(const ScoreRequest& request, const ModelConfig& config) {
  if (request.top < 0 || request.top > config.vocabulary_size) {
    throw UsageError(fmt::format("{} likeliest tokens: use a number from 0 to {}, the size of the vocabulary",
                                 request.top, config.vocabulary_size));
  }
  if (!request.marked.empty() && std::ssize(request.marked) != config.vocabulary_size) {
    throw ShapeError(fmt::format("[score] marked: expected [{}], the vocabulary, got [{}]", config.vocabulary_size,
                                 request.marked.size()));
  }
  for (std::size_t n = 0; n < request.texts.size(); ++n) {
    check_text(request.texts[n], n, config);
    check_pass(request, config, positions(request.texts[n]));
  }
}

std::vector<std::vector<std::size_t>> score_batches(const ScoreRequest& request, std::int64_t tokens) {
  // Padding would be part of the mean.
  const bool equal = std::ranges::any_of(request.interventions, [](const Intervention& intervention) {
    return intervention.kind == Intervention::Kind::mean;
  });
  std::vector<std::size_t> order(request.texts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
    const ScoredText& one = request.texts[a];
    const ScoredText& other = request.texts[b];
    if (one.input_ids.size() != other.input_ids.size()) return one.input_ids.size() > other.input_ids.size();
    return std::ranges::lexicographical_compare(one.input_ids, other.input_ids);
  });
  std::vector<std::vector<std::size_t>> batches;
  for (const std::size_t index : order) {
    if (!batches.empty()) {
      std::vector<std::size_t>& last = batches.back();
      const std::int64_t longest = positions(request.texts[last.front()]);
      const std::int64_t padding = longest - positions(request.texts[index]);
      const bool fits = (static_cast<std::int64_t>(last.size()) + 1) * longest <= tokens;
      if (fits && padding <= (equal ? 0 : longest / kPaddingShare)) {
        last.push_back(index);
        continue;
      }
    }
    batches.push_back({index});
  }
  return batches;
}

void TokenChoice::add(std::int64_t first, std::span<const float> logits) {
  if (distribution_) all_.insert(all_.end(), logits.begin(), logits.end());
  if (!marked_.empty()) take_marked(first, logits);
  const std::int64_t label = label_ - first;
  if (label_ >= 0 && label >= 0 && label < std::ssize(logits)) label_logit_ = logits[index_of(label)];
  for (std::size_t begin = 0; begin < logits.size(); begin += kLogitsAtOnce) {
    take_likeliest(first + static_cast<std::int64_t>(begin),
                   logits.subspan(begin, std::min(kLogitsAtOnce, logits.size() - begin)));
  }
}

void TokenChoice::take_likeliest(std::int64_t first, std::span<const float> logits) {
  const std::size_t most = std::max<std::size_t>(top_, 1);
  // A later token has a higher id: of equals, those that came stay.
  const auto beaten = [&](float logit) { return best_.size() == most && !(logit > best_.back().log_probability); };
  if (best_.size() == most) {
    // A loop without a way out, of which the compiler makes vectors: most logits are below the likeliest by far.
    const float least = best_.back().log_probability;
    int above = 0;
    for (const float logit : logits) above |= logit > least ? 1 : 0;
    if (above == 0) return;
  }
  for (std::size_t n = 0; n < logits.size(); ++n) {
    if (beaten(logits[n])) continue;
    const auto place = std::ranges::upper_bound(best_, logits[n], std::greater<>(), &ScoredToken::log_probability);
    best_.insert(place, {static_cast<std::int32_t>(first + static_cast<std::int64_t>(n)), logits[n]});
    if (best_.size() > most) best_.pop_back();
  }
}

void TokenChoice::take_marked(std::int64_t first, std::span<const float> logits) {
  const auto marks = marked_.subspan(static_cast<std::size_t>(first), logits.size());
  for (std::size_t n = 0; n < logits.size(); ++n) {
    if (marks[n] == 0) continue;
    const auto logit = static_cast<double>(logits[n]);
    if (logit > marked_shift_) {
      marked_sum_ *= std::exp(marked_shift_ - logit);
      marked_shift_ = logit;
    }
    marked_sum_ += std::exp(logit - marked_shift_);
  }
}

void TokenChoice::describe(double normalizer, ScoredPosition& score) const {
  double entropy = 0;
  std::int64_t before = 0;
  for (std::size_t id = 0; id < all_.size(); ++id) {
    const double log_p = static_cast<double>(all_[id]) - normalizer;
    entropy -= std::exp(log_p) * log_p;
    const bool equal = all_[id] == label_logit_ && static_cast<std::int64_t>(id) < label_;
    before += all_[id] > label_logit_ || equal ? 1 : 0;
  }
  score.entropy = static_cast<float>(entropy);
  if (label_ >= 0) score.rank = before + 1;
}

ScoredPosition TokenChoice::finish(double normalizer) const {
  const auto log_probability = [&](float logit) { return static_cast<float>(static_cast<double>(logit) - normalizer); };
  ScoredPosition score;
  score.greedy = label_ >= 0 && label_ == best_.front().id;
  if (label_ >= 0) score.log_probability = log_probability(label_logit_);
  for (const ScoredToken& token : std::span(best_).first(std::min(top_, best_.size()))) {
    score.top.push_back({token.id, log_probability(token.log_probability)});
  }
  if (distribution_) describe(normalizer, score);
  if (!marked_.empty()) {
    score.marked_log_probability = static_cast<float>(marked_shift_ + std::log(marked_sum_) - normalizer);
  }
  return score;
}

}  // namespace foxscope

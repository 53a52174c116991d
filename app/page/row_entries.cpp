#include "app/page/row_entries.h"

#include <algorithm>
#include <cmath>

#include "backend/base/index.h"

namespace foxscope::page {

RowEntries::RowEntries(const HeadOf& head, HeadVectors vectors)
    : info_(head.trace->info()),
      mixer_(head.trace->info().mixer(head.layer)),
      vectors_(vectors),
      length_(head.trace->info().length),
      window_(window_of(head.trace->info(), head.layer)),
      scale_(mixer_.has_softmax() ? head.trace->info().softmax_scale : 1.0F) {
  if (mixer_.decays_by_channel()) {
    sums_ = head.trace->cumulative_log_decay(head.layer, head.head);
  } else if (forgets(head.trace->info(), head.layer)) {
    c_ = head.trace->cumulative_log_gate(head.layer, head.head);
  }
  if (mixer_.sinks) sink_ = head.trace->sink_logit(head.layer, head.head);
  if (mixer_.kind().writes_beta) beta_ = head.trace->beta(head.layer, head.head);
}

std::int64_t RowEntries::first(std::int64_t query) const {
  return window_ > 0 ? std::max<std::int64_t>(0, query - window_ + 1) : 0;
}

void RowEntries::logits(std::int64_t query) {
  const std::int64_t from = first(query);
  const std::size_t count = index_of(query - from) + 1;
  products_.assign(count, 0.0F);
  for (std::size_t channel = 0; channel < index_of(mixer_.head_dim); ++channel) {
    const float factor = vectors_.queries[channel * index_of(length_) + index_of(query)];
    const float* keys = &vectors_.keys[channel * index_of(length_) + index_of(from)];
    float* products = products_.data();
    for (std::size_t n = 0; n < count; ++n) products[n] += factor * keys[n];
  }
  row_.resize(count);
  const double at_query = c_.empty() ? 0.0 : c_[index_of(query)];
  for (std::size_t n = 0; n < count; ++n) {
    const double decay = c_.empty() ? 0.0 : at_query - c_[index_of(from) + n];
    row_[n] = capped_logit(info_, static_cast<double>(products_[n]) * static_cast<double>(scale_)) + decay;
  }
}

double RowEntries::log_normalizer(std::int64_t query) {
  logits(query);
  const double largest = *std::ranges::max_element(row_);
  double sum = 0;
  for (const double logit : row_) sum += std::exp(logit - largest);
  if (sink_) sum += std::exp(*sink_ - largest);
  return largest + std::log(sum);
}

void RowEntries::mixing(std::int64_t query) {
  const std::size_t dim = index_of(mixer_.head_dim);
  const std::size_t length = index_of(length_);
  const auto at = [&](std::span<const float> of, std::size_t channel, std::size_t position) {
    return static_cast<double>(of[channel * length + position]);
  };
  row_.resize(index_of(query) + 1);
  std::vector<double> r(dim);
  for (std::size_t n = 0; n < dim; ++n) r[n] = at(vectors_.queries, n, index_of(query));
  for (std::size_t key = index_of(query) + 1; key-- > 0;) {
    double entry = 0;
    for (std::size_t n = 0; n < dim; ++n) entry += r[n] * at(vectors_.keys, n, key);
    if (!beta_.empty()) entry *= static_cast<double>(beta_[key]);
    row_[key] = entry;
    if (key == 0) return;
    const double erased = mixer_.erases() ? entry : 0.0;
    for (std::size_t n = 0; n < dim; ++n) {
      const double log_decay = mixer_.decays_by_channel()
                                   ? sums_.values[key * dim + n] - sums_.values[(key - 1) * dim + n]
                               : c_.empty() ? 0.0
                                            : c_[key] - c_[key - 1];
      r[n] = std::exp(log_decay) * (r[n] - erased * at(vectors_.keys, n, key));
    }
  }
}

std::span<const double> RowEntries::row(std::int64_t query, double normalizer) {
  if (mixer_.has_softmax()) {
    logits(query);
    for (double& entry : row_) entry = std::exp(entry - normalizer);
  } else {
    mixing(query);
  }
  return row_;
}

}  // namespace foxscope::page

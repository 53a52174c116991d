#include "app/gui/curves/row_profile.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foxscope::gui::curves {
namespace {

std::optional<std::vector<double>> row(const HeadOf& head, Quantity quantity, std::int64_t query, const Job& job) {
  MapRequest request;
  request.head = head;
  request.quantity = quantity;
  request.rows = {query, query + 1};
  request.columns = {0, query + 1};
  request.pixel_rows = 1;
  request.pixel_columns = query + 1;
  const auto image = compute_map(request, job);
  if (!image) return std::nullopt;
  return std::vector<double>(image->value.begin(), image->value.end());
}

/// Of the entries that are there; NaN stays NaN.
std::vector<double> softmax(std::vector<double> logits) {
  double largest = -std::numeric_limits<double>::infinity();
  for (const double logit : logits) largest = std::max(largest, std::isnan(logit) ? largest : logit);
  double sum = 0;
  for (double& logit : logits) {
    logit = std::exp(logit - largest);
    if (!std::isnan(logit)) sum += logit;
  }
  for (double& share : logits) share /= sum;
  return logits;
}

}  // namespace

std::optional<RowProfile> rowProfile(const HeadOf& head, std::int64_t query, const Job& job) {
  RowProfile profile;
  profile.query = query;
  const TraceInfo& info = head.trace->info();
  const auto lacks = [&](Quantity quantity) { return !why_not(info, head.layer, quantity).empty(); };
  if (lacks(Quantity::forget)) {
    profile.forget.assign(static_cast<std::size_t>(query + 1), 1.0);
    profile.logForget.assign(static_cast<std::size_t>(query + 1), 0.0);
  } else {
    auto forget = row(head, Quantity::forget, query, job);
    if (!forget) return std::nullopt;
    profile.forget = std::move(*forget);
    auto logForget = row(head, Quantity::log_forget, query, job);
    if (!logForget) return std::nullopt;
    profile.logForget = std::move(*logForget);
  }
  if (!head.trace->has_attention(head.layer)) return profile;
  auto attention = row(head, Quantity::attention, query, job);
  if (!attention) return std::nullopt;
  profile.attention = std::move(*attention);
  if (lacks(Quantity::logits)) return profile;
  auto logits = row(head, Quantity::logits, query, job);
  if (!logits) return std::nullopt;
  profile.attentionWithoutGate = softmax(std::move(*logits));
  return profile;
}

std::vector<std::int64_t> strongest(const std::vector<double>& values, int count) {
  std::vector<std::int64_t> indices;
  for (std::size_t index = 0; index < values.size(); ++index) {
    if (values[index] > 0) indices.push_back(static_cast<std::int64_t>(index));
  }
  const auto kept = std::min(indices.size(), static_cast<std::size_t>(std::max(0, count)));
  std::partial_sort(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(kept), indices.end(),
                    [&](std::int64_t a, std::int64_t b) {
                      return values[static_cast<std::size_t>(a)] > values[static_cast<std::size_t>(b)];
                    });
  indices.resize(kept);
  return indices;
}

}  // namespace foxscope::gui::curves

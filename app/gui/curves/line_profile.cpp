#include "app/gui/curves/line_profile.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/base/index.h"

namespace foxscope::gui::curves {
namespace {

/// Softmax over the entries that exist; NaN stays NaN.
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

std::optional<std::vector<double>> lineValues(const HeadOf& head, const MapLine& line, Quantity quantity,
                                              const Job& job) {
  const LineRequest request{head, {}, quantity, FirstKey::counted, line, line.positions(head.trace->info().length)};
  const auto entries = line_entries(request, job);
  if (!entries) return std::nullopt;
  std::vector<double> values(static_cast<std::size_t>(request.positions.begin),
                             std::numeric_limits<double>::quiet_NaN());
  values.insert(values.end(), entries->begin(), entries->end());
  return values;
}

std::optional<LineProfile> lineProfile(const HeadOf& head, const MapLine& line, const Job& job) {
  LineProfile profile;
  profile.line = line;
  const TraceInfo& info = head.trace->info();
  const auto lacks = [&](Quantity quantity) { return !why_not(info, head.layer, quantity).empty(); };
  /// @returns false if the job was stopped
  const auto read = [&](Quantity quantity, std::vector<double>& into) {
    auto values = lineValues(head, line, quantity, job);
    if (values) into = std::move(*values);
    return values.has_value();
  };
  if (lacks(Quantity::forget)) {
    const Range there = line.positions(info.length);
    profile.forget.assign(static_cast<std::size_t>(there.begin), std::numeric_limits<double>::quiet_NaN());
    profile.logForget = profile.forget;
    profile.forget.resize(static_cast<std::size_t>(there.end), 1.0);
    profile.logForget.resize(static_cast<std::size_t>(there.end), 0.0);
  } else if (!read(Quantity::forget, profile.forget) || !read(Quantity::log_forget, profile.logForget)) {
    return std::nullopt;
  }
  if (!head.trace->has_attention(head.layer)) return profile;
  const bool isRow = line.along == MapLine::Along::row;
  const auto readAttention = [&](Quantity quantity, std::vector<double>& into) {
    if (isRow || !needs_all_rows(head, quantity)) return read(quantity, into);
    profile.missing.push_back(quantity);
    return true;
  };
  if (!readAttention(Quantity::attention, profile.attention)) return std::nullopt;
  if (lacks(Quantity::attention_without_gate)) return profile;
  if (!isRow) {
    if (!readAttention(Quantity::attention_without_gate, profile.attentionWithoutGate)) return std::nullopt;
    return profile;
  }
  std::vector<double> logits;
  if (!read(Quantity::logits, logits)) return std::nullopt;
  profile.attentionWithoutGate = softmax(std::move(logits));
  return profile;
}

std::vector<std::int64_t> strongest(const std::vector<double>& values, int count) {
  std::vector<std::int64_t> indices;
  for (std::size_t index = 0; index < values.size(); ++index) {
    if (values[index] > 0) indices.push_back(static_cast<std::int64_t>(index));
  }
  const auto kept = std::min(indices.size(), static_cast<std::size_t>(std::max(0, count)));
  std::partial_sort(indices.begin(), indices.begin() + static_cast<std::ptrdiff_t>(kept), indices.end(),
                    [&](std::int64_t a, std::int64_t b) { return values[index_of(a)] > values[index_of(b)]; });
  indices.resize(kept);
  return indices;
}

}  // namespace foxscope::gui::curves

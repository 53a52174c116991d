#include "backend/map/statistics/head_saliency.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>
#include <string_view>

#include <fmt/format.h>

#include "backend/base/index.h"

namespace foxscope {
namespace {

/// Takes a number off the front of a text. @returns false where there is none
bool take_number(std::string_view& text, std::int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return error == std::errc();
}

/// Sums over positions of g_t log f_t and of its size. The gate at 0 is in no F, and g_0 = 0.
void add_log_gates(const HeadOf& head, std::span<const float> saliency, HeadSaliency& result) {
  if (!forgets(head.trace->info(), head.layer)) {
    result.scale = result.absolute = 0 * result.per_nat;  // NaN where a gradient is not a number
    return;
  }
  if (!head.trace->has(TraceArray::cumulative_log_gate, head.layer)) {
    result.scale = result.absolute = std::numeric_limits<double>::quiet_NaN();
    return;
  }
  const std::span<const double> c = head.trace->cumulative_log_gate(head.layer, head.head);
  for (std::size_t t = 1; t < saliency.size(); ++t) {
    const double change = static_cast<double>(saliency[t]) * (c[t] - c[t - 1]);
    result.scale += change;
    result.absolute += std::abs(change);
  }
}

}  // namespace

std::vector<SaliencyEvent> largest_events(std::span<const float> gradient, int count) {
  std::vector<std::int64_t> positions(gradient.size());
  std::iota(positions.begin(), positions.end(), 0);
  const auto size = [&](std::int64_t position) { return std::abs(gradient[index_of(position)]); };
  std::erase_if(positions, [&](std::int64_t position) { return size(position) == 0.0F; });
  const auto wanted = std::min(positions.size(), static_cast<std::size_t>(std::max(0, count)));
  const auto larger = [&](std::int64_t a, std::int64_t b) { return size(a) != size(b) ? size(a) > size(b) : a < b; };
  std::partial_sort(positions.begin(), positions.begin() + static_cast<std::ptrdiff_t>(wanted), positions.end(),
                    larger);
  std::vector<SaliencyEvent> events;
  for (std::size_t n = 0; n < wanted; ++n) {
    events.push_back({positions[n], static_cast<double>(gradient[index_of(positions[n])])});
  }
  return events;
}

std::optional<HeadSaliency> head_saliency(const HeadOf& head, int events) {
  head.trace->check_head(head.layer, head.head);
  if (!head.trace->has(TraceArray::log_forget_gradient)) return std::nullopt;
  const std::span<const float> saliency = head.trace->log_forget_gradient(head.layer, head.head);
  HeadSaliency result;
  for (const float value : saliency) result.per_nat += std::abs(static_cast<double>(value));
  result.per_nat /= static_cast<double>(saliency.size());
  add_log_gates(head, saliency, result);
  if (!std::isnan(result.per_nat)) result.events = largest_events(saliency, events);
  return result;
}

const char* to_string(SaliencyNumber number) {
  switch (number) {
    case SaliencyNumber::scale:
      return "saliency_scale";
    case SaliencyNumber::absolute:
      return "saliency_absolute";
    case SaliencyNumber::per_nat:
      break;
  }
  return "saliency_per_nat";
}

const char* unit_of(SaliencyNumber number) { return number == SaliencyNumber::per_nat ? "nats per nat" : "nats"; }

double value_of(const HeadSaliency& saliency, SaliencyNumber number) {
  switch (number) {
    case SaliencyNumber::scale:
      return saliency.scale;
    case SaliencyNumber::absolute:
      return saliency.absolute;
    case SaliencyNumber::per_nat:
      break;
  }
  return saliency.per_nat;
}

SaliencyNumber ordering_number(const Trace& trace) {
  for (int layer = 0; layer < trace.info().layers; ++layer) {
    if (forgets(trace.info(), layer) && trace.has(TraceArray::cumulative_log_gate, layer)) {
      return SaliencyNumber::absolute;
    }
  }
  return SaliencyNumber::per_nat;
}

double change_by_one_percent(double saliency) { return 0.01 * saliency; }

std::vector<float> key_logit_gradient(std::span<const float> saliency) {
  std::vector<float> gradient(saliency.size());
  for (std::size_t t = 0; t < saliency.size(); ++t) {
    gradient[t] = (t + 1 < saliency.size() ? saliency[t + 1] : 0.0F) - saliency[t];
  }
  return gradient;
}

std::optional<Range> saliency_range(const TraceInfo& info) {
  constexpr std::string_view kBegin = "mean of loss[";
  std::string_view text = info.saliency_target;
  if (!text.starts_with(kBegin)) return std::nullopt;
  text.remove_prefix(kBegin.size());
  Range range;
  if (!take_number(text, range.begin) || !text.starts_with(':')) return std::nullopt;
  text.remove_prefix(1);
  const bool whole = take_number(text, range.end) && text == "]";
  if (!whole || range.begin < 0 || range.begin >= range.end || range.end > info.length) return std::nullopt;
  return range;
}

std::string saliency_target_words(const TraceInfo& info) {
  const std::optional<Range> range = saliency_range(info);
  if (!range) return info.saliency_target;
  if (range->size() == 1) return fmt::format("the loss of position {}", range->begin);
  if (range->size() == info.length) return "the mean loss";
  return fmt::format("the mean loss of positions {} to {}", range->begin, range->end - 1);
}

}  // namespace foxscope

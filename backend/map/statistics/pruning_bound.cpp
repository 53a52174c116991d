#include "backend/map/statistics/pruning_bound.h"

#include <algorithm>
#include <cmath>
#include <span>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/map/maps_elsewhere.h"
#include "backend/trace/query_key_store.h"

namespace foxscope {
namespace {

constexpr std::int64_t kRowsAtOnce = 4096;

/// The largest Euclidean length of a head's queries or keys; nothing if the job was stopped.
std::optional<double> largest_length(const QueryKeyStore& store, TraceArray part, int layer, int head,
                                     std::int64_t length, const Job& job) {
  const auto channels = static_cast<std::size_t>(store.channels(part, layer));
  std::vector<float> scratch;
  double largest = 0;
  for (std::int64_t begin = 0; begin < length; begin += kRowsAtOnce) {
    if (job.stopped()) return std::nullopt;
    const auto rows = store.rows(part, layer, head, begin, std::min(length, begin + kRowsAtOnce), scratch);
    for (std::size_t row = 0; row < rows.size(); row += channels) {
      double squares = 0;
      for (const float value : rows.subspan(row, channels))
        squares += static_cast<double>(value) * static_cast<double>(value);
      largest = std::isnan(squares) ? squares : std::max(largest, squares);  // NaN stays: then nothing is skipped
    }
  }
  return std::sqrt(largest);
}

}  // namespace

std::optional<PruningBound> pruning_bound(const HeadOf& head, double tolerance, const Job& job) {
  if (!(tolerance > 0 && tolerance < 1)) {
    throw UsageError(fmt::format("tolerance {:g}: a share of a row's attention is above 0 and below 1", tolerance));
  }
  const TraceInfo& info = head.trace->info();
  head.trace->check_head(head.layer, head.head);
  if (!info.mixer(head.layer).has_softmax()) {
    throw Error(
        fmt::format("{}: layer {} has no softmax attention, so nothing of it is pruned", info.name, head.layer));
  }
  const QueryKeyStore& store = head.trace->require_query_key();
  if (const auto* const there = elsewhere(head)) return there->pruning(head, tolerance, job);
  const auto query = largest_length(store, TraceArray::query, head.layer, head.head, info.length, job);
  if (!query) return std::nullopt;
  const auto key =
      largest_length(store, TraceArray::key, head.layer, key_head_of(info, head.layer, head.head), info.length, job);
  if (!key) return std::nullopt;

  PruningBound bound;
  bound.largest_logit = *query * *key * static_cast<double>(info.softmax_scale);
  bound.threshold = -(2 * bound.largest_logit + std::log(static_cast<double>(info.length))) + std::log(tolerance);
  bound.first_kept.resize(static_cast<std::size_t>(info.length));
  const std::int64_t window = window_of(info, head.layer);
  const bool gated = forgets(info, head.layer);
  const std::span<const double> c =
      gated ? head.trace->cumulative_log_gate(head.layer, head.head) : std::span<const double>();
  std::int64_t first = 0;
  for (std::int64_t i = 0; i < info.length; ++i) {
    const std::int64_t seen = window > 0 ? std::max<std::int64_t>(0, i - window + 1) : 0;
    while (gated && first < i && c[index_of(i)] - c[index_of(first)] < bound.threshold) ++first;
    bound.first_kept[index_of(i)] = std::max(first, seen);
    bound.entries += i + 1 - seen;
    bound.skipped += bound.first_kept[index_of(i)] - seen;
  }
  return bound;
}

}  // namespace foxscope

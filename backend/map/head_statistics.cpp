#include "backend/map/head_statistics.h"

#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/map/attention_pass.h"
#include "backend/map/gate_statistics.h"

namespace foxscope {
namespace {

bool keeps_normalizer(const HeadOf& head) {
  try {
    return !head.trace->log_normalizer(head.layer, head.head).empty();
  } catch (const Error&) {
    // The layer's rows have been read for the gates: what is missing was not kept.
    return false;
  }
}

}  // namespace

std::optional<HeadStatistics> head_statistics(const HeadOf& head, const StatisticsOptions& options, const Job& job) {
  const TraceInfo& info = head.trace->info();
  head.trace->check_head(head.layer, head.head);
  HeadStatistics statistics;
  statistics.layer = head.layer;
  statistics.head = head.head;
  if (info.gated) {
    gate_statistics(head.trace->cumulative_log_gate(head.layer, head.head), options.events, statistics);
  } else {
    const std::vector<double> zeros(static_cast<std::size_t>(info.length));
    gate_statistics(zeros, options.events, statistics);
  }
  if (job.stopped()) return std::nullopt;
  const bool attention = options.with_attention && head.trace->query_key() != nullptr && keeps_normalizer(head);
  if (attention && !attention_pass(head, job, statistics)) return std::nullopt;
  return statistics;
}

double retained_gate(const HeadOf& head, std::int64_t query, std::int64_t key) {
  const TraceInfo& info = head.trace->info();
  head.trace->check_head(head.layer, head.head);
  if (key < 0 || key > query || query >= info.length) {
    throw UsageError(fmt::format("positions {} and {}: must be 0 <= key <= query <= {}, the last position of '{}'",
                                 query, key, info.length - 1, info.name));
  }
  if (!info.gated) return 1.0;
  const std::span<const double> c = head.trace->cumulative_log_gate(head.layer, head.head);
  return std::exp(c[static_cast<std::size_t>(query)] - c[static_cast<std::size_t>(key)]);
}

}  // namespace foxscope

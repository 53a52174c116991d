#include "backend/map/head_statistics.h"

#include <utility>
#include <vector>

#include "backend/map/attention_pass.h"
#include "backend/map/gate_statistics.h"
#include "backend/map/head_entries.h"

namespace foxscope {

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
  const bool attention = options.with_attention && head.trace->has_attention(head.layer);
  if (!attention) return statistics;
  HeadEntries entries(head, Quantity::attention, {});
  auto spread = attention_spread(entries, job);
  if (!spread) return std::nullopt;
  static_cast<AttentionSpread&>(statistics) = std::move(*spread);
  statistics.has_attention = true;
  return statistics;
}

}  // namespace foxscope

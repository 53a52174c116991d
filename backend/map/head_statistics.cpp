#include "backend/map/head_statistics.h"

#include <span>
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
  const std::vector<double> open(info.gated ? 0 : static_cast<std::size_t>(info.length));
  const auto gates = info.gated ? head.trace->cumulative_log_gate(head.layer, head.head) : std::span(open);
  if (!gate_statistics(gates, options.events, job, statistics)) return std::nullopt;
  statistics.saliency = head_saliency(head, options.events);
  const bool attention = options.with_attention && head.trace->has_attention(head.layer);
  if (!attention) return statistics;
  HeadEntries entries(head, Quantity::attention, {});
  auto spread = attention_spread(entries, job);
  if (!spread) return std::nullopt;
  static_cast<AttentionSpread&>(statistics) = std::move(*spread);
  statistics.has_attention = true;
  statistics.label_scores = label_scores(statistics, info);
  return statistics;
}

}  // namespace foxscope

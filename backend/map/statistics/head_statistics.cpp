#include "backend/map/statistics/head_statistics.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "backend/map/attention_pass.h"
#include "backend/map/head_entries.h"
#include "backend/map/maps_elsewhere.h"
#include "backend/map/statistics/gate_statistics.h"
#include "backend/trace/decay_time.h"

namespace foxscope {

std::vector<double> channel_log_decays(const HeadOf& head) {
  const std::int64_t length = head.trace->info().length;
  const std::vector<double> first = head.trace->log_decay_at(head.layer, head.head, 0);
  std::vector<double> means = head.trace->log_decay_at(head.layer, head.head, length - 1);
  for (std::size_t n = 0; n < means.size(); ++n) means[n] = (means[n] - first[n]) / static_cast<double>(length - 1);
  return means;
}

std::vector<double> channel_decay_times(const HeadStatistics& statistics) {
  std::vector<double> times;
  for (const double mean : statistics.channel_log_decay) times.push_back(decay_time(mean));
  std::ranges::sort(times);
  return times;
}

std::optional<HeadStatistics> head_statistics(const HeadOf& head, const StatisticsOptions& options, const Job& job) {
  const TraceInfo& info = head.trace->info();
  head.trace->check_head(head.layer, head.head);
  if (const auto* const there = elsewhere(head)) return there->statistics(head, options, job);
  HeadStatistics statistics;
  statistics.layer = head.layer;
  statistics.head = head.head;
  // In a run that kept saliency and no gates, gates are as unknown as in a text of one token.
  const bool known = head.trace->has(TraceArray::cumulative_log_gate, head.layer) ||
                     info.mixer(head.layer).decays_by_channel() || !head.trace->has(TraceArray::log_forget_gradient);
  const bool gated = known && forgets(info, head.layer);
  const std::vector<double> open(gated ? 0 : static_cast<std::size_t>(forgets(info, head.layer) ? 1 : info.length));
  const auto gates = gated ? head.trace->cumulative_log_gate(head.layer, head.head) : std::span(open);
  if (!gate_statistics(gates, options.events, job, statistics)) return std::nullopt;
  if (info.mixer(head.layer).decays_by_channel()) statistics.channel_log_decay = channel_log_decays(head);
  statistics.saliency = head_saliency(head, options.events);
  const bool attention = options.with_attention && head.trace->has_attention(head.layer);
  if (!attention) return statistics;
  HeadEntries entries(head, Quantity::attention, {});
  auto spread = attention_spread(entries, job);
  if (!spread) return std::nullopt;
  static_cast<AttentionSpread&>(statistics) = std::move(*spread);
  statistics.has_attention = true;
  statistics.label_scores = label_scores(statistics, window_of(info, head.layer));
  return statistics;
}

}  // namespace foxscope

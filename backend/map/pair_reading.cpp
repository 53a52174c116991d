#include "backend/map/pair_reading.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/map/mixing_recurrence.h"

namespace foxscope {
namespace {

constexpr double kSurvivalLevel = -1.0;  ///< log F of 1/e, nats

void check_pair(const HeadOf& head, std::int64_t query, std::int64_t key) {
  const TraceInfo& info = head.trace->info();
  head.trace->check_head(head.layer, head.head);
  if (key < 0 || key > query || query >= info.length) {
    throw UsageError(fmt::format("positions {} and {}: must be 0 <= key <= query <= {}, the last position of '{}'",
                                 query, key, info.length - 1, info.name));
  }
}

/// F of a head whose channels decay each in its own way: the mean of exp(P_query - P_key).
double mean_over_channels(const HeadOf& head, std::int64_t query, std::int64_t key) {
  const std::vector<double> later = head.trace->log_decay_at(head.layer, head.head, query);
  const std::vector<double> earlier = head.trace->log_decay_at(head.layer, head.head, key);
  double sum = 0;
  for (std::size_t channel = 0; channel < later.size(); ++channel) sum += std::exp(later[channel] - earlier[channel]);
  return sum / static_cast<double>(later.size());
}

void read_gates(const HeadOf& head, std::int64_t query, std::int64_t key, PairReading& reading) {
  const TraceInfo& info = head.trace->info();
  reading.forward_survival = static_cast<double>(info.length - 1 - key);
  if (!forgets(info, head.layer)) return;
  const std::span<const double> c = head.trace->cumulative_log_gate(head.layer, head.head);
  const double at_key = c[index_of(key)];
  reading.log_forget = c[index_of(query)] - at_key;
  reading.forget =
      info.mixer(head.layer).decays_by_channel() ? mean_over_channels(head, query, key) : std::exp(reading.log_forget);
  // c never increases: the first position after the key where F has fallen below the level.
  const auto after = c.subspan(static_cast<std::size_t>(key) + 1);
  const auto fallen =
      std::partition_point(after.begin(), after.end(), [&](double value) { return value - at_key >= kSurvivalLevel; });
  if (fallen == after.end()) return;
  const auto kept = static_cast<double>(fallen - after.begin());
  const double inside = (fallen == after.begin() ? at_key : *(fallen - 1)) - at_key;
  const double beyond = *fallen - at_key;
  reading.forward_survival = kept + (inside - kSurvivalLevel) / (inside - beyond);
  reading.survives_text = false;
}

/// M of a query and a key, by passing the query over all keys behind that one (MixingRecurrence).
/// @param between  that key and the query
/// @param k        [query - key + 1, d]
/// @param r        [d] the query
double entry_behind(const HeadOf& head, const Range& between, std::span<const float> k, std::vector<double>& r) {
  const MixingRecurrence recurrence(head);
  std::vector<double> alpha(r.size());
  for (std::int64_t position = between.end; position > between.begin; --position) {
    const std::span<const float> key = k.subspan(index_of(position - between.begin) * r.size(), r.size());
    recurrence.decays(position, alpha);
    recurrence.pass(position, key, recurrence.entry(position, key, r), alpha, r);
  }
  return recurrence.entry(between.begin, k.first(r.size()), r);
}

/// M by the recurrence from the query back to the key (docs/maps.md), in float64; of attention that erases q.k.
double mixing_entry(const HeadOf& head, std::int64_t query, std::int64_t key) {
  const Trace& trace = *head.trace;
  const LayerMixer mixer = trace.info().mixer(head.layer);
  const QueryKeyStore& store = *trace.query_key();
  std::vector<float> query_scratch;
  std::vector<float> key_scratch;
  const auto q = store.rows(TraceArray::query, head.layer, shared_head(mixer.heads, mixer.query_heads, head.head),
                            query, query + 1, query_scratch);
  const auto k = store.rows(TraceArray::key, head.layer, shared_head(mixer.heads, mixer.key_heads, head.head), key,
                            query + 1, key_scratch);
  std::vector<double> r(q.begin(), q.end());
  const std::size_t channels = r.size();
  const auto at = [](std::int64_t position) { return static_cast<std::size_t>(position); };
  const auto product = [&](std::int64_t position) {
    double sum = 0;
    for (std::size_t n = 0; n < channels; ++n) sum += r[n] * static_cast<double>(k[at(position - key) * channels + n]);
    return sum;
  };
  const double beta = mixer.kind().writes_beta ? static_cast<double>(trace.beta(head.layer, head.head)[at(key)]) : 1.0;
  if (mixer.erases()) return entry_behind(head, {key, query}, k, r);
  if (mixer.decays_by_channel()) {
    const std::vector<double> later = trace.log_decay_at(head.layer, head.head, query);
    const std::vector<double> earlier = trace.log_decay_at(head.layer, head.head, key);
    for (std::size_t n = 0; n < channels; ++n) r[n] *= std::exp(later[n] - earlier[n]);
    return beta * product(key);
  }
  const auto c = trace.cumulative_log_gate(head.layer, head.head);
  return beta * std::exp(c[at(query)] - c[at(key)]) * product(key);
}

void read_mixing(const HeadOf& head, std::int64_t query, std::int64_t key, PairReading& reading) {
  reading.has_mixing = true;
  reading.mixing = mixing_entry(head, query, key);
  if (!head.trace->knows_row_sizes(head.layer, head.head)) return;
  const float size = head.trace->row_sizes(head.layer, head.head, {})[index_of(query)];
  reading.has_attention = true;
  reading.attention = size == 0 ? 0.0 : std::abs(reading.mixing) / static_cast<double>(size);
}

/// q_i.k_j of softmax attention.
double product_of(const HeadOf& head, std::int64_t query, std::int64_t key) {
  const QueryKeyStore& store = *head.trace->query_key();
  std::vector<float> query_scratch;
  std::vector<float> key_scratch;
  const int key_head = key_head_of(head.trace->info(), head.layer, head.head);
  const auto q = store.rows(QueryKeyStore::Part::query, head.layer, head.head, query, query + 1, query_scratch);
  const auto k = store.rows(QueryKeyStore::Part::key, head.layer, key_head, key, key + 1, key_scratch);
  double dot = 0;
  for (std::size_t n = 0; n < q.size(); ++n) dot += static_cast<double>(q[n]) * static_cast<double>(k[n]);
  return dot;
}

void read_attention(const HeadOf& head, std::int64_t query, std::int64_t key, PairReading& reading) {
  const Trace& trace = *head.trace;
  const TraceInfo& info = trace.info();
  if (!trace.has_attention(head.layer)) return;
  const LayerMixer mixer = info.mixer(head.layer);
  if (!mixer.has_softmax()) return read_mixing(head, query, key, reading);
  reading.has_attention = true;
  const double dot = mixer.path ? mixing_entry(head, query, key) : product_of(head, query, key);
  reading.logit = capped_logit(info, dot * static_cast<double>(info.softmax_scale));
  const double normalizer = trace.log_normalizer(head.layer, head.head)[index_of(query)];
  if (const auto sink = trace.sink_logit(head.layer, head.head)) reading.sink_share = std::exp(*sink - normalizer);
  if (!reading.in_window) return;
  reading.attention = std::exp(reading.logit + reading.log_forget - normalizer);
}

}  // namespace

PairReading pair_reading(const HeadOf& head, std::int64_t query, std::int64_t key) {
  check_pair(head, query, key);
  const TraceInfo& info = head.trace->info();
  PairReading reading;
  const std::int64_t window = window_of(info, head.layer);
  reading.in_window = window == 0 || query - key < window;
  read_gates(head, query, key, reading);
  read_attention(head, query, key, reading);
  return reading;
}

}  // namespace foxscope

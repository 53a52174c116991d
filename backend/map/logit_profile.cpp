#include "backend/map/logit_profile.h"

#include <algorithm>
#include <limits>
#include <span>

#include "backend/map/team.h"

namespace foxscope {
namespace {

/// Queries, keys and gates of one head.
struct Rows {
  std::span<const float> query;  ///< [L, d]
  std::span<const float> key;    ///< [L, d]
  std::span<const double> gate;  ///< [L]; empty: no gate
  std::int64_t length = 0;
  std::int64_t head_dim = 0;
  double scale = 0;
};

/// sum += factor * the numbers of one key.
void add_key(const Rows& rows, std::int64_t key, double factor, std::vector<double>& sum) {
  const float* const values = rows.key.data() + key * rows.head_dim;
  for (std::size_t n = 0; n < sum.size(); ++n) sum[n] += factor * static_cast<double>(values[n]);
}

LogitMeans mean_logits(const Rows& rows, const DistanceBin& bin) {
  std::vector<double> keys(static_cast<std::size_t>(rows.head_dim));  // sum of the keys within the bin's distances
  double content = 0;
  double decay = 0;
  double gates = 0;  // sum of c of these keys
  std::int64_t count = 0;
  std::int64_t pairs = 0;
  for (std::int64_t row = 0; row < rows.length; ++row) {
    const std::int64_t enters = row - bin.from;
    const std::int64_t leaves = row - bin.to;
    if (enters >= 1) {
      add_key(rows, enters, 1.0, keys);
      if (!rows.gate.empty()) gates += rows.gate[static_cast<std::size_t>(enters)];
      ++count;
    }
    if (leaves >= 1) {
      add_key(rows, leaves, -1.0, keys);
      if (!rows.gate.empty()) gates -= rows.gate[static_cast<std::size_t>(leaves)];
      --count;
    }
    const float* const query = rows.query.data() + row * rows.head_dim;
    for (std::size_t n = 0; n < keys.size(); ++n) content += static_cast<double>(query[n]) * keys[n];
    if (!rows.gate.empty()) decay += static_cast<double>(count) * rows.gate[static_cast<std::size_t>(row)] - gates;
    pairs += count;
  }
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  if (pairs == 0) return {bin, kNone, kNone};
  // c never increases; what sums round to above 0 is 0.
  return {bin, rows.scale * content / static_cast<double>(pairs), std::min(0.0, decay / static_cast<double>(pairs))};
}

}  // namespace

std::optional<std::vector<LogitMeans>> logit_profile(const HeadOf& head, const Job& job) {
  const TraceInfo& info = head.trace->info();
  head.trace->check_head(head.layer, head.head);
  const QueryKeyStore& store = head.trace->require_query_key();
  std::vector<float> query_scratch;
  std::vector<float> key_scratch;
  const int key_head = key_head_of(info, head.head);
  Rows rows;
  rows.length = info.length;
  rows.head_dim = info.head_dim;
  rows.scale = static_cast<double>(info.softmax_scale);
  rows.query = store.rows(QueryKeyStore::Part::query, head.layer, head.head, 0, info.length, query_scratch);
  rows.key = store.rows(QueryKeyStore::Part::key, head.layer, key_head, 0, info.length, key_scratch);
  if (info.gated) rows.gate = head.trace->cumulative_log_gate(head.layer, head.head);
  const std::int64_t reach = info.window_size == 0 ? info.length : std::min(info.length, info.window_size);
  const std::vector<DistanceBin> bins = distance_bins(reach);
  std::vector<LogitMeans> means(bins.size());
  Team team(job);
  const auto tasks = static_cast<std::int64_t>(bins.size());
  const bool done = team.run({"averaging logits", "distances", tasks}, tasks, [&](std::int64_t task, int thread) {
    const auto bin = static_cast<std::size_t>(task);
    means[bin] = mean_logits(rows, bins[bin]);
    team.advance(1, thread);
  });
  if (!done) return std::nullopt;
  return means;
}

}  // namespace foxscope

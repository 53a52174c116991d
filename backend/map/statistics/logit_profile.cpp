#include "backend/map/statistics/logit_profile.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "backend/base/index.h"
#include "backend/map/band_tiles.h"
#include "backend/map/device/device_profile.h"
#include "backend/map/head_entries.h"
#include "backend/map/maps_elsewhere.h"
#include "backend/map/team.h"

namespace foxscope {
namespace {

/// Queries and keys of one head.
struct Rows {
  std::span<const float> query;  ///< [L, d]
  std::span<const float> key;    ///< [L, d]
  std::int64_t length = 0;
  std::int64_t head_dim = 0;
};

/// sum += factor * the numbers of one key.
void add_key(const Rows& rows, std::int64_t key, double factor, std::vector<double>& sum) {
  const float* const values = rows.key.data() + key * rows.head_dim;
  for (std::size_t n = 0; n < sum.size(); ++n) sum[n] += factor * static_cast<double>(values[n]);
}

/// Sum of q_i.k_j over the pairs of a bin.
double sum_products(const Rows& rows, const DistanceBin& bin) {
  std::vector<double> keys(static_cast<std::size_t>(rows.head_dim));  // sum of the keys within the bin's distances
  double sum = 0;
  for (std::int64_t row = bin.from + 1; row < rows.length; ++row) {
    add_key(rows, row - bin.from, 1.0, keys);
    if (row - bin.to >= 1) add_key(rows, row - bin.to, -1.0, keys);
    const float* const query = rows.query.data() + row * rows.head_dim;
    for (std::size_t n = 0; n < keys.size(); ++n) sum += static_cast<double>(query[n]) * keys[n];
  }
  return sum;
}

/// Sum of the capped logits of the pairs of a bin, pair by pair, in the units of q_i.k_j.
double sum_capped(const Rows& rows, const DistanceBin& bin, const TraceInfo& info) {
  const auto scale = static_cast<double>(info.softmax_scale);
  double sum = 0;
  for (std::int64_t row = bin.from + 1; row < rows.length; ++row) {
    const float* const query = rows.query.data() + row * rows.head_dim;
    for (std::int64_t key = std::max<std::int64_t>(1, row - bin.to + 1); key <= row - bin.from; ++key) {
      const float* const values = rows.key.data() + key * rows.head_dim;
      double product = 0;
      for (std::int64_t n = 0; n < rows.head_dim; ++n) {
        product += static_cast<double>(query[n]) * static_cast<double>(values[n]);
      }
      sum += capped_logit(info, scale * product) / scale;
    }
  }
  return sum;
}

/// Bands of rows are dealt out to so many tasks, each with sums of its own: sums then do not depend on the number of
/// threads.
constexpr std::int64_t kPathTasks = 16;

/// Sums of q_i.k_j of keys that are passed on from position to position, tile by tile: each depends on all between.
/// @returns false if the job was stopped
bool sum_passed(const HeadOf& head, std::span<const DistanceBin> bins, const Job& job, std::span<double> sums) {
  using kernels::cpu::kMapTile;
  HeadEntries entries(head, Quantity::logits, {});
  Team team(job);
  const Range whole{0, entries.length};
  if (!entries.prepare_path(whole, whole, team)) return false;
  const std::int64_t bands = (entries.length + kBandRows - 1) / kBandRows;
  const std::int64_t tasks = std::min(kPathTasks, bands);
  std::vector<std::vector<double>> of_distance(index_of(tasks));
  const bool done = team.run({"averaging logits", "tokens", entries.length}, tasks, [&](std::int64_t task, int thread) {
    std::vector<double>& own = of_distance[index_of(task)];
    own.resize(index_of(entries.length));
    const auto reader = entries.reader();
    std::vector<float> values(index_of(kMapTile * kMapTile));
    for (std::int64_t band = bands - 1 - task; band >= 0; band -= tasks) {
      const Range rows{band * kBandRows, std::min((band + 1) * kBandRows, entries.length)};
      reader->set_band(rows);
      const bool whole_band = for_each_tile(
          rows, whole, entries.window, team, [&](const Range& keys) { reader->set_chunk(keys); },
          [&](const BandTile& tile) {
            reader->tile(tile.strip, tile.keys, values.data());
            for (std::int64_t key = std::max<std::int64_t>(1, tile.keys.begin); key < tile.keys.end; ++key) {
              const float* const line = values.data() + (key - tile.keys.begin) * kMapTile;
              for (std::int64_t row = std::max(key, tile.rows.begin); row < tile.rows.end; ++row) {
                own[index_of(row - key)] += static_cast<double>(line[row - tile.rows.begin]);
              }
            }
          });
      if (!whole_band) return;
      team.advance(rows.size(), thread);
    }
  });
  if (!done) return false;
  const auto scale = static_cast<double>(head.trace->info().softmax_scale);
  for (std::size_t bin = 0; bin < bins.size(); ++bin) {
    for (const std::vector<double>& own : of_distance) {
      const std::int64_t end = std::min(bins[bin].to, entries.length);
      for (std::int64_t distance = bins[bin].from; distance < end; ++distance) sums[bin] += own[index_of(distance)];
    }
    sums[bin] /= scale;
  }
  return true;
}

/// The same for all bins, on the job's threads. @returns false if the job was stopped
bool sum_products(const HeadOf& head, std::span<const DistanceBin> bins, const Job& job, std::span<double> sums) {
  const TraceInfo& info = head.trace->info();
  const QueryKeyStore& store = head.trace->require_query_key();
  const LayerMixer mixer = info.mixer(head.layer);
  if (mixer.path) return sum_passed(head, bins, job, sums);
  const int key_head = shared_head(mixer.heads, mixer.key_heads, head.head);
  std::vector<float> query_scratch;
  std::vector<float> key_scratch;
  const Rows rows{store.rows(QueryKeyStore::Part::query, head.layer, head.head, 0, info.length, query_scratch),
                  store.rows(QueryKeyStore::Part::key, head.layer, key_head, 0, info.length, key_scratch), info.length,
                  mixer.head_dim};
  Team team(job);
  const auto tasks = static_cast<std::int64_t>(bins.size());
  return team.run({"averaging logits", "distances", tasks}, tasks, [&](std::int64_t task, int thread) {
    const auto bin = static_cast<std::size_t>(task);
    sums[bin] = info.logit_cap > 0 ? sum_capped(rows, bins[bin], info) : sum_products(rows, bins[bin]);
    team.advance(1, thread);
  });
}

/// Sum of c_i - c_j over the pairs of a bin: each c as often as it is a query's, less as often as it is a key's, and
/// further than the bin reaches from both ends that is equally often.
double sum_decay(std::span<const double> c, const DistanceBin& bin) {
  const auto length = static_cast<std::int64_t>(c.size());
  const auto within = [&](std::int64_t positions) { return std::clamp(positions, bin.from, bin.to) - bin.from; };
  double sum = 0;
  const auto add = [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t x = begin; x < end; ++x) {
      sum += c[index_of(x)] * static_cast<double>(within(x) - within(length - x));
    }
  };
  add(1, std::min(bin.to, length));
  add(std::max(bin.to, length - bin.to + 1), length);
  return sum;
}

/// Pairs of a bin: a distance s has those of the queries after key 1 + s.
double count_pairs(std::int64_t length, const DistanceBin& bin) {
  const std::int64_t end = std::min(bin.to, length - 1);
  if (end <= bin.from) return 0;
  const auto most = static_cast<double>(length - 1 - bin.from);
  const auto least = static_cast<double>(length - end);
  return (most + least) / 2 * static_cast<double>(end - bin.from);
}

}  // namespace

std::optional<std::vector<LogitMeans>> logit_profile(const HeadOf& head, const Job& job) {
  const TraceInfo& info = head.trace->info();
  head.trace->check_head(head.layer, head.head);
  if (const auto* const there = elsewhere(head)) return there->logits(head, job);
  std::span<const double> gate;
  if (forgets(info, head.layer)) gate = head.trace->cumulative_log_gate(head.layer, head.head);
  const std::int64_t window = window_of(info, head.layer);
  const std::int64_t reach = window == 0 ? info.length : std::min(info.length, window);
  const std::vector<DistanceBin> bins = distance_bins(reach);
  std::vector<double> products(bins.size());
  const bool computed = head.gpu && device_product_sums(head, bins, *head.gpu, products) == kernels::Status::ok;
  if (job.stopped() || (!computed && !sum_products(head, bins, job, products))) return std::nullopt;
  std::vector<LogitMeans> means;
  for (std::size_t n = 0; n < bins.size(); ++n) {
    constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
    const double pairs = count_pairs(info.length, bins[n]);
    const double content = pairs > 0 ? static_cast<double>(info.softmax_scale) * products[n] / pairs : kNone;
    double decay = gate.empty() ? 0.0 : sum_decay(gate, bins[n]) / pairs;
    if (decay > 0) decay = 0;  // c never increases: by rounding
    // The last query is in every bin. Positions that cancel are not looked at, and a NaN goes on to the end.
    if (!gate.empty() && std::isnan(gate.back())) decay = kNone;
    means.push_back({bins[n], content, pairs > 0 ? decay : kNone});
  }
  return means;
}

}  // namespace foxscope

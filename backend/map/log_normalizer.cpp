#include "backend/map/log_normalizer.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <memory>
#include <numbers>

#include "backend/base/index.h"
#include "backend/map/band_tiles.h"
#include "backend/map/device/device_map.h"
#include "backend/map/head_entries.h"
#include "backend/map/team.h"
#include "kernels/cpu/pooled_map.h"

namespace foxscope {
namespace {

namespace cpu = kernels::cpu;
using cpu::kMapTile;

/// The scratch of a thread.
struct RowWorker {
  explicit RowWorker(const HeadEntries& entries) : reader(entries) {}
  EntryReader reader;
  std::vector<float> tile = std::vector<float>(kMapTile * kMapTile);
  float maximum[kBandRows] = {};
  double sum[kBandRows] = {};
};

/// log(exp(a) + exp(b)); -infinity where both are.
double log_of_sum(double a, double b) {
  const double larger = std::max(a, b);
  return std::isinf(larger) ? larger : larger + std::log1p(std::exp(std::min(a, b) - larger));
}

/// Rows of one band: an online log-sum-exp over its keys, nats.
/// @param first_key  key 0 stays out of the sum where it is left out
/// @param out  [rows]
/// @returns false if the job was stopped on the way
bool sum_band(const HeadEntries& entries, const Range& rows, FirstKey first_key, const Team& team, RowWorker& worker,
              double* out) {
  std::fill(std::begin(worker.maximum), std::end(worker.maximum), -std::numeric_limits<float>::infinity());
  std::fill(std::begin(worker.sum), std::end(worker.sum), 0.0);
  worker.reader.set_band(rows);
  const bool done = for_each_tile(
      rows, {0, entries.length}, entries.window, team, [&](const Range& keys) { worker.reader.set_chunk(keys); },
      [&](const BandTile& tile) {
        worker.reader.tile(tile.strip, tile.keys, worker.tile.data());
        if (tile.cut) {
          cpu::mask_tile(tile.rows.begin - tile.keys.begin, entries.window, tile.keys.size(),
                         -std::numeric_limits<float>::infinity(), worker.tile.data());
        }
        if (first_key == FirstKey::left_out && tile.keys.begin == 0) {
          std::fill_n(worker.tile.begin(), kMapTile, -std::numeric_limits<float>::infinity());
        }
        cpu::log_sum_exp_tile(worker.tile.data(), tile.keys.size(), worker.maximum + tile.strip * kMapTile,
                              worker.sum + tile.strip * kMapTile);
      });
  if (!done) return false;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const std::int64_t n = row - rows.begin;
    out[n] = static_cast<double>(worker.maximum[n]) * std::numbers::ln2 + std::log(worker.sum[n]);
    if (entries.sink && first_key == FirstKey::counted) out[n] = log_of_sum(out[n], entries.log_sink_share(row));
  }
  return true;
}

bool normalise_band(const HeadEntries& entries, const Range& rows, const Team& team, RowWorker& worker, float* out) {
  double logs[kBandRows];
  if (!sum_band(entries, rows, FirstKey::counted, team, worker, logs)) return false;
  for (std::int64_t n = 0; n < rows.size(); ++n) out[rows.begin + n] = static_cast<float>(logs[n]);
  return true;
}

/// Shares of a row beside key 0 down to which they are known well enough as 1 minus the share of key 0.
constexpr double kKnownBeside = 1.0 / 16.0;

/// log(1 - A_i0) of a band's rows, without what a sink takes.
/// @returns false if the job was stopped on the way
bool logs_beside_first(const HeadEntries& entries, const Range& rows, const Team& team, RowWorker& worker,
                       double* out) {
  worker.reader.set_band(rows);
  worker.reader.set_chunk({0, 1});
  bool unsure = false;
  for (std::int64_t begin = 0; begin < rows.size(); begin += kMapTile) {
    worker.reader.tile(begin / kMapTile, {0, 1}, worker.tile.data());
    for (std::int64_t n = begin; n < std::min(begin + kMapTile, rows.size()); ++n) {
      const bool seen = entries.window == 0 || rows.begin + n < entries.window;
      const double log_first = static_cast<double>(worker.tile[index_of(n - begin)]) * std::numbers::ln2;
      const double of_sink = entries.sink ? std::exp(entries.log_sink_share(rows.begin + n)) : 0.0;
      const double beside = std::max(0.0, (seen ? -std::expm1(log_first) : 1.0) - of_sink);
      out[n] = std::log(beside);
      unsure = unsure || (rows.begin + n > 0 && beside < kKnownBeside);
    }
  }
  return !unsure || sum_band(entries, rows, FirstKey::left_out, team, worker, out);
}

}  // namespace

std::vector<float> compute_log_normalizer_without_gate(const HeadOf& head, const Range& rows, const Job& job) {
  if (head.gpu) {
    std::vector<float> normalizer;
    const auto status = device_log_normalizer_without_gate(head, rows, *head.gpu, normalizer);
    if (job.stopped()) return {};
    assert(status != kernels::Status::ok || static_cast<std::int64_t>(normalizer.size()) == head.trace->info().length);
    if (status == kernels::Status::ok) return normalizer;
  }
  HeadEntries entries(head, Quantity::attention_without_gate, {});
  assert(rows.begin >= 0 && rows.end <= entries.length);
  entries.logarithm = true;
  std::vector<float> normalizer(static_cast<std::size_t>(entries.length), std::numeric_limits<float>::quiet_NaN());
  Team team(job);
  if (!entries.prepare_path(rows, {0, rows.end}, team)) return {};
  std::vector<std::unique_ptr<RowWorker>> workers(static_cast<std::size_t>(team.threads()));
  const std::int64_t bands = (rows.size() + kBandRows - 1) / kBandRows;
  const bool done =
      team.run({"normalising without the gate", "tokens", rows.size()}, bands, [&](std::int64_t task, int thread) {
        auto& worker = workers[index_of(thread)];
        if (!worker) worker = std::make_unique<RowWorker>(entries);
        // Later rows see more keys: they go first, so that the threads finish together.
        const std::int64_t begin = rows.begin + (bands - 1 - task) * kBandRows;
        const Range band{begin, std::min(begin + kBandRows, rows.end)};
        if (normalise_band(entries, band, team, *worker, normalizer.data())) {
          team.advance(band.size(), thread);
        }
      });
  if (!done) return {};
  return normalizer;
}

std::vector<float> compute_log_normalizer_beside_first(const HeadOf& head, std::span<const float> without_gate,
                                                       const Range& rows, const Job& job) {
  HeadEntries entries(head, without_gate.empty() ? Quantity::attention : Quantity::attention_without_gate,
                      without_gate);
  entries.logarithm = true;
  const std::span<const float> own = without_gate.empty() ? entries.normalizer : without_gate;
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> normalizer(static_cast<std::size_t>(entries.length), kNone);
  Team team(job);
  if (!entries.prepare_path(rows, {0, rows.end}, team)) return {};
  std::vector<std::unique_ptr<RowWorker>> workers(static_cast<std::size_t>(team.threads()));
  const std::int64_t bands = (rows.size() + kBandRows - 1) / kBandRows;
  const bool done = team.run({"leaving out key 0", "tokens", rows.size()}, bands, [&](std::int64_t task, int thread) {
    auto& worker = workers[index_of(thread)];
    if (!worker) worker = std::make_unique<RowWorker>(entries);
    const std::int64_t begin = rows.begin + (bands - 1 - task) * kBandRows;
    const Range band{begin, std::min(begin + kBandRows, rows.end)};
    double logs[kBandRows];
    if (!logs_beside_first(entries, band, team, *worker, logs)) return;
    for (std::int64_t n = 0; n < band.size(); ++n) {
      const auto row = static_cast<std::size_t>(band.begin + n);
      const bool nothing = row > 0 && logs[n] == -std::numeric_limits<double>::infinity();
      normalizer[row] = nothing ? kNone : static_cast<float>(static_cast<double>(own[row]) + (row > 0 ? logs[n] : 0.0));
    }
    team.advance(band.size(), thread);
  });
  if (!done) return {};
  return normalizer;
}

}  // namespace foxscope

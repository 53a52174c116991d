#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <memory>

#include "backend/map/band_tiles.h"
#include "backend/map/device_map.h"
#include "backend/map/head_entries.h"
#include "backend/map/map.h"
#include "backend/map/team.h"
#include "kernels/cpu/pooled_map.h"

namespace foxscope {
namespace {

namespace cpu = kernels::cpu;
using cpu::kMapTile;

constexpr double kLn2 = 0.6931471805599453;

/// What a thread works with.
struct RowWorker {
  explicit RowWorker(const HeadEntries& entries) : reader(entries) {}
  EntryReader reader;
  std::vector<float> tile = std::vector<float>(kMapTile * kMapTile);
  float maximum[kBandRows] = {};
  double sum[kBandRows] = {};
};

/// Rows of one band: an online log-sum-exp over its keys.
/// @returns false if the job was stopped on the way
bool normalise_band(const HeadEntries& entries, const Range& rows, const Team& team, RowWorker& worker, float* out) {
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
        cpu::log_sum_exp_tile(worker.tile.data(), tile.keys.size(), worker.maximum + tile.strip * kMapTile,
                              worker.sum + tile.strip * kMapTile);
      });
  if (!done) return false;
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    const std::int64_t n = row - rows.begin;
    out[row] = static_cast<float>(static_cast<double>(worker.maximum[n]) * kLn2 + std::log(worker.sum[n]));
  }
  return true;
}

}  // namespace

std::vector<float> compute_log_normalizer_without_gate(const HeadOf& head, const Range& rows, const Job& job) {
  if (const auto gpu = head.trace->gpu()) {
    std::vector<float> normalizer;
    const auto status = device_log_normalizer_without_gate(head, rows, *gpu, normalizer);
    if (job.stopped()) return {};
    assert(status != kernels::Status::ok || static_cast<std::int64_t>(normalizer.size()) == head.trace->info().length);
    if (status == kernels::Status::ok) return normalizer;
  }
  HeadEntries entries(head, Quantity::attention_without_gate, {});
  assert(rows.begin >= 0 && rows.end <= entries.length);
  entries.logarithm = true;
  std::vector<float> normalizer(static_cast<std::size_t>(entries.length), std::numeric_limits<float>::quiet_NaN());
  Team team(job);
  std::vector<std::unique_ptr<RowWorker>> workers(static_cast<std::size_t>(team.threads()));
  const std::int64_t bands = (rows.size() + kBandRows - 1) / kBandRows;
  const bool done =
      team.run({"normalising without the gate", "tokens", rows.size()}, bands, [&](std::int64_t task, int thread) {
        auto& worker = workers[static_cast<std::size_t>(thread)];
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

std::span<const float> log_normalizer_without_gate(const HeadOf& head, const Job& job) {
  return head.trace->log_normalizer_without_gate(head.layer, head.head, [&] {
    const Range all{0, head.trace->info().length};
    if (head.trace->info().gated) return compute_log_normalizer_without_gate(head, all, job);
    // Without a gate the run's own normaliser is the one; taking it makes the gate's effect exactly 0.
    const std::span<const float> own = head.trace->log_normalizer(head.layer, head.head);
    return std::vector<float>(own.begin(), own.end());
  });
}

}  // namespace foxscope

#include "backend/map/entry_map.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <deque>
#include <limits>
#include <memory>
#include <utility>

#include "backend/base/index.h"
#include "backend/map/band_tiles.h"
#include "backend/map/head_entries.h"
#include "backend/map/log_normalizer.h"
#include "backend/map/map_pixels.h"
#include "backend/map/statistics/bins.h"
#include "backend/map/team.h"
#include "kernels/cpu/pooled_map.h"
#include "kernels/cpu/rounded_logits.h"

namespace foxscope {
namespace {

namespace cpu = kernels::cpu;
using cpu::kMapTile;

/// A single line of pixels over many rows is shared out, so that a picture of few lines still has tasks for all.
constexpr std::int64_t kSharedTasks = 32;
/// From this many rows on, tasks are whole bands.
constexpr std::int64_t kManyRows = 2048;
/// From this many rows on, bands are long ones where they may be.
constexpr std::int64_t kLongRows = 16384;
/// Entries of a pixel from which on its largest is searched for.
constexpr std::int64_t kSearchedEntries = 128;
/// Share of a task's tiles that may be empty before it takes fewer lines.
constexpr double kEmptyShare = 0.02;

/// Lines of pixels that one task computes, or one of several shares of a single line.
struct Task {
  std::int64_t pixel_begin = 0;
  std::int64_t pixel_end = 0;
  Range rows;
  bool shared = false;
  PartialPixels partial;
};

/// The scratch of a thread.
struct PixelWorker {
  explicit PixelWorker(const std::vector<HeadEntries>& entries) {
    for (const HeadEntries& head : entries) readers.push_back(head.reader());
  }
  std::vector<std::unique_ptr<TileReader>> readers;
  std::vector<float> tile = std::vector<float>(kMapTile * kMapTile);
  std::vector<float> other = std::vector<float>(kMapTile * kMapTile);
  std::vector<float> result = std::vector<float>(kMapTile * kMapTile);
};

/// Share of the tiles' rows that hold none: a task's last tile of rows may be nearly empty.
double empty_share(std::int64_t rows) {
  const std::int64_t tiles = (rows + kMapTile - 1) / kMapTile;
  return 1 - static_cast<double>(rows) / static_cast<double>(tiles * kMapTile);
}

/// The lines from `begin` on that are computed together: as many as fit, or a few less where those fill their tiles.
/// @param target  rows of all of them, at most, if there is more than one
std::int64_t end_of_task(const MapPixels& pixels, std::int64_t begin, std::int64_t target) {
  const std::int64_t first = pixels.rows_of(begin).begin;
  std::int64_t best = begin + 1;
  double least = 1;
  for (std::int64_t end = best; end <= pixels.rows() && pixels.rows_of(end - 1).end - first <= target; ++end) {
    const double empty = empty_share(pixels.rows_of(end - 1).end - first);
    if (empty > least + kEmptyShare) continue;
    best = end;
    least = std::min(least, empty);
  }
  return best;
}

/// The division depends on the request alone, so that sums come out the same on any number of threads.
/// @param band  rows of a band where there are many
std::vector<Task> plan_tasks(const MapPixels& pixels, std::int64_t row_count, std::int64_t band) {
  std::vector<Task> tasks;
  const std::int64_t target = row_count >= kManyRows ? band : kMapTile;
  for (std::int64_t begin = 0; begin < pixels.rows();) {
    const std::int64_t end = end_of_task(pixels, begin, target);
    const Range rows{pixels.rows_of(begin).begin, pixels.rows_of(end - 1).end};
    const std::int64_t bands = std::max<std::int64_t>(1, rows.size() / target);
    const std::int64_t shares = std::clamp<std::int64_t>(kSharedTasks / pixels.rows(), 1, bands);
    for (std::int64_t share = 0; share < shares; ++share) {
      const Range part{bin_begin(rows, shares, share), bin_begin(rows, shares, share + 1)};
      tasks.push_back({begin, end, part, shares > 1, {}});
    }
    begin = end;
  }
  // Later rows see more keys: they go first, so that the threads finish together.
  std::reverse(tasks.begin(), tasks.end());
  return tasks;
}

/// The same tasks, each half as far from those before as the last were: however far the work is, what is done lies
/// evenly.
std::vector<Task> from_coarse_to_fine(std::vector<Task> tasks) {
  std::vector<Task> ordered;
  ordered.reserve(tasks.size());
  const std::size_t whole = std::bit_ceil(tasks.size());
  for (std::size_t n = 0; n < tasks.size(); n += whole) ordered.push_back(std::move(tasks[n]));
  for (std::size_t step = whole; step > 1; step /= 2) {
    for (std::size_t n = step / 2; n < tasks.size(); n += step) ordered.push_back(std::move(tasks[n]));
  }
  return ordered;
}

/// The lines that are done, by all threads; shown by the calling one.
class StagedLines {
 public:
  StagedLines(const MapStages& stages, std::int64_t lines)
      : stages_(stages), done_(static_cast<std::size_t>(lines)), last_(Clock::now()) {}

  void finish(const Task& task) {
    for (std::int64_t line = task.pixel_begin; line < task.pixel_end; ++line) {
      std::atomic_ref(done_[index_of(line)]).store(1, std::memory_order_release);
    }
  }
  void show_if_due(const Image& image) {
    if (Clock::now() - last_ < stages_.interval) return;
    std::vector<std::uint8_t> done;
    done.reserve(done_.size());
    for (std::uint8_t& line : done_) done.push_back(std::atomic_ref(line).load(std::memory_order_acquire));
    stages_.show({image, done});
    last_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;
  const MapStages& stages_;
  std::vector<std::uint8_t> done_;
  Clock::time_point last_;
};

class EntryMap {
 public:
  EntryMap(const MapRequest& request, Team& team, std::vector<HeadEntries> entries)
      : request_(request),
        team_(team),
        entries_(std::move(entries)),
        window_(entries_.size() == 2 ? common_window(entries_.front().window, entries_.back().window)
                                     : entries_.front().window),
        pixels_(request, window_, entries_.size() == 1 && entries_.front().is_softmax()) {
    if (request.by_distance()) window_ = common_window(window_, request.distances.back() - 1);
    for (HeadEntries& head : entries_) {
      head.logarithm = pixels_.logarithm();
      if (head.mixing != nullptr || head.path != nullptr || request.rows.size() < kLongRows) band_ = kBandRows;
    }
  }

  std::optional<Image> compute(const MapStages* stages);

 private:
  void run_task(Task& task, PixelWorker& worker, int thread);
  void run_band(Task& task, const Range& rows, PixelWorker& worker);
  void pool_tile(Task& task, const BandTile& tile, TilePlace& place, PixelWorker& worker);
  void pool_diagonals(Task& task, const BandTile& tile, TilePlace& place, PixelWorker& worker);
  bool find_largest(const BandTile& tile, const TilePlace& place, const PartialPixels& partial, PixelWorker& worker);
  bool fill_tile(const BandTile& tile, PixelWorker& worker) const;

  const MapRequest& request_;
  Team& team_;
  std::vector<HeadEntries> entries_;
  std::int64_t window_;  ///< of entries that have a pixel
  std::int64_t band_ = kLongBandRows;
  MapPixels pixels_;
};

std::optional<Image> EntryMap::compute(const MapStages* stages) {
  std::vector<Task> tasks = plan_tasks(pixels_, request_.rows.size(), band_);
  std::optional<StagedLines> staged;
  // Lines that several tasks share are done together, at the end.
  if (stages != nullptr && !tasks.front().shared) {
    staged.emplace(*stages, pixels_.rows());
    tasks = from_coarse_to_fine(std::move(tasks));
  }
  std::vector<std::unique_ptr<PixelWorker>> workers(static_cast<std::size_t>(team_.threads()));
  const bool done = team_.run({"computing the map", "tokens", request_.rows.size()},
                              static_cast<std::int64_t>(tasks.size()), [&](std::int64_t task, int thread) {
                                auto& worker = workers[index_of(thread)];
                                if (!worker) worker = std::make_unique<PixelWorker>(entries_);
                                run_task(tasks[index_of(task)], *worker, thread);
                                if (!staged || team_.stopped()) return;
                                staged->finish(tasks[index_of(task)]);
                                if (thread == 0) staged->show_if_due(pixels_.image());
                              });
  if (!done) return std::nullopt;
  for (auto task = tasks.begin(); task != tasks.end(); ++task) {
    if (!task->shared) continue;
    PartialPixels whole = std::move(task->partial);
    while (task + 1 != tasks.end() && (task + 1)->pixel_begin == task->pixel_begin) {
      ++task;
      pixels_.merge(task->partial, whole);
    }
    pixels_.finish_line(task->pixel_begin, whole);
  }
  return pixels_.take();
}

void EntryMap::run_task(Task& task, PixelWorker& worker, int thread) {
  pixels_.begin_lines(task.pixel_begin, task.pixel_end, task.partial);
  for (std::int64_t begin = task.rows.begin; begin < task.rows.end; begin += band_) {
    const Range band{begin, std::min(begin + band_, task.rows.end)};
    run_band(task, band, worker);
    if (team_.stopped()) return;
    team_.advance(band.size(), thread);
  }
  if (task.shared) return;
  for (std::int64_t pixel = task.pixel_begin; pixel < task.pixel_end; ++pixel) {
    pixels_.finish_line(pixel, task.partial);
  }
  task.partial = {};
}

void EntryMap::run_band(Task& task, const Range& rows, PixelWorker& worker) {
  Range keys = request_.columns;
  if (request_.by_distance()) keys = {0, rows.end - (request_.distances.front() - 1)};
  if (keys.begin >= std::min(rows.end, keys.end)) return;
  for (const auto& reader : worker.readers) reader->set_band(rows);
  TilePlace places[kLongBandRows / kMapTile];
  for (std::int64_t row = rows.begin; row < rows.end; row += kMapTile) {
    pixels_.place_rows({row, std::min(row + kMapTile, rows.end)}, places[(row - rows.begin) / kMapTile]);
  }
  const auto set_chunk = [&](const Range& chunk) {
    for (const auto& reader : worker.readers) reader->set_chunk(chunk);
  };
  for_each_tile(rows, keys, window_, team_, set_chunk, [&](const BandTile& tile) {
    if (request_.by_distance()) {
      pool_diagonals(task, tile, places[tile.strip], worker);
    } else {
      pool_tile(task, tile, places[tile.strip], worker);
    }
  });
}

void EntryMap::pool_tile(Task& task, const BandTile& tile, TilePlace& place, PixelWorker& worker) {
  pixels_.place_keys(tile.keys, place);
  if (find_largest(tile, place, task.partial, worker)) {
    pixels_.merge(place, worker.result.data(), task.partial);
    return;
  }
  if (!fill_tile(tile, worker)) return;
  cpu::reduce_tile(worker.tile.data(), tile.keys.size(), place.pixels, pixels_.reduction(), worker.result.data());
  pixels_.merge(place, worker.result.data(), task.partial);
}

void EntryMap::pool_diagonals(Task& task, const BandTile& tile, TilePlace& place, PixelWorker& worker) {
  Range columns = pixels_.diagonal_pixels(tile.rows, tile.keys);
  if (columns.size() == 0) return;
  if (columns.size() == 1 && pixels_.holds(columns.begin, tile.rows, tile.keys)) {
    // A tile of one bin of distances is one of one bin of keys.
    place.first_column = columns.begin;
    place.pixels.pieces = 1;
    place.pixels.key_end[0] = static_cast<std::uint8_t>(tile.keys.size());
    if (find_largest(tile, place, task.partial, worker)) {
      pixels_.merge(place, worker.result.data(), task.partial);
      return;
    }
  }
  if (!fill_tile(tile, worker)) return;
  TileDiagonals diagonals{place};
  while (columns.begin < columns.end) {
    columns.begin = pixels_.place_diagonals(tile.rows, tile.keys, columns, diagonals);
    cpu::reduce_diagonals(worker.tile.data(), tile.keys.size(), diagonals.place.pixels, diagonals.edge,
                          pixels_.reduction(), worker.result.data());
    pixels_.merge(diagonals.place, worker.result.data(), task.partial);
  }
}

/// Finds the extremes of attention in a tile, which few of its entries can be. @returns false where they are not found
/// that way
bool EntryMap::find_largest(const BandTile& tile, const TilePlace& place, const PartialPixels& partial,
                            PixelWorker& worker) {
  if (entries_.front().rounded_keys.empty() || tile.cut) return false;
  if (request_.first_key == FirstKey::left_out && tile.keys.begin == 0) return false;
  TileReader& reader = *worker.readers.front();
  if (reader.negligible(tile.strip, tile.keys)) return false;
  pixels_.gathered(place, partial, worker.tile.data());
  return reader.largest_of_parts(tile.strip, tile.keys, place.pixels, worker.tile.data(), worker.result.data());
}

/// @returns false if the tile changes no pixel
bool EntryMap::fill_tile(const BandTile& tile, PixelWorker& worker) const {
  const bool nothing = std::all_of(worker.readers.begin(), worker.readers.end(),
                                   [&](const auto& reader) { return reader->negligible(tile.strip, tile.keys); });
  if (nothing) {
    if (pixels_.zeros_change_nothing()) return false;
    const float zero = pixels_.logarithm() ? -std::numeric_limits<float>::infinity() : 0.0F;
    std::fill(worker.tile.begin(), worker.tile.end(), zero);
  } else {
    worker.readers.front()->tile(tile.strip, tile.keys, worker.tile.data());
    if (worker.readers.size() == 2) {
      worker.readers.back()->tile(tile.strip, tile.keys, worker.other.data());
      cpu::subtract(tile.keys.size() * kMapTile, worker.tile.data(), worker.other.data());
    }
  }
  if (tile.cut) {
    cpu::mask_tile(tile.rows.begin - tile.keys.begin, window_, tile.keys.size(), cpu::identity_of(pixels_.reduction()),
                   worker.tile.data());
  }
  if (request_.first_key == FirstKey::left_out && tile.keys.begin == 0) {
    std::fill_n(worker.tile.begin(), kMapTile, cpu::identity_of(pixels_.reduction()));
  }
  return true;
}

/// The whole normaliser is made once and kept; a few rows of a long text do not wait for it.
/// @param own  holds it where it was made for these rows alone
/// @returns an empty span if the job was stopped
std::span<const float> normalizer_without_gate(const HeadOf& head, const Range& rows, const Job& job,
                                               std::vector<float>& own) {
  const TraceInfo& info = head.trace->info();
  const bool few = forgets(info, head.layer) && are_few(rows, info.length);
  if (!few || head.trace->knows_log_normalizer_without_gate(head.layer, head.head)) {
    return log_normalizer_without_gate(head, job);
  }
  own = compute_log_normalizer_without_gate(head, rows, job);
  return own;
}

/// Gives a head the normalisers that leave key 0 out. @returns false if the job was stopped
bool leave_out_first(const MapRequest& request, const Job& job, HeadEntries& entries,
                     std::deque<std::vector<float>>& normalizers) {
  if (!entries.normalizer.empty()) {
    normalizers.push_back(compute_log_normalizer_beside_first(entries.head, {}, request.rows, job));
    if (normalizers.back().empty()) return false;
    entries.normalizer = normalizers.back();
  }
  if (!entries.without_gate.empty()) {
    normalizers.push_back(compute_log_normalizer_beside_first(entries.head, entries.without_gate, request.rows, job));
    if (normalizers.back().empty()) return false;
    entries.without_gate = normalizers.back();
  }
  return true;
}

/// Whether a picture is of the largest entries of one softmax, each of so many that few of them are worth computing.
bool looks_for_largest(const MapRequest& request, const HeadEntries& entries) {
  const std::int64_t pixels = request.pixel_rows * request.pixel_columns;
  // A faster decay leaves few tiles to search, and rounding costs more than those.
  constexpr double kNatsOfToken = 1.0 / 16;
  const std::span<const double> gate = entries.gate;
  if (!gate.empty() && gate.front() - gate.back() > kNatsOfToken * static_cast<double>(gate.size())) return false;
  const bool largest = request.reduction == Reduction::max || request.reduction == Reduction::absmax;
  return largest && !request.minus && entries.is_softmax() && entries.path == nullptr &&
         request.rows.size() * request.columns.size() >= kSearchedEntries * pixels &&
         kernels::cpu::rounds_logits(entries.head_dim);
}

/// Looks up the arrays of the request's heads, and computes those that are missing. @returns false if the job was
/// stopped
/// @param normalizers  owns what was computed
bool look_up_heads(const MapRequest& request, const Job& job, Team& team, std::vector<HeadEntries>& entries,
                   std::deque<std::vector<float>>& normalizers) {
  const bool attention = request.quantity == Quantity::attention || request.quantity == Quantity::mixing;
  const bool ungated = takes_ungated_rows(request.quantity);
  for (const HeadOf* head : {&request.head, request.minus ? &*request.minus : nullptr}) {
    if (head == nullptr) continue;
    std::span<const float> without_gate;
    if (ungated) {
      without_gate = normalizer_without_gate(*head, request.rows, job, normalizers.emplace_back());
      if (without_gate.empty()) return false;
    }
    HeadEntries& added = entries.emplace_back(*head, request.quantity, without_gate, request.channel);
    if (added.mixing != nullptr) {
      std::vector<float>& own = normalizers.emplace_back();
      if (!added.prepare_mixing(request.rows, request.keys(), request.first_key, job, team, own)) return false;
      continue;
    }
    if (!added.prepare_path(request.rows, request.keys(), team)) return false;
    if (request.first_key == FirstKey::left_out && !leave_out_first(request, job, added, normalizers)) return false;
    // Logits without a gate do not fall with distance: there is nothing to skip.
    HeadEntries::KeyMeasures measures;
    measures.norms = added.gated && (attention || request.quantity == Quantity::forget);
    measures.rounded = looks_for_largest(request, added);
    if (!measures.norms && !measures.rounded) continue;
    if (measures.norms && attention && request.skip_tolerance > 0) {
      added.skip_below = std::max(added.skip_below, std::log2(request.skip_tolerance));
    }
    const std::int64_t window = added.window;
    const std::int64_t oldest = window == 0 ? 0 : std::max<std::int64_t>(0, request.rows.begin - window + 1);
    const Range asked = request.keys();
    const Range keys{std::max(asked.begin, oldest), std::min(asked.end, request.rows.end)};
    if (keys.size() > 0 && !added.measure_keys(measures, keys, team)) return false;
  }
  return true;
}

}  // namespace

std::optional<Image> entry_map(const MapRequest& request, const Job& job, const MapStages* stages) {
  Team team(job);
  std::vector<HeadEntries> entries;
  entries.reserve(2);
  std::deque<std::vector<float>> normalizers;
  if (!look_up_heads(request, job, team, entries, normalizers)) return std::nullopt;
  return EntryMap(request, team, std::move(entries)).compute(stages);
}

}  // namespace foxscope

#include "backend/map/entry_map.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "backend/map/bins.h"
#include "backend/map/head_entries.h"
#include "backend/map/team.h"
#include "kernels/cpu/pooled_map.h"

namespace foxscope {
namespace {

namespace cpu = kernels::cpu;
using cpu::kMapTile;
using cpu::PixelReduction;

constexpr std::int64_t kTileSize = kMapTile * kMapTile;
/// A row bin larger than a band is shared out over so many tasks in all, since one task takes whole lines of pixels.
constexpr std::int64_t kSharedTasks = 32;

PixelReduction pixel_reduction(Reduction reduction, bool logarithm) {
  switch (reduction) {
    case Reduction::max:
      return PixelReduction::max;
    case Reduction::min:
      return PixelReduction::min;
    case Reduction::mean:
      return PixelReduction::sum;
    case Reduction::absmax:
      // Attention has no negative entries.
      return logarithm ? PixelReduction::max : PixelReduction::absolute;
  }
  return PixelReduction::max;
}

std::int64_t largest_bin(const std::vector<std::int64_t>& edges) {
  std::int64_t largest = 0;
  for (std::size_t n = 0; n + 1 < edges.size(); ++n) largest = std::max(largest, edges[n + 1] - edges[n]);
  return largest;
}

/// Rows of pixels that one task computes, or one of several shares of a single row of pixels.
struct Task {
  std::int64_t pixel_begin = 0;
  std::int64_t pixel_end = 0;
  Range rows;
  bool shared = false;
};

/// Keys of one tile and the pixels that they fall in.
struct TileColumns {
  Range keys;
  std::int64_t first_pixel = 0;
  cpu::TilePixels pixels;  ///< without segments
};

/// What a thread works with.
struct Worker {
  std::vector<EntryReader> readers;
  std::vector<float> tile = std::vector<float>(kTileSize);
  std::vector<float> other = std::vector<float>(kTileSize);
  std::vector<float> result = std::vector<float>(kTileSize);
  std::vector<TileColumns> columns;
};

class EntryMap {
 public:
  EntryMap(const MapRequest& request, const Job& job);
  std::optional<Image> compute();

 private:
  bool look_up_rows();
  void plan_tasks();
  void run_task(std::size_t index, Worker& worker, int thread);
  void run_band(const Task& task, const Range& rows, std::vector<double>& sums, Worker& worker);
  void plan_chunk(const Range& keys, Worker& worker) const;
  void run_strip(const Task& task, const Range& strip, std::int64_t index, std::vector<double>& sums, Worker& worker);
  bool fill_tile(const TileColumns& columns, const Range& strip, std::int64_t index, Worker& worker) const;
  void merge(const Task& task, std::int64_t first_row, const TileColumns& columns, const cpu::TilePixels& pixels,
             std::vector<double>& sums, Worker& worker);
  void merge_sums(const Task& task, std::int64_t first_row, const TileColumns& columns, const cpu::TilePixels& pixels,
                  std::vector<double>& sums, const Worker& worker) const;
  void finish_line(std::int64_t pixel, const double* sums);
  [[nodiscard]] double combined(double a, double b) const;
  [[nodiscard]] float* line(std::int64_t pixel) { return image_.value.data() + pixel * image_.columns; }

  const MapRequest& request_;
  const Job& job_;
  Team team_;
  std::vector<HeadEntries> entries_;
  std::vector<std::int64_t> row_edges_;
  std::vector<std::int64_t> column_edges_;
  std::int64_t window_ = 0;
  bool exact_ = false;       ///< every pixel is one entry
  bool buffered_ = false;    ///< bins larger than a tile: partial results meet in float64 beside the image
  bool logarithm_ = false;   ///< extremes of attention are those of its logarithm: one exponential a pixel
  bool zero_skips_ = false;  ///< an entry of 0 changes no pixel, so that skipped tiles need not be reduced
  PixelReduction reduction_ = PixelReduction::max;
  std::vector<Task> tasks_;
  std::vector<std::vector<double>> shares_;
  Image image_;
};

EntryMap::EntryMap(const MapRequest& request, const Job& job)
    : request_(request),
      job_(job),
      team_(job),
      row_edges_(bin_edges(request.rows, request.pixel_rows)),
      column_edges_(bin_edges(request.columns, request.pixel_columns)),
      exact_(request.pixel_rows == request.rows.size() && request.pixel_columns == request.columns.size()) {
  buffered_ = largest_bin(row_edges_) > kMapTile || largest_bin(column_edges_) > kMapTile;
  const bool attention =
      request.quantity == Quantity::attention || request.quantity == Quantity::attention_without_gate;
  logarithm_ = attention && !request.minus && !exact_ && request.reduction != Reduction::mean;
  reduction_ = pixel_reduction(request.reduction, logarithm_);
  // The image begins as zeros where entries are exact, and as -infinity where logarithms are compared.
  zero_skips_ = exact_ || reduction_ == PixelReduction::sum || reduction_ == PixelReduction::absolute ||
                (logarithm_ && reduction_ == PixelReduction::max);
}

/// @returns false if the job was stopped
bool EntryMap::look_up_rows() {
  std::vector<const HeadOf*> heads{&request_.head};
  if (request_.minus) heads.push_back(&*request_.minus);
  const bool ungated =
      request_.quantity == Quantity::attention_without_gate || request_.quantity == Quantity::gate_effect;
  entries_.reserve(heads.size());
  for (const HeadOf* head : heads) {
    std::span<const float> without_gate;
    if (ungated) {
      without_gate = log_normalizer_without_gate(*head, job_);
      if (without_gate.empty()) return false;
    }
    HeadEntries& entries = entries_.emplace_back(*head, request_.quantity, without_gate);
    entries.logarithm = logarithm_;
    window_ = entries_.size() == 1 ? entries.window : common_window(window_, entries.window);
  }
  const bool skipping = request_.quantity == Quantity::attention || request_.quantity == Quantity::forget;
  for (HeadEntries& entries : entries_) {
    // Without a gate there is nothing to skip: logits alone do not fall with distance.
    if (!skipping || !entries.gated) continue;
    if (request_.quantity == Quantity::attention && request_.skip_tolerance > 0) {
      entries.skip_below = std::max(entries.skip_below, std::log2(request_.skip_tolerance));
    }
    if (!entries.measure_keys(team_)) return false;
  }
  return true;
}

void EntryMap::plan_tasks() {
  // The division depends on the request alone, so that sums come out the same on any number of threads.
  const std::int64_t target = request_.rows.size() >= 2048 ? kBandRows : kMapTile;
  const std::int64_t pixels = request_.pixel_rows;
  for (std::int64_t begin = 0; begin < pixels;) {
    const std::int64_t first_row = row_edges_[static_cast<std::size_t>(begin)];
    std::int64_t end = begin + 1;
    while (end < pixels && row_edges_[static_cast<std::size_t>(end + 1)] - first_row <= target) ++end;
    const Range rows{first_row, row_edges_[static_cast<std::size_t>(end)]};
    const std::int64_t shares =
        std::clamp<std::int64_t>(kSharedTasks / pixels, 1, std::max<std::int64_t>(1, rows.size() / target));
    for (std::int64_t share = 0; share < shares; ++share) {
      tasks_.push_back({begin, end, {bin_begin(rows, shares, share), bin_begin(rows, shares, share + 1)}, shares > 1});
    }
    begin = end;
  }
  // Later rows see more keys: they go first, so that the threads finish together.
  std::reverse(tasks_.begin(), tasks_.end());
  shares_.resize(tasks_.size());
}

std::optional<Image> EntryMap::compute() {
  if (!look_up_rows()) return std::nullopt;
  plan_tasks();
  image_.rows = request_.pixel_rows;
  image_.columns = request_.pixel_columns;
  image_.value.resize(static_cast<std::size_t>(image_.rows * image_.columns));
  std::vector<std::unique_ptr<Worker>> workers(static_cast<std::size_t>(team_.threads()));
  const bool done = team_.run({"computing the map", "tokens", request_.rows.size()},
                              static_cast<std::int64_t>(tasks_.size()), [&](std::int64_t task, int thread) {
                                auto& worker = workers[static_cast<std::size_t>(thread)];
                                if (!worker) {
                                  worker = std::make_unique<Worker>();
                                  for (const HeadEntries& entries : entries_) worker->readers.emplace_back(entries);
                                }
                                run_task(static_cast<std::size_t>(task), *worker, thread);
                              });
  if (!done) return std::nullopt;
  for (std::size_t n = tasks_.size(); n-- > 0;) {
    if (!tasks_[n].shared) continue;
    std::vector<double>& sums = shares_[n];
    for (; n > 0 && tasks_[n - 1].pixel_begin == tasks_[n].pixel_begin; --n) {
      for (std::size_t column = 0; column < sums.size(); ++column) {
        sums[column] = combined(sums[column], shares_[n - 1][column]);
      }
    }
    finish_line(tasks_[n].pixel_begin, sums.data());
  }
  return std::move(image_);
}

void EntryMap::run_task(std::size_t index, Worker& worker, int thread) {
  const Task& task = tasks_[index];
  const float identity = cpu::identity_of(reduction_);
  std::vector<double>& sums = shares_[index];
  const std::int64_t pixels = (task.pixel_end - task.pixel_begin) * image_.columns;
  if (buffered_) {
    sums.assign(static_cast<std::size_t>(pixels), static_cast<double>(identity));
  } else if (!exact_ && identity != 0.0F) {
    std::fill(line(task.pixel_begin), line(task.pixel_end), identity);
  }
  for (std::int64_t begin = task.rows.begin; begin < task.rows.end; begin += kBandRows) {
    const Range band{begin, std::min(begin + kBandRows, task.rows.end)};
    run_band(task, band, sums, worker);
    if (team_.stopped()) return;
    team_.advance(band.size(), thread);
  }
  if (task.shared) return;
  for (std::int64_t pixel = task.pixel_begin; pixel < task.pixel_end; ++pixel) {
    finish_line(pixel, buffered_ ? sums.data() + (pixel - task.pixel_begin) * image_.columns : nullptr);
  }
  sums = {};
}

void EntryMap::run_band(const Task& task, const Range& rows, std::vector<double>& sums, Worker& worker) {
  const std::int64_t oldest = window_ == 0 ? 0 : std::max<std::int64_t>(0, rows.begin - window_ + 1);
  const Range keys{std::max(request_.columns.begin, oldest), std::min(request_.columns.end, rows.end)};
  if (keys.size() <= 0) return;
  for (EntryReader& reader : worker.readers) reader.set_band(rows);
  for (std::int64_t begin = keys.begin; begin < keys.end;) {
    if (team_.stopped()) return;
    const Range chunk{begin, std::min(begin / kKeyChunk * kKeyChunk + kKeyChunk, keys.end)};
    plan_chunk(chunk, worker);
    for (EntryReader& reader : worker.readers) reader.set_chunk(chunk);
    for (std::int64_t row = rows.begin; row < rows.end; row += kMapTile) {
      run_strip(task, {row, std::min(row + kMapTile, rows.end)}, (row - rows.begin) / kMapTile, sums, worker);
    }
    begin = chunk.end;
  }
}

void EntryMap::plan_chunk(const Range& keys, Worker& worker) const {
  worker.columns.clear();
  for (std::int64_t begin = keys.begin; begin < keys.end;) {
    TileColumns& tile = worker.columns.emplace_back();
    tile.keys = {begin, std::min(begin / kMapTile * kMapTile + kMapTile, keys.end)};
    tile.first_pixel = bin_of(request_.columns, image_.columns, begin);
    for (std::int64_t pixel = tile.first_pixel, end = begin; end < tile.keys.end; ++pixel) {
      end = std::min(column_edges_[static_cast<std::size_t>(pixel + 1)], tile.keys.end);
      tile.pixels.key_end[tile.pixels.pieces++] = static_cast<std::uint8_t>(end - begin);
    }
    begin = tile.keys.end;
  }
}

void EntryMap::run_strip(const Task& task, const Range& strip, std::int64_t index, std::vector<double>& sums,
                         Worker& worker) {
  cpu::TilePixels pixels;
  const std::int64_t first_row = bin_of(request_.rows, image_.rows, strip.begin);
  for (std::int64_t pixel = first_row, end = strip.begin; end < strip.end; ++pixel) {
    end = std::min(row_edges_[static_cast<std::size_t>(pixel + 1)], strip.end);
    pixels.lane_end[pixels.segments++] = static_cast<std::uint8_t>(end - strip.begin);
  }
  for (const TileColumns& columns : worker.columns) {
    if (columns.keys.begin >= strip.end) break;
    if (window_ != 0 && columns.keys.end <= strip.begin - window_ + 1) continue;
    if (!fill_tile(columns, strip, index, worker)) continue;
    pixels.pieces = columns.pixels.pieces;
    std::copy(std::begin(columns.pixels.key_end), std::end(columns.pixels.key_end), std::begin(pixels.key_end));
    cpu::reduce_tile(worker.tile.data(), columns.keys.size(), pixels, reduction_, worker.result.data());
    if (buffered_) {
      merge_sums(task, first_row, columns, pixels, sums, worker);
    } else {
      merge(task, first_row, columns, pixels, sums, worker);
    }
  }
}

/// @returns false if the tile changes no pixel
bool EntryMap::fill_tile(const TileColumns& columns, const Range& strip, std::int64_t index, Worker& worker) const {
  const Range& keys = columns.keys;
  const bool nothing = std::all_of(worker.readers.begin(), worker.readers.end(),
                                   [&](const EntryReader& reader) { return reader.negligible(index, keys); });
  if (nothing) {
    if (zero_skips_) return false;
    const float zero = logarithm_ ? -std::numeric_limits<float>::infinity() : 0.0F;
    std::fill(worker.tile.begin(), worker.tile.end(), zero);
  } else {
    worker.readers.front().tile(index, keys, worker.tile.data());
    if (worker.readers.size() == 2) {
      worker.readers.back().tile(index, keys, worker.other.data());
      cpu::subtract(keys.size() * kMapTile, worker.tile.data(), worker.other.data());
    }
  }
  const bool cut = keys.end - 1 > strip.begin || (window_ != 0 && keys.begin <= strip.end - 1 - window_);
  if (cut) {
    cpu::mask_tile(strip.begin - keys.begin, window_, keys.size(), cpu::identity_of(reduction_), worker.tile.data());
  }
  return true;
}

void EntryMap::merge(const Task& /*task*/, std::int64_t first_row, const TileColumns& columns,
                     const cpu::TilePixels& pixels, std::vector<double>& /*sums*/, Worker& worker) {
  for (int segment = 0; segment < pixels.segments; ++segment) {
    const float* const values = worker.result.data() + segment * kMapTile;
    float* const to = line(first_row + segment) + columns.first_pixel;
    if (exact_) {
      std::copy(values, values + pixels.pieces, to);
    } else {
      cpu::combine(reduction_, pixels.pieces, values, to);
    }
  }
}

void EntryMap::merge_sums(const Task& task, std::int64_t first_row, const TileColumns& columns,
                          const cpu::TilePixels& pixels, std::vector<double>& sums, const Worker& worker) const {
  for (int segment = 0; segment < pixels.segments; ++segment) {
    double* const to = sums.data() + (first_row + segment - task.pixel_begin) * image_.columns + columns.first_pixel;
    for (int piece = 0; piece < pixels.pieces; ++piece) {
      to[piece] = combined(to[piece], static_cast<double>(worker.result[segment * kMapTile + piece]));
    }
  }
}

double EntryMap::combined(double a, double b) const {
  switch (reduction_) {
    case PixelReduction::max:
      return std::max(a, b);
    case PixelReduction::min:
      return std::min(a, b);
    case PixelReduction::sum:
      return a + b;
    case PixelReduction::absolute:
      return std::max(a, b) >= -std::min(a, b) ? std::max(a, b) : std::min(a, b);
  }
  return a;
}

/// Turns what a line of pixels has gathered into its values.
/// @param sums  [columns], or null where it was gathered in the image itself
void EntryMap::finish_line(std::int64_t pixel, const double* sums) {
  const Range rows{row_edges_[static_cast<std::size_t>(pixel)], row_edges_[static_cast<std::size_t>(pixel + 1)]};
  const PixelLine present = pixel_line(rows, column_edges_, window_);
  float* const values = line(pixel);
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  std::fill(values, values + present.present_begin, kNone);
  std::fill(values + present.present_end, values + image_.columns, kNone);
  if (exact_) return;
  if (logarithm_) {
    if (sums != nullptr) {
      std::transform(sums + present.present_begin, sums + present.present_end, values + present.present_begin,
                     [](double value) { return static_cast<float>(value); });
    }
    cpu::exponentiate(present.present_end - present.present_begin, values + present.present_begin);
  }
  const bool mean = reduction_ == PixelReduction::sum;
  if (!mean && sums == nullptr && present.full_begin == present.present_begin &&
      present.full_end == present.present_end)
    return;
  for (std::int64_t column = present.present_begin; column < present.present_end; ++column) {
    const Range keys{column_edges_[static_cast<std::size_t>(column)],
                     column_edges_[static_cast<std::size_t>(column + 1)]};
    const bool full = column >= present.full_begin && column < present.full_end;
    const std::int64_t count = full ? rows.size() * keys.size() : present_entries(rows, keys, window_);
    if (count == 0) {
      values[column] = kNone;
    } else if (!logarithm_) {
      const double gathered = sums != nullptr ? sums[column] : static_cast<double>(values[column]);
      values[column] = static_cast<float>(mean ? gathered / static_cast<double>(count) : gathered);
    }
  }
}

}  // namespace

std::optional<Image> entry_map(const MapRequest& request, const Job& job) { return EntryMap(request, job).compute(); }

}  // namespace foxscope

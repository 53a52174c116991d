#include "backend/map/attention_pass.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "backend/base/index.h"
#include "backend/map/band_tiles.h"
#include "backend/map/device/device_spread.h"
#include "backend/map/head_entries.h"
#include "backend/map/statistics/sampled_spread.h"
#include "backend/map/team.h"
#include "kernels/cpu/attention_statistics.h"

namespace foxscope {
namespace {

namespace cpu = kernels::cpu;
using cpu::kMapTile;

constexpr float kAbsentEntry = -std::numeric_limits<float>::infinity();
constexpr double kLn2 = 0.6931471805599453;
constexpr double kNegligible = -40.0;  // log2 of an entry
/// Shares of a row beside key 0 down to which they are known well enough as 1 minus the share of key 0.
constexpr double kWellKnown = 1.0 / 16.0;
/// Tokens that no text has.
constexpr std::int32_t kNoToken = std::numeric_limits<std::int32_t>::min();
constexpr std::int32_t kBeforeText = kNoToken + 1;
/// Bands are dealt out to so many tasks, each with sums of its own: sums then do not depend on the number of threads.
constexpr std::int64_t kTasks = 32;

/// The sums of a task.
struct Sums {
  std::vector<double> mass;
  std::vector<double> mass_without_first;
  double entropy = 0;
  double on_first = 0;
  double log_decay = 0;
  double square_without_first = 0;
  double on_repeats = 0;
  std::int64_t rows_without_first = 0;
  std::int64_t rows_up_to_local = 0;
  std::int64_t rows_up_to_long = 0;
};

class BandPass {
 public:
  BandPass(const HeadEntries& entries, const Team& team, Sums& sums)
      : entries_(entries), team_(team), sums_(sums), reader_(entries.reader()), tile_(kMapTile * kMapTile) {}

  /// @returns false if the job was stopped on the way
  bool run(const Range& rows) {
    rows_ = rows;
    limit_ = kNegligible;
    reader_->set_band(rows);
    weigh_rows();
    const bool unsure =
        std::any_of(beside_first_, beside_first_ + rows.size(), [](double share) { return share < kWellKnown; });
    if (unsure && !sum_beside_first()) return false;
    for (std::int64_t n = 0; n < rows.size(); ++n) {
      const bool counts = rows.begin + n > 0 && !(beside_first_[n] <= 0);  // NaN counts, and weighs NaN
      weight_[n] = counts ? static_cast<float>(1.0 / beside_first_[n]) : 0.0F;
      sums_.rows_without_first += counts ? 1 : 0;
      sums_.rows_up_to_local += counts && rows.begin + n <= kLocalTokens ? 1 : 0;
      sums_.rows_up_to_long += counts && rows.begin + n <= kLongTokens ? 1 : 0;
    }
    return for_tiles([&](const BandTile& tile) { add(tile); });
  }

 private:
  /// Attention on key 0, and what is beside it.
  void weigh_rows() {
    reader_->set_chunk({0, 1});
    for (std::int64_t n = 0; n < rows_.size(); n += kMapTile) {
      reader_->log_attention_tile(n / kMapTile, {0, 1}, tile_.data());
      for (std::int64_t lane = 0; lane < std::min(kMapTile, rows_.size() - n); ++lane) {
        const bool seen = entries_.window == 0 || rows_.begin + n + lane < entries_.window;
        const double log_first = static_cast<double>(tile_[index_of(lane)]) * kLn2;
        sums_.on_first += seen ? std::exp(log_first) : 0.0;
        beside_first_[n + lane] = seen ? -std::expm1(log_first) : 1.0;
        // Rows without key 0 are of keys alone.
        if (entries_.sink) beside_first_[n + lane] -= std::exp(entries_.log_sink_share(rows_.begin + n + lane));
      }
    }
    // Row 0 sees nothing beside key 0, and does not count.
    if (rows_.begin == 0) beside_first_[0] = 1.0;
  }

  bool sum_beside_first() {
    // Entries that are left out are small beside the row; here they have to be small beside what key 0 leaves of it.
    double least = 1.0;
    for (std::int64_t n = 0; n < rows_.size(); ++n) {
      if (beside_first_[n] > 0) least = std::min(least, beside_first_[n]);
    }
    limit_ = std::max(-120.0, kNegligible + std::log2(least));
    std::fill(std::begin(beside_first_), std::end(beside_first_), 0.0);
    return for_tiles([&](const BandTile& tile) {
      cpu::add_row_sums(tile_.data(), tile.keys.size(), tile.keys.begin == 0 ? 1 : 0,
                        beside_first_ + tile.strip * kMapTile);
    });
  }

  void add(const BandTile& tile) {
    cpu::TileStatistics statistics;
    cpu::attention_statistics(tile_.data(), tile.keys.size(), weight_ + tile.strip * kMapTile,
                              tile.keys.begin == 0 ? 1 : 0, statistics);
    if (entries_.gated) add_decay(tile);
    if (!entries_.token.empty()) add_repeats(tile);
    sums_.square_without_first += static_cast<double>(statistics.square_without_first);
    for (std::int64_t lane = 0; lane < tile.rows.size(); ++lane) {
      sums_.entropy += static_cast<double>(statistics.entropy[lane]) * kLn2;
    }
    const std::int64_t shift = tile.rows.begin - tile.keys.begin - (kMapTile - 1);
    const std::int64_t begin = std::max<std::int64_t>(0, -shift);
    const std::int64_t end = std::min(2 * kMapTile, entries_.length - shift);
    for (std::int64_t n = begin; n < end; ++n) {
      const auto distance = static_cast<std::size_t>(shift + n);
      sums_.mass[distance] += static_cast<double>(statistics.mass[n]);
      sums_.mass_without_first[distance] += static_cast<double>(statistics.mass_without_first[n]);
    }
  }

  /// Sum of A_ij (c_i - c_j) over a tile, which holds A.
  void add_decay(const BandTile& tile) {
    double rows[kMapTile];
    std::fill(std::begin(rows), std::end(rows), entries_.gate[index_of(tile.rows.begin)]);
    std::copy_n(entries_.gate.data() + tile.rows.begin, tile.rows.size(), rows);
    sums_.log_decay += cpu::decay_mass(tile_.data(), tile.keys.size(), rows, entries_.gate.data() + tile.keys.begin);
  }

  /// Sum of A_ij over the keys 0 < j < i that follow a token like that of i, over a tile, which holds A.
  void add_repeats(const BandTile& tile) {
    std::int32_t reads[kMapTile];
    std::fill(std::begin(reads), std::end(reads), kNoToken);
    std::copy_n(entries_.token.data() + tile.rows.begin, tile.rows.size(), reads);
    std::int32_t before[kMapTile];
    for (std::int64_t n = 0; n < tile.keys.size(); ++n) {
      const std::int64_t key = tile.keys.begin + n;
      before[n] = key == 0 ? kBeforeText : entries_.token[index_of(key - 1)];
    }
    const float sum =
        cpu::repeated_mass(tile_.data(), tile.keys.size(), before, reads, tile.keys.begin - tile.rows.begin);
    sums_.on_repeats += static_cast<double>(sum);
  }

  /// Calls body(tile) with log2 of attention in tile_, for every tile that is not negligible.
  template <typename Body>
  bool for_tiles(const Body& body) {
    return for_each_tile(
        rows_, {0, entries_.length}, entries_.window, team_, [&](const Range& keys) { reader_->set_chunk(keys); },
        [&](const BandTile& tile) {
          if (reader_->negligible(tile.strip, tile.keys, limit_)) return;
          reader_->log_attention_tile(tile.strip, tile.keys, tile_.data());
          if (tile.cut) {
            cpu::mask_tile(tile.rows.begin - tile.keys.begin, entries_.window, tile.keys.size(), kAbsentEntry,
                           tile_.data());
          }
          for (std::int64_t n = 0; n < tile.keys.size() && tile.rows.size() < kMapTile; ++n) {
            std::fill(tile_.begin() + n * kMapTile + tile.rows.size(), tile_.begin() + (n + 1) * kMapTile,
                      kAbsentEntry);
          }
          body(tile);
        });
  }

  const HeadEntries& entries_;
  const Team& team_;
  Sums& sums_;
  std::unique_ptr<TileReader> reader_;
  std::vector<float> tile_;
  Range rows_;
  double limit_ = kNegligible;
  double beside_first_[kBandRows] = {};
  float weight_[kBandRows] = {};
};

/// Smallest distance whose cumulative mass reaches a share; NaN where no row has any.
double distance_of_share(const std::vector<double>& mass, double share) {
  double total = 0;
  for (std::size_t distance = 0; distance < mass.size(); ++distance) {
    total += mass[distance];
    if (total >= share) return static_cast<double>(distance);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace

void set_means_of_rows(double square_without_first, double on_repeats, std::int64_t repeats, AttentionSpread& spread) {
  spread.square_without_first = square_without_first / static_cast<double>(spread.rows_without_first);
  spread.repeats = repeats;
  spread.on_repeats = on_repeats / static_cast<double>(spread.repeats);
}

double mean_sink_share(const HeadEntries& entries) {
  double sum = 0;
  for (std::int64_t row = 0; row < entries.length; ++row) sum += std::exp(entries.log_sink_share(row));
  return sum / static_cast<double>(entries.length);
}

DistanceProfile distance_profile(std::vector<double> mass, std::int64_t rows, double on_keys) {
  for (double& value : mass) value /= static_cast<double>(std::max<std::int64_t>(1, rows));
  DistanceProfile result{std::move(mass), 0, 0};
  result.d50 = distance_of_share(result.mass, 0.5 * on_keys);
  result.d90 = distance_of_share(result.mass, 0.9 * on_keys);
  return result;
}

std::optional<AttentionSpread> attention_spread(HeadEntries& entries, const Job& job) {
  const std::vector<std::uint8_t> sees = rows_with_repeats(repeat_distances(entries.token), entries.window);
  const auto repeats = static_cast<std::int64_t>(std::ranges::count(sees, 1));
  if (entries.head.gpu && DeviceSpreads::takes(entries)) {
    DeviceSpreads spreads({&entries}, *entries.head.gpu);
    if (spreads.start(nullptr) == kernels::Status::ok) {
      spreads.finish();
      if (job.stopped()) return std::nullopt;
      return spreads.spread(0, repeats);
    }
  }
  return attention_spread_on_cpu(entries, repeats, job);
}

std::optional<AttentionSpread> attention_spread_on_cpu(HeadEntries& entries, std::int64_t repeats, const Job& job) {
  Team team(job);
  std::vector<float> row_sums;
  const Range whole{0, entries.length};
  if (!entries.prepare_mixing(whole, whole, FirstKey::counted, job, team, row_sums)) return std::nullopt;
  if (!entries.prepare_path(whole, whole, team)) return std::nullopt;
  if (entries.mixing == nullptr && entries.gated && !entries.measure_keys({.norms = true}, whole, team))
    return std::nullopt;
  const auto length = static_cast<std::size_t>(entries.length);
  const std::int64_t bands = (entries.length + kBandRows - 1) / kBandRows;
  std::vector<Sums> sums(static_cast<std::size_t>(std::min(kTasks, bands)));
  const bool done = team.run({"measuring attention", "tokens", entries.length}, std::min(kTasks, bands),
                             [&](std::int64_t task, int thread) {
                               Sums& own = sums[index_of(task)];
                               own.mass.resize(length);
                               own.mass_without_first.resize(length);
                               BandPass pass(entries, team, own);
                               for (std::int64_t band = bands - 1 - task; band >= 0; band -= kTasks) {
                                 const Range rows{band * kBandRows, std::min((band + 1) * kBandRows, entries.length)};
                                 if (!pass.run(rows)) return;
                                 team.advance(rows.size(), thread);
                               }
                             });
  if (!done) return std::nullopt;
  for (std::size_t task = 1; task < sums.size(); ++task) {
    for (std::size_t distance = 0; distance < length; ++distance) {
      sums[0].mass[distance] += sums[task].mass[distance];
      sums[0].mass_without_first[distance] += sums[task].mass_without_first[distance];
    }
    sums[0].entropy += sums[task].entropy;
    sums[0].on_first += sums[task].on_first;
    sums[0].log_decay += sums[task].log_decay;
    sums[0].square_without_first += sums[task].square_without_first;
    sums[0].on_repeats += sums[task].on_repeats;
    sums[0].rows_without_first += sums[task].rows_without_first;
    sums[0].rows_up_to_local += sums[task].rows_up_to_local;
    sums[0].rows_up_to_long += sums[task].rows_up_to_long;
  }
  Sums& all = sums.front();
  AttentionSpread spread;
  spread.entropy = all.entropy / static_cast<double>(length);
  spread.mass_on_first = all.on_first / static_cast<double>(length);
  spread.mean_log_decay = all.log_decay / static_cast<double>(length);
  if (entries.sink) spread.mass_on_sink = mean_sink_share(entries);
  const double on_keys = 1 - spread.mass_on_sink.value_or(0);
  spread.distance = distance_profile(std::move(all.mass), entries.length, on_keys);
  spread.mass_on_self = spread.distance.mass.front();
  spread.rows_without_first = all.rows_without_first;
  spread.rows_up_to_local = all.rows_up_to_local;
  spread.rows_up_to_long = all.rows_up_to_long;
  spread.distance_without_first = distance_profile(std::move(all.mass_without_first), all.rows_without_first);
  set_means_of_rows(all.square_without_first, all.on_repeats, repeats, spread);
  return spread;
}

}  // namespace foxscope

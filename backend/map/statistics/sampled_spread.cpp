#include "backend/map/statistics/sampled_spread.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numbers>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "backend/base/index.h"
#include "backend/map/attention_pass.h"
#include "backend/map/map_line.h"
#include "backend/map/statistics/distance_bins.h"
#include "backend/map/team.h"
#include "kernels/cpu/pooled_map.h"

namespace foxscope {
namespace {

using kernels::cpu::kMapTile;

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
constexpr float kNoEntry = -std::numeric_limits<float>::infinity();

/// log2 of attention in the sampled rows, [rows, L]; absent entries -infinity.
class SampledEntries {
 public:
  SampledEntries(HeadEntries& entries, const RowSample& sample)
      : entries_(entries),
        sample_(sample),
        logarithm_(sample.rows.size() * static_cast<std::size_t>(sample.length), kNoEntry) {}

  /// @returns false if the job was stopped
  bool read(const Job& job, Team& team) {
    return entries_.mixing == nullptr && entries_.path == nullptr ? read_products(team)
                                                                  : read_lines({job.stop, {}, team.executor()});
  }
  [[nodiscard]] std::span<const float> row(std::size_t n) const {
    const auto length = static_cast<std::size_t>(sample_.length);
    return {logarithm_.data() + n * length, length};
  }

 private:
  /// Products of 64 sampled queries at a time with all keys.
  bool read_products(Team& team) {
    const auto rows = static_cast<std::int64_t>(sample_.rows.size());
    const std::int64_t strips = (rows + kMapTile - 1) / kMapTile;
    const std::int64_t chunks = (sample_.length + kKeyChunk - 1) / kKeyChunk;
    struct Reader {
      explicit Reader(const HeadEntries& entries) : reader(entries), tile(kMapTile * kMapTile) {}
      EntryReader reader;
      std::vector<float> tile;
      std::int64_t strip = -1;
    };
    std::vector<std::unique_ptr<Reader>> readers(static_cast<std::size_t>(team.threads()));
    return team.run(
        {"measuring attention", "rows", rows * chunks}, strips * chunks, [&](std::int64_t task, int thread) {
          auto& own = readers[index_of(thread)];
          if (own == nullptr) own = std::make_unique<Reader>(entries_);
          const std::int64_t strip = task / chunks;
          const std::int64_t first = strip * kMapTile;
          const std::int64_t lanes = std::min(kMapTile, rows - first);
          const std::span<const std::int64_t> drawn(sample_.rows.data() + first, static_cast<std::size_t>(lanes));
          if (own->strip != strip) own->reader.set_rows(drawn);
          own->strip = strip;
          const Range chunk{task % chunks * kKeyChunk, std::min((task % chunks + 1) * kKeyChunk, sample_.length)};
          own->reader.set_chunk(chunk);
          const std::int64_t last = *std::ranges::max_element(drawn);
          for (Range keys{chunk.begin, 0}; keys.begin < std::min(chunk.end, last + 1); keys.begin = keys.end) {
            keys.end = std::min(keys.begin + kMapTile, chunk.end);
            own->reader.log_attention_tile(0, keys, own->tile.data());
            for (std::int64_t lane = 0; lane < lanes; ++lane) take(first + lane, keys, own->tile.data() + lane);
          }
          team.advance(lanes, thread);
        });
  }

  /// @param lane  its first entry of a tile
  void take(std::int64_t n, const Range& keys, const float* lane) {
    const std::int64_t row = sample_.rows[index_of(n)];
    const std::int64_t oldest = entries_.window == 0 ? 0 : row - entries_.window + 1;
    float* const to = logarithm_.data() + n * sample_.length;
    for (std::int64_t key = std::max(keys.begin, oldest); key < std::min(keys.end, row + 1); ++key) {
      to[key] = lane[(key - keys.begin) * kMapTile];
    }
  }

  /// Rows of heads that have no product of a query and a key, one by one.
  bool read_lines(const Job& job) {
    for (std::size_t n = 0; n < sample_.rows.size(); ++n) {
      LineRequest line;
      line.head = entries_.head;
      line.line = {MapLine::Along::row, sample_.rows[n]};
      line.positions = line.line.positions(sample_.length);
      const auto values = line_entries(line, job);
      if (!values) return false;
      float* const to = logarithm_.data() + static_cast<std::int64_t>(n) * sample_.length;
      for (std::size_t key = 0; key < values->size(); ++key) {
        // Entries outside of the window are NaN, and so are those that are not known.
        const bool seen = entries_.window == 0 || sample_.rows[n] - static_cast<std::int64_t>(key) < entries_.window;
        if (seen) to[key] = std::log2((*values)[key]);
      }
    }
    return true;
  }

  HeadEntries& entries_;
  const RowSample& sample_;
  std::vector<float> logarithm_;
};

/// Sums of one row.
void measure_row(const HeadEntries& entries, std::int64_t row, std::span<const float> logarithm,
                 std::span<const DistanceBin> bins, std::size_t n, SampledRows& rows) {
  std::vector<float> attention(logarithm.begin(), logarithm.end());
  kernels::cpu::exponentiate(row + 1, attention.data());
  double beside = 0;
  double square = 0;
  for (std::int64_t key = 0; key <= row; ++key) {
    const auto entry = static_cast<double>(attention[index_of(key)]);
    if (entry != 0) rows.entropy[n] -= entry * static_cast<double>(logarithm[index_of(key)]) * std::numbers::ln2;
    if (entries.gated) {
      rows.log_decay[n] += entry * (entries.gate[index_of(row)] - entries.gate[index_of(key)]);
    }
    if (key == 0) continue;
    beside += entry;
    square += entry * entry;
    if (entries.token.empty() || key == row) continue;
    if (entries.token[index_of(key - 1)] == entries.token[index_of(row)]) rows.on_repeats[n] += entry;
  }
  const double weight = weight_of(row, beside);
  rows.on_first[n] = static_cast<double>(attention[0]);
  rows.on_self[n] = static_cast<double>(attention[index_of(row)]);
  rows.beside[n] = beside;
  rows.square[n] = weight * weight * square;
  double within = 0;
  double within_beside = 0;
  for (std::size_t bin = 0; bin < bins.size(); ++bin) {
    for (std::int64_t distance = bins[bin].from; distance < std::min(bins[bin].to, row + 1); ++distance) {
      const auto entry = static_cast<double>(attention[index_of(row - distance)]);
      within += entry;
      if (distance < row) within_beside += weight * entry;
    }
    rows.within[n * bins.size() + bin] = within;
    rows.within_beside[n * bins.size() + bin] = within_beside;
  }
}

/// Sums over rows at each distance, and what rows have in the direction of these sums.
void measure_distances(const HeadEntries& entries, const RowSample& sample, const SampledEntries& read,
                       SampledRows& rows) {
  const auto length = static_cast<std::size_t>(sample.length);
  rows.mass.assign(length, 0.0);
  rows.received.assign(length, 0.0);
  std::vector<float> attention;
  const auto for_entries = [&](std::size_t n, const auto& body) {
    const std::int64_t row = sample.rows[n];
    const std::span<const float> logarithm = read.row(n);
    attention.assign(logarithm.begin(), logarithm.begin() + row + 1);
    kernels::cpu::exponentiate(row + 1, attention.data());
    for (std::int64_t distance = 0; distance <= row; ++distance) {
      body(static_cast<std::size_t>(distance), static_cast<double>(attention[index_of(row - distance)]),
           distance < row);
    }
  };
  for (std::vector<double>& half : rows.half) half.assign(length, 0.0);
  for (std::size_t n = 0; n < sample.rows.size(); ++n) {
    const auto positions = static_cast<double>(sample.positions[n / 2]);
    const double weight = positions * weight_of(sample.rows[n], rows.beside[n]);
    for_entries(n, [&](std::size_t distance, double entry, bool beside) {
      rows.mass[distance] += positions / 2 * entry;
      rows.received[index_of(sample.rows[n]) - distance] += positions / 2 * entry;
      if (beside) rows.half[n % 2][distance] += weight * entry;
    });
  }
  const std::size_t reach = entries.window == 0 ? length : std::min(length, static_cast<std::size_t>(entries.window));
  for (std::size_t n = 0; n < sample.rows.size(); ++n) {
    const double weight = weight_of(sample.rows[n], rows.beside[n]);
    for_entries(n, [&](std::size_t distance, double entry, bool beside) {
      if (!beside || distance >= reach || distance + 1 >= length) return;
      const double part = weight * entry / static_cast<double>(length - 1 - distance);
      for (int half = 0; half < 2; ++half) rows.toward[half][n] += part * rows.half[half][distance];
    });
  }
}

/// Every `stride`-th number from `first` on.
std::vector<double> column(std::span<const double> values, std::size_t first, std::size_t stride) {
  std::vector<double> taken;
  taken.reserve(values.size() / stride);
  for (std::size_t n = first; n < values.size(); n += stride) taken.push_back(values[n]);
  return taken;
}

/// @param within  [L] mass up to each distance
double distance_reaching(std::span<const double> within, double share) {
  const auto reaches = [share](double mass) { return mass >= share; };
  return static_cast<double>(std::min(std::ranges::find_if(within, reaches) - within.begin(), std::ssize(within) - 1));
}

/// The error of the smallest distance that holds a share (Woodruff). The error of the mass within that distance lies
/// between those at the ends of its bin; where a single row makes the step at that distance, the step is added to it.
/// @param within       [L] the profile's mass up to each distance
/// @param largest_row  share of the text that one row stands for, at most
double distance_error(const DistanceProfile& profile, std::span<const double> within, std::span<const DistanceBin> bins,
                      std::span<const double> within_error, double largest_row, double share, double distance) {
  if (std::isnan(distance)) return kUnknown;
  std::size_t bin = 0;
  while (bin + 1 < bins.size() && static_cast<double>(bins[bin].to) <= distance) ++bin;
  const double before = bin == 0 ? within_error[0] : within_error[bin - 1];
  const double part =
      (distance + 1 - static_cast<double>(bins[bin].from)) / static_cast<double>(bins[bin].to - bins[bin].from);
  const double step = std::min(profile.mass[static_cast<std::size_t>(distance)], largest_row);
  const double error = before + part * (within_error[bin] - before) + step;
  return (distance_reaching(within, share + error) - distance_reaching(within, share - error)) / 2;
}

/// Errors of a profile's bins, from the numbers of rows.
/// @param error_of  error of the mean of a number of each row
template <typename ErrorOf>
ProfileErrors profile_errors(const RowSample& sample, std::span<const double> of_rows, const DistanceProfile& profile,
                             double on_keys, const ErrorOf& error_of) {
  const std::vector<DistanceBin> bins = distance_bins(sample.length);
  ProfileErrors errors;
  std::vector<double> before;
  for (std::size_t bin = 0; bin < bins.size(); ++bin) {
    std::vector<double> up_to = column(of_rows, bin, bins.size());
    std::vector<double> own = up_to;
    for (std::size_t n = 0; n < before.size(); ++n) own[n] -= before[n];
    errors.within.push_back(error_of(up_to));
    errors.mass.push_back(error_of(own));
    before = std::move(up_to);
  }
  const double largest_row =
      static_cast<double>(std::ranges::max(sample.positions)) / 2 / static_cast<double>(sample.length);
  std::vector<double> within(profile.mass.size());
  std::partial_sum(profile.mass.begin(), profile.mass.end(), within.begin());
  errors.d50 = distance_error(profile, within, bins, errors.within, largest_row, 0.5 * on_keys, profile.d50);
  errors.d90 = distance_error(profile, within, bins, errors.within, largest_row, 0.9 * on_keys, profile.d90);
  return errors;
}

/// The score of positional heads and its error: sum over d of S_d^2 / n_d, over all squares.
RowEstimate explained_by_distance(const RowSample& sample, const SampledRows& rows) {
  double explained = 0;
  double squares = 0;
  for (std::size_t h = 0; h < sample.positions.size(); ++h) {
    const auto positions = static_cast<double>(sample.positions[h]);
    explained += positions * (rows.toward[1][2 * h] + rows.toward[0][2 * h + 1]) / 2;
    squares += positions * (rows.square[2 * h] + rows.square[2 * h + 1]) / 2;
  }
  const double ratio = explained / squares;
  double variance = 0;
  for (std::size_t h = 0; h < sample.positions.size(); ++h) {
    const auto positions = static_cast<double>(sample.positions[h]);
    const double of_squares = ratio * (rows.square[2 * h] - rows.square[2 * h + 1]) / 2;
    for (const auto& toward : rows.toward) {
      const double apart = positions * (toward[2 * h] - toward[2 * h + 1] - of_squares);
      variance += (1 - 2 / positions) * apart * apart / 2;
    }
  }
  return {std::isnan(ratio) ? ratio : std::clamp(ratio, 0.0, 1.0), std::sqrt(variance) / squares};
}

/// The estimates by sampled rows for a text's rows up to a limit, and for those beyond it, which see further.
struct RowsBeyond {
  std::vector<double> share;   ///< of a row beyond the limit A' at distances below it; 0 of the others
  std::vector<double> counts;  ///< 1 of a row beyond it that has attention beside key 0
  std::int64_t up_to = 0;      ///< rows up to it that have some, estimated
};

/// @param counts  1 of a row that has attention beside key 0
RowsBeyond rows_beyond(const RowSample& sample, const SampledRows& rows, std::span<const double> counts,
                       std::int64_t limit) {
  const std::vector<DistanceBin> bins = distance_bins(sample.length);
  const auto bin = index_of(std::ranges::find(bins, limit, &DistanceBin::to) - bins.begin());
  RowsBeyond beyond;
  std::vector<double> near;
  std::vector<double> near_counts;
  for (std::size_t n = 0; n < sample.rows.size(); ++n) {
    const bool far = sample.rows[n] > limit;
    beyond.share.push_back(far ? rows.within_beside[n * bins.size() + bin] : 0);
    beyond.counts.push_back(far ? counts[n] : 0);
    near.push_back(!far && sample.rows[n] > 0 ? 1 : 0);
    near_counts.push_back(near.back() * counts[n]);
  }
  const double share = ratio_of_rows(sample, near_counts, near).value;
  const auto there = static_cast<double>(std::min(limit, sample.length - 1));
  beyond.up_to = std::llround((std::isnan(share) ? 1 : share) * there);
  return beyond;
}

}  // namespace

std::vector<std::int64_t> repeat_distances(std::span<const std::int32_t> token) {
  std::vector<std::int64_t> distances(token.size());
  std::unordered_map<std::int32_t, std::int64_t> latest;  // where each token stood last, up to two positions ago
  for (std::int64_t row = 2; row < std::ssize(token); ++row) {
    latest[token[index_of(row - 2)]] = row - 2;
    const auto before = latest.find(token[index_of(row)]);
    if (before != latest.end()) distances[index_of(row)] = row - (before->second + 1);
  }
  return distances;
}

std::vector<std::uint8_t> rows_with_repeats(std::span<const std::int64_t> distances, std::int64_t window) {
  std::vector<std::uint8_t> sees(distances.size());
  for (std::size_t row = 0; row < sees.size(); ++row) {
    sees[row] = distances[row] > 0 && (window == 0 || distances[row] < window) ? 1 : 0;
  }
  return sees;
}

void estimate_spread(const HeadEntries& entries, const RowSample& sample, std::span<const std::uint8_t> sees,
                     SampledRows rows, HeadStatistics& statistics) {
  const auto length = static_cast<double>(sample.length);
  const std::vector<DistanceBin> bins = distance_bins(sample.length);
  AttentionSpread& spread = statistics;
  SpreadErrors errors;
  errors.rows = std::ssize(sample.rows);
  const auto put = [&](std::span<const double> values, double& value, double& error) {
    const RowEstimate estimate = mean_of_rows(sample, values);
    value = estimate.value;
    error = estimate.error;
  };
  put(rows.entropy, spread.entropy, errors.entropy);
  put(rows.on_first, spread.mass_on_first, errors.mass_on_first);
  put(rows.on_self, spread.mass_on_self, errors.mass_on_self);
  put(rows.log_decay, spread.mean_log_decay, errors.mean_log_decay);
  if (entries.sink) {
    std::vector<double> shares;
    for (const std::int64_t row : sample.rows) shares.push_back(std::exp(entries.log_sink_share(row)));
    put(shares, spread.mass_on_sink.emplace(), errors.mass_on_sink.emplace());
  }
  const double on_keys = 1 - spread.mass_on_sink.value_or(0);
  // Row 0 has nothing beside key 0, and is not left to chance.
  std::vector<double> counts;
  std::vector<double> others;
  for (std::size_t n = 0; n < sample.rows.size(); ++n) {
    counts.push_back(has_more(sample.rows[n], rows.beside[n]) ? 1 : 0);
    others.push_back(sample.rows[n] > 0 ? 1 : 0);
  }
  const double counted = mean_of_rows(sample, counts).value * length;
  const double share = ratio_of_rows(sample, counts, others).value;
  spread.rows_without_first = sample.length > 1 ? std::llround(share * (length - 1)) : 0;
  const RowsBeyond beyond_local = rows_beyond(sample, rows, counts, kLocalTokens);
  const RowsBeyond beyond_long = rows_beyond(sample, rows, counts, kLongTokens);
  spread.rows_up_to_local = beyond_local.up_to;
  spread.rows_up_to_long = beyond_long.up_to;
  spread.square_without_first = ratio_of_rows(sample, rows.square, counts).value;
  std::vector<double> without_first(rows.mass.size());
  for (std::size_t distance = 0; distance < without_first.size(); ++distance) {
    without_first[distance] = (rows.half[0][distance] + rows.half[1][distance]) / 2 / counted;
    rows.mass[distance] /= length;
  }
  spread.distance = distance_profile(std::move(rows.mass), 1, on_keys);
  spread.distance_without_first = distance_profile(std::move(without_first), 1);
  errors.distance =
      profile_errors(sample, rows.within, spread.distance, on_keys,
                     [&](const std::vector<double>& values) { return mean_of_rows(sample, values).error; });
  errors.distance_without_first =
      profile_errors(sample, rows.within_beside, spread.distance_without_first, 1,
                     [&](const std::vector<double>& values) { return ratio_of_rows(sample, values, counts).error; });
  std::vector<double> repeat;
  for (const std::int64_t row : sample.rows) repeat.push_back(sees.empty() ? 0 : sees[index_of(row)]);
  const RowEstimate on_repeats = ratio_of_rows(sample, rows.on_repeats, repeat);
  spread.on_repeats = on_repeats.value;
  spread.repeats = std::count(sees.begin(), sees.end(), 1);
  statistics.has_attention = true;
  statistics.label_scores = label_scores(spread, entries.window);
  const RowEstimate positional = explained_by_distance(sample, rows);
  const RowEstimate local = ratio_of_rows(sample, beyond_local.share, beyond_local.counts);
  const RowEstimate within_long = ratio_of_rows(sample, beyond_long.share, beyond_long.counts);
  LabelScores& scores = statistics.label_scores;
  const auto set_score = [&](HeadLabel label, double value) {
    double& score = scores[index_of(static_cast<int>(label))];
    if (!std::isnan(score)) score = std::isnan(value) ? value : std::clamp(value, 0.0, 1.0);
  };
  set_score(HeadLabel::local, local.value);
  set_score(HeadLabel::positional, positional.value);
  set_score(HeadLabel::long_memory, 1 - within_long.value);
  errors.label_scores = {bins.size() > 1 ? errors.distance.mass[1] * length / (length - 1) : kUnknown,
                         local.error,
                         errors.mass_on_first,
                         positional.error,
                         on_repeats.error,
                         within_long.error};
  // A score that does not exist has no error.
  for (std::size_t n = 0; n < scores.size(); ++n) {
    if (std::isnan(scores[n])) errors.label_scores[n] = kUnknown;
  }
  statistics.errors = std::move(errors);
}

std::optional<SampledRows> measure_sampled_rows(HeadEntries& entries, const RowSample& sample, const Job& job) {
  Team team(job);
  SampledEntries read(entries, sample);
  if (!read.read(job, team)) return std::nullopt;
  SampledRows rows;
  const std::size_t count = sample.rows.size();
  for (auto* const numbers : {&rows.entropy, &rows.on_first, &rows.on_self, &rows.log_decay, &rows.beside, &rows.square,
                              &rows.on_repeats, &rows.toward[0], &rows.toward[1]}) {
    numbers->assign(count, 0.0);
  }
  const std::vector<DistanceBin> bins = distance_bins(sample.length);
  rows.within.assign(count * bins.size(), 0.0);
  rows.within_beside.assign(count * bins.size(), 0.0);
  const bool done =
      team.run({"measuring attention", "rows", std::ssize(sample.rows)}, std::ssize(sample.rows),
               [&](std::int64_t n, int /*thread*/) {
                 measure_row(entries, sample.rows[index_of(n)], read.row(index_of(n)), bins, index_of(n), rows);
               });
  if (!done) return std::nullopt;
  measure_distances(entries, sample, read, rows);
  return rows;
}

}  // namespace foxscope

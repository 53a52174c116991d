#include "backend/eval/atlas/window_rows.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <unordered_map>
#include <utility>

#include "backend/base/index.h"
#include "backend/eval/atlas/atlas_window.h"
#include "backend/map/statistics/distance_bins.h"
#include "backend/map/statistics/head_labels.h"

namespace foxscope {
namespace {

constexpr double kNoFall = std::numeric_limits<double>::quiet_NaN();

std::vector<double> falls_of(const Trace& trace) {
  const std::span<const float> loss = trace.per_token_loss();
  const std::vector<std::int32_t>& ids = trace.tokens()->id;
  std::vector<double> falls(loss.size(), kNoFall);
  std::unordered_map<std::int32_t, double> before;
  for (std::size_t p = 0; p < loss.size(); ++p) {
    const auto here = static_cast<double>(loss[p]);
    const auto [known, is_new] = before.emplace(ids[p], here);
    if (!is_new) falls[p] = known->second - here;
  }
  return falls;
}

/// Less is what rounding leaves of the sum of a row.
constexpr double kLeastMass = 0x1p-30;

/// Mass at this distance and farther, where a bin begins; 0 if none does.
double mass_from(std::int64_t distance, std::span<const DistanceBin> bins, std::span<const double> within) {
  const auto bin = std::ranges::find(bins, distance, &DistanceBin::to);
  if (bin == bins.end()) return 0;
  const double mass = within.back() - within[index_of(bin - bins.begin())];
  return mass < kLeastMass ? 0 : mass;
}

void take_larger(double value, std::int64_t position, WindowRows::Largest& largest) {
  const bool better = value > largest.value || (value == largest.value && position < largest.position);
  if (position > 0 && value > 0 && (largest.position == 0 || better)) largest = {position, value};
}

}  // namespace

std::int64_t half_of_window(std::int64_t length) {
  return static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(std::max<std::int64_t>(1, length / 2))));
}

WindowRows::WindowRows(const RunOnDevice& run, std::int64_t count, std::uint64_t seed)
    : run_(run),
      all_(count >= run->info().length),
      count_(all_ && count != kAll ? run->info().length
                                   : std::min(count == kAll ? kDefaultRows : count, (run->info().length - 1) / 2 * 2)),
      seed_(seed),
      bins_(distance_bins(run->info().length)),
      fall_(falls_of(*run)),
      heads_(index_of(run->info().layers) * index_of(run->info().heads)) {
  if (count_ == 0) return;
  StatisticsOptions options;
  options.rows = sees_all() ? 0 : count_;
  options.rows_seed = seed_;
  shared_ = std::make_shared<const SharedRows>(shared_rows(*run, options));
}

void WindowRows::take_row(std::int64_t row, std::span<const double> within, std::size_t place, Head& head) const {
  for (std::size_t bin = 0; bin < bins_.size(); ++bin) {
    head.masses[place * bins_.size() + bin] = within[bin] - (bin == 0 ? 0 : within[bin - 1]);
  }
  take_larger(mass_from(half_of_window(run_->info().length), bins_, within), row, head.reach);
  if (!fall_.empty()) take_larger(mass_from(kLocalTokens, bins_, within) * fall_[index_of(row)], row, head.gain);
}

void WindowRows::take(const HeadStatistics& of, const RowSample& sample, const SampledRows& rows) {
  Head& head = heads_[index_of(of.layer) * index_of(run_->info().heads) + index_of(of.head)];
  head.received = rows.received;
  head.masses.resize(masses());
  for (std::size_t n = 0; n < sample.rows.size(); ++n) {
    take_row(sample.rows[n], std::span(rows.within).subspan(n * bins_.size(), bins_.size()), n, head);
  }
}

bool WindowRows::measure(int layer, int head, const Job& job) {
  if (!run_->has_attention(layer)) return true;
  if (sees_all()) return measure_all(layer, head, job);
  StatisticsOptions options;
  options.events = 0;
  options.with_gates = false;
  if (count_ > 0) {
    options.rows = count_;
    options.rows_seed = seed_;
    options.shared = shared_;
    options.take_rows = [this](const HeadStatistics& of, const RowSample& sample, const SampledRows& rows) {
      take(of, sample, rows);
    };
    if (!layer_statistics(run_, layer, std::span(&head, 1), options, job)) return false;
  }
  return !all_ || measure_all(layer, head, job);
}

bool WindowRows::measure_all(int layer, int head, const Job& job) {
  constexpr std::int64_t kAtOnce = 256;
  const std::int64_t length = run_->info().length;
  Head& of_head = heads_[index_of(layer) * index_of(run_->info().heads) + index_of(head)];
  std::vector<double> received(index_of(length));
  if (sees_all()) of_head.masses.resize(masses());
  StatisticsOptions options;
  options.events = 0;
  options.with_gates = false;
  options.take_rows = [&](const HeadStatistics& /*of*/, const RowSample& sample, const SampledRows& rows) {
    for (std::size_t key = 0; key < received.size(); ++key) received[key] += rows.received[key];
    for (std::size_t n = 0; sees_all() && n < sample.rows.size(); ++n) {
      // The last row of an odd number stands there twice, and is the same both times.
      const std::int64_t row = sample.rows[n];
      take_row(row, std::span(rows.within).subspan(n * bins_.size(), bins_.size()), index_of(row), of_head);
    }
  };
  for (std::int64_t begin = 0; begin < length; begin += kAtOnce) {
    options.these_rows = these_rows(length, begin, std::min(begin + kAtOnce, length));
    if (!layer_statistics(run_, layer, std::span(&head, 1), options, job)) return false;
  }
  of_head.received = std::move(received);
  return true;
}

}  // namespace foxscope

#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "backend/base/index.h"
#include "backend/base/job.h"
#include "backend/map/map.h"
#include "backend/map/statistics/distance_bins.h"
#include "backend/map/statistics/head_statistics.h"
#include "backend/map/statistics/sampled_spread.h"

namespace foxscope {

/// The numbers that sampled rows give of the heads of one window beside their statistics.
class WindowRows {
 public:
  /// As many rows of a window as it has.
  static constexpr std::int64_t kAll = std::numeric_limits<std::int64_t>::max();

  /// @param count  of rows that are to be drawn. A window that has no more gives all of its rows; with kAll
  /// kDefaultRows
  ///               are drawn, and what keys receive is summed over all rows
  /// @param seed   that they are drawn by
  WindowRows(const RunOnDevice& run, std::int64_t count, std::uint64_t seed);

  /// Rows that are looked at: all of them, or an even number that is drawn; 0: the window is too short.
  [[nodiscard]] std::int64_t count() const { return count_; }
  /// Whether statistics of so many rows are of those that are drawn.
  [[nodiscard]] bool draws(std::int64_t rows) const { return !all_ && rows == count_; }
  [[nodiscard]] std::uint64_t seed() const { return seed_; }
  /// The parts that the rows of all heads share; null where none are looked at.
  [[nodiscard]] const std::shared_ptr<const SharedRows>& shared() const { return shared_; }

  /// A row, and what is largest there.
  struct Largest {
    std::int64_t position = 0;  ///< 0: no row has it
    double value = 0;
  };
  struct Head {
    std::vector<double> received;  ///< [L] SampledRows::received, or of all rows; empty: no attention
    Largest reach;                 ///< mass half the window back or farther
    std::vector<double> masses;    ///< [count, bins] mass of each row in each bin of distance; empty: no attention
    Largest gain;                  ///< mass beyond kLocalTokens times the fall of the loss, nats
  };

  /// Takes the rows of one head; heads may come from several threads.
  void take(const HeadStatistics& of, const RowSample& sample, const SampledRows& rows);
  /// Draws and measures the rows of one head, for whoever has not measured it with these rows.
  /// @returns false if the job was stopped
  bool measure(int layer, int head, const Job& job);

  /// By layer, then head, the most that a layer has.
  [[nodiscard]] const Head& head(std::size_t place) const { return heads_[place]; }
  /// Numbers of Head::masses.
  [[nodiscard]] std::size_t masses() const { return index_of(count_) * bins_.size(); }

 private:
  /// Whether masses are of all rows, not of drawn ones.
  [[nodiscard]] bool sees_all() const { return count_ == run_->info().length; }
  /// Sums what keys receive from all rows, and takes all rows where masses are of them.
  /// @returns false if the job was stopped
  bool measure_all(int layer, int head, const Job& job);
  void take_row(std::int64_t row, std::span<const double> within, std::size_t place, Head& head) const;

  const RunOnDevice& run_;
  bool all_;  ///< keys receive from all rows
  std::int64_t count_;
  std::uint64_t seed_;
  std::shared_ptr<const SharedRows> shared_;
  std::vector<DistanceBin> bins_;
  std::vector<double> fall_;  ///< [L] of the loss since the window first had the same token to predict; NaN: it had not
  std::vector<Head> heads_;
};

/// The largest power of 2 that is at most half the length; 1 of the shortest.
std::int64_t half_of_window(std::int64_t length);

}  // namespace foxscope

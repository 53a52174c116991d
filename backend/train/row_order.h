#pragma once

#include <cstdint>

namespace foxscope {

/// The order in which a training reads its rows.
enum class RowOrder { shuffled, sequential };

/// Which rows of the data each step reads: a function of the step alone, so that a training goes on from any step.
///
/// Steps count from 1, and step s has R rows. Row r of it is number p = (s-1) R + r of all that are read; epoch
/// e = floor(p / N) reads every row once.
/// - shuffled: row P_e(p mod N), where P_e is a permutation that the seed and e give (shuffled_row). A step may hold
///   the end of an epoch and the beginning of the next.
/// - sequential: row p mod N.
/// - sequential with K > 1 columns, documents of K rows each: the order in which the authors of FoX read LongCrawl64,
///   column after column of all documents. With D = N / K documents and G = floor(D / R), batch b = (s-1) mod (G K)
///   reads column floor(b / G) of documents R (b mod G) .. +R-1; the last D mod R documents are never read.
class RowSchedule {
 public:
  struct Options {
    std::int64_t rows = 0;           ///< N
    std::int64_t columns = 1;        ///< K; divides N
    std::int64_t rows_per_step = 0;  ///< R
    RowOrder order = RowOrder::shuffled;
    std::uint64_t seed = 0;
  };

  /// @throws UsageError for R below 1, and in the authors' order for R above D
  explicit RowSchedule(const Options& options);

  /// R
  [[nodiscard]] std::int64_t rows_per_step() const { return options_.rows_per_step; }
  /// Index of a row among all of the data.
  /// @param step   from 1
  /// @param place  r, in [0, R)
  [[nodiscard]] std::int64_t row(std::int64_t step, std::int64_t place) const;

 private:
  [[nodiscard]] std::int64_t row_by_columns(std::int64_t batch, std::int64_t place) const;

  Options options_;
};

/// A permutation of 0 .. N-1 in constant memory, the same on every platform: a Feistel network of 8 rounds over the
/// numbers of 2h bits, 4^h >= N, that is applied until its result is below N (cycle walking: Black and Rogaway 2002,
/// Ciphers with Arbitrary Finite Domains). Round keys and the rounds' function are outputs of SplitMix64 (Steele, Lea,
/// Flood 2014).
/// @param index  in [0, rows)
std::int64_t shuffled_row(std::int64_t index, std::int64_t rows, std::uint64_t seed, std::uint64_t epoch);

}  // namespace foxscope

#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace foxscope {

/// The seed where nobody names one.
inline constexpr std::uint64_t kRowsSeed = 20250307;

/// Rows of a text drawn for an estimate: the text is cut into strata, and of each stratum two rows are drawn without
/// replacement. Row i is in stratum H/2 (i/L + log(1 + i)/log(1 + L)) of H, but that each has two rows at least: half
/// of the strata are of equal length, and half are of equal length on a logarithmic axis, because the first rows, which
/// see few keys, differ most from each other. Boundaries are then moved to the powers of 2 that are nearest, at which
/// the bins of distances begin: key 0 is at distance i of row i. A length, a number of rows and a seed always give the
/// same rows.
struct RowSample {
  std::int64_t length = 0;              ///< rows of the text, L
  std::vector<std::int64_t> rows;       ///< those of stratum h are rows[2 h] and rows[2 h + 1], in the order drawn
  std::vector<std::int64_t> positions;  ///< [strata] rows that each stratum has, N_h
};

/// @param count  even, from 2 to `length`
/// @param seed   of std::mt19937_64
RowSample sample_rows(std::int64_t length, std::int64_t count, std::uint64_t seed = kRowsSeed);

/// Rows that stand for themselves alone: estimates of sums over all rows become sums over these.
/// @param begin, end  of the rows; the last of an odd number stands there twice, each time for half of itself
RowSample these_rows(std::int64_t length, std::int64_t begin, std::int64_t end);

/// A number and its standard error.
struct RowEstimate {
  double value = 0;
  double error = 0;
};

/// Mean of y over all rows of the text, sum over h of N_h / L times the mean of stratum h, with the error
///   sqrt(sum over h of (N_h / L)^2 (1 - 2 / N_h) (y_a - y_b)^2 / 4)
/// of two rows a and b a stratum (Cochran, Sampling Techniques, 3rd ed., eq. 5.13 with s_h^2 = (y_a - y_b)^2 / 2).
/// @param y  of each of the sample's rows
RowEstimate mean_of_rows(const RowSample& sample, std::span<const double> y);

/// Ratio of the means of two numbers over all rows, with the error of its linearisation, that of the mean of
/// (y - ratio x) / mean x (Cochran, section 6.11). NaN where the mean of x is 0.
RowEstimate ratio_of_rows(const RowSample& sample, std::span<const double> y, std::span<const double> x);

}  // namespace foxscope

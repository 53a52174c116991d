#include "backend/map/statistics/row_sample.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>

#include "backend/base/index.h"

namespace foxscope {
namespace {

/// The first row of stratum h of so many, where their sizes are not bounded.
std::int64_t stratum_begin(std::int64_t length, std::int64_t strata, std::int64_t h) {
  const auto whole = static_cast<double>(length);
  std::int64_t low = 0;
  std::int64_t high = length;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    const auto row = static_cast<double>(middle);
    const double place = (row / whole + std::log1p(row) / std::log1p(whole)) / 2;
    if (place * static_cast<double>(strata) >= static_cast<double>(h)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

/// Where strata begin, and the end of the last.
std::vector<std::int64_t> stratum_begins(std::int64_t length, std::int64_t strata) {
  std::vector<std::int64_t> begins = {0};
  for (std::int64_t h = 1; h < strata; ++h) {
    const std::int64_t most = length - 2 * (strata - h);
    begins.push_back(std::clamp(stratum_begin(length, strata, h), begins.back() + 2, most));
  }
  begins.push_back(length);
  for (std::int64_t power = 2; power < length && strata > 1; power *= 2) {
    const auto nearest = std::min_element(begins.begin() + 1, begins.end() - 1, [&](std::int64_t a, std::int64_t b) {
      return std::abs(a - power) < std::abs(b - power);
    });
    if (nearest[-1] + 2 <= power && power + 2 <= nearest[1]) *nearest = power;
  }
  return begins;
}

}  // namespace

RowSample sample_rows(std::int64_t length, std::int64_t count, std::uint64_t seed) {
  assert(count >= 2 && count % 2 == 0 && count <= length);
  std::mt19937_64 random(seed);
  RowSample sample{length, {}, {}};
  const std::int64_t strata = count / 2;
  const std::vector<std::int64_t> begins = stratum_begins(length, strata);
  for (std::size_t h = 0; h + 1 < begins.size(); ++h) {
    const std::int64_t begin = begins[h];
    const std::int64_t size = begins[h + 1] - begin;
    // The remainder's bias is below 2^-30: the generator has 64 bits.
    const auto first = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(size));
    auto second = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(size - 1));
    if (second >= first) ++second;
    sample.rows.insert(sample.rows.end(), {begin + first, begin + second});
    sample.positions.push_back(size);
  }
  return sample;
}

RowSample these_rows(std::int64_t length, std::int64_t begin, std::int64_t end) {
  assert(0 <= begin && begin < end && end <= length);
  RowSample sample{length, {}, {}};
  for (std::int64_t row = begin; row < end; row += 2) {
    const std::int64_t second = std::min(row + 1, end - 1);
    sample.rows.insert(sample.rows.end(), {row, second});
    sample.positions.push_back(second - row + 1);
  }
  return sample;
}

RowEstimate mean_of_rows(const RowSample& sample, std::span<const double> y) {
  assert(y.size() == sample.rows.size());
  RowEstimate estimate;
  double variance = 0;
  for (std::size_t h = 0; h < sample.positions.size(); ++h) {
    const auto positions = static_cast<double>(sample.positions[h]);
    const double share = positions / static_cast<double>(sample.length);
    const double apart = y[2 * h] - y[2 * h + 1];
    estimate.value += share * (y[2 * h] + y[2 * h + 1]) / 2;
    variance += share * share * (1 - 2 / positions) * apart * apart / 4;
  }
  estimate.error = std::sqrt(variance);
  return estimate;
}

RowEstimate ratio_of_rows(const RowSample& sample, std::span<const double> y, std::span<const double> x) {
  const double mean = mean_of_rows(sample, x).value;
  if (mean == 0) return {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
  const double ratio = mean_of_rows(sample, y).value / mean;
  std::vector<double> rest(y.size());
  for (std::size_t n = 0; n < rest.size(); ++n) rest[n] = (y[n] - ratio * x[n]) / mean;
  return {ratio, mean_of_rows(sample, rest).error};
}

}  // namespace foxscope

#include "backend/train/row_order.h"

#include <bit>
#include <cassert>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope {
namespace {

constexpr std::uint64_t kRounds = 8;
constexpr std::uint64_t kGolden = 0x9E3779B97F4A7C15U;  // 2^64 divided by the golden ratio, odd

/// SplitMix64's function of its counter.
constexpr std::uint64_t mix(std::uint64_t value) {
  value = (value ^ (value >> 30U)) * 0xBF58476D1CE4E5B9U;
  value = (value ^ (value >> 27U)) * 0x94D049BB133111EBU;
  return value ^ (value >> 31U);
}

}  // namespace

std::int64_t shuffled_row(std::int64_t index, std::int64_t rows, std::uint64_t seed, std::uint64_t epoch) {
  assert(index >= 0 && index < rows);
  const auto bound = static_cast<std::uint64_t>(rows);
  const auto half_bits = static_cast<unsigned>((std::bit_width(bound - 1) + 1) / 2);
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  const std::uint64_t key = mix(mix(seed + kGolden) + epoch * kGolden);
  auto value = static_cast<std::uint64_t>(index);
  do {
    std::uint64_t left = value >> half_bits;
    std::uint64_t right = value & mask;
    for (std::uint64_t round = 1; round <= kRounds; ++round) {
      const std::uint64_t mixed = left ^ (mix(mix(key + round * kGolden) + right) & mask);
      left = right;
      right = mixed;
    }
    value = left << half_bits | right;
  } while (value >= bound);
  return static_cast<std::int64_t>(value);
}

RowSchedule::RowSchedule(const Options& options) : options_(options) {
  assert(options.rows >= 1 && options.columns >= 1 && options.rows % options.columns == 0);
  if (options.rows_per_step < 1) {
    throw UsageError(
        fmt::format("a step of {} rows: use a --batch-tokens of at least --length", options.rows_per_step));
  }
  const std::int64_t documents = options.rows / options.columns;
  if (options.order == RowOrder::sequential && options.columns > 1 && options.rows_per_step > documents) {
    throw UsageError(
        fmt::format("--order sequential: a step takes {} rows of as many documents, the data have {} documents: use a "
                    "smaller --batch-tokens, or --order shuffled",
                    options.rows_per_step, documents));
  }
}

std::int64_t RowSchedule::row(std::int64_t step, std::int64_t place) const {
  assert(step >= 1 && place >= 0 && place < options_.rows_per_step);
  if (options_.order == RowOrder::sequential && options_.columns > 1) return row_by_columns(step - 1, place);
  const std::int64_t position = (step - 1) * options_.rows_per_step + place;
  const std::int64_t index = position % options_.rows;
  if (options_.order == RowOrder::sequential) return index;
  return shuffled_row(index, options_.rows, options_.seed, static_cast<std::uint64_t>(position / options_.rows));
}

std::int64_t RowSchedule::row_by_columns(std::int64_t batch, std::int64_t place) const {
  const std::int64_t documents = options_.rows / options_.columns;
  const std::int64_t groups = documents / options_.rows_per_step;
  const std::int64_t in_epoch = batch % (groups * options_.columns);
  const std::int64_t document = in_epoch % groups * options_.rows_per_step + place;
  return document * options_.columns + in_epoch / groups;
}

}  // namespace foxscope

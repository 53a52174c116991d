#include "app/page/rounded_heads.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "app/page/row_entries.h"
#include "backend/base/index.h"
#include "backend/base/log.h"
#include "backend/map/map_line.h"

namespace foxscope::page {
namespace {

constexpr int kMostAttempts = 12;
/// Standard deviation of a logit's error with which the search begins.
constexpr double kFirstLogitError = 8e-4;
/// A float32 has no more digits.
constexpr double kFinestNumber = 1 << 23;

/// Rows of a store, turned: [d, L].
std::vector<float> turned(const QueryKeyStore& store, TraceArray part, int layer, int head, std::int64_t length) {
  std::vector<float> scratch;
  const auto rows = store.rows(part, layer, head, 0, length, scratch);
  const std::size_t count = index_of(length);
  const std::size_t dim = rows.size() / count;
  std::vector<float> columns(rows.size());
  for (std::size_t position = 0; position < count; ++position) {
    for (std::size_t n = 0; n < dim; ++n) columns[n * count + position] = rows[position * dim + n];
  }
  return columns;
}

/// Root mean square of each channel.
std::vector<double> sizesOf(const std::vector<float>& columns, std::size_t dim) {
  std::vector<double> sizes(dim);
  const std::size_t count = columns.size() / dim;
  for (std::size_t n = 0; n < dim; ++n) {
    double sum = 0;
    for (std::size_t position = 0; position < count; ++position) {
      const auto value = static_cast<double>(columns[n * count + position]);
      sum += value * value;
    }
    sizes[n] = std::sqrt(sum / static_cast<double>(count));
  }
  return sizes;
}

/// @param others  size of the channel in what it is multiplied by
RoundedVectors rounded(const std::vector<float>& columns, const std::vector<double>& others, double error) {
  const std::size_t dim = others.size();
  const std::size_t count = columns.size() / dim;
  RoundedVectors result;
  result.numbers.resize(columns.size());
  result.steps.resize(dim);
  for (std::size_t n = 0; n < dim; ++n) {
    if (others[n] == 0) continue;
    double largest = 0;
    for (std::size_t p = 0; p < count; ++p) largest = std::max(largest, std::abs(double{columns[n * count + p]}));
    const double step = std::max(error / others[n], largest / kFinestNumber);
    if (largest == 0 || !(step > 0)) continue;
    // Few binary digits, so that numbers times steps are exact in more than one order of multiplying.
    int exponent = 0;
    const double part = std::frexp(step, &exponent);
    result.steps[n] = static_cast<float>(std::ldexp(std::floor(part * 256) / 256, exponent));
    if (result.steps[n] == 0) continue;
    for (std::size_t p = 0; p < count; ++p) {
      result.numbers[n * count + p] =
          static_cast<std::int32_t>(std::lround(double{columns[n * count + p]} / double{result.steps[n]}));
    }
  }
  return result;
}

/// A head of the group: what the run holds of it, and the rows that are compared.
struct Exact {
  HeadOf head;
  std::vector<float> queries;            ///< [d, L]
  std::vector<double> normalizers;       ///< of its own numbers; empty for a linear mixer
  std::vector<std::vector<float>> rows;  ///< the program's entries of the compared rows, keys 0 to the query
  double largest = 0;                    ///< entry of these rows
};

std::vector<std::int64_t> comparedRows(std::int64_t length) {
  std::vector<std::int64_t> rows;
  const std::int64_t count = std::min(length, kComparedRows);
  for (std::int64_t n = 1; n <= count; ++n) rows.push_back(n * length / count - 1);
  return rows;
}

/// The normalisers of all rows; nothing if the job was stopped.
std::optional<std::vector<double>> normalizersOf(const HeadOf& head, HeadVectors vectors, const Job& job) {
  RowEntries entries(head, vectors);
  std::vector<double> normalizers;
  for (std::int64_t query = 0; query < head.trace->info().length; ++query) {
    if (job.stopped()) return std::nullopt;
    normalizers.push_back(entries.log_normalizer(query));
  }
  return normalizers;
}

std::optional<Exact> exactOf(const HeadOf& head, const std::vector<float>& keys, const Job& job) {
  const TraceInfo& info = head.trace->info();
  const LayerMixer mixer = info.mixer(head.layer);
  Exact exact;
  exact.head = head;
  exact.queries = turned(head.trace->require_query_key(), TraceArray::query, head.layer,
                         shared_head(mixer.heads, mixer.query_heads, head.head), info.length);
  if (mixer.has_softmax()) {
    auto normalizers = normalizersOf(head, {exact.queries, keys}, job);
    if (!normalizers) return std::nullopt;
    exact.normalizers = std::move(*normalizers);
  }
  Job quiet = job;
  quiet.report = nullptr;
  for (const std::int64_t query : comparedRows(info.length)) {
    auto row = line_entries({.head = head,
                             .quantity = mixer.has_softmax() ? Quantity::attention : Quantity::mixing,
                             .line = {MapLine::Along::row, query},
                             .positions = {0, query + 1}},
                            quiet);
    if (!row) return std::nullopt;
    for (const float entry : *row) {
      if (!std::isnan(entry)) exact.largest = std::max(exact.largest, std::abs(double{entry}));
    }
    exact.rows.push_back(std::move(*row));
  }
  return exact;
}

/// How far shares |M_ij| / sum_k |M_ik| of a row are off.
double errorOfShares(std::span<const double> row, std::span<const float> exact) {
  double sum = 0;
  double exact_sum = 0;
  for (std::size_t key = 0; key < row.size(); ++key) {
    sum += std::abs(row[key]);
    exact_sum += std::abs(double{exact[key]});
  }
  double error = 0;
  for (std::size_t key = 0; key < row.size() && sum > 0 && exact_sum > 0; ++key) {
    error = std::max(error, std::abs(std::abs(row[key]) / sum - std::abs(double{exact[key]}) / exact_sum));
  }
  return error;
}

/// How far the entries of rounded vectors are off in the rows that are compared; of a linear mixer their shares of a
/// row too, in units of the largest entry.
double errorOf(const Exact& exact, HeadVectors vectors, std::span<const float> normalizers) {
  RowEntries entries(exact.head, vectors);
  double error = 0;
  const auto queries = comparedRows(exact.head.trace->info().length);
  for (std::size_t n = 0; n < queries.size(); ++n) {
    const std::int64_t query = queries[n];
    const auto row = entries.row(query, normalizers.empty() ? 0.0 : double{normalizers[index_of(query)]});
    const auto first = index_of(entries.first(query));
    for (std::size_t key = 0; key < row.size(); ++key) {
      const double off = std::abs(row[key] - double{exact.rows[n][first + key]});
      if (!(off <= error)) error = off;
    }
    if (!normalizers.empty()) continue;
    error = std::max(error, exact.largest * errorOfShares(row, std::span(exact.rows[n]).subspan(first, row.size())));
  }
  return error;
}

/// The largest error that a head may have: A is at most 1, M has no such scale.
double allowedError(const Exact& exact) {
  const bool softmax = exact.head.trace->info().mixer(exact.head.layer).has_softmax();
  return kLargestError * (softmax ? 1.0 : exact.largest);
}

/// The standard deviation of q.k times the softmax's scale that the first rounding aims at, in the units of e.
double firstError(const std::vector<Exact>& heads, const std::vector<double>& key_sizes) {
  double error = std::numeric_limits<double>::infinity();
  const auto dim = static_cast<double>(key_sizes.size());
  for (const Exact& exact : heads) {
    const bool softmax = exact.head.trace->info().mixer(exact.head.layer).has_softmax();
    // Each of 2 d products adds a variance of e^2 / 12.
    const double of_product = std::sqrt(6 / dim);
    const double wanted = softmax ? kFirstLogitError / double{exact.head.trace->info().softmax_scale}
                                  : 0.5 * kLargestError * exact.largest;
    if (wanted > 0) error = std::min(error, wanted * of_product);
  }
  return std::isfinite(error) ? error : 1.0;
}

/// One rounding of a group.
/// @returns nothing if the job was stopped
std::optional<RoundedGroup> roundedBy(double error, const std::vector<Exact>& heads, const std::vector<float>& keys,
                                      const std::vector<double>& key_sizes, const Job& job) {
  std::vector<double> query_sizes(key_sizes.size(), 0.0);
  for (const Exact& exact : heads) {
    const std::vector<double> sizes = sizesOf(exact.queries, key_sizes.size());
    for (std::size_t n = 0; n < sizes.size(); ++n) query_sizes[n] = std::max(query_sizes[n], sizes[n]);
  }
  RoundedGroup group;
  group.keys = rounded(keys, query_sizes, error);
  const std::vector<float> rounded_keys = group.keys.values();
  for (const Exact& exact : heads) {
    group.queries.push_back(rounded(exact.queries, key_sizes, error));
    const std::vector<float> rounded_queries = group.queries.back().values();
    const HeadVectors vectors{rounded_queries, rounded_keys};
    group.normalizers.emplace_back();
    if (!exact.normalizers.empty()) {
      const auto own = normalizersOf(exact.head, vectors, job);
      if (!own) return std::nullopt;
      const auto run = exact.head.trace->log_normalizer(exact.head.layer, exact.head.head);
      for (std::size_t n = 0; n < own->size(); ++n) {
        group.normalizers.back().push_back(static_cast<float>(double{run[n]} + ((*own)[n] - exact.normalizers[n])));
      }
    }
    group.errors.push_back(errorOf(exact, vectors, group.normalizers.back()));
  }
  return group;
}

}  // namespace

std::size_t RoundedVectors::bytes() const {
  constexpr std::int32_t kLargestOfTwo = 32767;
  return std::ranges::all_of(numbers, [](std::int32_t n) { return std::abs(n) <= kLargestOfTwo; }) ? 2 : 3;
}

std::vector<float> RoundedVectors::values() const {
  std::vector<float> values(numbers.size());
  const std::size_t count = numbers.size() / steps.size();
  for (std::size_t n = 0; n < values.size(); ++n) {
    values[n] = static_cast<float>(double{steps[n / count]} * numbers[n]);
  }
  return values;
}

std::optional<RoundedGroup> round_group(const HeadGroup& group, const Job& job) {
  const TraceInfo& info = group.trace->info();
  const std::vector<float> keys =
      turned(group.trace->require_query_key(), TraceArray::key, group.layer, group.key_head, info.length);
  std::vector<Exact> heads;
  for (const int head : group.heads) {
    auto exact = exactOf({group.trace, group.layer, head}, keys, job);
    if (!exact) return std::nullopt;
    heads.push_back(std::move(*exact));
  }
  const std::vector<double> key_sizes = sizesOf(keys, keys.size() / index_of(info.length));
  double error = firstError(heads, key_sizes);
  for (int attempt = 1;; ++attempt) {
    auto result = roundedBy(error, heads, keys, key_sizes, job);
    if (!result) return std::nullopt;
    double excess = 0;
    for (std::size_t n = 0; n < heads.size(); ++n) {
      const double allowed = allowedError(heads[n]);
      if (allowed > 0) excess = std::max(excess, result->errors[n] / allowed);
    }
    if (excess <= 1 || attempt == kMostAttempts) {
      log_line(LogCategory::map, [&] {
        return fmt::format("{}: head {}:{}: queries and keys rounded in attempt {}, errors {:.2g} of what is allowed",
                           info.name, group.layer, group.heads.front(), attempt, excess);
      });
      return result;
    }
    constexpr double kMargin = 0.9;
    constexpr double kLeastShrinking = 0.8;
    error *= std::clamp(kMargin / excess, 0.05, kLeastShrinking);
  }
}

}  // namespace foxscope::page

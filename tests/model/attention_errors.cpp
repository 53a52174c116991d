#include "tests/model/attention_errors.h"

#include <algorithm>
#include <cmath>

#include "backend/base/index.h"
#include "backend/map/map.h"

namespace foxscope::test {
namespace {

constexpr std::int64_t kRows = 64;
constexpr double kSmallest = 1e-30;

/// Logits of one row, the gate included, float64.
std::vector<double> exact_logits(const HeadOf& head, std::span<const float> query, std::span<const float> keys,
                                 std::int64_t row) {
  const TraceInfo& info = head.trace->info();
  const auto dim = static_cast<std::size_t>(info.head_dim);
  std::span<const double> c;
  if (forgets(info, head.layer)) c = head.trace->cumulative_log_gate(head.layer, head.head);
  std::vector<double> logits;
  for (std::size_t key = 0; key <= static_cast<std::size_t>(row); ++key) {
    double dot = 0;
    for (std::size_t n = 0; n < dim; ++n) {
      dot += static_cast<double>(query[n]) * static_cast<double>(keys[key * dim + n]);
    }
    const double gate = c.empty() ? 0.0 : c[index_of(row)] - c[key];
    logits.push_back(dot / std::sqrt(static_cast<double>(dim)) + gate);
  }
  return logits;
}

double log_sum_exp(const std::vector<double>& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - largest);
  return largest + std::log(sum);
}

void add_rows(const HeadOf& head, std::int64_t first, AttentionErrors& errors) {
  const TraceInfo& info = head.trace->info();
  const QueryKeyStore& store = head.trace->require_query_key();
  std::vector<float> query_scratch, key_scratch;
  const auto queries =
      store.rows(QueryKeyStore::Part::query, head.layer, head.head, first, first + kRows, query_scratch);
  const auto keys = store.rows(QueryKeyStore::Part::key, head.layer, key_head_of(info, head.layer, head.head), 0,
                               first + kRows, key_scratch);
  MapRequest request;
  request.head = head;
  request.rows = {first, first + kRows};
  request.columns = {0, first + kRows};
  request.pixel_rows = kRows;
  request.pixel_columns = first + kRows;
  const Image image = compute_map(request, {}).value();
  const auto normalizers = head.trace->log_normalizer(head.layer, head.head);
  for (std::int64_t n = 0; n < kRows; ++n) {
    const auto query = queries.subspan(static_cast<std::size_t>(n * info.head_dim));
    const std::vector<double> logits = exact_logits(head, query, keys, first + n);
    const double exact = log_sum_exp(logits);
    errors.normalizers.push_back(std::abs(static_cast<double>(normalizers[index_of(first + n)]) - exact));
    for (std::size_t key = 0; key < logits.size(); ++key) {
      const double entry = std::exp(logits[key] - exact);
      const float found = image.value[static_cast<std::size_t>(n * image.columns) + key];
      if (entry > kSmallest) errors.entries.push_back(std::abs(static_cast<double>(found) / entry - 1));
    }
  }
}

}  // namespace

AttentionErrors attention_errors(const std::shared_ptr<const Trace>& trace) {
  AttentionErrors errors;
  const TraceInfo& info = trace->info();
  for (int layer = 0; layer < info.layers; ++layer) {
    for (int head = 0; head < info.heads; ++head) {
      for (const std::int64_t first : {info.length / 4, info.length - kRows}) {
        add_rows({trace, layer, head}, first, errors);
      }
    }
  }
  return errors;
}

double quantile_of(std::vector<double>& values, double share) {
  const auto place = static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + place, values.end());
  return values[index_of(place)];
}

}  // namespace foxscope::test

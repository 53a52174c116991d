// The parts of the cache on the CPU: what may be dropped, what a logit cannot exceed, and attention over pages.
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "backend/model/layer/cpu/cpu_key_value_cache.h"
#include "backend/model/layer/cpu/gate_history.h"
#include "backend/model/weights/logit_bound.h"
#include "backend/model/weights/weight_reader.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

TEST(GateHistory, SumsLikeFloat64AndClamps) {
  GateHistory history;
  history.start({});
  long double sum = 0;
  for (int n = 1; n <= 100000; ++n) {
    const double log_gate = -1.0 / n;
    history.append(log_gate);
    sum += static_cast<long double>(log_gate);
  }
  EXPECT_NEAR(history.last(), static_cast<double>(sum), 1e-14);
  const double before = history.last();
  history.append(-INFINITY);
  EXPECT_EQ(history.last(), before - 1000);
}

TEST(GateHistory, WhatIsGivenUpHoldsNoMoreThanTheShareForEveryLaterRow) {
  std::mt19937 generator(5);
  std::exponential_distribution<double> decay(4.0);
  for (const double bound : {0.0, 3.0, 12.0}) {
    for (const double share : {0x1p-25, 1e-3, 0.4}) {
      GateHistory history;
      history.start({});
      for (int p = 0; p < 400; ++p) history.append(-decay(generator));
      const std::int64_t first = history.first_needed(bound, share);
      double given_up = 0;
      for (std::int64_t j = 0; j < first; ++j) given_up += std::exp(2 * bound + history.last() - history.at(j));
      EXPECT_LE(given_up, share);
      EXPECT_GT(first, 100);
      history.drop_before(first);
      EXPECT_EQ(history.first(), first);
      EXPECT_EQ(history.end(), 400);
      EXPECT_EQ(history.first_needed(bound, share), first);
      EXPECT_EQ(history.first_needed(bound, 0), first);
    }
  }
}

/// Largest |q_i . k_j| / sqrt(d) of a head over all pairs of a run, seen or not.
double largest_logit(const Trace& trace, int layer, int head) {
  const TraceInfo& info = trace.info();
  std::vector<float> query_scratch;
  std::vector<float> key_scratch;
  const auto query = trace.query_key()->rows(QueryKeyStore::Part::query, layer, head, 0, info.length, query_scratch);
  const auto key = trace.query_key()->rows(QueryKeyStore::Part::key, layer, head / (info.heads / info.key_heads), 0,
                                           info.length, key_scratch);
  const auto dim = static_cast<std::size_t>(info.head_dim);
  double largest = 0;
  for (std::size_t i = 0; i < query.size(); i += dim) {
    for (std::size_t j = 0; j < key.size(); j += dim) {
      double dot = 0;
      for (std::size_t n = 0; n < dim; ++n) dot += static_cast<double>(query[i + n]) * static_cast<double>(key[j + n]);
      largest = std::max(largest, std::abs(dot) / std::sqrt(static_cast<double>(dim)));
    }
  }
  return largest;
}

class LogitBound : public testing::TestWithParam<const char*> {};

TEST_P(LogitBound, NoLogitOfARunExceedsIt) {
  const Checkpoint checkpoint = Checkpoint::open(test::data_path(GetParam()));
  const auto model = CausalLM::load(checkpoint, Device{}, DType::float32);
  const SafetensorsFile golden(test::data_path(GetParam()) + "/golden.safetensors");
  test::Batch batch;
  batch.size = golden.tensors().at("input_ids").shape[0];
  batch.input_ids = test::read_ids(golden, "input_ids");
  batch.labels = batch.input_ids;
  batch.keep = {Keep::query_key};
  const auto traces = test::run_batch(*model, batch).traces;
  for (int layer = 0; layer < model->config().layers; ++layer) {
    const LayerWeights weights = *WeightReader(checkpoint.config(), CheckpointSource(checkpoint), {}).read_layer(layer);
    const std::vector<double> bounds = bound_logits(checkpoint.config(), layer, weights);
    for (int head = 0; head < model->config().heads; ++head) {
      const double bound = bounds[index_of(head)];
      EXPECT_TRUE(std::isfinite(bound));
      for (const auto& trace : traces) EXPECT_LE(largest_logit(*trace, layer, head), bound);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, LogitBound, testing::Values("fox-llama", "fox-pro", "fla-fox", "transformer-pro"),
                         test::fixture_test_name);

/// Random keys and values in pages, beside the same in rows.
struct FilledPages {
  FilledPages(std::int64_t count, std::int64_t head_dim, unsigned seed)
      : dim(head_dim), pages(head_dim, std::make_shared<PagePool>(KeyValuePages::numbers_of_page(head_dim))) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    std::uniform_real_distribution<double> decay(0.0, 0.2);
    gate.start({});
    std::vector<float> row(static_cast<std::size_t>(2 * dim));
    for (std::int64_t p = 0; p < count; ++p) {
      for (float& value : row) value = normal(generator);
      pages.append(row.data(), row.data() + dim);
      gate.append(-decay(generator));
      rows.insert(rows.end(), row.begin(), row.end());
    }
    for (std::int64_t n = 0; n < dim; ++n) query.push_back(normal(generator));
  }

  /// In float64, all keys from `first` on.
  [[nodiscard]] std::vector<float> dense(std::int64_t first) const {
    std::vector<double> sum(static_cast<std::size_t>(dim), 0.0);
    double mass = 0;
    for (std::int64_t j = first; j < pages.end(); ++j) {
      const float* row = rows.data() + j * 2 * dim;
      double dot = 0;
      for (std::int64_t n = 0; n < dim; ++n) dot += static_cast<double>(query[index_of(n)] * row[n]);
      const double weight = std::exp(dot / std::sqrt(static_cast<double>(dim)) + gate.last() - gate.at(j));
      mass += weight;
      for (std::int64_t n = 0; n < dim; ++n) sum[index_of(n)] += weight * static_cast<double>(row[dim + n]);
    }
    std::vector<float> out;
    for (const double value : sum) out.push_back(static_cast<float>(value / mass));
    return out;
  }
  [[nodiscard]] std::vector<float> attend(std::int64_t first, double tolerance) const {
    CachedAttention arguments;
    arguments.query = query.data();
    arguments.head_dim = dim;
    arguments.scale = 1.0F / std::sqrt(static_cast<float>(dim));
    arguments.first = first;
    arguments.gate = &gate;
    arguments.tolerance = tolerance;
    std::vector<float> out(static_cast<std::size_t>(dim));
    attend_cached(arguments, pages, out.data());
    return out;
  }

  std::int64_t dim;
  KeyValuePages pages;
  GateHistory gate;
  std::vector<float> rows;
  std::vector<float> query;
};

TEST(CachedAttention, EqualsADenseRowInFloat64) {
  for (const std::int64_t dim : {3, 16, 64}) {
    for (const std::int64_t count : {1, 2, 63, 64, 65, 500}) {
      const FilledPages filled(count, dim, 3);
      for (const std::int64_t first : {std::int64_t{0}, count / 2, count - 1}) {
        EXPECT_LE(test::largest_difference(filled.attend(first, 0), filled.dense(first)), 1e-5)
            << dim << " " << count << " " << first;
      }
    }
  }
}

TEST(CachedAttention, SkipsNoMoreThanTheTolerance) {
  const FilledPages filled(2000, 16, 4);
  float largest = 0;
  for (const float value : filled.rows) largest = std::max(largest, std::abs(value));
  for (const double tolerance : {0x1p-25, 1e-4, 0.01, 0.3}) {
    const double error = test::largest_difference(filled.attend(0, tolerance), filled.dense(0));
    EXPECT_LE(error, 2 * tolerance * static_cast<double>(largest) + 1e-5);
  }
}

TEST(KeyValuePages, CopiesShareNothingThatIsWritten) {
  FilledPages filled(100, 4, 6);
  KeyValuePages copy = filled.pages;
  const std::vector<float> one(4, 1.0F);
  const std::vector<float> two(4, 2.0F);
  filled.pages.append(one.data(), one.data());
  copy.append(two.data(), two.data());
  EXPECT_EQ(filled.pages.values(100)[36 * 4], 1.0F);
  EXPECT_EQ(copy.values(100)[36 * 4], 2.0F);
  EXPECT_EQ(copy.keys(100)[36], 2.0F);
  EXPECT_EQ(copy.keys(0), filled.pages.keys(0));
}

TEST(KeyValuePages, DropsWholePages) {
  FilledPages filled(200, 4, 7);
  const float* third = filled.pages.keys(128);
  filled.pages.drop_before(130);
  EXPECT_EQ(filled.pages.first(), 128);
  EXPECT_EQ(filled.pages.end(), 200);
  EXPECT_EQ(filled.pages.keys(199), filled.pages.keys(192));
  EXPECT_EQ(filled.pages.keys(130), third);
}

}  // namespace
}  // namespace foxscope

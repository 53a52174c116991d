#include "backend/map/pair_reading.h"

#include <cmath>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "tests/map/dense.h"
#include "tests/map/linear_run.h"

namespace foxscope::test {
namespace {

// Walks the gates token by token, in the definition's own words.
double walked_survival(const std::vector<double>& log_forget, std::int64_t length, std::int64_t key) {
  const auto entry = [&](std::int64_t query) { return log_forget[index_of(query * length + key)]; };
  for (std::int64_t query = key + 1; query < length; ++query) {
    if (entry(query) >= -1.0) continue;
    return static_cast<double>(query - 1 - key) + (entry(query - 1) + 1.0) / (entry(query - 1) - entry(query));
  }
  return static_cast<double>(length - 1 - key);
}

TEST(PairReading, EqualsDenseEntries) {
  RunShape shape;
  shape.length = 120;
  shape.heads = 4;
  shape.key_heads = 2;
  shape.window = 50;
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    shape.dtype = dtype;
    shape.logit_cap = dtype == DType::float32 ? 0.7 : 0.0;
    const auto run = make_run(shape);
    for (int head = 0; head < shape.heads; ++head) {
      const HeadOf of{run, 0, head};
      const DenseHead dense(of);
      const auto attention = dense.entries(Quantity::attention);
      const auto logits = dense.entries(Quantity::logits);
      for (std::int64_t query = 0; query < shape.length; query += 7) {
        for (std::int64_t key = 0; key <= query; key += 3) {
          const PairReading reading = pair_reading(of, query, key);
          ASSERT_TRUE(reading.has_attention);
          ASSERT_EQ(reading.in_window, query - key < shape.window);
          const auto place = static_cast<std::size_t>(query * shape.length + key);
          if (!reading.in_window) {
            EXPECT_EQ(reading.attention, 0.0);
            continue;
          }
          EXPECT_NEAR(reading.logit, logits[place], 1e-6 * (1 + std::abs(logits[place])));
          EXPECT_NEAR(reading.attention, attention[place], 1e-6);
          EXPECT_NEAR(reading.forget, std::exp(reading.log_forget), 1e-15);
        }
      }
    }
  }
}

TEST(PairReading, SurvivalIsTheWalkAlongTheGates) {
  RunShape shape;
  shape.length = 150;
  shape.heads = 3;
  const auto run = make_run(shape);
  for (int head = 0; head < shape.heads; ++head) {
    const HeadOf of{run, 0, head};
    const auto log_forget = DenseHead(of).entries(Quantity::log_forget);
    for (std::int64_t key = 0; key < shape.length; ++key) {
      const PairReading reading = pair_reading(of, shape.length - 1, key);
      EXPECT_NEAR(reading.forward_survival, walked_survival(log_forget, shape.length, key), 1e-9);
      EXPECT_EQ(reading.survives_text, reading.log_forget >= -1.0);
    }
  }
}

TEST(PairReading, WithoutAGateEverythingSurvives) {
  RunShape shape;
  shape.length = 10;
  shape.gated = false;
  const PairReading reading = pair_reading({make_run(shape), 0, 0}, 9, 2);
  EXPECT_EQ(reading.forget, 1.0);
  EXPECT_EQ(reading.forward_survival, 7.0);
  EXPECT_TRUE(reading.survives_text);
}

TEST(PairReading, ReadsTheGateAloneWhereNothingElseWasKept) {
  RunShape shape;
  shape.keeps_query_key = false;
  const PairReading reading = pair_reading({make_run(shape), 0, 0}, 100, 50);
  EXPECT_FALSE(reading.has_attention);
  EXPECT_LT(reading.forget, 1.0);
}

TEST(PairReading, ForgetIsThatOfTheMapWhereChannelsDecay) {
  for (const LayerMixer& mixer : linear_mixers()) {
    if (!mixer.decays()) continue;
    const auto run = make_linear_run({mixer, 120});
    MapRequest request;
    request.head = {run, 0, 1};
    request.rows = request.columns = {0, 120};
    request.pixel_rows = request.pixel_columns = 120;
    for (const auto& [query, key] : {std::pair(119, 0), std::pair(100, 97), std::pair(60, 60)}) {
      const PairReading reading = pair_reading({run, 0, 1}, query, key);
      const auto entry = [&, at = index_of(query * 120 + key)](Quantity quantity) {
        request.quantity = quantity;
        return static_cast<double>(compute_map(request, {})->value[at]);
      };
      EXPECT_NEAR(reading.forget, entry(Quantity::forget), 1e-6) << to_string(mixer.mixer);
      EXPECT_NEAR(reading.log_forget, entry(Quantity::log_forget), 1e-5 * (1 - reading.log_forget));
    }
  }
}

TEST(PairReading, OfALinearMixerIsItsEntry) {
  for (const LayerMixer& mixer : linear_mixers()) {
    const auto run = make_linear_run({mixer, 300});
    const HeadOf head{run, 0, 1};
    for (const auto& [query, key] : {std::pair(299, 0), std::pair(250, 249), std::pair(130, 130), std::pair(77, 10)}) {
      const double entry = mixing_entry(head, query, key);
      const PairReading before = pair_reading(head, query, key);
      EXPECT_TRUE(before.has_mixing);
      EXPECT_NEAR(before.mixing, entry, 1e-9 * std::abs(entry)) << to_string(mixer.mixer);
    }
    EXPECT_FALSE(pair_reading(head, 299, 290).has_attention);
    MapRequest request;
    request.head = head;
    request.rows = request.columns = {0, 300};
    request.pixel_rows = request.pixel_columns = 300;
    const Image image = *compute_map(request, {});
    const PairReading after = pair_reading(head, 299, 290);
    EXPECT_TRUE(after.has_attention);
    EXPECT_NEAR(after.attention, image.value[299 * 300 + 290], 1e-6);
  }
}

}  // namespace
}  // namespace foxscope::test

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/map/pair_reading.h"
#include "tests/map/dense.h"

namespace foxscope::test {
namespace {

constexpr Quantity kEntryQuantities[] = {
    Quantity::forget,
    Quantity::log_forget,
    Quantity::logits,
    Quantity::attention,
    Quantity::attention_without_gate,
    Quantity::gate_effect,
};

MapRequest request_of(const HeadOf& head, Quantity quantity, const Range& rows, const Range& columns,
                      std::int64_t pixel_rows, std::int64_t pixel_columns) {
  MapRequest request;
  request.head = head;
  request.quantity = quantity;
  request.rows = rows;
  request.columns = columns;
  request.pixel_rows = pixel_rows;
  request.pixel_columns = pixel_columns;
  return request;
}

MapRequest exact(const HeadOf& head, Quantity quantity, const Range& rows, const Range& columns) {
  return request_of(head, quantity, rows, columns, rows.size(), columns.size());
}

Image computed(const MapRequest& request) { return compute_map(request, {}).value(); }

/// The same bits, so that NaN equals NaN.
bool same(const Image& a, const Image& b) {
  return a.rows == b.rows && a.columns == b.columns && a.value.size() == b.value.size() &&
         std::memcmp(a.value.data(), b.value.data(), a.value.size() * sizeof(float)) == 0;
}

double row_sum(const Image& image, std::int64_t row) {
  const auto begin = image.value.begin() + row * image.columns;
  return std::accumulate(begin, begin + image.columns, 0.0,
                         [](double sum, float value) { return std::isnan(value) ? sum : sum + value; });
}

RunShape three_heads() {
  RunShape shape;
  shape.length = 700;
  shape.heads = 3;
  return shape;
}

TEST(Entries, AttentionOfARowSumsToOneAndTheGatesEffectToZero) {
  RunShape shape = three_heads();
  for (const std::int64_t window : {0, 100}) {
    shape.window = window;
    const auto run = make_run(shape);
    const Range all{0, shape.length};
    const Image with = computed(exact({run, 0, 1}, Quantity::attention, all, all));
    const Image without = computed(exact({run, 0, 1}, Quantity::attention_without_gate, all, all));
    const Image effect = computed(exact({run, 0, 1}, Quantity::gate_effect, all, all));
    for (std::int64_t row = 0; row < shape.length; ++row) {
      EXPECT_NEAR(row_sum(with, row), 1.0, 2e-6);
      EXPECT_NEAR(row_sum(without, row), 1.0, 2e-6);
      EXPECT_NEAR(row_sum(effect, row), 0.0, 3e-6);
    }
  }
}

TEST(Entries, OfCappedLogitsAndWindowsByLayerEqualDenseOnes) {
  RunShape shape;
  shape.length = 300;
  shape.layers = 2;
  shape.heads = 2;
  shape.windows = {0, 90};
  for (const double cap : {0.0, 0.6, 50.0}) {
    shape.logit_cap = cap;
    const auto run = make_run(shape);
    for (int layer = 0; layer < 2; ++layer) {
      const HeadOf head{run, layer, 1};
      const DenseHead dense(head);
      for (const Quantity quantity : kEntryQuantities) {
        const std::vector<double> entries = dense.entries(quantity);
        for (const Reduction reduction : {Reduction::max, Reduction::mean, Reduction::min, Reduction::absmax}) {
          MapRequest request = request_of(head, quantity, {0, 300}, {0, 300}, 60, 50);
          request.reduction = reduction;
          // Logits near 50 are rounded by 2e-6, and an entry is their exponential.
          EXPECT_LT(largest_difference(computed(request), pool(entries, 300, request), largest_size(entries)),
                    cap < 10 ? 2e-6 : 5e-6)
              << to_string(quantity) << " " << to_string(reduction) << " layer " << layer << " cap " << cap;
        }
      }
    }
  }
}

TEST(Entries, OfHeadsWithSinksEqualDenseOnes) {
  RunShape shape;
  shape.length = 300;
  shape.heads = 3;
  shape.sinks = {-20, 0.5F, 6};  // next to nothing of a row, some of it, nearly all
  for (const bool gated : {true, false}) {
    shape.gated = gated;
    const auto run = make_run(shape);
    for (int layer_head = 0; layer_head < 3; ++layer_head) {
      const HeadOf head{run, 0, layer_head};
      const DenseHead dense(head);
      for (const Quantity quantity : kEntryQuantities) {
        const std::vector<double> entries = dense.entries(quantity);
        MapRequest request = request_of(head, quantity, {0, 300}, {0, 300}, 60, 50);
        EXPECT_LT(largest_difference(computed(request), pool(entries, 300, request), largest_size(entries)), 2e-6)
            << to_string(quantity) << " head " << layer_head;
      }
      // The sink holds what a row lacks to 1.
      const Image whole = computed(exact(head, Quantity::attention, {0, 300}, {0, 300}));
      for (const std::int64_t row : {0, 17, 299}) {
        EXPECT_NEAR(row_sum(whole, row) + pair_reading(head, row, 0).sink_share.value(), 1, 2e-6);
      }
    }
  }
}

TEST(Entries, MeansOfWholeRowsKeepTheSum) {
  const RunShape shape = three_heads();
  const auto run = make_run(shape);
  MapRequest request = request_of({run, 0, 2}, Quantity::attention, {0, 700}, {0, 700}, 700, 1);
  request.reduction = Reduction::mean;
  const Image image = computed(request);
  for (std::int64_t row = 0; row < 700; ++row) {
    EXPECT_NEAR(static_cast<double>(image.value[index_of(row)]) * static_cast<double>(row + 1), 1.0, 1e-6);
  }
}

TEST(Entries, DoNotDependOnTheRectangleThatTheyArePartOf) {
  RunShape shape = three_heads();
  shape.window = 300;
  const auto run = make_run(shape);
  const Range rows{131, 459};
  const Range columns{77, 301};
  for (const Quantity quantity : kEntryQuantities) {
    const Image whole = computed(exact({run, 0, 1}, quantity, {0, 700}, {0, 700}));
    const Image part = computed(exact({run, 0, 1}, quantity, rows, columns));
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      const float* const expected = whole.value.data() + row * 700 + columns.begin;
      const float* const actual = part.value.data() + (row - rows.begin) * columns.size();
      ASSERT_EQ(std::memcmp(actual, expected, static_cast<std::size_t>(columns.size()) * sizeof(float)), 0)
          << to_string(quantity) << " row " << row;
    }
  }
}

TEST(Entries, APixelOfOneEntryIsThatEntryUnderEveryReduction) {
  const auto run = make_run(three_heads());
  for (const Quantity quantity : kEntryQuantities) {
    // 5 rows of 3 pixels: bins of 1, 2 and 2 rows, so that some pixels are single entries and others are not.
    const Image entries = computed(exact({run, 0, 0}, quantity, {400, 405}, {350, 357}));
    for (const Reduction reduction : {Reduction::max, Reduction::mean, Reduction::min, Reduction::absmax}) {
      MapRequest request = request_of({run, 0, 0}, quantity, {400, 405}, {350, 357}, 3, 4);
      request.reduction = reduction;
      const Image pooled = computed(request);
      EXPECT_EQ(pooled.value[0], entries.value[0]) << to_string(quantity) << " " << to_string(reduction);
    }
  }
}

TEST(Entries, StripesEqualTheWhole) {
  RunShape shape = three_heads();
  shape.length = 1200;
  const auto run = make_run(shape);
  for (const Quantity quantity : kEntryQuantities) {
    for (const Reduction reduction : {Reduction::max, Reduction::absmax, Reduction::min}) {
      MapRequest request = request_of({run, 0, 2}, quantity, {0, 1200}, {0, 1200}, 400, 300);
      request.reduction = reduction;
      const Image whole = computed(request);
      Image joined{400, 300, {}};
      for (std::int64_t first = 0; first < 400; first += 50) {
        MapRequest stripe = request;
        stripe.rows = {first * 3, (first + 50) * 3};
        stripe.pixel_rows = 50;
        const Image part = computed(stripe);
        joined.value.insert(joined.value.end(), part.value.begin(), part.value.end());
      }
      EXPECT_TRUE(same(whole, joined)) << to_string(quantity) << " " << to_string(reduction);
    }
  }
}

TEST(Entries, MeanLiesBetweenExtremes) {
  RunShape shape = three_heads();
  shape.window = 500;
  const auto run = make_run(shape);
  for (const Quantity quantity : kEntryQuantities) {
    MapRequest request = request_of({run, 0, 1}, quantity, {3, 697}, {0, 650}, 61, 47);
    Image images[4];
    for (const Reduction reduction : {Reduction::max, Reduction::mean, Reduction::min, Reduction::absmax}) {
      request.reduction = reduction;
      images[static_cast<int>(reduction)] = computed(request);
    }
    const auto of = [&](Reduction reduction, std::size_t n) { return images[static_cast<int>(reduction)].value[n]; };
    for (std::size_t n = 0; n < images[0].value.size(); ++n) {
      const float high = of(Reduction::max, n);
      const float low = of(Reduction::min, n);
      if (std::isnan(high)) {
        EXPECT_TRUE(std::isnan(low) && std::isnan(of(Reduction::mean, n)) && std::isnan(of(Reduction::absmax, n)));
        continue;
      }
      const float room = 1e-6F * std::max(1.0F, std::max(std::abs(high), std::abs(low)));
      EXPECT_GE(high + room, of(Reduction::mean, n)) << to_string(quantity);
      EXPECT_LE(low - room, of(Reduction::mean, n)) << to_string(quantity);
      EXPECT_EQ(of(Reduction::absmax, n), std::abs(low) > std::abs(high) ? low : high) << to_string(quantity);
    }
  }
}

TEST(Entries, ForgetFallsWithDistanceAndIsOneOnTheDiagonal) {
  const auto run = make_run(three_heads());
  const Image image = computed(exact({run, 0, 0}, Quantity::forget, {0, 700}, {0, 700}));
  for (std::size_t i = 0; i < 700; ++i) {
    EXPECT_EQ(image.value[i * 700 + i], 1.0F);
    for (std::size_t j = 0; j + 1 <= i; ++j) {
      EXPECT_LE(image.value[i * 700 + j], image.value[i * 700 + j + 1]);
      EXPECT_LE(image.value[i * 700 + j], image.value[(i - 1) * 700 + j]);
    }
  }
}

TEST(Entries, AbsentOnesAreNaN) {
  RunShape shape = three_heads();
  shape.length = 150;
  shape.window = 20;
  const auto run = make_run(shape);
  for (const Quantity quantity : kEntryQuantities) {
    const Image image = computed(exact({run, 0, 0}, quantity, {0, 150}, {0, 150}));
    for (std::int64_t i = 0; i < 150; ++i) {
      for (std::int64_t j = 0; j < 150; ++j) {
        const bool present = j <= i && i - j < 20;
        EXPECT_EQ(std::isnan(image.value[index_of(i * 150 + j)]), !present)
            << to_string(quantity) << " " << i << " " << j;
      }
    }
    const Image above = computed(exact({run, 0, 0}, quantity, {0, 10}, {50, 60}));
    EXPECT_TRUE(std::all_of(above.value.begin(), above.value.end(), [](float value) { return std::isnan(value); }));
  }
}

TEST(Entries, OneTokenWorks) {
  for (const bool gated : {true, false}) {
    RunShape shape;
    shape.length = 1;
    shape.gated = gated;
    const auto run = make_run(shape);
    for (const Reduction reduction : {Reduction::max, Reduction::mean, Reduction::min, Reduction::absmax}) {
      const float expected[] = {1.0F, 0.0F, 0.0F, 1.0F, 1.0F, 0.0F};
      for (const Quantity quantity : kEntryQuantities) {
        MapRequest request = exact({run, 0, 0}, quantity, {0, 1}, {0, 1});
        request.reduction = reduction;
        const Image image = computed(request);
        if (quantity == Quantity::logits) continue;
        EXPECT_NEAR(image.value.at(0), expected[static_cast<int>(quantity)], 1e-6) << to_string(quantity);
      }
    }
  }
}

TEST(Entries, WithoutAGateItsEffectIsExactlyZero) {
  RunShape shape = three_heads();
  shape.gated = false;
  shape.keeps_gates = false;
  const auto run = make_run(shape);
  const Image effect = computed(request_of({run, 0, 0}, Quantity::gate_effect, {0, 700}, {0, 700}, 70, 70));
  const Image forget = computed(request_of({run, 0, 0}, Quantity::forget, {0, 700}, {0, 700}, 70, 70));
  for (std::size_t n = 0; n < effect.value.size(); ++n) {
    if (std::isnan(effect.value[n])) continue;
    EXPECT_EQ(effect.value[n], 0.0F);
    EXPECT_EQ(forget.value[n], 1.0F);
  }
}

/// Gates that cut the text: f = 0 (log f is -1000) at every 97th position, and long stretches of f = 1.
RunShape cut_text() {
  RunShape shape;
  shape.length = 500;
  shape.head_dim = 32;
  shape.log_gate = [](int, std::int64_t t, double) { return t % 97 == 96 ? -1000.0 : (t % 7 == 0 ? -5.0 : 0.0); };
  return shape;
}

TEST(Entries, ExtremeGatesAreRight) {
  const auto run = make_run(cut_text());
  const DenseHead dense({run, 0, 0});
  for (const Quantity quantity : kEntryQuantities) {
    const std::vector<double> entries = dense.entries(quantity);
    const MapRequest all = exact({run, 0, 0}, quantity, {0, 500}, {0, 500});
    EXPECT_LT(largest_difference(computed(all), pool(entries, 500, all), largest_size(entries)), 1e-6)
        << to_string(quantity);
    MapRequest pooled = request_of({run, 0, 0}, quantity, {0, 500}, {0, 500}, 41, 37);
    for (const Reduction reduction : {Reduction::max, Reduction::mean, Reduction::min}) {
      pooled.reduction = reduction;
      EXPECT_LT(largest_difference(computed(pooled), pool(entries, 500, pooled), largest_size(entries)), 1e-6)
          << to_string(quantity) << " " << to_string(reduction);
    }
  }
}

TEST(Entries, GatesFarIntoAVeryLongTextAreRight) {
  // c begins near -1e8, where float64 has steps of 1.5e-8.
  RunShape shape = three_heads();
  shape.length = 400;
  shape.heads = 1;
  shape.log_gate = [](int, std::int64_t t, double normal) { return t == 0 ? -1e8 : -std::abs(normal) / 10; };
  const auto run = make_run(shape);
  const DenseHead dense({run, 0, 0});
  for (const Quantity quantity : {Quantity::forget, Quantity::log_forget, Quantity::attention}) {
    const std::vector<double> entries = dense.entries(quantity);
    for (const Reduction reduction : {Reduction::max, Reduction::mean}) {
      MapRequest request = request_of({run, 0, 0}, quantity, {0, 400}, {0, 400}, 41, 37);
      request.reduction = reduction;
      EXPECT_LT(largest_difference(computed(request), pool(entries, 400, request), largest_size(entries)), 1e-6)
          << to_string(quantity);
    }
  }
}

TEST(Entries, SkippingTilesLeavesOutLessThanTheTolerance) {
  RunShape shape;
  shape.length = 1500;
  shape.log_gate = [](int, std::int64_t, double normal) { return -0.2 * std::abs(normal); };
  const auto run = make_run(shape);
  for (const Reduction reduction : {Reduction::max, Reduction::mean, Reduction::min, Reduction::absmax}) {
    MapRequest request = request_of({run, 0, 0}, Quantity::attention, {0, 1500}, {0, 1500}, 300, 100);
    request.reduction = reduction;
    const Image full = computed(request);
    request.skip_tolerance = 1e-3;
    const Image skipped = computed(request);
    int changed = 0;
    for (std::size_t n = 0; n < full.value.size(); ++n) {
      ASSERT_EQ(std::isnan(full.value[n]), std::isnan(skipped.value[n]));
      if (std::isnan(full.value[n])) continue;
      EXPECT_LE(std::abs(full.value[n] - skipped.value[n]), 1e-3F);
      changed += full.value[n] != skipped.value[n] ? 1 : 0;
    }
    EXPECT_GT(changed, 0) << to_string(reduction);
  }
}

}  // namespace
}  // namespace foxscope::test

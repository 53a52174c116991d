#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/error_of.h"
#include "tests/map/dense.h"

namespace foxscope::test {
namespace {

constexpr Quantity kQuantities[] = {
    Quantity::forget,
    Quantity::log_forget,
    Quantity::logits,
    Quantity::attention,
    Quantity::attention_without_gate,
    Quantity::gate_effect,
};
constexpr Reduction kAllReductions[] = {Reduction::max, Reduction::mean, Reduction::min, Reduction::absmax};

/// Rows and columns of pixels.
using Pixels = std::pair<std::int64_t, std::int64_t>;

/// All quantities and reductions of one head on one rectangle, in each number of pixels, against dense float64.
void expect_precise(const HeadOf& head, MapRequest request, const std::vector<Pixels>& pixels) {
  const DenseHead dense(head);
  request.head = head;
  for (const Quantity quantity : kQuantities) {
    request.quantity = quantity;
    const std::vector<double> entries = dense.entries(quantity);
    // The gate's effect is a difference of two softmaxes, so it is as precise as their entries, of which one is 1.
    // Entries of log F are all 0 where there is no gate.
    const double largest = quantity == Quantity::gate_effect ? 1.0 : std::max(largest_size(entries), 1e-3);
    for (const auto& [rows, columns] : pixels) {
      request.pixel_rows = rows;
      request.pixel_columns = columns;
      const DenseBins bins(entries, dense.length(), request);
      for (const Reduction reduction : kAllReductions) {
        request.reduction = reduction;
        auto image = compute_map(request, {});
        ASSERT_TRUE(image.has_value());
        std::vector<double> expected = bins.pixels(reduction);
        if (quantity == Quantity::gate_effect && reduction == Reduction::absmax) {
          // Two visible keys gain and lose the same: which of the two is larger is a matter of rounding.
          for (double& value : expected) value = std::abs(value);
          for (float& value : image->value) value = std::abs(value);
        }
        EXPECT_LT(largest_difference(*image, expected, largest), 1e-6)
            << to_string(quantity) << " " << to_string(reduction) << " " << rows << "x" << columns;
      }
    }
  }
}

MapRequest odd_rectangle() {
  MapRequest request;
  request.rows = {17, 1931};
  request.columns = {5, 1499};
  return request;
}
const std::vector<Pixels> kOddPixels = {{333, 257}};

/// Entries without key 0, the others of a row divided by what it leaves; NaN is absent.
std::vector<double> without_first(std::vector<double> attention, std::int64_t length) {
  for (std::int64_t i = 0; i < length; ++i) {
    double* const row = attention.data() + i * length;
    double beside = 0;
    for (std::int64_t j = 1; j <= i; ++j) beside += std::isnan(row[j]) ? 0.0 : row[j];
    row[0] = std::numeric_limits<double>::quiet_NaN();
    for (std::int64_t j = 1; j <= i; ++j) row[j] /= beside;
  }
  return attention;
}

TEST(PooledMap, LeavesOutTheFirstKey) {
  RunShape shape;
  shape.length = 700;
  for (const auto& [gated, parks, window] :
       {std::tuple{true, 0.0, 0}, {false, 0.0, 0}, {false, 8.0, 0}, {false, 14.0, 0}, {true, 0.0, 90}}) {
    shape.gated = gated;
    shape.parks_on_first = parks;
    shape.window = window;
    const HeadOf head{make_run(shape), 0, 0};
    const DenseHead dense(head);
    const auto attention = without_first(dense.entries(Quantity::attention), shape.length);
    const auto ungated = without_first(dense.entries(Quantity::attention_without_gate), shape.length);
    std::vector<double> effect = attention;
    for (std::size_t n = 0; n < effect.size(); ++n) effect[n] -= ungated[n];
    MapRequest request;
    request.head = head;
    request.first_key = FirstKey::left_out;
    for (const auto& [quantity, entries] : {std::pair{Quantity::attention, &attention},
                                            {Quantity::attention_without_gate, &ungated},
                                            {Quantity::gate_effect, &effect}}) {
      request.quantity = quantity;
      for (const auto& [rows, columns, down, across] : {std::tuple{Range{0, 700}, Range{0, 700}, 700, 700},
                                                        {Range{0, 700}, Range{0, 700}, 61, 57},
                                                        {Range{0, 700}, Range{0, 700}, 3, 1},
                                                        {Range{300, 310}, Range{0, 40}, 10, 40},
                                                        {Range{5, 650}, Range{1, 600}, 40, 50}}) {
        request.rows = rows;
        request.columns = columns;
        request.pixel_rows = down;
        request.pixel_columns = across;
        for (const Reduction reduction : {Reduction::max, Reduction::mean, Reduction::min}) {
          request.reduction = reduction;
          EXPECT_LT(largest_difference(compute_map(request, {}).value(), pool(*entries, shape.length, request), 1.0),
                    2e-6)
              << to_string(quantity) << " " << to_string(reduction) << " " << down << "x" << across << " parks "
              << parks << " window " << window << (gated ? " gated" : "");
        }
      }
    }
  }
  MapRequest request;
  request.head = {make_run(shape), 0, 0};
  request.quantity = Quantity::forget;
  request.first_key = FirstKey::left_out;
  request.rows = request.columns = {0, 700};
  request.pixel_rows = request.pixel_columns = 10;
  EXPECT_NE(error_of([&] { (void)compute_map(request, {}); }).find("key 0"), std::string::npos);
}

TEST(PooledMap, IsPreciseForGatedHeadsWithGroupedKeys) {
  RunShape shape;
  shape.length = 1931;
  shape.heads = 4;
  shape.key_heads = 2;
  shape.head_dim = 64;
  const auto run = make_run(shape);
  expect_precise({run, 0, 0}, odd_rectangle(), kOddPixels);
  expect_precise({run, 0, 3}, odd_rectangle(), kOddPixels);
}

TEST(PooledMap, IsPreciseWithoutGate) {
  RunShape shape;
  shape.length = 1931;
  shape.head_dim = 64;
  shape.gated = false;
  expect_precise({make_run(shape), 0, 0}, odd_rectangle(), kOddPixels);
}

/// Bins of so many entries that their largest is searched for (kernels/cpu/rounded_logits.h).
TEST(PooledMap, IsPreciseInWideBins) {
  RunShape shape;
  shape.length = 1931;
  shape.head_dim = 64;
  MapRequest request = odd_rectangle();
  for (const auto& [gated, window] : {std::pair{true, 0}, {false, 0}, {true, 700}, {false, 300}}) {
    shape.gated = gated;
    shape.window = window;
    expect_precise({make_run(shape), 0, 0}, request, {{60, 90}, {31, 17}, {5, 3}, {1914, 1}});
  }
}

TEST(PooledMap, IsPreciseWithWindowAndBfloat16) {
  RunShape shape;
  shape.length = 1931;
  shape.heads = 3;
  shape.head_dim = 32;
  shape.window = 400;
  shape.dtype = DType::bfloat16;
  expect_precise({make_run(shape), 0, 2}, odd_rectangle(), kOddPixels);
}

TEST(PooledMap, IsPreciseForBinsLargerThanATile) {
  RunShape shape;
  shape.length = 1500;
  shape.heads = 3;
  shape.window = 700;
  MapRequest request;
  request.rows = {13, 1493};
  request.columns = {50, 1450};
  expect_precise({make_run(shape), 0, 2}, request, {{1, 1}, {3, 1400}, {1480, 7}, {9, 11}});
}

TEST(PooledMap, IsPreciseForWindowsSmallerThanABin) {
  RunShape shape;
  shape.length = 400;
  shape.heads = 2;
  for (const std::int64_t window : {1, 2, 7, 64, 399}) {
    shape.window = window;
    MapRequest request;
    request.rows = {10, 400};
    request.columns = {3, 391};
    expect_precise({make_run(shape), 0, 1}, request, {{1, 1}, {5, 300}, {390, 3}, {17, 13}});
  }
}

}  // namespace
}  // namespace foxscope::test

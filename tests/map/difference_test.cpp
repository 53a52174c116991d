#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>

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

/// A difference of two heads against dense float64, all quantities and reductions.
void expect_precise(const HeadOf& head, const HeadOf& minus) {
  const DenseHead dense(head);
  const DenseHead other(minus);
  MapRequest request;
  request.head = head;
  request.minus = minus;
  request.rows = {11, 471};
  request.columns = {3, 400};
  for (const Quantity quantity : kQuantities) {
    request.quantity = quantity;
    std::vector<double> entries = dense.entries(quantity);
    const std::vector<double> subtracted = other.entries(quantity);
    // The gate's effect is as precise as the two softmaxes that it is made of, whose largest entry is 1.
    const double least = quantity == Quantity::gate_effect ? 1.0 : 1e-3;
    const double largest = std::max({largest_size(entries), largest_size(subtracted), least});
    for (std::size_t n = 0; n < entries.size(); ++n) entries[n] -= subtracted[n];
    for (const Reduction reduction : {Reduction::max, Reduction::mean, Reduction::min, Reduction::absmax}) {
      request.reduction = reduction;
      for (const auto& [pixel_rows, pixel_columns] : {std::pair{460, 397}, {77, 91}, {3, 2}}) {
        request.pixel_rows = pixel_rows;
        request.pixel_columns = pixel_columns;
        EXPECT_LT(largest_difference(compute_map(request, {}).value(), pool(entries, 471, request), largest), 1e-6)
            << to_string(quantity) << " " << to_string(reduction) << " " << pixel_rows;
      }
    }
  }
}

RunShape shape_of(unsigned seed, std::int64_t window, bool gated) {
  RunShape shape;
  shape.length = 471;
  shape.heads = 2;
  shape.seed = seed;
  shape.window = window;
  shape.gated = gated;
  return shape;
}

TEST(Difference, OfTwoHeadsOfARun) {
  const auto run = make_run(shape_of(3, 0, true));
  expect_precise({run, 0, 0}, {run, 0, 1});
}

TEST(Difference, OfGatedAndUngatedRuns) {
  expect_precise({make_run(shape_of(3, 0, true)), 0, 0}, {make_run(shape_of(4, 0, false)), 0, 1});
}

TEST(Difference, EntriesArePresentWhereBothWindowsHaveThem) {
  expect_precise({make_run(shape_of(3, 150, true)), 0, 1}, {make_run(shape_of(4, 40, true)), 0, 1});
  expect_precise({make_run(shape_of(3, 0, true)), 0, 1}, {make_run(shape_of(4, 200, true)), 0, 0});
}

TEST(Difference, OfAHeadWithItselfIsZero) {
  const auto run = make_run(shape_of(5, 0, true));
  MapRequest request;
  request.head = {run, 0, 1};
  request.minus = request.head;
  request.rows = request.columns = {0, 471};
  request.pixel_rows = request.pixel_columns = 50;
  for (const Quantity quantity : kQuantities) {
    request.quantity = quantity;
    request.reduction = default_reduction(quantity, true);
    const Image image = compute_map(request, {}).value();
    for (const float value : image.value) EXPECT_TRUE(std::isnan(value) || value == 0.0F);
  }
}

}  // namespace
}  // namespace foxscope::test

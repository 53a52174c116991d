#include "backend/map/map_stages.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/executor.h"
#include "tests/map/dense.h"

namespace foxscope::test {
namespace {

bool same_values(const float* a, const float* b, std::int64_t count) {
  return std::equal(a, a + count, b, [](float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); });
}

MapRequest request_of(const HeadOf& head, Quantity quantity, Reduction reduction) {
  MapRequest request;
  request.head = head;
  request.quantity = quantity;
  request.reduction = reduction;
  request.rows = request.columns = {0, 3000};
  request.pixel_rows = 170;
  request.pixel_columns = 130;
  return request;
}

TEST(MapStages, LinesThatAreDoneAreThoseOfTheMap) {
  RunShape shape;
  shape.length = 3000;
  for (const bool gated : {true, false}) {
    shape.gated = gated;
    const HeadOf head{make_run(shape), 0, 0};
    for (const Quantity quantity : {Quantity::attention, Quantity::logits, Quantity::gate_effect}) {
      for (const Reduction reduction : {Reduction::max, Reduction::mean}) {
        const MapRequest request = request_of(head, quantity, reduction);
        const Image expected = compute_map(request, {}).value();
        for (const int threads : {1, 3}) {
          kernels::ThreadPool pool(threads);
          std::vector<std::uint8_t> before(170);
          const auto show = [&](const MapStage& stage) {
            ASSERT_EQ(stage.done.size(), before.size());
            for (std::size_t line = 0; line < before.size(); ++line) {
              EXPECT_GE(stage.done[line], before[line]);
              const std::size_t at = line * 130;
              if (stage.done[line] != 0) {
                EXPECT_TRUE(same_values(stage.image.value.data() + at, expected.value.data() + at, 130)) << line;
              }
            }
            before.assign(stage.done.begin(), stage.done.end());
          };
          const Image image = compute_map_in_stages(request, {{}, {}, &pool}, {show, {}}).value();
          EXPECT_TRUE(same_values(image.value.data(), expected.value.data(), 170 * 130));
          if (threads == 1) {
            EXPECT_EQ(std::count(before.begin(), before.end(), 1), 170);
          }
        }
      }
    }
  }
}

TEST(MapStages, LinesThatAreDoneLieEvenly) {
  RunShape shape;
  shape.length = 3000;
  const MapRequest request = request_of({make_run(shape), 0, 0}, Quantity::attention, Reduction::max);
  kernels::ThreadPool pool(1);
  int stages = 0;
  int lines_of_task = 0;
  const auto show = [&](const MapStage& stage) {
    ++stages;
    int longest = 0;
    int missing = 0;
    for (const std::uint8_t done : stage.done) {
      missing = done != 0 ? 0 : missing + 1;
      longest = std::max(longest, missing);
    }
    if (stages == 1) lines_of_task = static_cast<int>(std::count(stage.done.begin(), stage.done.end(), 1));
    EXPECT_LE(longest, 2 * 170 / stages + 2 * lines_of_task) << stages;
  };
  EXPECT_TRUE(compute_map_in_stages(request, {{}, {}, &pool}, {show, {}}));
  EXPECT_GE(stages, 4);
}

TEST(MapStages, ClosedFormsHaveNone) {
  RunShape shape;
  shape.length = 3000;
  const MapRequest request = request_of({make_run(shape), 0, 0}, Quantity::forget, Reduction::max);
  int stages = 0;
  EXPECT_TRUE(compute_map_in_stages(request, {}, {[&](const MapStage&) { ++stages; }, {}}));
  EXPECT_EQ(stages, 0);
}

}  // namespace
}  // namespace foxscope::test

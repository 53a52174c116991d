#include <cmath>
#include <memory>
#include <new>
#include <utility>

#include <gtest/gtest.h>

#include "backend/map/map_line.h"
#include "backend/map/statistics/head_statistics.h"
#include "kernels/executor.h"
#include "tests/error_of.h"
#include "tests/limited_memory.h"
#include "tests/map/dense.h"

namespace foxscope::test {
namespace {

constexpr std::int64_t kLength = 65536;
/// What a whole map in float32 would take is 16 GiB; these may take this much beyond the run itself.
constexpr std::size_t kAllowed = std::size_t{300} << 20U;

std::shared_ptr<const Trace> long_run() {
  RunShape shape;
  shape.length = kLength;
  shape.head_dim = 16;
  shape.normalized = false;
  shape.log_gate = [](int, std::int64_t, double normal) { return -std::abs(normal) / 40; };
  return make_run(shape);
}

/// All that follows runs with so little address space that nothing near L x L can even be reserved.
TEST(Memory, MapsAndStatisticsOfLongTextsNeedNoMatrix) {
#ifdef FOXSCOPE_SANITIZED
  GTEST_SKIP() << "sanitizers reserve address space of their own";
#endif
  const auto run = long_run();
  kernels::ThreadPool pool(2);  // every thread of a large machine would reserve address space
  Job job;
  job.executor = &pool;
  const LimitedMemory limited(kAllowed);
  // Somewhat more than what is left, since what the heap gives back counts as left too.
  constexpr std::size_t kGivenBack = std::size_t{64} << 20U;
  EXPECT_THROW((void)std::make_unique<char[]>(kAllowed + kGivenBack), std::bad_alloc);

  MapRequest request;
  request.head = {run, 0, 0};
  request.rows = request.columns = {0, kLength};
  request.pixel_rows = request.pixel_columns = 1024;
  for (const Quantity quantity :
       {Quantity::forget, Quantity::log_forget, Quantity::logits, Quantity::attention, Quantity::gate_effect}) {
    request.quantity = quantity;
    request.reduction = default_reduction(quantity, false);
    const Image image = compute_map(request, job).value();
    EXPECT_FALSE(std::isnan(image.value.front())) << to_string(quantity);
    EXPECT_TRUE(std::isnan(image.value[1])) << to_string(quantity);
    EXPECT_FALSE(std::isnan(image.value.back())) << to_string(quantity);
  }
  request.quantity = Quantity::attention;
  for (const auto& [pixel_rows, pixel_columns] : {std::pair<std::int64_t, std::int64_t>{1, kLength}, {kLength, 1}}) {
    request.reduction = Reduction::mean;
    request.pixel_rows = pixel_rows;
    request.pixel_columns = pixel_columns;
    EXPECT_FALSE(std::isnan(compute_map(request, job).value().value.back()));
  }
  request.rows = {kLength - 256, kLength};
  request.pixel_rows = 256;
  request.pixel_columns = kLength;
  EXPECT_FALSE(std::isnan(compute_map(request, job).value().value.back()));
  for (const MapLine::Along along : {MapLine::Along::row, MapLine::Along::column, MapLine::Along::diagonal}) {
    const MapLine line = MapLine::through(along, kLength - 1, 1000);
    const auto entries =
        line_entries({request.head, {}, Quantity::attention, FirstKey::counted, line, line.positions(kLength)}, job);
    EXPECT_FALSE(std::isnan(entries.value().back()));
  }
  EXPECT_TRUE(head_statistics({run, 0, 0}, {}, job).value().has_attention);
}

TEST(Memory, ThatIsMissingIsAnErrorThatNamesTheSize) {
#ifdef FOXSCOPE_SANITIZED
  GTEST_SKIP() << "sanitizers reserve address space of their own";
#endif
  const auto run = long_run();
  const LimitedMemory limited(kAllowed);
  MapRequest request;
  request.head = {run, 0, 0};
  request.rows = request.columns = {0, kLength};
  request.pixel_rows = request.pixel_columns = kLength;
  for (const Quantity quantity : {Quantity::forget, Quantity::attention}) {
    request.quantity = quantity;
    EXPECT_EQ(error_of([&] { (void)compute_map(request, {}); }),
              "no memory for a map of 65536x65536 pixels: ask for a smaller size or fewer rows");
  }
}

}  // namespace
}  // namespace foxscope::test

// NaN in, NaN out, on a GPU: what is not a number is seen, and nothing else changes. Skipped by name where there is no
// GPU.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/map/map.h"
#include "backend/map/statistics/head_statistics.h"
#include "kernels/cuda/device.h"
#include "tests/map/dense.h"

namespace foxscope::test {
namespace {

constexpr Reduction kNanReductions[] = {Reduction::max, Reduction::mean, Reduction::min, Reduction::absmax};

class CudaNan : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kernels::cuda::is_available()) GTEST_SKIP() << "no CUDA device, or a build without CUDA";
  }

  static Image computed(const std::shared_ptr<const Trace>& run, Quantity quantity, Reduction reduction, int pixels) {
    MapRequest request;
    request.head = {{run, 0}, 0, 0};
    request.quantity = quantity;
    request.reduction = reduction;
    request.rows = request.columns = {0, run->info().length};
    request.pixel_rows = request.pixel_columns = pixels;
    return compute_map(request, {}).value();
  }

  /// A map of a run that differs from another in the rows from `first` to `last` alone, which are NaN.
  static void expect_nan(const Image& image, const Image& good, std::int64_t length, std::int64_t first,
                         std::int64_t last) {
    const std::int64_t bin = length / image.rows;
    for (std::int64_t row = 0; row < image.rows; ++row) {
      const bool lost = row * bin <= last && (row + 1) * bin > first;
      for (std::int64_t column = 0; column < image.columns; ++column) {
        const auto at = static_cast<std::size_t>(row * image.columns + column);
        // A bin on the diagonal may have entries of earlier rows only.
        const bool seen = column * bin <= std::min(last, (row + 1) * bin - 1);
        if (std::isnan(good.value[at]) || (lost && seen)) {
          ASSERT_TRUE(std::isnan(image.value[at])) << row << ", " << column;
        } else {
          ASSERT_EQ(image.value[at], good.value[at]) << row << ", " << column;
        }
      }
    }
  }
};

TEST_F(CudaNan, ARowWithoutNormaliserIsDrawnAsNan) {
  RunShape shape;
  shape.length = 1024;
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    for (const bool gated : {true, false}) {
      shape.dtype = dtype;
      shape.gated = gated;
      shape.head_dim = 64;
      shape.nan_normalizer = -1;
      const auto good = make_run(shape);
      shape.nan_normalizer = 700;
      const auto run = make_run(shape);
      for (const Reduction reduction : kNanReductions) {
        for (const int pixels : {1024, 256, 32, 8}) {
          SCOPED_TRACE(std::string(to_string(dtype)) + (gated ? ", " : ", ungated, ") + to_string(reduction) + ", " +
                       std::to_string(pixels));
          expect_nan(computed(run, Quantity::attention, reduction, pixels),
                     computed(good, Quantity::attention, reduction, pixels), 1024, 700, 700);
        }
      }
    }
  }
}

TEST_F(CudaNan, AQueryOfNanIsDrawnAsNan) {
  RunShape shape;
  shape.length = 512;
  shape.head_dim = 64;
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    shape.dtype = dtype;
    shape.nan_query = -1;
    const auto good = make_run(shape);
    shape.nan_query = 300;
    const auto run = make_run(shape);
    for (const Quantity quantity : {Quantity::logits, Quantity::attention, Quantity::attention_without_gate}) {
      for (const Reduction reduction : kNanReductions) {
        SCOPED_TRACE(std::string(to_string(quantity)) + ", " + to_string(reduction));
        expect_nan(computed(run, quantity, reduction, 32), computed(good, quantity, reduction, 32), 512, 300, 300);
      }
    }
    // The normaliser without the gate was computed from that query, and is NaN for that row alone.
    const auto rows = run->log_normalizer_without_gate(0, 0, [] { return std::vector<float>{}; });
    for (std::size_t row = 0; row < rows.size(); ++row) ASSERT_EQ(std::isnan(rows[row]), row == 300) << row;
  }
}

// Sums of gates are NaN from one of them on.
TEST_F(CudaNan, AGateOfNanIsDrawnAsNanFromThereOn) {
  RunShape shape;
  shape.length = 512;
  shape.head_dim = 64;
  shape.normalized = false;
  const auto steep = [](std::int64_t position, double normal) {
    return position % 50 == 0 ? -1000.0 : -0.02 * normal * normal;
  };
  shape.log_gate = [&](int /*head*/, std::int64_t position, double normal) { return steep(position, normal); };
  const auto good = make_run(shape);
  shape.log_gate = [&](int /*head*/, std::int64_t position, double normal) {
    return position == 333 ? std::numeric_limits<double>::quiet_NaN() : steep(position, normal);
  };
  const auto run = make_run(shape);
  for (const Quantity quantity : {Quantity::forget, Quantity::log_forget, Quantity::attention}) {
    for (const Reduction reduction : kNanReductions) {
      for (const int pixels : {512, 32}) {
        SCOPED_TRACE(std::string(to_string(quantity)) + ", " + to_string(reduction) + ", " + std::to_string(pixels));
        expect_nan(computed(run, quantity, reduction, pixels), computed(good, quantity, reduction, pixels), 512, 333,
                   511);
      }
    }
  }
}

TEST_F(CudaNan, StatisticsOfARowWithoutNormaliserAreNan) {
  RunShape shape;
  shape.length = 800;
  for (const int head_dim : {16, 64}) {
    for (const bool gated : {true, false}) {
      shape.head_dim = head_dim;
      shape.dtype = head_dim == 64 ? DType::bfloat16 : DType::float32;
      shape.gated = gated;
      shape.nan_normalizer = -1;
      const auto good = make_run(shape);
      shape.nan_normalizer = 500;
      const auto run = make_run(shape);
      const HeadStatistics expected = head_statistics({{good, 0}, 0, 0}, {}, {}).value();
      const HeadStatistics statistics = head_statistics({{run, 0}, 0, 0}, {}, {}).value();
      EXPECT_TRUE(std::isnan(statistics.entropy));
      EXPECT_TRUE(std::isnan(statistics.mass_on_first));
      EXPECT_TRUE(std::isnan(statistics.mass_on_self));
      EXPECT_TRUE(std::isnan(statistics.distance.d50));
      EXPECT_EQ(std::isnan(statistics.mean_log_decay), gated);
      // The row is 500 tokens from key 0, and 499 from the next.
      for (std::size_t n = 0; n < 800; ++n) {
        ASSERT_EQ(std::isnan(statistics.distance.mass[n]), n <= 500) << n;
        ASSERT_EQ(std::isnan(statistics.distance_without_first.mass[n]), n <= 499) << n;
        // Beside the row, tiles are computed whose entries are negligible.
        if (n <= 500) continue;
        ASSERT_NEAR(statistics.distance.mass[n], expected.distance.mass[n], 1e-9) << n;
      }
    }
  }
}

}  // namespace
}  // namespace foxscope::test

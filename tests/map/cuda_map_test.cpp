// Maps on a GPU against those of the CPU and against dense float64. Skipped by name where
// there is none.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/map/device/device_map.h"
#include "backend/map/distance_axis.h"
#include "backend/map/statistics/head_statistics.h"
#include "backend/trace/device_query_key_store.h"
#include "backend/trace/recorder.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/linear/lagged_products.h"
#include "kernels/cuda/maps/attention_statistics.h"
#include "kernels/cuda/maps/forget_map.h"
#include "tests/map/dense.h"

namespace foxscope::test {
namespace {

constexpr Quantity kQuantities[] = {
    Quantity::forget,    Quantity::log_forget,  Quantity::logits,
    Quantity::attention, Quantity::gate_effect, Quantity::attention_without_gate,
};
constexpr Reduction kReductions[] = {Reduction::max, Reduction::mean, Reduction::min, Reduction::absmax};

MapRequest rectangle(Range rows, Range columns, std::int64_t pixel_rows, std::int64_t pixel_columns) {
  MapRequest request;
  request.rows = rows;
  request.columns = columns;
  request.pixel_rows = pixel_rows;
  request.pixel_columns = pixel_columns;
  return request;
}

MapRequest odd_rectangle() { return rectangle({17, 1931}, {5, 1499}, 333, 257); }

Image computed(MapRequest request, std::optional<int> gpu) {
  request.head.gpu = gpu;
  if (request.minus) request.minus->gpu = gpu;
  return compute_map(request, {}).value();
}

std::vector<double> in_double(const Image& image) { return {image.value.begin(), image.value.end()}; }

class CudaMap : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kernels::cuda::is_available()) GTEST_SKIP() << "no CUDA device, or a build without CUDA";
  }

  /// Every quantity and reduction against the CPU's map; sizes of two visible keys that gain and lose the same may come
  /// out with either sign.
  static void expect_same(MapRequest request, double tolerance, bool log_forget = true) {
    for (const Quantity quantity : kQuantities) {
      if (quantity == Quantity::log_forget && !log_forget) continue;
      if (request.first_key == FirstKey::left_out && !is_of_attention(quantity)) continue;
      request.quantity = quantity;
      for (const Reduction reduction : kReductions) {
        request.reduction = reduction;
        std::vector<double> expected = in_double(computed(request, std::nullopt));
        Image image = computed(request, 0);
        double largest = quantity == Quantity::gate_effect ? 1.0 : 1e-3;
        for (const double value : expected) {
          if (!std::isnan(value)) largest = std::max(largest, std::abs(value));
        }
        const bool is_signed = request.minus || quantity == Quantity::gate_effect || quantity == Quantity::logits;
        if (is_signed && reduction == Reduction::absmax) {
          for (double& value : expected) value = std::abs(value);
          for (float& value : image.value) value = std::abs(value);
        }
        EXPECT_LT(largest_difference(image, expected, largest), tolerance)
            << to_string(quantity) << " " << to_string(reduction);
      }
    }
  }

  /// The same run with its queries and keys in a GPU's memory, as a forward there leaves them.
  static std::shared_ptr<const Trace> left_on(const std::shared_ptr<const Trace>& host, int gpu) {
    const kernels::cuda::DeviceScope scope(gpu);
    const QueryKeyStore& from = *host->query_key();
    auto store = std::make_shared<DeviceQueryKeyStore>(from.shape(), from.dtype(), gpu);
    for (const auto part : {QueryKeyStore::Part::query, QueryKeyStore::Part::key}) {
      std::vector<std::byte> scratch;
      const int heads = part == QueryKeyStore::Part::query ? host->info().heads : host->info().key_heads;
      auto* to = static_cast<std::byte*>(store->device_layer(part, 0));
      for (int head = 0; head < heads; ++head) {
        const auto rows = from.raw_rows(part, 0, head, 0, host->info().length, scratch);
        EXPECT_TRUE(kernels::cuda::copy_to_device(to, rows));
        to += rows.size();
      }
    }
    Recorder recorder(host->info(), {Keep::gates, Keep::rows}, store);
    const TraceSource& source = host->source();
    std::ranges::copy(source.copy<double>(TraceArray::cumulative_log_gate), recorder.cumulative_log_gate(0).begin());
    std::ranges::copy(source.copy<float>(TraceArray::log_normalizer), recorder.log_normalizer(0).begin());
    return recorder.finish(nullptr, nullptr);
  }

  static void expect_dense(const HeadOf& head, MapRequest request, double tolerance) {
    const DenseHead dense(head);
    request.head = head;
    for (const Quantity quantity : kQuantities) {
      request.quantity = quantity;
      const std::vector<double> entries = dense.entries(quantity);
      const double largest = quantity == Quantity::gate_effect ? 1.0 : std::max(largest_size(entries), 1e-3);
      const DenseBins bins(entries, dense.length(), request);
      for (const Reduction reduction : {Reduction::max, Reduction::mean, Reduction::min}) {
        request.reduction = reduction;
        EXPECT_LT(largest_difference(computed(request, 0), bins.pixels(reduction), largest), tolerance)
            << to_string(quantity) << " " << to_string(reduction);
      }
    }
  }
};

// Of the largest entry: float32's rounding, and that of sums of bfloat16's products.
constexpr double kFloat32 = 2e-6;
constexpr double kBfloat16 = 1e-5;

/// By distance: a view of all, each distance alone, a part of the rows and distances, few and wide bins.
std::vector<MapRequest> requests_by_distance(std::int64_t length) {
  std::vector<MapRequest> requests;
  const auto add = [&](Range rows, std::int64_t pixel_rows, std::vector<std::int64_t> edges) {
    MapRequest request = rectangle(rows, rows, pixel_rows, 1);
    request.set_distances(std::move(edges));
    requests.push_back(std::move(request));
  };
  add({0, length}, 211, DistanceAxis{{1, length + 1}, 190}.edges());
  add({40, length - 3}, 170, single_distances({1, 300}));
  add({length / 3, length - 1}, length - 1 - length / 3, DistanceAxis{{90, length - 20}, 75}.edges());
  add({5, length}, 13, {1, 2, 70, length + 1});
  add({length - 40, length}, 40, {length - 4, length + 60});
  return requests;
}

TEST_F(CudaMap, ByDistanceEqualsDenseFloat64) {
  for (const auto& [dtype, tolerance] : {std::pair{DType::float32, kFloat32}, {DType::bfloat16, kBfloat16}}) {
    for (const int head_dim : {16, 64, 128}) {
      for (const std::int64_t window : {0, 260}) {
        RunShape shape;
        shape.length = 931;
        shape.heads = 2;
        shape.head_dim = head_dim;
        shape.dtype = dtype;
        shape.window = window;
        const HeadOf head{make_run(shape), 0, 1};
        SCOPED_TRACE(std::string(to_string(dtype)) + ", d " + std::to_string(head_dim) + ", window " +
                     std::to_string(window));
        for (const MapRequest& request : requests_by_distance(931)) expect_dense(head, request, tolerance);
      }
    }
  }
}

TEST_F(CudaMap, ByDistanceEqualsTheCpuForDifferencesAndHeadsWithoutGates) {
  RunShape shape;
  shape.length = 700;
  shape.heads = 2;
  const auto run = make_run(shape);
  shape.window = 120;
  shape.seed = 5;
  const auto other = make_run(shape);
  shape.gated = false;
  const auto ungated = make_run(shape);
  for (MapRequest request : requests_by_distance(700)) {
    request.head = {run, 0, 0};
    expect_same(request, kFloat32);
    request.minus = HeadOf{other, 0, 1};
    expect_same(request, kFloat32);
    request.head = {ungated, 0, 0};
    request.minus.reset();
    expect_same(request, kFloat32);
  }
}

TEST_F(CudaMap, EqualsDenseFloat64OnARectangleOfALongRun) {
  for (const auto& [dtype, tolerance] : {std::pair{DType::float32, kFloat32}, {DType::bfloat16, kBfloat16}}) {
    for (const int head_dim : {16, 64, 128, 256}) {
      RunShape shape;
      shape.length = 1931;
      shape.heads = 4;
      shape.key_heads = 2;
      shape.head_dim = head_dim;
      shape.dtype = dtype;
      SCOPED_TRACE(std::string(to_string(dtype)) + ", d " + std::to_string(head_dim));
      expect_dense({make_run(shape), 0, 3}, odd_rectangle(), tolerance);
    }
  }
}

TEST_F(CudaMap, EqualsTheCpuForBinsOfAllSizes) {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    RunShape shape;
    shape.length = 1500;
    shape.heads = 3;
    shape.head_dim = 64;
    shape.dtype = dtype;
    const auto run = make_run(shape);
    const std::pair<int, int> kSizes[] = {{1, 1}, {3, 1400}, {1480, 7}, {9, 11}, {22, 22}, {360, 80}, {90, 700}};
    for (const auto& [pixel_rows, pixel_columns] : kSizes) {
      MapRequest request = rectangle({13, 1493}, {50, 1450}, pixel_rows, pixel_columns);
      request.head = {run, 0, 2};
      SCOPED_TRACE(std::to_string(pixel_rows) + "x" + std::to_string(pixel_columns));
      expect_same(request, dtype == DType::float32 ? kFloat32 : kBfloat16);
    }
  }
}

TEST_F(CudaMap, EqualsTheCpuWithWindowsAndWithoutGate) {
  RunShape shape;
  shape.length = 400;
  shape.heads = 2;
  for (const std::int64_t window : {1, 2, 7, 64, 399}) {
    for (const bool gated : {true, false}) {
      shape.window = window;
      shape.gated = gated;
      const auto run = make_run(shape);
      for (const auto& [pixel_rows, pixel_columns] : {std::pair{1, 1}, {5, 300}, {390, 3}, {17, 13}}) {
        MapRequest request = rectangle({10, 400}, {3, 391}, pixel_rows, pixel_columns);
        request.head = {run, 0, 1};
        SCOPED_TRACE("window " + std::to_string(window) + (gated ? " " : " ungated ") + std::to_string(pixel_rows));
        expect_same(request, kFloat32);
      }
    }
  }
}

TEST_F(CudaMap, EqualsTheCpuWithoutKey0) {
  RunShape shape;
  shape.length = 700;
  shape.heads = 2;
  shape.head_dim = 64;
  for (const bool gated : {true, false}) {
    for (const std::int64_t window : {0, 90}) {
      for (const double parks : {0.0, 12.0}) {
        shape.gated = gated;
        shape.window = window;
        shape.parks_on_first = parks;
        const auto run = make_run(shape);
        // What is left of rows that park on key 0 is that much less precise.
        const double tolerance = parks > 0 ? 1e-3 : kFloat32;
        std::vector<MapRequest> requests = requests_by_distance(700);
        for (const auto& [pixel_rows, pixel_columns] : {std::pair{1, 1}, {700, 700}, {5, 300}, {690, 3}, {17, 13}}) {
          requests.push_back(rectangle({0, 700}, {0, 700}, pixel_rows, pixel_columns));
        }
        requests.push_back(rectangle({3, 600}, {0, 1}, 7, 1));
        requests.push_back(rectangle({3, 600}, {5, 400}, 7, 50));
        for (MapRequest& request : requests) {
          request.first_key = FirstKey::left_out;
          request.head = {run, 0, 1};
          SCOPED_TRACE(std::to_string(request.pixel_rows) + "x" + std::to_string(request.pixel_columns));
          expect_same(request, tolerance);
          Image image;
          request.quantity = Quantity::attention;
          EXPECT_EQ(device_map(request, 0, {}, image), kernels::Status::ok);
        }
        MapRequest difference = rectangle({0, 700}, {0, 700}, 33, 41);
        difference.first_key = FirstKey::left_out;
        difference.head = {run, 0, 0};
        difference.minus = HeadOf{run, 0, 1};
        expect_same(difference, tolerance);
      }
    }
  }
}

TEST_F(CudaMap, EqualsTheCpuForLargeBinsOfBfloat16) {
  RunShape shape;
  shape.length = 1500;
  shape.dtype = DType::bfloat16;
  for (const int head_dim : {64, 128}) {
    for (const std::int64_t window : {0, 40, 399}) {
      for (const bool gated : {true, false}) {
        shape.head_dim = head_dim;
        shape.window = window;
        shape.gated = gated;
        const auto run = make_run(shape);
        for (const int pixels : {5, 23, 61}) {
          MapRequest request = rectangle({0, 1500}, {0, 1472}, pixels, pixels);
          request.head = {run, 0, 0};
          SCOPED_TRACE("d " + std::to_string(head_dim) + ", window " + std::to_string(window) + ", pixels " +
                       std::to_string(pixels));
          expect_same(request, kBfloat16);
        }
      }
    }
  }
}

TEST_F(CudaMap, FOfManyHeadsEqualsThatOfEach) {
  namespace cuda = kernels::cuda;
  RunShape shape;
  shape.length = 900;
  shape.heads = 5;
  const auto run = make_run(shape);
  const auto heads = static_cast<std::size_t>(shape.heads);
  const cuda::DeviceBuffer gates(heads * 900 * sizeof(double));
  const std::vector<double> c = run->source().copy<double>(TraceArray::cumulative_log_gate);
  ASSERT_TRUE(gates.upload(std::as_bytes(std::span(c))));
  const std::size_t pixels = 70 * 33;
  const cuda::DeviceBuffer out(heads * pixels * sizeof(float));
  const cuda::DeviceBuffer workspace(1 << 20);
  for (const Reduction reduction : {Reduction::max, Reduction::mean}) {
    cuda::ForgetMap map;
    map.heads = shape.heads;
    map.length = shape.length;
    map.cumulative_log_gate = static_cast<const double*>(gates.data());
    map.reduction = reduction == Reduction::max ? cuda::MapReduction::max : cuda::MapReduction::mean;
    map.row_begin = 100;
    map.row_end = 900;
    map.column_end = 850;
    map.pixel_rows = 70;
    map.pixel_columns = 33;
    map.pixels = static_cast<float*>(out.data());
    map.workspace = workspace.data();
    ASSERT_LE(cuda::forget_map_workspace_bytes(map), workspace.bytes());
    ASSERT_TRUE(out.fill(0x55));
    ASSERT_EQ(cuda::forget_map(map, nullptr), kernels::Status::ok);
    for (std::size_t head = 0; head < heads; ++head) {
      MapRequest request = rectangle({100, 900}, {0, 850}, 70, 33);
      request.head = {run, 0, static_cast<int>(head)};
      request.quantity = Quantity::forget;
      request.reduction = reduction;
      Image image{70, 33, std::vector<float>(pixels)};
      ASSERT_TRUE(out.download(std::as_writable_bytes(std::span(image.value)), head * pixels * sizeof(float)));
      EXPECT_LT(largest_difference(image, in_double(computed(request, std::nullopt)), 1.0), 1e-6) << head;
    }
  }
}

TEST_F(CudaMap, ReadsQueriesAndKeysWhereTheRunLeftThem) {
  RunShape shape;
  shape.length = 333;
  shape.heads = 4;
  shape.key_heads = 2;
  shape.dtype = DType::bfloat16;
  const auto host = make_run(shape);
  const auto live = left_on(host, 0);
  ASSERT_EQ(live->made_on(), 0);
  for (const Quantity quantity : kQuantities) {
    MapRequest request = rectangle({0, 333}, {0, 333}, 90, 45);
    request.quantity = quantity;
    request.head = {live, 0, 3};
    const Image image = computed(request, 0);
    request.head = {host, 0, 3};
    EXPECT_LT(largest_difference(image, in_double(computed(request, 0)), 1.0), 1e-30) << to_string(quantity);
  }
  // The CPU reads the same rows when it is told to.
  EXPECT_TRUE(head_statistics({{live, std::nullopt}, 0, 1}, {}, {}).value().has_attention);
}

TEST_F(CudaMap, OnTheSecondGpuIsThatOnTheFirst) {
  if (kernels::cuda::device_count() < 2) GTEST_SKIP() << "one CUDA device";
  RunShape shape;
  shape.length = 700;
  shape.heads = 2;
  shape.dtype = DType::bfloat16;
  const auto host = make_run(shape);
  const auto second = left_on(host, 1);
  ASSERT_EQ(second->made_on(), 1);
  MapRequest request = rectangle({10, 700}, {3, 650}, 90, 45);
  for (const Quantity quantity : kQuantities) {
    request.quantity = quantity;
    for (const Reduction reduction : {Reduction::max, Reduction::mean}) {
      request.reduction = reduction;
      request.head = {host, 0, 1};
      const std::vector<double> expected = in_double(computed(request, 0));
      // Uploaded from the host, read in place, and fetched from one GPU for the other.
      EXPECT_LT(largest_difference(computed(request, 1), expected, 1.0), 1e-30) << to_string(quantity);
      request.head = {second, 0, 1};
      EXPECT_LT(largest_difference(computed(request, 1), expected, 1.0), 1e-30) << to_string(quantity);
      EXPECT_LT(largest_difference(computed(request, 0), expected, 1.0), 1e-30) << to_string(quantity);
    }
  }
  request.quantity = Quantity::attention;
  request.head = {host, 0, 1};
  request.minus = HeadOf{second, 0, 0};
  const std::vector<double> expected = in_double(computed(request, 0));
  request.head.gpu = 0;
  ASSERT_EQ(request.minus->gpu, 1);
  EXPECT_LT(largest_difference(compute_map(request, {}).value(), expected, 1.0), 1e-30) << "a run on each";
  const auto first = head_statistics({{second, 0}, 0, 1}, {}, {}).value();
  const auto again = head_statistics({{second, 1}, 0, 1}, {}, {}).value();
  EXPECT_EQ(first.entropy, again.entropy);
  EXPECT_EQ(first.distance.mass, again.distance.mass);
}

TEST_F(CudaMap, LeavesOnlyDifferencesOfTheGatesEffectToTheCpu) {
  RunShape shape;
  shape.length = 150;
  shape.heads = 2;
  const auto run = make_run(shape);
  // In this order parts of a head are there before others are asked for.
  for (const Quantity quantity : kQuantities) {
    for (const bool difference : {false, true}) {
      MapRequest request = rectangle({0, 150}, {0, 150}, 20, 20);
      request.head = {run, 0, 0};
      request.quantity = quantity;
      if (difference) request.minus = HeadOf{run, 0, 1};
      Image image;
      const bool left = difference && quantity == Quantity::gate_effect;
      EXPECT_EQ(device_map(request, 0, {}, image), left ? kernels::Status::unsupported : kernels::Status::ok)
          << to_string(quantity);
    }
  }
}

TEST(CudaMapArguments, ThatDoNotFitAreRefused) {
  namespace cuda = kernels::cuda;
  cuda::MapHead head;
  head.length = 10;
  head.head_dim = 257;
  head.scale = 1;
  float number = 0;
  head.query = head.key = &number;
  cuda::PooledMap map;
  map.head = head;
  map.row_end = map.column_end = 10;
  map.pixel_rows = map.pixel_columns = 10;
  map.pixels = &number;
  map.workspace = &number;
  EXPECT_NE(cuda::pooled_map(map, nullptr), kernels::Status::ok);
  map.head.head_dim = 64;
  map.pixel_rows = 11;
  EXPECT_NE(cuda::pooled_map(map, nullptr), kernels::Status::ok);
  cuda::ForgetMap forget;
  EXPECT_NE(cuda::forget_map(forget, nullptr), kernels::Status::ok);
  EXPECT_NE(cuda::log_normalizer_without_gate(head, 5, 5, &number, nullptr), kernels::Status::ok);
  EXPECT_NE(cuda::attention_statistics({}, nullptr), kernels::Status::ok);
  EXPECT_NE(cuda::lagged_products({}, nullptr), kernels::Status::ok);
}

TEST_F(CudaMap, EqualsTheCpuForDifferences) {
  RunShape shape;
  shape.length = 777;
  shape.heads = 3;
  shape.head_dim = 64;
  shape.dtype = DType::bfloat16;
  const auto one = make_run(shape);
  shape.head_dim = 24;
  shape.dtype = DType::float32;
  shape.window = 300;
  shape.seed = 2;
  const auto other = make_run(shape);
  for (const HeadOf& minus : {HeadOf{one, 0, 2}, HeadOf{other, 0, 1}}) {
    for (const auto& [pixel_rows, pixel_columns] : {std::pair{40, 30}, {700, 700}, {150, 333}}) {
      MapRequest request = rectangle({20, 777}, {1, 720}, pixel_rows, pixel_columns);
      request.head = {one, 0, 0};
      request.minus = minus;
      expect_same(request, kBfloat16);
    }
  }
}

TEST_F(CudaMap, EqualsTheCpuForHeadsThatForgetStrongly) {
  // c falls to about -1e5: by 60 nats a token, by 1000 at single positions, and hardly at all in between.
  for (const int kind : {0, 1, 2}) {
    RunShape shape;
    shape.length = 1931;
    shape.head_dim = 64;
    shape.dtype = kind == 2 ? DType::bfloat16 : DType::float32;
    shape.log_gate = [kind](int /*head*/, std::int64_t position, double normal) {
      if (kind == 0) return -60.0 - normal * normal;
      return position % 19 == 0 ? -1000.0 : -1e-3 * normal * normal;
    };
    MapRequest request = odd_rectangle();
    request.head = {make_run(shape), 0, 0};
    // log F is as large as 1e5, so its small entries are compared with nothing here.
    expect_same(request, kind == 2 ? kBfloat16 : kFloat32, false);
    request.rows = {1000, 1200};
    request.columns = {1000, 1200};
    request.pixel_rows = request.pixel_columns = 200;
    expect_same(request, kind == 2 ? kBfloat16 : kFloat32, false);
  }
}

TEST_F(CudaMap, OfOneTokenIsThatEntry) {
  RunShape shape;
  shape.length = 1;
  MapRequest request = rectangle({0, 1}, {0, 1}, 1, 1);
  request.head = {make_run(shape), 0, 0};
  expect_same(request, kFloat32);
}

TEST_F(CudaMap, PixelsOfOneEntryAreThatEntry) {
  RunShape shape;
  shape.length = 700;
  shape.head_dim = 64;
  shape.dtype = DType::bfloat16;
  MapRequest request = rectangle({0, 700}, {0, 700}, 700, 700);
  request.head = {make_run(shape), 0, 0};
  request.quantity = Quantity::attention;
  const Image whole = computed(request, 0);
  // The largest entry of a bin, whatever the bins and the rectangle are.
  for (const auto& [size, begin] : {std::pair<std::int64_t, std::int64_t>{10, 0}, {3, 100}, {97, 203}}) {
    MapRequest pooled = rectangle({begin, 700}, {begin, 700}, (700 - begin) / size, (700 - begin) / size);
    pooled.head = request.head;
    pooled.quantity = Quantity::attention;
    const Image image = computed(pooled, 0);
    for (std::int64_t row = 0; row < image.rows; ++row) {
      for (std::int64_t column = 0; column <= row; ++column) {
        float largest = 0;
        for (std::int64_t i = bin_begin(pooled.rows, image.rows, row); i < bin_begin(pooled.rows, image.rows, row + 1);
             ++i) {
          const std::int64_t end = bin_begin(pooled.columns, image.columns, column + 1);
          for (std::int64_t j = bin_begin(pooled.columns, image.columns, column); j < std::min(end, i + 1); ++j) {
            largest = std::max(largest, whole.value[index_of(i * 700 + j)]);
          }
        }
        ASSERT_EQ(image.value[index_of(row * image.columns + column)], largest);
      }
    }
  }
}

TEST_F(CudaMap, LeavesOutWhatIsBelowTheTolerance) {
  RunShape shape;
  shape.length = 1500;
  shape.heads = 2;
  shape.head_dim = 64;
  shape.dtype = DType::bfloat16;
  const auto run = make_run(shape);
  for (const Reduction reduction : kReductions) {
    MapRequest request = rectangle({0, 1500}, {0, 1500}, 50, 50);
    request.head = {run, 0, 0};
    request.reduction = reduction;
    const std::vector<double> exact = in_double(computed(request, 0));
    request.skip_tolerance = 1e-4;
    EXPECT_LT(largest_difference(computed(request, 0), exact, 1.0), 1e-4) << to_string(reduction);
  }
}

// Of many blocks' sums, in whatever order they come.
TEST_F(CudaMap, MeansAreTheSameInEveryRun) {
  RunShape shape;
  shape.length = 4000;
  shape.heads = 2;
  shape.head_dim = 64;
  shape.dtype = DType::bfloat16;
  const auto run = make_run(shape);
  MapRequest request = rectangle({0, 4000}, {0, 4000}, 7, 5);
  request.head = {run, 0, 1};
  request.reduction = Reduction::mean;
  for (const Quantity quantity : {Quantity::logits, Quantity::attention, Quantity::gate_effect}) {
    request.quantity = quantity;
    const Image first = computed(request, 0);
    for (int again = 0; again < 10; ++again) {
      const Image image = computed(request, 0);
      EXPECT_EQ(std::memcmp(image.value.data(), first.value.data(), first.value.size() * sizeof(float)), 0)
          << to_string(quantity);
    }
  }
}

TEST_F(CudaMap, MeansOverInfiniteLogitsAreInfinite) {
  RunShape shape;
  shape.length = 300;
  shape.normalized = false;
  for (const double logit : {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
    shape.parks_on_first = logit;
    MapRequest request = rectangle({0, 300}, {0, 300}, 10, 10);
    request.head = {make_run(shape), 0, 0};
    request.quantity = Quantity::logits;
    request.reduction = Reduction::mean;
    const Image image = computed(request, 0);
    for (std::size_t row = 0; row < 10; ++row) EXPECT_EQ(static_cast<double>(image.value[row * 10]), logit);
    for (std::size_t row = 1; row < 10; ++row) EXPECT_TRUE(std::isfinite(image.value[row * 10 + 1]));
  }
}

}  // namespace
}  // namespace foxscope::test

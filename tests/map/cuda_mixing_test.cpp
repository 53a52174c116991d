// Maps of linear mixers on a GPU against the recurrence in float64 and against those of the CPU. Skipped by name where
// there is none.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "backend/map/device/device_map.h"
#include "backend/map/distance_axis.h"
#include "backend/trace/device_heads.h"
#include "kernels/cuda/device.h"
#include "tests/map/dense.h"
#include "tests/map/linear_run.h"

namespace foxscope::test {
namespace {

constexpr Reduction kMixingReductions[] = {Reduction::max, Reduction::mean, Reduction::min, Reduction::absmax};
/// Of the largest entry: products of numbers in two bfloat16 parts.
constexpr double kTwoParts = 3e-5;
/// Of shares, where a row's sum may be small beside |q||k|.
constexpr double kShares = 1e-4;

MapRequest whole_map(const HeadOf& head, Quantity quantity) {
  MapRequest request;
  request.head = head;
  request.quantity = quantity;
  request.reduction = default_reduction(quantity, false);
  request.rows = request.columns = {0, head.trace->info().length};
  request.pixel_rows = request.pixel_columns = request.rows.size();
  return request;
}

std::vector<double> shares_of(std::vector<double> entries, std::int64_t length) {
  for (std::size_t row = 0; row < entries.size(); row += static_cast<std::size_t>(length)) {
    double sum = 0;
    for (std::int64_t n = 0; n < length; ++n) {
      double& entry = entries[row + static_cast<std::size_t>(n)];
      entry = std::abs(entry);
      if (!std::isnan(entry)) sum += entry;
    }
    for (std::int64_t n = 0; n < length; ++n) entries[row + static_cast<std::size_t>(n)] /= sum;
  }
  return entries;
}

/// The kinds that have kernels for a GPU; maps of others are computed on the CPU.
std::vector<LayerMixer> mixers_of_gpus() {
  std::vector<LayerMixer> mixers = linear_mixers();
  std::erase_if(mixers, [](const LayerMixer& mixer) { return !mixing_kind(mixer); });
  return mixers;
}

class CudaMixing : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kernels::cuda::is_available()) GTEST_SKIP() << "no CUDA device, or a build without CUDA";
  }

  /// What the kernels compute, not what stands in for them.
  static Image on_gpu(MapRequest request) {
    request.head.gpu = 0;
    Image image;
    const kernels::Status status = device_map(request, 0, {}, image);
    EXPECT_EQ(status, kernels::Status::ok) << "the kernels do not take the map";
    if (status != kernels::Status::ok) image = {request.pixel_rows, request.pixel_columns, {}};
    image.value.resize(static_cast<std::size_t>(image.rows * image.columns));
    return image;
  }

  static Image on_cpu(MapRequest request) {
    request.head.gpu.reset();
    return compute_map(request, {}).value();
  }

  /// Of two entries as large as each other with different signs either may come out.
  static double difference(const MapRequest& request, Image image, std::vector<double> expected, double largest) {
    if (request.reduction == Reduction::absmax) {
      for (double& value : expected) value = std::abs(value);
      for (float& value : image.value) value = std::abs(value);
    }
    return largest_difference(image, expected, largest);
  }

  static double from_dense(const MapRequest& request, const std::vector<double>& entries) {
    return difference(request, on_gpu(request), pool(entries, request.head.trace->info().length, request),
                      largest_size(entries));
  }

  /// Of the largest entry: pixels of the smallest ones are small beside what makes them.
  static double from_cpu(const MapRequest& request) {
    MapRequest sizes = request;
    sizes.reduction = Reduction::absmax;
    double largest = 0;
    for (const double value : on_cpu(sizes).value) {
      if (!std::isnan(value)) largest = std::max(largest, std::abs(value));
    }
    const Image expected = on_cpu(request);
    return difference(request, on_gpu(request), {expected.value.begin(), expected.value.end()}, largest);
  }
};

TEST_F(CudaMixing, EntriesAreThoseOfTheRecurrence) {
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    for (const LayerMixer& mixer : mixers_of_gpus()) {
      for (const std::int64_t length : {1, 5, 64, 65, 200, 331, 700}) {
        LinearShape shape{mixer, length};
        shape.dtype = dtype;
        const auto run = make_linear_run(shape);
        for (int head = 0; head < mixer.heads; ++head) {
          const HeadOf of{run, 0, head};
          const std::vector<double> dense = dense_mixing(of, {0, length});
          SCOPED_TRACE(fmt::format("{} {} {} {} {}", to_string(dtype), to_string(mixer.mixer), to_string(mixer.decay),
                                   length, head));
          EXPECT_LT(from_dense(whole_map(of, Quantity::mixing), dense), kTwoParts);
          EXPECT_LT(from_dense(whole_map(of, Quantity::attention), shares_of(dense, length)), kShares);
        }
      }
    }
  }
}

/// Any rectangle at any size is the reduction of the entries, whichever blocks its edges cut.
TEST_F(CudaMixing, PixelsAreReducedEntries) {
  constexpr std::int64_t kLength = 900;
  std::mt19937 random(3);
  for (const LayerMixer& mixer :
       {mamba2_mixer(), mamba2_mixer(128), gla_mixer(), gla_mixer(65), delta_mixer(), gated_delta_mixer(128)}) {
    const auto run = make_linear_run({mixer, kLength});
    const HeadOf of{run, 0, mixer.heads - 1};
    const std::vector<double> dense = dense_mixing(of, {0, kLength});
    const std::vector<double> attention = shares_of(dense, kLength);
    for (int trial = 0; trial < 64; ++trial) {
      const auto at_most = [&](std::int64_t most) {
        return std::uniform_int_distribution<std::int64_t>(1, most)(random);
      };
      MapRequest request = whole_map(of, trial % 2 == 0 ? Quantity::mixing : Quantity::attention);
      request.rows.begin = at_most(kLength) - 1;
      request.rows.end = request.rows.begin + at_most(kLength - request.rows.begin);
      request.columns.begin = at_most(kLength) - 1;
      request.columns.end = request.columns.begin + at_most(kLength - request.columns.begin);
      // Few pixels as often as many.
      const std::int64_t part = trial % 3 == 0 ? 1 : 30;
      request.pixel_rows = at_most((request.rows.size() + part - 1) / part);
      request.pixel_columns = at_most((request.columns.size() + part - 1) / part);
      request.reduction = kMixingReductions[trial / 2 % 4];
      SCOPED_TRACE(fmt::format("{} {} {} trial {}: {}:{} x {}:{} to {}x{} {}", to_string(mixer.mixer),
                               to_string(mixer.decay), mixer.head_dim, trial, request.rows.begin, request.rows.end,
                               request.columns.begin, request.columns.end, request.pixel_rows, request.pixel_columns,
                               to_string(request.reduction)));
      EXPECT_LT(from_dense(request, trial % 2 == 0 ? dense : attention), trial % 2 == 0 ? kTwoParts : kShares);
    }
  }
}

/// Heads wider than a tile of registers: channels in two parts, and blocks of the delta rule that take turns.
TEST_F(CudaMixing, OfWideHeadsAreThoseOfTheRecurrence) {
  constexpr std::int64_t kLength = 460;
  for (const int head_dim : {129, 192, 200, 256}) {
    for (const LayerMixer& mixer : {mamba2_mixer(head_dim), gla_mixer(head_dim), gated_delta_mixer(head_dim)}) {
      for (const DType dtype : {DType::float32, DType::bfloat16}) {
        LinearShape shape{mixer, kLength};
        shape.dtype = dtype;
        const HeadOf of{make_linear_run(shape), 0, 1};
        const std::vector<double> dense = dense_mixing(of, {0, kLength});
        SCOPED_TRACE(
            fmt::format("{} {} {} {}", to_string(mixer.mixer), to_string(mixer.decay), head_dim, to_string(dtype)));
        EXPECT_LT(from_dense(whole_map(of, Quantity::mixing), dense), kTwoParts);
        EXPECT_LT(from_dense(whole_map(of, Quantity::attention), shares_of(dense, kLength)), kShares);
        std::vector<float> sizes;
        ASSERT_EQ(device_row_sizes(of, {100, kLength}, 0, sizes), kernels::Status::ok);
        for (std::int64_t row = 100; row < kLength; ++row) {
          double sum = 0;
          for (std::int64_t key = 0; key <= row; ++key) sum += std::abs(dense[index_of(row * kLength + key)]);
          ASSERT_NEAR(sizes[index_of(row)], sum, 1e-4 * sum) << row;
        }
        if (mixer.decays_by_channel()) {
          EXPECT_LT(from_cpu(whole_map(of, Quantity::forget)), 1e-5);
        }
      }
    }
  }
}

TEST_F(CudaMixing, EqualsTheCpuOnALongerText) {
  for (const LayerMixer& mixer : {mamba2_mixer(64), gla_mixer(64), delta_mixer(64), gated_delta_mixer(128),
                                  linear_attention_mixer(64), retention_mixer(64), mamba_mixer(16)}) {
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      LinearShape shape{mixer, 6000, 4, 0.02};
      shape.dtype = dtype;
      const auto run = make_linear_run(shape);
      for (const Quantity quantity : {Quantity::mixing, Quantity::attention}) {
        for (const Reduction reduction : kMixingReductions) {
          MapRequest request = whole_map({run, 0, 1}, quantity);
          request.reduction = reduction;
          request.pixel_rows = request.pixel_columns = 94;
          SCOPED_TRACE(fmt::format("{} {} {} {} {}", to_string(mixer.mixer), to_string(mixer.decay), to_string(dtype),
                                   to_string(quantity), to_string(reduction)));
          const double tolerance = quantity == Quantity::mixing ? kTwoParts : kShares;
          EXPECT_LT(from_cpu(request), tolerance);
          request.skip_tolerance = 0x1p-24;
          EXPECT_LT(from_cpu(request), tolerance);
        }
      }
    }
  }
}

TEST_F(CudaMixing, SumsOfRowsAreThoseOfTheRecurrence) {
  constexpr std::int64_t kLength = 700;
  for (const LayerMixer& mixer : mixers_of_gpus()) {
    const auto run = make_linear_run({mixer, kLength});
    const HeadOf of{{run, 0}, 0, 1};
    const std::vector<double> dense = dense_mixing(of, {0, kLength});
    const Range rows{130, 690};
    std::vector<float> sizes;
    ASSERT_EQ(device_row_sizes(of, rows, 0, sizes), kernels::Status::ok);
    for (std::int64_t row = 0; row < kLength; ++row) {
      double sum = 0;
      for (std::int64_t key = 0; key <= row; ++key) sum += std::abs(dense[index_of(row * kLength + key)]);
      const float size = sizes[index_of(row)];
      if (row < rows.begin || row >= rows.end) {
        EXPECT_TRUE(std::isnan(size)) << row;
      } else {
        EXPECT_NEAR(size, sum, 1e-4 * sum) << to_string(mixer.mixer) << " " << row;
      }
    }
  }
}

TEST_F(CudaMixing, ForgetIsThatOfTheCpu) {
  for (const LayerMixer& mixer : {mamba2_mixer(), gla_mixer(), gla_mixer(128), gated_delta_mixer()}) {
    const auto run = make_linear_run({mixer, 900});
    for (const Quantity quantity : {Quantity::forget, Quantity::log_forget}) {
      for (const Reduction reduction : kMixingReductions) {
        MapRequest request = whole_map({run, 0, 2}, quantity);
        request.reduction = reduction;
        request.rows = {17, 890};
        request.columns = {3, 801};
        request.pixel_rows = 50;
        request.pixel_columns = 37;
        SCOPED_TRACE(fmt::format("{} {} {}", to_string(mixer.mixer), to_string(quantity), to_string(reduction)));
        EXPECT_LT(from_cpu(request), 1e-5);
      }
    }
  }
}

/// Decays of hundreds of nats within a block are zeros, not infinities.
TEST_F(CudaMixing, StrongDecaysStayFinite) {
  for (const LayerMixer& mixer : {mamba2_mixer(), gla_mixer(), gated_delta_mixer()}) {
    const auto run = make_linear_run({mixer, 600, 5, 80.0});
    for (int head = 0; head < mixer.heads; ++head) {
      const HeadOf of{run, 0, head};
      const std::vector<double> dense = dense_mixing(of, {0, 600});
      SCOPED_TRACE(fmt::format("{} {}", to_string(mixer.mixer), head));
      EXPECT_LT(from_dense(whole_map(of, Quantity::mixing), dense), kTwoParts);
      MapRequest request = whole_map(of, Quantity::attention);
      request.pixel_rows = request.pixel_columns = 12;
      EXPECT_LT(from_dense(request, shares_of(dense, 600)), kShares);
    }
  }
}

/// A query that is not a number spoils its own row and no other.
TEST_F(CudaMixing, NotANumberIsSeen) {
  for (const LayerMixer& mixer : mixers_of_gpus()) {
    for (const Quantity quantity : {Quantity::mixing, Quantity::attention}) {
      for (const std::int64_t pixels : {20, 10}) {
        LinearShape shape{mixer, 600};
        shape.nan_query = 300;
        const auto run = make_linear_run(shape);
        for (const Reduction reduction : kMixingReductions) {
          MapRequest request = whole_map({run, 0, 0}, quantity);
          request.reduction = reduction;
          request.pixel_rows = request.pixel_columns = pixels;
          const Image image = on_gpu(request);
          const Image expected = on_cpu(request);
          for (std::size_t n = 0; n < image.value.size(); ++n) {
            ASSERT_EQ(std::isnan(image.value[n]), std::isnan(expected.value[n]))
                << to_string(mixer.mixer) << " " << to_string(quantity) << " " << to_string(reduction) << " " << n;
          }
        }
      }
    }
  }
}

TEST_F(CudaMixing, LongTextsAgreeWithTheRecurrence) {
  constexpr std::int64_t kLong = 24576;
  std::mt19937 random(11);
  for (const LayerMixer& mixer : {mamba2_mixer(64), gla_mixer(64), delta_mixer(64), gated_delta_mixer(64)}) {
    const auto run = make_linear_run({mixer, kLong, 2, 0.02});
    const HeadOf of{run, 0, 1};
    double largest = 0;
    std::vector<std::tuple<std::int64_t, std::int64_t, double>> found;
    for (const std::int64_t first : {kLong / 3, kLong / 2 + 7, kLong - 16}) {
      MapRequest request = whole_map(of, Quantity::mixing);
      request.rows = {first, first + 16};
      request.pixel_rows = 16;
      const Image image = on_gpu(request);
      for (const float entry : image.value) {
        if (!std::isnan(entry)) largest = std::max(largest, static_cast<double>(std::abs(entry)));
      }
      for (int n = 0; n < 30; ++n) {
        const std::int64_t row = first + std::uniform_int_distribution<std::int64_t>(0, 15)(random);
        // As many near the diagonal as far from it.
        const double share = std::uniform_real_distribution<double>(0, 1)(random);
        const std::int64_t key = row - static_cast<std::int64_t>(std::pow(static_cast<double>(row), share));
        found.emplace_back(row, key, image.value[index_of((row - first) * kLong + key)]);
      }
    }
    for (const auto& [row, key, value] : found) {
      EXPECT_NEAR(value, mixing_entry(of, row, key), 1e-4 * largest) << to_string(mixer.mixer) << row << " " << key;
    }
  }
}

/// Differences of two heads of linear mixers of one or several kinds, and of one and a head of softmax.
TEST_F(CudaMixing, DifferencesAreThoseOfTheCpu) {
  constexpr std::int64_t kLength = 1100;
  RunShape softmax;
  softmax.length = kLength;
  softmax.heads = 2;
  softmax.window = 300;
  const HeadOf fox{make_run(softmax), 0, 1};
  const HeadOf mamba{make_linear_run({mamba2_mixer(), kLength}), 0, 0};
  const HeadOf gla{make_linear_run({gla_mixer(65), kLength}), 0, 1};
  const HeadOf delta{make_linear_run({gated_delta_mixer(), kLength}), 0, 0};
  const std::pair<HeadOf, HeadOf> pairs[] = {
      {mamba, {mamba.trace, 0, 3}}, {mamba, gla}, {delta, gla}, {delta, fox}, {fox, gla}};
  for (const auto& [head, minus] : pairs) {
    for (const Quantity quantity : {Quantity::mixing, Quantity::attention, Quantity::forget}) {
      for (const Reduction reduction : kMixingReductions) {
        MapRequest request = whole_map(head, quantity);
        request.minus = minus;
        request.reduction = reduction;
        request.rows = {13, 1090};
        request.columns = {5, 1001};
        for (const auto& [rows, columns] : {std::pair<int, int>{1077, 996}, {200, 7}, {3, 90}}) {
          request.pixel_rows = rows;
          request.pixel_columns = columns;
          SCOPED_TRACE(fmt::format("{} - {} {} {} {}x{}", to_string(head.trace->info().mixer(0).mixer),
                                   to_string(minus.trace->info().mixer(0).mixer), to_string(quantity),
                                   to_string(reduction), rows, columns));
          EXPECT_LT(from_cpu(request), quantity == Quantity::attention ? kShares : kTwoParts);
        }
      }
    }
  }
}

TEST_F(CudaMixing, OfAHeadWithItselfNothingRemains) {
  for (const LayerMixer& mixer : mixers_of_gpus()) {
    MapRequest request = whole_map({make_linear_run({mixer, 500}), 0, 1}, Quantity::attention);
    request.minus = request.head;
    for (const float value : on_gpu(request).value) EXPECT_TRUE(std::isnan(value) || value == 0.0F);
  }
}

TEST_F(CudaMixing, MapsByDistanceAreThoseOfTheCpu) {
  constexpr std::int64_t kLength = 900;
  const std::vector<std::int64_t> bins[] = {distinct(DistanceAxis{{1, kLength + 1}, 173}.edges()),
                                            distinct(DistanceAxis{{37, 400}, 20}.edges()),
                                            {1, kLength + 1}};
  for (const LayerMixer& mixer : mixers_of_gpus()) {
    const auto run = make_linear_run({mixer, kLength});
    for (const Quantity quantity : {Quantity::mixing, Quantity::attention, Quantity::forget}) {
      if (!why_not(run->info(), 0, quantity).empty()) continue;
      for (const Reduction reduction : kMixingReductions) {
        for (const auto& edges : bins) {
          for (const bool beside : {false, true}) {
            MapRequest request = whole_map({run, 0, 1}, quantity);
            request.reduction = reduction;
            request.rows = {7, 870};
            request.pixel_rows = 61;
            request.set_distances(edges);
            if (beside && quantity != Quantity::attention) request.minus = HeadOf{run, 0, 0};
            if (beside && quantity == Quantity::attention) request.first_key = FirstKey::left_out;
            SCOPED_TRACE(fmt::format("{} {} {} {} bins {}", to_string(mixer.mixer), to_string(quantity),
                                     to_string(reduction), edges.size() - 1, beside));
            EXPECT_LT(from_cpu(request), quantity == Quantity::attention ? kShares : kTwoParts);
          }
        }
      }
    }
  }
}

TEST_F(CudaMixing, WithoutKey0AreThoseOfTheCpu) {
  constexpr std::int64_t kLength = 700;
  RunShape softmax;
  softmax.length = kLength;
  softmax.parks_on_first = 12;
  const HeadOf fox{make_run(softmax), 0, 0};
  for (const LayerMixer& mixer : mixers_of_gpus()) {
    MapRequest request = whole_map({make_linear_run({mixer, kLength}), 0, 0}, Quantity::attention);
    request.first_key = FirstKey::left_out;
    request.pixel_rows = request.pixel_columns = 90;
    for (const Reduction reduction : kMixingReductions) {
      request.reduction = reduction;
      SCOPED_TRACE(fmt::format("{} {}", to_string(mixer.mixer), to_string(reduction)));
      EXPECT_LT(from_cpu(request), kShares);
      MapRequest difference = request;
      difference.minus = fox;
      EXPECT_LT(from_cpu(difference), kShares);
    }
    // What key 0 leaves of a row is the whole.
    request.reduction = Reduction::mean;
    request.rows = {1, kLength};
    request.pixel_rows = kLength - 1;
    request.pixel_columns = 1;
    const Image rows = on_gpu(request);
    for (std::int64_t row = 1; row < kLength; ++row) {
      ASSERT_NEAR(rows.value[index_of(row - 1)] * static_cast<double>(row), 1.0, 1e-5) << row;
    }
  }
}

}  // namespace
}  // namespace foxscope::test

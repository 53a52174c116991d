// Statistics of attention on a GPU against those of the CPU. Skipped by name where there is none.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "backend/map/device/device_spread.h"
#include "backend/map/statistics/decay_split.h"
#include "backend/map/statistics/head_statistics.h"
#include "kernels/cuda/device.h"
#include "tests/map/dense.h"
#include "tests/map/linear_run.h"

namespace foxscope::test {
namespace {

class CudaStatistics : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kernels::cuda::is_available()) GTEST_SKIP() << "no CUDA device, or a build without CUDA";
  }
};

/// @param looseness  by which entries are less precise than those of softmax
void expect_near(const DistanceProfile& a, const DistanceProfile& b, double looseness = 1) {
  ASSERT_EQ(a.mass.size(), b.mass.size());
  for (std::size_t n = 0; n < a.mass.size(); ++n) ASSERT_NEAR(a.mass[n], b.mass[n], 1e-6 * looseness) << n;
  // Where a share is reached almost exactly, rounding decides between two distances.
  EXPECT_NEAR(a.d50, b.d50, 1.0);
  EXPECT_NEAR(a.d90, b.d90, 1.0);
}

void expect_near(const AttentionSpread& a, const AttentionSpread& b, double looseness = 1) {
  EXPECT_NEAR(a.entropy, b.entropy, 1e-5 * looseness);
  EXPECT_NEAR(a.mass_on_first, b.mass_on_first, 1e-6 * looseness);
  EXPECT_NEAR(a.mass_on_self, b.mass_on_self, 1e-6 * looseness);
  EXPECT_EQ(a.rows_without_first, b.rows_without_first);
  EXPECT_EQ(a.rows_up_to_local, b.rows_up_to_local);
  EXPECT_EQ(a.rows_up_to_long, b.rows_up_to_long);
  EXPECT_NEAR(a.square_without_first, b.square_without_first, 3e-6 * looseness);
  EXPECT_EQ(a.repeats, b.repeats);
  if (b.repeats > 0) {
    EXPECT_NEAR(a.on_repeats, b.on_repeats, 1e-6 * looseness);
  }
  EXPECT_NEAR(a.mean_log_decay, b.mean_log_decay, 1e-5 * looseness * std::max(1.0, std::abs(b.mean_log_decay)));
  expect_near(a.distance, b.distance, looseness);
  expect_near(a.distance_without_first, b.distance_without_first, looseness);
}

void expect_same_statistics(const std::shared_ptr<const Trace>& run, int index) {
  HeadOf head{run, 0, index};
  const HeadStatistics expected = head_statistics(head, {}, {}).value();
  const DecaySplit expected_split = decay_split(head, expected, {}).value();
  head.gpu = 0;
  const HeadStatistics statistics = head_statistics(head, {}, {}).value();
  expect_near(statistics, expected);
  EXPECT_GT(statistics.repeats, 0);
  const DecaySplit split = decay_split(head, statistics, {}).value();
  expect_near(split.without_gate, expected_split.without_gate);
  expect_near(split.without_content, expected_split.without_content);
  EXPECT_NEAR(split.divergence, expected_split.divergence, 1e-5 * std::max(1.0, expected_split.divergence));
}

TEST_F(CudaStatistics, EqualTheCpus) {
  RunShape shape;
  shape.length = 777;
  shape.heads = 3;
  shape.token = [](std::int64_t position) { return static_cast<std::int32_t>(position * position % 41); };
  for (const int head_dim : {16, 64, 128, 192}) {
    for (const DType dtype : {DType::float32, DType::bfloat16}) {
      shape.head_dim = head_dim;
      shape.dtype = dtype;
      shape.window = 0;
      shape.gated = true;
      const auto run = make_run(shape);
      for (int head = 0; head < 3; ++head) expect_same_statistics(run, head);
      shape.gated = false;
      expect_same_statistics(make_run(shape), 0);
      shape.gated = true;
      shape.window = 90;
      expect_same_statistics(make_run(shape), 1);
    }
  }
}

/// Several heads at once have the numbers of each alone, in texts of one block of keys and of many.
TEST_F(CudaStatistics, OfALayerAreThoseOfItsHeads) {
  RunShape shape;
  shape.heads = 34;
  shape.key_heads = 17;
  shape.head_dim = 64;
  shape.dtype = DType::bfloat16;
  for (const std::int64_t length : {2, 63, 65, 300, 1300}) {
    shape.length = length;
    const auto run = make_run(shape);
    std::vector<int> heads(34);
    std::iota(heads.begin(), heads.end(), 0);
    const auto together = layer_statistics({run, 0}, 0, heads, {}, {}).value();
    for (const int head : {0, 13, 31, 32, 33}) {
      const auto alone = head_statistics({{run, 0}, 0, head}, {}, {}).value();
      const HeadStatistics& one = together[static_cast<std::size_t>(head)];
      EXPECT_EQ(one.head, head);
      expect_near(one, alone);
      expect_near(one, head_statistics({{run, std::nullopt}, 0, head}, {}, {}).value());
    }
  }
}

/// Heads that forget within a few tokens, whose gates float32 alone would not hold, and heads with a sink.
TEST_F(CudaStatistics, OfStrongGatesAndOfSinksEqualTheCpus) {
  RunShape shape;
  shape.length = 900;
  shape.heads = 3;
  shape.head_dim = 64;
  shape.log_gate = [](int head, std::int64_t position, double normal) {
    const double rate[] = {0.5, 5.0, 0.05};
    return position % 97 == 0 ? -30.0 : -rate[head] * std::exp(0.3 * normal);
  };
  for (const DType dtype : {DType::float32, DType::bfloat16}) {
    shape.dtype = dtype;
    const auto run = make_run(shape);
    for (int head = 0; head < 3; ++head) {
      expect_near(head_statistics({{run, 0}, 0, head}, {}, {}).value(),
                  head_statistics({{run, std::nullopt}, 0, head}, {}, {}).value());
    }
  }
  shape.log_gate = {};
  shape.sinks = {-20, 0.5F, 6};
  const auto run = make_run(shape);
  for (int head = 0; head < 3; ++head) {
    const auto found = head_statistics({{run, 0}, 0, head}, {}, {}).value();
    const auto expected = head_statistics({{run, std::nullopt}, 0, head}, {}, {}).value();
    expect_near(found, expected);
    EXPECT_EQ(found.mass_on_sink.value(), expected.mass_on_sink.value());
  }
}

TEST_F(CudaStatistics, SeeWhatIsLeftByHeadsThatParkOnTheFirstKey) {
  RunShape shape;
  shape.length = 600;
  shape.gated = false;
  for (const double parks : {12.0, 20.0}) {
    shape.parks_on_first = parks;
    const auto run = make_run(shape);
    const auto expected = head_statistics({run, 0, 0}, {}, {}).value();
    const auto statistics = head_statistics({{run, 0}, 0, 0}, {}, {}).value();
    EXPECT_NEAR(statistics.entropy, expected.entropy, 1e-5);
    for (std::size_t n = 0; n < 600; ++n) {
      ASSERT_NEAR(statistics.distance_without_first.mass[n], expected.distance_without_first.mass[n], 3e-6);
    }
  }
}

/// Entries are products of numbers in two bfloat16 parts, as shares of their rows.
constexpr double kOfTwoParts = 20;

double sum_of(const DistanceProfile& profile) { return std::reduce(profile.mass.begin(), profile.mass.end()); }

TEST_F(CudaStatistics, OfLinearMixersEqualTheCpus) {
  std::vector<LayerMixer> mixers = linear_mixers();
  mixers.insert(mixers.end(), {mamba2_mixer(192), gla_mixer(256), delta_mixer(128), gated_delta_mixer(256)});
  for (const LayerMixer& mixer : mixers) {
    for (const std::int64_t length : {2, 64, 129, 1300}) {
      for (const DType dtype : {DType::float32, DType::bfloat16}) {
        LinearShape shape{mixer, length};
        shape.dtype = dtype;
        const auto run = make_linear_run(shape);
        const HeadOf head{{run, 0}, 0, mixer.heads - 1};
        SCOPED_TRACE(std::string(to_string(mixer.mixer)) + " " + to_string(mixer.decay) + " " + std::to_string(length));
        EXPECT_EQ(DeviceSpreads::takes({head, Quantity::attention, {}}), mixing_kind(mixer).has_value());
        const auto found = head_statistics(head, {}, {}).value();
        expect_near(found, head_statistics({{run, std::nullopt}, 0, head.head}, {}, {}).value(), kOfTwoParts);
        EXPECT_NEAR(sum_of(found.distance), 1.0, 1e-6);
        EXPECT_NEAR(sum_of(found.distance_without_first), 1.0, 1e-6);
      }
    }
  }
}

/// Several strips of rows, and heads of a layer at once, the same in every run.
TEST_F(CudaStatistics, OfLinearMixersInStripsEqualTheCpus) {
  constexpr std::int64_t kLength = 20000;
  for (const LayerMixer& mixer : {mamba2_mixer(), gated_delta_mixer()}) {
    const auto run = make_linear_run({mixer, kLength, 3, 0.05});
    const int heads[] = {0, 2, 3};
    const auto together = layer_statistics({run, 0}, 0, heads, {}, {}).value();
    const auto again = layer_statistics({run, 0}, 0, heads, {}, {}).value();
    for (std::size_t n = 0; n < 3; ++n) {
      EXPECT_EQ(together[n].distance.mass, again[n].distance.mass);
      EXPECT_EQ(together[n].entropy, again[n].entropy);
      EXPECT_NEAR(sum_of(together[n].distance), 1.0, 1e-6);
    }
    expect_near(together[1], head_statistics({{run, std::nullopt}, 0, 2}, {}, {}).value(), kOfTwoParts);
  }
}

TEST_F(CudaStatistics, OfOneTokenAreThoseOfItself) {
  RunShape shape;
  shape.length = 1;
  const auto run = make_run(shape);
  const HeadStatistics statistics = head_statistics({{run, 0}, 0, 0}, {}, {}).value();
  EXPECT_NEAR(statistics.mass_on_self, 1.0, 1e-6);
  EXPECT_NEAR(statistics.entropy, 0.0, 1e-6);
  EXPECT_TRUE(std::isnan(statistics.distance_without_first.d50));
}

TEST_F(CudaStatistics, MeanLogitsEqualTheCpus) {
  RunShape shape;
  shape.heads = 4;
  shape.key_heads = 2;
  for (const auto& [length, window] :
       {std::pair<std::int64_t, std::int64_t>{1, 0}, {2, 0}, {129, 0}, {1900, 0}, {1900, 90}}) {
    for (const int head_dim : {16, 40, 64, 128}) {
      for (const DType dtype : {DType::float32, DType::bfloat16}) {
        shape.length = length;
        shape.window = window;
        shape.head_dim = head_dim;
        shape.dtype = dtype;
        shape.normalized = false;
        SCOPED_TRACE(std::to_string(length) + ", window " + std::to_string(window) + ", d " + std::to_string(head_dim));
        const auto run = make_run(shape);
        const auto expected = logit_profile({run, 0, 3}, {}).value();
        const auto means = logit_profile({{run, 0}, 0, 3}, {}).value();
        ASSERT_EQ(means.size(), expected.size());
        for (std::size_t n = 0; n < means.size(); ++n) {
          EXPECT_EQ(means[n].distance, expected[n].distance);
          EXPECT_EQ(std::isnan(means[n].content), std::isnan(expected[n].content));
          EXPECT_EQ(std::isnan(means[n].decay), std::isnan(expected[n].decay));
          if (std::isnan(expected[n].content)) continue;
          EXPECT_NEAR(means[n].content, expected[n].content, 1e-11 * (1 + std::abs(expected[n].content)));
          EXPECT_EQ(means[n].decay, expected[n].decay);
        }
      }
    }
  }
}

TEST_F(CudaStatistics, AreTheSameInEveryRun) {
  RunShape shape;
  shape.length = 3000;
  shape.head_dim = 64;
  shape.dtype = DType::bfloat16;
  const auto run = make_run(shape);
  const HeadOf head{{run, 0}, 0, 0};
  const HeadStatistics first = head_statistics(head, {}, {}).value();
  const double content = logit_profile(head, {}).value()[9].content;
  for (int n = 0; n < 3; ++n) {
    const HeadStatistics again = head_statistics(head, {}, {}).value();
    EXPECT_EQ(again.distance.mass, first.distance.mass);
    EXPECT_EQ(again.distance_without_first.mass, first.distance_without_first.mass);
    EXPECT_EQ(again.entropy, first.entropy);
    EXPECT_EQ(logit_profile(head, {}).value()[9].content, content);
  }
}

}  // namespace
}  // namespace foxscope::test

// The gate scan on the GPU against exact sums, as the CPU twin's tests make them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/steps/gate_scan.h"
#include "tests/kernels/cuda_support.h"
#include "tests/kernels/cuda_test.h"
#include "tests/largest_error.h"

namespace foxscope::kernels::testing {
namespace {

// Log gates that are whole multiples of 2^-40 have sums that 64-bit integers hold exactly.
constexpr double kUnit = 0x1p-40;

class CudaGateScan : public CudaTest {
 protected:
  /// Runs it with a poisoned output and workspace.
  static std::vector<double> run(cuda::GateScan a) {
    const cuda::DeviceBuffer workspace(cuda::gate_scan_workspace_bytes(a.batch * a.heads, a.length));
    cuda::DeviceBuffer output;
    EXPECT_TRUE(workspace.fill(0xff));
    if (a.cumulative == nullptr) {
      output = to_device(std::vector<double>(index_of(a.batch * a.heads * a.length), std::nan("")));
      a.cumulative = static_cast<double*>(output.data());
    }
    a.workspace = workspace.data();
    EXPECT_EQ(gate_scan(a, nullptr), Status::ok);
    EXPECT_TRUE(cuda::synchronize());
    return output.data() == nullptr ? std::vector<double>() : to_host<double>(output);
  }

  static std::vector<double> run_log_gate(const std::vector<double>& log_gate, std::int64_t heads) {
    const cuda::DeviceBuffer buffer = to_device(log_gate);
    cuda::GateScan a;
    a.heads = heads;
    a.length = std::ssize(log_gate) / heads;
    a.log_gate = static_cast<const double*>(buffer.data());
    return run(a);
  }
};

TEST_F(CudaGateScan, SumsAreRoundedOnce) {
  for (const std::int64_t heads : {1, 3, 8, 24}) {
    for (const std::int64_t length : {1, 31, 511, 512, 513, 20000, 100000}) {
      SCOPED_TRACE(::testing::Message() << heads << " heads of " << length);
      std::mt19937_64 random(static_cast<std::uint64_t>(heads * length));
      std::vector<double> log_gate;
      std::vector<double> exact;
      for (std::int64_t head = 0; head < heads; ++head) {
        std::int64_t sum = 0;
        for (std::int64_t i = 0; i < length; ++i) {
          const auto units = -static_cast<std::int64_t>(random() % (std::uint64_t{1} << 41));  // mean log f = -1
          log_gate.push_back(static_cast<double>(units) * kUnit);
          exact.push_back(static_cast<double>(sum += units) * kUnit);
        }
      }
      ASSERT_TRUE(length < 100000 || exact.back() < -0.9e5);
      EXPECT_EQ(run_log_gate(log_gate, heads), exact);
    }
  }
}

TEST_F(CudaGateScan, SumsEverySequenceByItself) {
  constexpr std::int64_t kHeads = 11;
  constexpr std::int64_t kBatch = 3;
  for (const std::int64_t length : {1, 70, 5000}) {
    const std::vector<float> logits = normal_numbers(kBatch * length * kHeads, 3, 4, -1);
    const cuda::DeviceBuffer buffer = to_device(logits);
    const cuda::DeviceBuffer constant = to_device(normal_numbers(kHeads, 4));
    cuda::GateScan a;
    a.heads = kHeads;
    a.length = length;
    a.logits_stride = kHeads;
    std::vector<double> one_by_one;
    std::vector<double> constant_once;
    for (std::int64_t sequence = 0; sequence < kBatch; ++sequence) {
      a.logits = static_cast<const float*>(buffer.data()) + sequence * length * kHeads;
      const std::vector<double> sums = run(a);
      one_by_one.insert(one_by_one.end(), sums.begin(), sums.end());
    }
    a.batch = kBatch;
    a.logits = static_cast<const float*>(buffer.data());
    EXPECT_EQ(run(a), one_by_one);
    a.logits = nullptr;
    a.constant_logits = static_cast<const float*>(constant.data());
    const std::vector<double> together = run(a);
    a.batch = 1;
    const std::vector<double> alone = run(a);
    for (std::size_t n = 0; n < together.size(); ++n) ASSERT_EQ(together[n], alone[n % alone.size()]);
  }
}

TEST_F(CudaGateScan, TakesLogSigmoidOfLogits) {
  for (const std::int64_t heads : {1, 5, 24, 64}) {
    for (const std::int64_t length : {1, 700, 65536}) {
      SCOPED_TRACE(::testing::Message() << heads << " heads of " << length);
      const std::int64_t stride = heads + 7;
      const std::vector<float> logits = normal_numbers(length * stride, static_cast<std::uint64_t>(length), 4, -1);
      const cuda::DeviceBuffer buffer = to_device(logits);
      cuda::GateScan a;
      a.heads = heads;
      a.length = length;
      a.logits = static_cast<const float*>(buffer.data());
      a.logits_stride = stride;
      const std::vector<double> cumulative = run(a);
      double largest = 0;
      for (std::int64_t head = 0; head < heads; ++head) {
        long double sum = 0;
        for (std::int64_t i = 0; i < length; ++i) {
          const auto x = static_cast<double>(logits[index_of(i * stride + head)]);
          sum += static_cast<long double>(std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x))));
          const double c = cumulative[index_of(head * length + i)];
          largest = test::largest_error(largest, c - static_cast<double>(sum));
        }
      }
      EXPECT_LE(largest, 1e-10);
    }
  }
}

TEST_F(CudaGateScan, TakesOneLogitForAllPositions) {
  const std::vector<float> logits = {0.0F, 5.0F, -3.0F, 200.0F, -2000.0F};
  const cuda::DeviceBuffer buffer = to_device(logits);
  cuda::GateScan a;
  a.heads = 5;
  a.length = 3000;
  a.constant_logits = static_cast<const float*>(buffer.data());
  const std::vector<double> cumulative = run(a);
  for (std::int64_t i = 0; i < a.length; ++i) {
    const auto count = static_cast<double>(i + 1);
    EXPECT_NEAR(cumulative[index_of(i)], -std::log(2.0) * count, 1e-12 * count);
    EXPECT_NEAR(cumulative[index_of(2 * a.length + i)], -std::log1p(std::exp(3.0)) * count, 1e-12 * count);
    EXPECT_EQ(cumulative[index_of(3 * a.length + i)], 0.0);
    EXPECT_EQ(cumulative[index_of(4 * a.length + i)], -1000.0 * count);
  }
}

TEST_F(CudaGateScan, ReachesAMillionTokens) {
  // Sums of 2^20 tokens near the lowest gate, and the same in place.
  const std::vector<double> log_gate(std::size_t{1} << 20, -999.5);
  const cuda::DeviceBuffer buffer = to_device(log_gate);
  cuda::GateScan a;
  a.heads = 1;
  a.length = std::ssize(log_gate);
  a.log_gate = static_cast<const double*>(buffer.data());
  a.cumulative = static_cast<double*>(buffer.data());
  run(a);
  const std::vector<double> cumulative = to_host<double>(buffer);
  for (std::size_t i = 0; i < cumulative.size(); ++i) {
    ASSERT_EQ(cumulative[i], -999.5 * static_cast<double>(i + 1)) << i;
  }
}

TEST_F(CudaGateScan, KeepsSmallTermsBesideLargeOnes) {
  // Plain summation would drop each 1e-14 beside 1e3.
  std::vector<double> log_gate(100001, -1e-14);
  log_gate[0] = -1000.0;
  EXPECT_NEAR(run_log_gate(log_gate, 1).back() + 1000.0, -1e-9, 2e-13);
}

TEST_F(CudaGateScan, HoldsEachGate) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(run_log_gate({-kInfinity, -0.5, -2000.0, -1.0, 0.0, -kInfinity}, 2),
            (std::vector<double>{-1000.0, -1000.5, -2000.5, -1.0, -1.0, -1001.0}));
}

TEST_F(CudaGateScan, NanReachesAllLaterSumsOfItsHead) {
  std::vector<double> log_gate(4000, -1.0);
  log_gate[1000] = std::nan("");
  const std::vector<double> cumulative = run_log_gate(log_gate, 2);
  EXPECT_EQ(cumulative[999], -1000.0);
  EXPECT_TRUE(
      std::all_of(cumulative.begin() + 1000, cumulative.begin() + 2000, [](double c) { return std::isnan(c); }));
  EXPECT_EQ(cumulative[3999], -2000.0);
}

TEST_F(CudaGateScan, NeverRisesAndRepeats) {
  std::mt19937_64 random(4);
  std::uniform_real_distribution<double> gate(-1e-12, 0.0);
  std::vector<double> log_gate(200000);
  for (std::size_t i = 0; i < log_gate.size(); ++i) log_gate[i] = i % 100 == 0 ? -50.0 : gate(random);
  const std::vector<double> cumulative = run_log_gate(log_gate, 1);
  EXPECT_TRUE(std::is_sorted(cumulative.rbegin(), cumulative.rend()));
  for (int again = 0; again < 5; ++again) EXPECT_EQ(run_log_gate(log_gate, 1), cumulative);
}

TEST_F(CudaGateScan, RefusesWhatItCannotTake) {
  const cuda::DeviceBuffer buffer(4096);
  cuda::GateScan good;
  good.heads = 2;
  good.length = 3;
  good.log_gate = static_cast<const double*>(buffer.data());
  good.cumulative = static_cast<double*>(buffer.data());
  good.workspace = buffer.data();
  std::vector<cuda::GateScan> bad(8, good);
  bad[0].heads = 0;
  bad[1].length = 0;
  bad[2].length = (std::int64_t{1} << 22) + 1;
  bad[3].log_gate = nullptr;
  bad[4].constant_logits = static_cast<const float*>(buffer.data());
  bad[5].cumulative = nullptr;
  bad[6].workspace = nullptr;
  bad[7].log_gate = nullptr;
  bad[7].logits = static_cast<const float*>(buffer.data());
  bad[7].logits_stride = 1;
  for (const auto& arguments : bad) EXPECT_EQ(gate_scan(arguments, nullptr), Status::invalid_argument);
  EXPECT_EQ(cuda::gate_scan_workspace_bytes(0, 5), 0U);
}

}  // namespace
}  // namespace foxscope::kernels::testing

// What of a run's heads is kept in GPU memory. Skipped by name where there is no GPU.
#include "backend/trace/device_heads.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/device.h"
#include "tests/error_of.h"
#include "tests/map/dense.h"

namespace foxscope::test {
namespace {

class CudaHeads : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kernels::cuda::is_available()) GTEST_SKIP() << "no CUDA device, or a build without CUDA";
  }
};

TEST_F(CudaHeads, BeyondTheBudgetAreLetGoAndComeAgain) {
  RunShape shape;
  shape.length = 500;
  shape.heads = 4;
  const auto run = make_run(shape);
  DeviceHeads heads(0, 1);
  const auto lock = heads.lock();
  const DeviceParts all{.query_key = true, .gate = true, .normalizer = true};
  for (const int head : {0, 1, 2, 3, 1, 1}) {
    const auto found = heads.head(*run, 0, head, all);
    std::vector<double> gate(500);
    ASSERT_TRUE(kernels::cuda::copy_to_host(std::as_writable_bytes(std::span(gate)), found.gate));
    const auto expected = run->cumulative_log_gate(0, head);
    EXPECT_TRUE(std::equal(gate.begin(), gate.end(), expected.begin()));
    EXPECT_NE(found.tables, nullptr);
  }
}

TEST_F(CudaHeads, SayHowMuchMemoryIsMissing) {
  DeviceHeads heads(0, 1);
  const std::string message = error_of([&] { heads.workspace(std::size_t{1} << 45U); });
  EXPECT_NE(message.find("cuda:0: no memory for 32768.000 GiB of a map"), std::string::npos) << message;
  EXPECT_NE(message.find("GiB are free"), std::string::npos) << message;
}

}  // namespace
}  // namespace foxscope::test

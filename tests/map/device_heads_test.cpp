// Which GPU computes what of a run, and what of its heads is kept in that GPU's memory: skipped by name where there is
// none.
#include "backend/trace/device_heads.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/map/device/device_map.h"
#include "backend/trace/recorder.h"
#include "kernels/cuda/device.h"
#include "tests/error_of.h"
#include "tests/map/dense.h"

namespace foxscope::test {
namespace {

TEST(RunOnDevice, IsWhereTheRunWasMadeUnlessARequestSaysOtherwise) {
  const auto file = make_run({});
  Recorder recorder(file->info(), {}, nullptr);
  const auto live = recorder.finish(nullptr, nullptr, 1);
  const HeadOf of_file{file, 0, 0};
  const HeadOf of_live{live, 0, 0};
  EXPECT_EQ(of_file.gpu, std::nullopt);
  EXPECT_EQ(of_live.gpu, 1);
  const HeadOf on_cpu{{live, std::nullopt}, 0, 0};
  EXPECT_NE(on_cpu, of_live) << "what one request says holds for that one";
  EXPECT_EQ(live->made_on(), 1);
  MapRequest request;
  request.head = on_cpu;
  EXPECT_EQ(gpu_of(request), std::nullopt);
  request.minus = of_live;
  EXPECT_EQ(gpu_of(request), 1);
  request.head.gpu = 0;
  EXPECT_EQ(gpu_of(request), 0);
}

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

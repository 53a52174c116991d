// The current device, its memory, and what a call that fails leaves behind. Skipped by name where there is no GPU.
#include <new>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/device.h"
#include "kernels/cuda/maps/forget_map.h"
#include "kernels/cuda/steps/gate_scan.h"
#include "tests/kernels/cuda_support.h"
#include "tests/kernels/cuda_test.h"

namespace foxscope::kernels::testing {
namespace {

class CudaDevice : public CudaTest {
 protected:
  /// Any kernel.
  static Status scan() {
    const cuda::DeviceBuffer gates = to_device(std::vector<double>(100, -0.5));
    const cuda::DeviceBuffer workspace(cuda::gate_scan_workspace_bytes(1, 100));
    return scan(gates, workspace);
  }
  static Status scan(const cuda::DeviceBuffer& gates, const cuda::DeviceBuffer& workspace) {
    cuda::GateScan a;
    a.heads = 1;
    a.length = 100;
    a.log_gate = static_cast<const double*>(gates.data());
    a.cumulative = static_cast<double*>(gates.data());
    a.workspace = workspace.data();
    return cuda::gate_scan(a, nullptr);
  }
};

TEST_F(CudaDevice, AFailureIsNotReadByTheNextLaunch) {
  std::vector<std::byte> host(16);
  ASSERT_EQ(scan(), Status::ok);
  EXPECT_FALSE(cuda::copy_to_host(host, nullptr));
  EXPECT_EQ(scan(), Status::ok) << "after a copy";
  EXPECT_THROW(cuda::DeviceBuffer(std::size_t{1} << 60U), std::bad_alloc);
  EXPECT_EQ(scan(), Status::ok) << "after memory that is not there";
  { const cuda::DeviceScope scope(99); }
  EXPECT_EQ(scan(), Status::ok) << "after a device that is not there";
}

TEST_F(CudaDevice, NothingInAScopeOfADeviceThatIsNotThereReachesAnother) {
  const cuda::DeviceBuffer gates = to_device(std::vector<double>(100, -0.5));
  const cuda::DeviceBuffer workspace(cuda::gate_scan_workspace_bytes(1, 100));
  ASSERT_EQ(scan(gates, workspace), Status::ok);
  {
    const cuda::DeviceScope scope(99);
    EXPECT_FALSE(cuda::is_available());
    EXPECT_THROW(cuda::DeviceBuffer(16), std::bad_alloc);
    EXPECT_EQ(scan(gates, workspace), Status::unavailable);
    EXPECT_EQ(cuda::free_memory(), 0);
    EXPECT_FALSE(cuda::synchronize());
    std::vector<std::byte> host(16);
    EXPECT_FALSE(cuda::copy_to_host(host, gates.data()));
    EXPECT_TRUE(gates.download(host)) << "of another device";
    const cuda::DeviceScope inner(0);
    EXPECT_TRUE(cuda::is_available());
  }
  EXPECT_TRUE(cuda::is_available());
  EXPECT_EQ(scan(gates, workspace), Status::ok);
}

TEST_F(CudaDevice, BuffersAreKeptWhileSomebodyWantsThem) {
  constexpr std::size_t kBytes = std::size_t{64} << 20U;
  const auto address = [](std::size_t bytes) -> const void* { return cuda::DeviceBuffer(bytes).data(); };
  const std::size_t free = cuda::free_memory();
  {
    const cuda::KeptBuffers kept;
    {
      const cuda::KeptBuffers too;
      const void* const first = address(kBytes);
      EXPECT_EQ(address(kBytes), first);
      EXPECT_NE(address(kBytes / 2), first) << "of another size";
      const cuda::PinnedBuffer pinned(kBytes, 0);
    }
    EXPECT_LE(cuda::free_memory() + kBytes, free) << "one of two still wants them";
    const cuda::DeviceBuffer one(kBytes);
    const cuda::DeviceBuffer other(kBytes);
    EXPECT_NE(one.data(), other.data());
  }
  EXPECT_GE(cuda::free_memory() + kBytes / 2, free);
}

TEST_F(CudaDevice, WhatIsTooLargeIsSaidToBeSo) {
  cuda::ForgetMap map;
  map.heads = 1;
  map.length = map.row_end = map.column_end = map.pixel_rows = 70'000;
  map.pixel_columns = 1;
  const cuda::DeviceBuffer memory(16);
  map.cumulative_log_gate = static_cast<const double*>(memory.data());
  map.pixels = static_cast<float*>(memory.data());
  EXPECT_EQ(cuda::forget_map(map, nullptr), Status::unsupported);
  map.pixel_rows = 70'001;
  EXPECT_EQ(cuda::forget_map(map, nullptr), Status::invalid_argument);
}

}  // namespace
}  // namespace foxscope::kernels::testing

// Maps on the second GPU alone. A program of its own: nothing before may have used the first.
#include <dlfcn.h>

#include <optional>

#include <gtest/gtest.h>

#include "backend/map/map.h"
#include "backend/map/statistics/head_statistics.h"
#include "backend/trace/device_query_key_store.h"
#include "kernels/cuda/device.h"
#include "tests/map/dense.h"

namespace foxscope::test {
namespace {

/// The driver's own word on whether a device has a context; none where it cannot be asked.
std::optional<bool> driver_has_context(int device) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) return std::nullopt;
  using Query = int (*)(int, unsigned*, int*);
  const auto query = reinterpret_cast<Query>(dlsym(driver, "cuDevicePrimaryCtxGetState"));
  unsigned flags = 0;
  int active = 0;
  if (query == nullptr || query(device, &flags, &active) != 0) return std::nullopt;
  return active != 0;
}

TEST(CudaSecondGpu, MapsLeaveNoContextOnTheFirst) {
  if (kernels::cuda::device_count() < 2) GTEST_SKIP() << "fewer than two CUDA devices";
  ASSERT_EQ(driver_has_context(0), false);
  RunShape shape;
  shape.length = 500;
  auto run = make_run(shape);
  MapRequest request;
  request.head = {{run, 1}, 0, 0};
  request.rows = request.columns = {0, 500};
  request.pixel_rows = request.pixel_columns = 50;
  for (const Quantity quantity : {Quantity::attention, Quantity::forget, Quantity::gate_effect}) {
    request.quantity = quantity;
    EXPECT_TRUE(compute_map(request, {}).has_value());
  }
  EXPECT_TRUE(head_statistics(request.head, {}, {}).has_value());
  EXPECT_EQ(driver_has_context(0), false) << "after maps and statistics";
  {
    const QueryKeyStore::Shape stored = run->query_key()->shape();
    const DeviceQueryKeyStore store(stored, DType::float32, 1);
    std::vector<std::byte> scratch;
    EXPECT_FALSE(store.raw_rows(QueryKeyStore::Part::key, 0, 0, 3, 9, scratch).empty());
    const HostQueryKeyStore pinned(stored, DType::float32, std::size_t{1} << 30U, "/tmp", 1);
    EXPECT_EQ(driver_has_context(0), false) << "with stores of queries and keys";
  }
  request.head = {};
  run.reset();
  EXPECT_EQ(driver_has_context(0), false) << "after they went";
  EXPECT_EQ(driver_has_context(1), true);
  EXPECT_TRUE(kernels::cuda::has_context(1));
  EXPECT_FALSE(kernels::cuda::has_context(0));
}

}  // namespace
}  // namespace foxscope::test

// A run on the second GPU alone. A program of its own: nothing before may have used the first.
#include <ATen/Context.h>
#include <gtest/gtest.h>

#include "backend/map/statistics/head_statistics.h"
#include "backend/model/session/run.h"
#include "backend/model/session/torch_model.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

bool has_context(int device) {
  return at::globalContext().getAcceleratorHooksInterface(at::kCUDA).hasPrimaryContext(
      static_cast<at::DeviceIndex>(device));
}

TEST(CudaSecondGpu, ARunLeavesNoContextOnTheFirst) {
  if (cuda_device_count() < 2) GTEST_SKIP() << "fewer than two CUDA devices";
  at::globalContext().lazyInitDevice(at::kCUDA);
  ASSERT_FALSE(has_context(0));
  test::AskedRun request;
  request.name = "fox";
  request.model = test::demo_model("fox-pro-12m");
  for (std::int32_t n = 0; n < 700; ++n) request.input.ids.push_back(n * 31 % 8000);
  request.device = DeviceChoice::parse("cuda:1");
  request.keep = {Keep::loss, Keep::gates, Keep::rows, Keep::ungated, Keep::query_key};
  for (const char* dtype : {"bfloat16", "float32"}) {
    request.dtype = parse_dtype(dtype);
    const auto run = test::run(request, Job{});
    ASSERT_TRUE(run.has_value());
    EXPECT_EQ(run->trace->made_on(), 1);
    EXPECT_TRUE(head_statistics({run->trace, 3, 1}, {}, {}).has_value());
    EXPECT_FALSE(has_context(0)) << dtype;
  }
  EXPECT_FALSE(has_context(0)) << "after the runs went";
  EXPECT_TRUE(has_context(1));
}

}  // namespace
}  // namespace foxscope

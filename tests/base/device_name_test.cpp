// The words of --device, on machines with any number of GPUs.
#include "backend/base/device_name.h"

#include <gtest/gtest.h>

#include "tests/error_of.h"

namespace foxscope {
namespace {

Gpus visible(int count) {
  return {[] { return true; }, [count] { return count; }, "CUDA device"};
}

std::optional<int> gpu_named(const std::string& word, const Gpus& gpus) {
  return gpu_chosen(DeviceChoice::parse(word), gpus);
}

std::string refusal(const std::string& name, const Gpus& gpus) {
  return test::error_of([&] { gpu_named(name, gpus); });
}

TEST(DeviceName, NamesAGpuThatIsThere) {
  EXPECT_EQ(gpu_named("auto", visible(2)), 0);
  EXPECT_EQ(gpu_named("cuda", visible(2)), 0);
  EXPECT_EQ(gpu_named("cuda:1", visible(2)), 1);
  EXPECT_EQ(gpu_named("auto", visible(0)), std::nullopt);
}

TEST(DeviceName, AChoiceIsWrittenAsItWasRead) {
  for (const char* word : {"auto", "cpu", "cuda", "cuda:3"}) EXPECT_EQ(DeviceChoice::parse(word).word(), word);
}

TEST(DeviceName, AsksForNoGpuWhereTheCpuIsMeant) {
  const Gpus untouched = {[]() -> bool { throw Error("LibTorch was loaded"); },
                          []() -> int { throw Error("CUDA was started"); }, "CUDA device"};
  EXPECT_EQ(gpu_named("cpu", untouched), std::nullopt);
  EXPECT_THROW(gpu_named("gpu", untouched), UsageError);
}

TEST(DeviceName, OfNoGpuIsRefusedWithWhatToUse) {
  EXPECT_EQ(refusal("cuda:2", visible(2)), "--device cuda:2: there are 2 CUDA devices, cuda:0 to cuda:1");
  EXPECT_EQ(refusal("cuda:1", visible(1)), "--device cuda:1: there is one CUDA device, cuda:0");
  EXPECT_EQ(refusal("cuda", visible(0)),
            "--device cuda: no CUDA device is visible: use --device cpu, or look at the driver and at "
            "CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(refusal("cuda", {[] { return false; }, [] { return 0; }, "CUDA device"}),
            "--device cuda: this build has no CUDA: use --device cpu, or build with -DFOXSCOPE_CUDA=ON");
  for (const char* name : {"gpu", "", "cuda:", "cuda:x", "cuda:-1", "cuda:1x", "cuda:99999999999"}) {
    EXPECT_THROW(gpu_named(name, visible(2)), UsageError) << name;
  }
}

}  // namespace
}  // namespace foxscope

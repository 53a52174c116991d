// The demo models on a GPU. Skipped by name where there is none.
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include "backend/model/session/torch_model.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

constexpr std::int64_t kReadTokens = 2048;

class Cuda : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  }

  /// The first positions of the first held-out window, on a device.
  static std::shared_ptr<const Trace> run(const std::string& device, DType dtype) {
    const SafetensorsFile file(test::data_path("heldout") + "/reference.safetensors");
    std::vector<std::int32_t> tokens = test::read_ids(file, "tokens");
    tokens.resize(kReadTokens);
    const auto model =
        CausalLM::load(Checkpoint::open(test::demo_model(GetParam())), Device::of(DeviceChoice::parse(device)), dtype);
    EXPECT_EQ(model->device().name(), device == "cuda" ? "cuda:0" : device);
    test::Batch batch;
    batch.labels = tokens;
    batch.input_ids = tokens;
    batch.input_ids.insert(batch.input_ids.begin(), *model->config().bos_token_id);
    batch.input_ids.pop_back();
    batch.keep = {Keep::loss, Keep::gates, Keep::rows, Keep::query_key};
    return test::run_batch(*model, batch).traces[0];
  }

  static double mean(std::span<const float> values) {
    return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  }
};

TEST_P(Cuda, Float32GivesTheLossOfTheCpu) {
  const auto gpu = run("cuda", DType::float32);
  const auto cpu = run("cpu", DType::float32);
  EXPECT_LE(test::largest_difference(gpu->per_token_loss(), cpu->per_token_loss()), 1e-3);
  EXPECT_NEAR(mean(gpu->per_token_loss()), mean(cpu->per_token_loss()), 1e-5);
}

TEST_P(Cuda, Bfloat16GivesTheMeanLossOfTheCpu) {
  const auto gpu = run("cuda", DType::bfloat16);
  const auto cpu = run("cpu", DType::float32);
  EXPECT_EQ(gpu->query_key()->dtype(), DType::bfloat16);
  EXPECT_NEAR(mean(gpu->per_token_loss()), mean(cpu->per_token_loss()), 1e-3);
  EXPECT_LE(test::largest_difference(gpu->per_token_loss(), cpu->per_token_loss()), 0.5);
}

INSTANTIATE_TEST_SUITE_P(DemoModels, Cuda,
                         testing::Values("fox-pro-12m", "transformer-pro-12m", "mamba2-12m", "gated-deltanet-1m"),
                         [](const auto& model) {
                           const std::string name = model.param;
                           return name.substr(0, name.find('-'));
                         });

TEST(CudaDevice, IsRefusedWhereThereIsNone) {
  if (cuda_device_count() > 0) GTEST_SKIP() << "this machine has a CUDA device";
  EXPECT_NE(test::error_of([] { Device::of(DeviceChoice::parse("cuda")); }), "");
  EXPECT_EQ(Device::of(DeviceChoice::parse("auto")).name(), "cpu");
}

}  // namespace
}  // namespace foxscope

// Loading weights: how far it is, and that it stops at once when it is told to.
#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <stop_token>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/generate/generate.h"
#include "backend/model/session/run.h"
#include "backend/model/session/torch_model.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

/// A job that keeps what it is told, and stops itself at the n-th message of bytes.
class CountingJob {
 public:
  explicit CountingJob(std::size_t stop_at = std::numeric_limits<std::size_t>::max()) {
    job_.stop = source_.get_token();
    job_.report = [this, stop_at](const Progress& progress) {
      if (progress.unit != "bytes") return;
      told_.push_back(progress);
      if (told_.size() == stop_at) source_.request_stop();
    };
  }
  [[nodiscard]] const Job& job() const { return job_; }
  [[nodiscard]] const std::vector<Progress>& told() const { return told_; }

 private:
  std::stop_source source_;
  Job job_;
  std::vector<Progress> told_;
};

class Loading : public testing::TestWithParam<bool> {
 protected:
  static std::unique_ptr<CausalLM> load(const Checkpoint& checkpoint, const Job& job) {
    return (GetParam() ? load_torch_model : CausalLM::load)(checkpoint, Device{}, DType::float32, job);
  }
};

/// Largest step between two messages, in bytes.
std::int64_t largest_step(const std::vector<Progress>& told) {
  std::int64_t largest = told.empty() ? std::numeric_limits<std::int64_t>::max() : told.front().done;
  for (std::size_t n = 1; n < told.size(); ++n) largest = std::max(largest, told[n].done - told[n - 1].done);
  return largest;
}

constexpr std::int64_t kMebibyte = 1 << 20;
constexpr std::int64_t kWeightBytes = 2 * 11569440;  // of the demo model, in bfloat16

TEST_P(Loading, TellsHowFarItIsAlsoWithinATensor) {
  const Checkpoint checkpoint = Checkpoint::open(test::demo_model("fox-pro-12m"));
  ASSERT_GT(checkpoint.tensor("lm_head.weight").bytes.size(), 3U * kMebibyte);
  const CountingJob counting;
  ASSERT_NE(load(checkpoint, counting.job()), nullptr);
  EXPECT_GT(counting.told().size(), checkpoint.tensors().size());
  EXPECT_LE(largest_step(counting.told()), kMebibyte);
  for (const Progress& progress : counting.told()) {
    EXPECT_EQ(progress.total, kWeightBytes);
    EXPECT_EQ(progress.stage, "load");
  }
  EXPECT_EQ(counting.told().back().done, kWeightBytes);
}

TEST_P(Loading, ReadsNothingMoreOnceItIsStopped) {
  const Checkpoint checkpoint = Checkpoint::open(test::demo_model("fox-pro-12m"));
  const CountingJob whole;
  ASSERT_NE(load(checkpoint, whole.job()), nullptr);
  const std::size_t messages = whole.told().size();
  // The first, inside the largest tensor, in the midst of the layers, the last.
  for (const std::size_t stop_at : {std::size_t{1}, std::size_t{3}, messages / 2, messages}) {
    const CountingJob stopped(stop_at);
    EXPECT_EQ(load(checkpoint, stopped.job()), nullptr);
    EXPECT_EQ(stopped.told().size(), stop_at);
  }
  std::stop_source before;
  before.request_stop();
  EXPECT_EQ(load(checkpoint, {before.get_token(), {}, nullptr}), nullptr);
}

INSTANTIATE_TEST_SUITE_P(Models, Loading, testing::Bool(),
                         [](const auto& composed) { return std::string(composed.param ? "Composed" : "Fused"); });

TEST(WeightsChecksum, TellsHowFarItIsAndStops) {
  const Checkpoint checkpoint = Checkpoint::open(test::demo_model("fox-pro-12m"));
  const CountingJob whole;
  ASSERT_TRUE(checkpoint.weights_sha256(whole.job()));
  EXPECT_LE(largest_step(whole.told()), kMebibyte);
  EXPECT_EQ(whole.told().front().stage, "checksum of the weights");
  for (const std::size_t stop_at : {std::size_t{1}, whole.told().size() / 2}) {
    const CountingJob stopped(stop_at);
    EXPECT_FALSE(checkpoint.weights_sha256(stopped.job()));
    EXPECT_EQ(stopped.told().size(), stop_at);
  }
}

/// Whoever read on would come to a weight that is an error.
class StoppedWork : public testing::Test {
 protected:
  void SetUp() override {
    const nlohmann::json config = test::tiny_config();
    std::vector<test::NamedTensor> weights = test::random_weights(config);
    for (test::NamedTensor& tensor : weights) {
      if (tensor.name.find("down_proj") != std::string::npos) {
        tensor.values[5] = std::numeric_limits<float>::quiet_NaN();
      }
    }
    test::write_checkpoint(folder_, config, weights);
    request_.name = "fox";
    request_.model = folder_.text();
    request_.input.ids = {1, 2, 3, 4};
    request_.bos = 0;
    request_.device = DeviceChoice::parse("cpu");
  }
  test::TemporaryFolder folder_;
  test::AskedRun request_;
};

TEST_F(StoppedWork, ARunReturnsNothing) {
  EXPECT_NE(test::error_of([&] { (void)test::run(request_, {}); }), "");
  for (std::size_t stop_at = 1; stop_at < 4; ++stop_at) {
    const CountingJob stopped(stop_at);
    EXPECT_FALSE(test::run(request_, stopped.job()));
    EXPECT_EQ(stopped.told().size(), stop_at);
  }
}

TEST_F(StoppedWork, AGenerationReturnsNothing) {
  const GenerateRequest request{request_.input, 3, {}};
  const OpenedModel model = Engine().open(request_);
  EXPECT_NE(test::error_of([&] { (void)generate(model, request, {}, {}); }), "");
  const CountingJob stopped(2);
  EXPECT_FALSE(generate(model, request, {}, stopped.job()));
  EXPECT_EQ(stopped.told().size(), 2U);
}

/// To open a pipe as a file would wait for whoever writes into it.
TEST(CheckpointFiles, ArePipesInNoCase) {
  const nlohmann::json config = test::tiny_config();
  for (const char* name : {"config.json", "model.safetensors", "model.safetensors.index.json"}) {
    const test::TemporaryFolder folder;
    test::write_checkpoint(folder, config, test::random_weights(config));
    std::filesystem::remove(folder.path() / name);
    ASSERT_EQ(mkfifo((folder.path() / name).c_str(), 0600), 0);
    EXPECT_PRED2(test::says, test::error_of([&] { Checkpoint::open(folder.text()); }),
                 (test::Parts{std::string(name) + ": is a pipe (FIFO), not a regular file"}));
  }
}

}  // namespace
}  // namespace foxscope

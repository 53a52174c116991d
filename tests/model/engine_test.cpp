// Models that stay in memory: which calls share one, and which do not.
#include "backend/model/engine.h"

#include <stop_token>

#include <gtest/gtest.h>

#include "backend/model/run.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

using nlohmann::json;

/// A tiny checkpoint on the disk.
struct EngineFolder {
  explicit EngineFolder(double epsilon = 1e-6) {
    json config = test::tiny_config();
    config["norm_eps"] = epsilon;
    test::write_checkpoint(folder, config, test::random_weights(config));
  }
  [[nodiscard]] Checkpoint open() const { return Checkpoint::open(folder.text()); }
  test::TemporaryFolder folder;
};

TEST(Engine, KeepsTheLastTwoModels) {
  Engine engine;
  const EngineFolder a;
  const EngineFolder b(1e-5);
  const EngineFolder c(1e-4);
  const auto open = [&](const EngineFolder& folder) {
    return engine.open(folder.open(), Device{}, DType::float32, {});
  };
  const auto first = open(a);
  const auto second = open(b);
  EXPECT_NE(first, second);
  EXPECT_EQ(open(a), first);
  open(c);
  EXPECT_EQ(open(a), first) << "b was the older one";
  EXPECT_NE(open(b), second);
}

TEST(Engine, AChangedFileIsAnotherModel) {
  Engine engine;
  const EngineFolder a;
  const auto first = engine.open(a.open(), Device{}, DType::float32, {});
  json config = test::tiny_config();
  auto weights = test::random_weights(config);
  for (test::NamedTensor& tensor : weights) {
    if (tensor.name == "lm_head.weight") tensor.values.front() += 1;
  }
  test::write_checkpoint(a.folder, config, weights);
  const auto path = a.folder.path() / "model.safetensors";
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(5));
  EXPECT_NE(engine.open(a.open(), Device{}, DType::float32, {}), first);
}

TEST(Engine, WhatWasStoppedIsNotKept) {
  Engine engine;
  const EngineFolder a;
  std::stop_source source;
  source.request_stop();
  Job stopped;
  stopped.stop = source.get_token();
  EXPECT_EQ(engine.open(a.open(), Device{}, DType::float32, stopped), nullptr);
  EXPECT_NE(engine.open(a.open(), Device{}, DType::float32, {}), nullptr);
}

TEST(Engine, ARunInMemoryIsTheSameAsOneThatLoads) {
  const EngineFolder a;
  RunRequest request;
  request.name = "a";
  request.model = a.folder.text();
  request.input.ids = {1, 2, 3, 4, 5};
  request.input.name = "ids";
  request.device = DeviceChoice::parse("cpu");
  request.keep = {Keep::loss, Keep::gates};
  const auto alone = run_model(request, {});
  request.engine = std::make_shared<Engine>();
  std::vector<std::string> stages;
  Job job;
  job.report = [&](const Progress& progress) {
    if (progress.unit == "bytes") stages.emplace_back(progress.stage);
  };
  for (int turn = 0; turn < 2; ++turn) {
    stages.clear();
    const auto again = run_model(request, job);
    ASSERT_TRUE(alone && again);
    EXPECT_TRUE(std::ranges::equal(alone->trace->per_token_loss(), again->trace->per_token_loss()));
    EXPECT_EQ(std::ranges::count(stages, "load") == 0, turn == 1) << "the weights are read once";
    EXPECT_EQ(std::ranges::count(stages, "checksum of the weights") == 0, turn == 1) << "and so is their checksum";
    EXPECT_EQ(again->trace->info().weights_sha256, alone->trace->info().weights_sha256);
  }
}

}  // namespace
}  // namespace foxscope

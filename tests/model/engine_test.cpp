// Models that stay in memory: which calls share one, and which do not.
#include "backend/model/session/engine.h"

#include <filesystem>
#include <fstream>
#include <stop_token>

#include <gtest/gtest.h>

#include "backend/model/session/run.h"
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
  [[nodiscard]] ModelRequest request() const {
    ModelRequest request;
    request.name = "a";
    request.model = folder.text();
    request.device = DeviceChoice::parse("cpu");
    return request;
  }
  test::TemporaryFolder folder;
};

/// Whether an engine had to read the weights of a model.
bool reads_weights(const Engine& engine, const ModelRequest& request) {
  bool read = false;
  Job job;
  job.report = [&](const Progress& progress) { read = read || progress.unit == "bytes"; };
  EXPECT_NE(engine.open(request).load(job), nullptr);
  return read;
}

TEST(Engine, KeepsTheLastTwoModels) {
  const Engine engine(2);
  const EngineFolder a;
  const EngineFolder b(1e-5);
  const EngineFolder c(1e-4);
  EXPECT_TRUE(reads_weights(engine, a.request()));
  EXPECT_TRUE(reads_weights(engine, b.request()));
  EXPECT_FALSE(reads_weights(engine, a.request()));
  EXPECT_TRUE(reads_weights(engine, c.request()));
  EXPECT_FALSE(reads_weights(engine, a.request())) << "b was the older one";
  EXPECT_TRUE(reads_weights(engine, b.request()));
}

TEST(Engine, SharesAModelThatSomebodyHas) {
  const Engine engine;
  const EngineFolder a;
  ModelRequest changed = a.request();
  changed.interventions = {Intervention::parse("0:0:one")};
  changed.pruning_tolerance = 0;
  const auto model = engine.open(a.request()).load({});
  EXPECT_EQ(engine.open(changed).load({}), model) << "neither changes nor pruning are of the weights";
  EXPECT_TRUE(reads_weights(Engine(), a.request())) << "another engine";
}

TEST(Engine, KeepsNothingUnasked) {
  const Engine engine;
  const EngineFolder a;
  EXPECT_TRUE(reads_weights(engine, a.request()));
  EXPECT_TRUE(reads_weights(engine, a.request()));
}

TEST(Engine, WeightsInMemoryNeedNoMoreOfIt) {
  const Engine engine;
  const EngineFolder a;
  const OpenedModel opened = engine.open(a.request());
  const std::int64_t without = opened.needs({Keep::loss}).host.fixed;
  const auto loaded = opened.load({});
  EXPECT_EQ(without - opened.needs({Keep::loss}).host.fixed, 4 * opened.parameters);
}

TEST(Engine, AChangedFileIsAnotherModel) {
  const Engine engine(2);
  const EngineFolder a;
  const OpenedModel before = engine.open(a.request());
  EXPECT_TRUE(reads_weights(engine, a.request()));
  json config = test::tiny_config();
  auto weights = test::random_weights(config);
  for (test::NamedTensor& tensor : weights) {
    if (tensor.name == "lm_head.weight") tensor.values.front() += 1;
  }
  test::write_checkpoint(a.folder, config, weights);
  const auto path = a.folder.path() / "model.safetensors";
  std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) + std::chrono::seconds(5));
  EXPECT_TRUE(reads_weights(engine, a.request()));
  EXPECT_EQ(test::error_of([&] { (void)before.load({}); }),
            a.folder.text() + ": changed after it was opened: open it again");
}

TEST(Engine, WhatWasStoppedIsNotKept) {
  const Engine engine(2);
  const EngineFolder a;
  std::stop_source source;
  source.request_stop();
  Job stopped;
  stopped.stop = source.get_token();
  EXPECT_EQ(engine.open(a.request()).load(stopped), nullptr);
  EXPECT_TRUE(reads_weights(engine, a.request()));
}

TEST(Engine, ARunInMemoryIsTheSameAsOneThatLoads) {
  const EngineFolder a;
  const RunRequest request{{nullptr, {1, 2, 3, 4, 5}, {}, "ids"}, {}, {Keep::loss, Keep::gates}, {}};
  const auto run = [&](const Engine& engine) { return run_model(plan_run(engine.open(a.request()), request), {}); };
  const auto alone = run(Engine());
  const Engine engine(1);
  ASSERT_TRUE(alone && run(engine));
  // Another weight, which neither the file's size nor its time tells: who reads the file once more sees it.
  const std::filesystem::path weights = a.folder.path() / "model.safetensors";
  const auto written = std::filesystem::last_write_time(weights);
  std::fstream file(weights, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(-4, std::ios::end).write("\0\0\0\0", 4);
  file.close();
  std::filesystem::last_write_time(weights, written);
  const auto again = run(engine);
  const auto anew = run(Engine());
  ASSERT_TRUE(again && anew);
  EXPECT_TRUE(std::ranges::equal(alone->trace->per_token_loss(), again->trace->per_token_loss()));
  EXPECT_EQ(again->trace->info().weights_sha256, alone->trace->info().weights_sha256);
  EXPECT_NE(anew->trace->info().weights_sha256, alone->trace->info().weights_sha256);
}

}  // namespace
}  // namespace foxscope

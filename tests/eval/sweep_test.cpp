// A sweep against single runs with one change each, stopped and gone on with, and its file.
#include "backend/eval/sweep/sweep.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/eval/loss/loss_partial.h"
#include "backend/model/session/run.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

using nlohmann::json;

constexpr int kLayers = 3;
constexpr int kHeads = 2;
constexpr int kTokens = 90;

class Sweep : public testing::Test {
 protected:
  Sweep() {
    config_ = test::tiny_config();
    config_.update({{"num_hidden_layers", kLayers}});
    write_model();
    model_.name = "tiny";
    model_.model = folder_.text();
    model_.device = DeviceChoice::parse("cpu");
    request_.input.name = "a folder/ids.json";
    for (int p = 0; p < kTokens; ++p) request_.input.ids.push_back((p * p + p / 7) % 11);
    model_.bos = 0;
  }
  void write_model() { test::write_checkpoint(folder_, config_, test::random_weights(config_)); }

  SweepEvaluation sweep() const {
    auto plan = this->plan();
    EXPECT_TRUE(plan && run_sweep(*plan, {}, {}));
    return plan->evaluation;
  }
  [[nodiscard]] std::optional<SweepPlan> plan() const { return plan_sweep(Engine().open(model_), request_, {}); }
  [[nodiscard]] SweepFileRequest file_request() const { return {request_, folder_.path() / "sweep.h5", false}; }
  [[nodiscard]] std::string error() const {
    return test::error_of([&] { (void)plan(); });
  }
  /// Losses of a run of its own.
  [[nodiscard]] std::vector<float> losses_with(const std::vector<std::string>& interventions) const {
    ModelRequest model = model_;
    model.interventions.clear();
    for (const std::string& text : interventions) model.interventions.push_back(Intervention::parse(text));
    const auto result = run_model(plan_run(Engine().open(model), {request_.input, {}, {Keep::loss}, {}}), {});
    const auto losses = result->trace->per_token_loss();
    return {losses.begin(), losses.end()};
  }

  test::TemporaryFolder folder_;
  json config_;
  ModelRequest model_;
  SweepRequest request_;
};

TEST_F(Sweep, IsAsManySingleRuns) {
  for (const char* change : {"one", "cut", "mean", "constant=0.5", "scale=2"}) {
    request_.change = Intervention::parse_change(change);
    const SweepEvaluation sweep = this->sweep();
    EXPECT_EQ(sweep.unchanged_loss, losses_with({}));
    EXPECT_TRUE(sweep.whole());
    for (int layer = 0; layer < kLayers; ++layer) {
      for (int head = 0; head < kHeads; ++head) {
        const std::string text = std::to_string(layer) + ":" + std::to_string(head) + ":" + change;
        EXPECT_EQ(sweep.changed_loss[sweep.place_of(layer, head)], losses_with({text})) << text;
        const LossChange found = sweep.change_of(layer, head);
        EXPECT_EQ(found.mean.value, loss_change(losses_with({text}), losses_with({})).mean.value) << text;
        EXPECT_NE(found.mean.value, 0) << text;
      }
    }
  }
}

/// Layers that read what the one before them left for them.
TEST_F(Sweep, OfLayersThatReadWithTheOneBeforeIsAsManySingleRuns) {
  request_.change = Intervention::parse_change("cut");
  for (const char* name : {"falcon_h1", "zamba2"}) {
    model_.model = test::data_path("published/" + std::string(name));
    const SweepEvaluation sweep = this->sweep();
    for (int layer = 0; layer < sweep.info.layers; ++layer) {
      const std::string text = std::to_string(layer) + ":1:cut";
      EXPECT_LE(test::largest_difference(sweep.changed_loss[sweep.place_of(layer, 1)], losses_with({text})), 1e-5)
          << name << " " << text;
    }
  }
}

TEST_F(Sweep, OfAChangedModelChangesItFurther) {
  model_.interventions = {Intervention::parse("1:0:cut")};
  const SweepEvaluation sweep = this->sweep();
  EXPECT_EQ(sweep.unchanged_loss, losses_with({"1:0:cut"}));
  EXPECT_EQ(sweep.changed_loss[sweep.place_of(1, 1)], losses_with({"1:0:cut", "1:1:one"}));
  EXPECT_EQ(sweep.changed_loss[sweep.place_of(2, 0)], losses_with({"1:0:cut", "2:0:one"}));
  EXPECT_EQ(json::parse(sweep.info.intervention), json({"1:0:cut"}));
}

TEST_F(Sweep, SaysHowFarItIs) {
  auto plan = this->plan();
  std::vector<std::int64_t> done;
  std::int64_t total = 0;
  Job job;
  job.report = [&](const Progress& progress) {
    if (progress.stage != "sweep") return;
    done.push_back(progress.done);
    total = progress.total;
  };
  std::vector<std::pair<int, int>> heads;
  SweepEvents events;
  events.head = [&](const SweepEvaluation& known, int layer, int head) {
    EXPECT_TRUE(known.knows(layer, head));
    heads.emplace_back(layer, head);
  };
  ASSERT_TRUE(run_sweep(*plan, events, job));
  EXPECT_EQ(heads.size(), std::size_t{kLayers * kHeads});
  // A whole pass of 3 layers and the prediction, and for every head those from its layer on.
  EXPECT_EQ(total, 4 + kHeads * (4 + 3 + 2));
  EXPECT_TRUE(std::is_sorted(done.begin(), done.end()));
  EXPECT_EQ(done.back(), total);
}

TEST_F(Sweep, StopsAndGoesOn) {
  const SweepEvaluation whole = sweep();
  auto plan = this->plan();
  std::stop_source stop;
  SweepEvents events;
  int computed = 0;
  events.head = [&](const SweepEvaluation&, int, int) {
    if (++computed == 2) stop.request_stop();
  };
  EXPECT_FALSE(run_sweep(*plan, events, {stop.get_token(), {}, nullptr}));
  EXPECT_EQ(plan->heads_known(), 2);
  EXPECT_FALSE(plan->evaluation.whole());
  EXPECT_EQ(plan->evaluation.changes().size(), 2U);
  const auto timing = run_sweep(*plan, events, {});
  ASSERT_TRUE(timing);
  EXPECT_EQ(timing->heads, kLayers * kHeads - 2);
  EXPECT_EQ(plan->evaluation.changed_loss, whole.changed_loss);
  // What is known already takes no model.
  EXPECT_EQ(run_sweep(*plan, events, {})->heads, 0);
}

TEST_F(Sweep, GoesOnFromItsFileBesideTheOutput) {
  const SweepEvaluation whole = sweep();
  std::stop_source stop;
  Job job{stop.get_token(),
          [&](const Progress& progress) {
            if (progress.stage == "sweep" && progress.done >= 10) stop.request_stop();
          },
          nullptr};
  std::filesystem::path partial;
  EXPECT_FALSE(evaluate_sweep(
      Engine().open(model_), file_request(), [&](const auto& path) { partial = path; }, {}, job));
  EXPECT_EQ(partial, partial_path(file_request().output));
  EXPECT_TRUE(std::filesystem::exists(partial));
  const auto result = evaluate_sweep(Engine().open(model_), file_request(), {}, {}, {});
  ASSERT_TRUE(result);
  EXPECT_GT(result->resumed, 0);
  EXPECT_EQ(result->resumed + result->timing.heads, kLayers * kHeads);
  EXPECT_EQ(result->evaluation.unchanged_loss, whole.unchanged_loss);
  EXPECT_EQ(result->evaluation.changed_loss, whole.changed_loss);
  request_.change = Intervention::parse_change("cut");
  EXPECT_PRED2(test::says, test::error_of([&] { evaluate_sweep(Engine().open(model_), file_request(), {}, {}, {}); }),
               (test::Parts{"sweep.h5.partial", "other settings", "--force"}));
  finish_sweep(file_request());
  EXPECT_FALSE(std::filesystem::exists(partial));
}

TEST_F(Sweep, RefusesChangesThatChangeNothing) {
  config_["fgate_type"] = "none";
  write_model();
  for (const char* change : {"one", "mean", "scale=2"}) {
    request_.change = Intervention::parse_change(change);
    EXPECT_EQ(error(), std::string("--change ") + change +
                           ": tiny has no gate, f is 1 everywhere: use --change cut or constant=f");
  }
  for (const char* change : {"cut", "constant=0.5"}) {
    request_.change = Intervention::parse_change(change);
    EXPECT_NE(sweep().change_of(0, 0).mean.value, 0) << change;
  }
}

/// Layers without a mixer have nothing that could decay, and no heads to change.
TEST_F(Sweep, PassesOverLayersWithoutHeads) {
  model_.model = test::data_path("published/nemotron_h");
  request_.change = Intervention::parse_change("one");
  const SweepEvaluation evaluation = sweep();
  for (int head = 0; head < evaluation.info.heads; ++head) {
    EXPECT_TRUE(evaluation.knows(0, head));
    EXPECT_FALSE(evaluation.knows(1, head));
  }
  EXPECT_NE(evaluation.change_of(0, 0).mean.value, 0);
}

TEST_F(Sweep, RefusesLossesThatAreNoNumbers) {
  auto weights = test::random_weights(config_);
  for (auto& tensor : weights) {
    if (tensor.name == "model.norm.weight") std::fill(tensor.values.begin(), tensor.values.end(), 3e38F);
  }
  test::write_checkpoint(folder_, config_, weights);
  EXPECT_PRED2(test::says, test::error_of([&] { sweep(); }),
               (test::Parts{"tiny: the loss at position ", " is ", "check the weights and --dtype"}));
}

class SweepFile : public Sweep {
 protected:
  [[nodiscard]] SweepEvaluation sample() const {
    SweepEvaluation sample = sweep();
    sample.token.clear();
    for (int p = 0; p < kTokens; ++p) sample.token.push_back(p == 3 ? std::string("a\0b", 3) : "é" + std::to_string(p));
    sample.text_sha256 = "abc";
    return sample;
  }
  void write(const SweepEvaluation& sample) const {
    write_sweep_file(path_, sample, {"foxscope eval sweep", "2026-01-01T00:00:00Z"}, Overwrite::force);
  }
  [[nodiscard]] std::string open_error() const {
    return test::error_of([&] { SweepEvaluation::open(path_); });
  }
  std::filesystem::path path_ = folder_.path() / "sweep.h5";
};

TEST_F(SweepFile, IsReadAsItWasWritten) {
  const SweepEvaluation written = sample();
  write(written);
  const SweepEvaluation read = SweepEvaluation::open(path_);
  EXPECT_EQ(read.info.name, "tiny");
  EXPECT_EQ(read.info.layers, kLayers);
  EXPECT_EQ(read.info.heads, kHeads);
  EXPECT_EQ(read.info.length, kTokens);
  EXPECT_EQ(read.info.weights_sha256, written.info.weights_sha256);
  EXPECT_EQ(read.change, Intervention::parse_change("one"));
  EXPECT_EQ(read.source, "ids.json");  // without its folder
  EXPECT_EQ(read.text_sha256, "abc");
  EXPECT_EQ(read.token_id, written.token_id);
  EXPECT_EQ(read.token[2], "é2");
  EXPECT_EQ(read.token[3], "a\\x00b");
  EXPECT_EQ(read.unchanged_loss, written.unchanged_loss);
  EXPECT_EQ(read.changed_loss, written.changed_loss);
  EXPECT_EQ(read.command_line, "foxscope eval sweep");
  EXPECT_EQ(read.csv(), written.csv());
  EXPECT_THROW(write_sweep_file(path_, written, {"", ""}, Overwrite::refuse), Error);
}

TEST_F(SweepFile, CsvHasALineAHead) {
  const SweepEvaluation sweep = sample();
  const std::string csv = sweep.csv();
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1 + kLayers * kHeads);
  EXPECT_TRUE(csv.starts_with("layer,head,change,change_error,perplexity_factor,tokens,hurt_position,hurt_change,"));
  const LossChange first = sweep.change_of(0, 0);
  const std::string line = csv.substr(csv.find('\n') + 1, csv.find('\n', csv.find('\n') + 1) - csv.find('\n') - 1);
  EXPECT_EQ(std::stod(line.substr(4)), first.mean.value);
  EXPECT_TRUE(line.starts_with("0,0,"));
  // A column more with a false discovery rate.
  const std::string found = sweep.csv(0.05);
  EXPECT_TRUE(found.substr(0, found.find('\n')).ends_with("helped_change,p_value,discovered"));
  const std::vector<bool> named = sweep.discovered(0.05);
  EXPECT_EQ(named.size(), static_cast<std::size_t>(kLayers * kHeads));
  for (std::size_t n = 0; n < named.size(); ++n) {
    const double p = p_value(sweep.change_of(static_cast<int>(n) / kHeads, static_cast<int>(n) % kHeads).mean);
    EXPECT_TRUE(!named[n] || p <= 0.05);
  }
}

TEST_F(SweepFile, WhatCannotBeIsDamaged) {
  const SweepEvaluation whole = sample();
  const std::vector<std::pair<std::function<void(SweepEvaluation&)>, std::string>> damages = {
      {[](auto& e) { e.unchanged_loss[5] = std::numeric_limits<float>::quiet_NaN(); }, "unchanged_loss"},
      {[](auto& e) { e.changed_loss[4][7] = std::numeric_limits<float>::infinity(); }, "changed_loss"},
      {[](auto& e) { e.token.pop_back(); }, "does not have one text for each token"},
      {[](auto& e) { e.change.kind = Intervention::Kind::zero; }, "/@change: is 'zero@0'"},
  };
  for (const auto& [damage, words] : damages) {
    SweepEvaluation evaluation = whole;
    damage(evaluation);
    write(evaluation);
    EXPECT_PRED2(test::says, open_error(), (test::Parts{"sweep.h5: ", words, "the file is damaged"}));
  }
}

TEST_F(SweepFile, OtherFilesAreRefused) {
  folder_.write("sweep.h5", "no HDF5");
  EXPECT_PRED2(test::says, open_error(), (test::Parts{"sweep.h5"}));
}

TEST_F(SweepFile, DamagedBytesAreRefusedOrHarmless) {
  write(sample());
  std::ifstream file(path_, std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  std::mt19937 generator(11);
  int refused = 0;
  for (int n = 0; n < 300; ++n) {
    std::string damaged = whole;
    if (n % 3 == 0) {
      damaged.resize(generator() % whole.size());
    } else {
      for (int k = 0; k < 8; ++k)
        damaged[generator() % (n % 3 == 1 ? 4096 : whole.size())] = static_cast<char>(generator());
    }
    folder_.write("sweep.h5", damaged);
    refused += open_error().empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace foxscope

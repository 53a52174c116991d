// What a loss owes to each gate, as a run keeps it: against the forward pass alone, and by what must hold of it.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <random>

#include <gtest/gtest.h>

#include "backend/model/session/run.h"
#include "backend/model/session/run_memory.h"
#include "backend/model/session/torch_model.h"
#include "backend/model/spec/interventions.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

constexpr std::int64_t kLength = 64;

/// The first sequence of a fixture.
test::Batch passage_of(const std::string& name, KeepSet keep) {
  const SafetensorsFile golden(test::data_path(name) + "/golden.safetensors");
  test::Batch batch;
  batch.input_ids = test::read_ids(golden, "input_ids");
  batch.labels = test::read_ids(golden, "labels");
  batch.input_ids.resize(kLength);
  batch.labels.resize(kLength);
  batch.keep = std::move(keep);
  return batch;
}

std::shared_ptr<const Trace> trace_of(CausalLM& model, test::Batch batch,
                                      const std::vector<std::string>& changes = {}) {
  for (const std::string& text : changes) batch.interventions.push_back(Intervention::parse(text));
  return test::run_batch(model, batch).traces[0];
}

double mean_loss(const Trace& trace) {
  double sum = 0;
  for (const float loss : trace.per_token_loss()) sum += static_cast<double>(loss);
  return sum / static_cast<double>(trace.per_token_loss().size());
}

/// sum_t log f_t d loss / d log f_t: the derivative of the loss by the factor of scale=s at s = 1.
double by_scale(const Trace& trace, int layer, int head) {
  const auto c = trace.cumulative_log_gate(layer, head);
  const auto gradient = trace.log_forget_gradient(layer, head);
  double sum = 0;
  for (std::size_t t = 0; t < c.size(); ++t) {
    sum += (c[t] - (t == 0 ? 0.0 : c[t - 1])) * static_cast<double>(gradient[t]);
  }
  return sum;
}

class Saliency : public testing::TestWithParam<const char*> {
 protected:
  Saliency() : model_(CausalLM::load(Checkpoint::open(test::data_path(GetParam())), Device{}, DType::float32)) {}
  std::unique_ptr<CausalLM> model_;
};

TEST_P(Saliency, IsTheChangeOfTheLossThatScaledGatesMake) {
  constexpr double kStep = 0.02;
  const test::Batch passage = passage_of(GetParam(), {Keep::loss, Keep::gates, Keep::saliency});
  for (const std::vector<std::string>& before :
       {std::vector<std::string>{}, {"0:1:mean"}, {"1:1:scale=0.5", "*:0:cut"}}) {
    const auto trace = trace_of(*model_, passage, before);
    for (int layer = 0; layer < 2; ++layer) {
      const auto loss_at = [&](double scale) {
        std::vector<std::string> changes = before;
        changes.push_back(std::to_string(layer) + ":1:scale=" + std::to_string(scale));
        return mean_loss(*trace_of(*model_, passage, changes));
      };
      const double difference = (loss_at(1 + kStep) - loss_at(1 - kStep)) / (2 * kStep);
      const double derivative = by_scale(*trace, layer, 1);
      EXPECT_NEAR(derivative, difference, 2e-5 + 0.02 * std::abs(difference)) << "layer " << layer;
    }
  }
}

TEST_P(Saliency, IsZeroForTheFirstTokenAndBehindTheTarget) {
  test::Batch passage = passage_of(GetParam(), {Keep::loss, Keep::saliency});
  passage.saliency = Range{20, 30};
  const auto trace = trace_of(*model_, passage);
  for (int layer = 0; layer < trace->info().layers; ++layer) {
    for (int head = 0; head < trace->info().heads; ++head) {
      const auto gradient = trace->log_forget_gradient(layer, head);
      const float largest = std::abs(*std::ranges::max_element(gradient, {}, [](float g) { return std::abs(g); }));
      EXPECT_GT(largest, 0);
      EXPECT_LE(std::abs(gradient[0]), 1e-5F * largest);
      EXPECT_TRUE(std::ranges::all_of(gradient.subspan(30), [](float g) { return g == 0; }));
    }
  }
}

TEST_P(Saliency, LeavesTheRunAsItIs) {
  const KeepSet usual = {Keep::loss, Keep::gates, Keep::rows, Keep::ungated, Keep::query_key, Keep::values};
  KeepSet all = usual;
  all.insert(Keep::saliency);
  const auto with = trace_of(*model_, passage_of(GetParam(), all));
  const auto without = trace_of(*model_, passage_of(GetParam(), usual));
  EXPECT_LE(test::largest_difference(with->per_token_loss(), without->per_token_loss()), 3e-5);
  for (int layer = 0; layer < 2; ++layer) {
    const auto normalizer = [&](const Trace& trace) { return trace.log_normalizer(layer, 1); };
    EXPECT_LE(test::largest_difference(normalizer(*with), normalizer(*without)), 1e-5);
    std::vector<float> a;
    std::vector<float> b;
    for (const TraceArray array : {TraceArray::query, TraceArray::value}) {
      const auto rows = [&](const Trace& trace, std::vector<float>& scratch) {
        return trace.query_key()->rows(array, layer, 0, 0, kLength, scratch);
      };
      EXPECT_LE(test::largest_difference(rows(*with, a), rows(*without, b)), 1e-5);
    }
  }
}

TEST_P(Saliency, IsEachSequencesOwnInABatch) {
  const test::Batch first = passage_of(GetParam(), {Keep::loss, Keep::saliency});
  test::Batch second = first;
  std::ranges::reverse(second.input_ids);
  test::Batch both = first;
  both.size = 2;
  both.input_ids.insert(both.input_ids.end(), second.input_ids.begin(), second.input_ids.end());
  both.labels.insert(both.labels.end(), second.labels.begin(), second.labels.end());
  const test::BatchResult result = test::run_batch(*model_, both);
  const auto alone = {trace_of(*model_, first), trace_of(*model_, second)};
  std::size_t sequence = 0;
  for (const auto& trace : alone) {
    const auto gradient = trace->log_forget_gradient(1, 1);
    EXPECT_LE(test::largest_difference(result.traces[sequence++]->log_forget_gradient(1, 1), gradient), 1e-7);
  }
  EXPECT_GT(test::largest_difference(result.traces[0]->log_forget_gradient(1, 1),
                                     result.traces[1]->log_forget_gradient(1, 1)),
            1e-6);
}

TEST_P(Saliency, StopsOnTheWayBack) {
  const test::Batch passage = passage_of(GetParam(), {Keep::loss, Keep::saliency});
  ForwardRequest request;
  request.batch = 1;
  request.length = kLength;
  request.input_ids = passage.input_ids;
  request.labels = passage.labels;
  const auto recorder = test::make_recorder(*model_, kLength, passage.keep);
  Recorder* const recorders[] = {recorder.get()};
  std::stop_source source;
  Job job;
  job.stop = source.get_token();
  job.report = [&](const Progress& progress) {
    if (progress.stage == "backward") source.request_stop();
  };
  EXPECT_FALSE(model_->forward(request, recorders, job).has_value());
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Saliency, testing::Values("fox-pro", "fox-llama", "fox-llama-rope", "gpt2", "qwen3"),
                         test::fixture_test_name);

/// Linear mixers with one decay a head.
class CudaSaliency : public testing::TestWithParam<const char*> {
 protected:
  /// The gradients by all log decays, of both sequences of a fixture as one text.
  static std::vector<double> gradients(const std::string& device, DType dtype) {
    const auto model =
        CausalLM::load(Checkpoint::open(test::data_path(GetParam())), Device::of(DeviceChoice::parse(device)), dtype);
    const SafetensorsFile golden(test::data_path(GetParam()) + "/golden.safetensors");
    test::Batch batch;
    batch.labels = test::read_ids(golden, "input_ids");
    batch.input_ids = batch.labels;
    std::ranges::rotate(batch.labels, batch.labels.begin() + 1);
    batch.keep = {Keep::loss, Keep::gates, Keep::saliency};
    const auto trace = trace_of(*model, batch);
    std::vector<double> all;
    for (int layer = 0; layer < trace->info().layers; ++layer) {
      for (int head = 0; head < trace->info().heads; ++head) {
        std::ranges::copy(trace->log_forget_gradient(layer, head), std::back_inserter(all));
      }
    }
    return all;
  }
  /// |a - b| / |b|.
  static double distance(const std::vector<double>& a, const std::vector<double>& b) {
    double error = 0;
    double size = 0;
    for (std::size_t n = 0; n < b.size(); ++n) {
      error += (a[n] - b[n]) * (a[n] - b[n]);
      size += b[n] * b[n];
    }
    return std::sqrt(error / size);
  }
};

TEST_P(CudaSaliency, OfDecaysIsThatOfTheCpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const std::vector<double> cpu = gradients("cpu", DType::float32);
  EXPECT_LE(distance(gradients("cuda", DType::float32), cpu), 1e-3);
  EXPECT_LE(distance(gradients("cuda", DType::bfloat16), cpu), 0.1);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, CudaSaliency, testing::Values("mamba2", "gated-deltanet"), test::fixture_test_name);

/// The transposed derivative of a change of gates, against differences of the change itself.
TEST(PulledBackGates, AreTheDerivativeOfEveryIntervention) {
  constexpr std::int64_t kGates = 9;
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(-2, 0);
  std::vector<double> log_gate(kGates);
  std::vector<double> direction(kGates);
  std::vector<double> weights(kGates);
  for (auto* numbers : {&log_gate, &direction, &weights}) {
    for (double& number : *numbers) number = uniform(random);
  }
  for (const std::vector<std::string>& changes : {std::vector<std::string>{"0:0:one"},
                                                  {"0:0:constant=0.5"},
                                                  {"0:0:mean"},
                                                  {"0:0:scale=3"},
                                                  {"0:0:zero@4"},
                                                  {"0:0:cut"},
                                                  {"*:*:scale=2", "0:0:mean", "0:0:scale=0.3"}}) {
    std::vector<Intervention> interventions;
    for (const std::string& text : changes) interventions.push_back(Intervention::parse(text));
    const GateRange range{1, 0, kGates};
    // Of sum_t w_t log f'_t along the direction.
    const auto value_at = [&](double step) {
      std::vector<double> moved = log_gate;
      for (std::size_t t = 0; t < moved.size(); ++t) moved[t] += step * direction[t];
      change_gates(interventions, 0, range, moved.data());
      double sum = 0;
      for (std::size_t t = 0; t < moved.size(); ++t) sum += weights[t] * moved[t];
      return sum;
    };
    constexpr double kStep = 1e-5;
    std::vector<double> gradient = weights;
    pull_back_gates(interventions, 0, range, log_gate.data(), gradient.data());
    double derivative = 0;
    for (std::size_t t = 0; t < gradient.size(); ++t) derivative += gradient[t] * direction[t];
    EXPECT_NEAR(derivative, (value_at(kStep) - value_at(-kStep)) / (2 * kStep), 1e-7) << changes.back();
  }
}

TEST(SaliencyRun, NeedsATargetWithinTheTextAndMemory) {
  test::AskedRun request;
  request.name = "m";
  request.model = test::data_path("fox-pro");
  request.input.ids = {1, 2, 3, 4, 5, 6, 7, 8};
  request.bos = 0;
  request.keep = {Keep::loss, Keep::saliency};
  request.saliency = Range{4, 9};
  EXPECT_EQ(test::error_of([&] { test::run(request, {}); }),
            "--saliency 4:9: use positions with 0 <= A < B <= 8, the text's length");
  request.saliency = Range{4, Range::kToTheEnd};
  const auto result = test::run(request, {});
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(result->trace->info().saliency_target, "mean of loss[4:8]");
  request.keep = {Keep::loss};
  EXPECT_EQ(test::error_of([&] { test::run(request, {}); }),
            "--saliency chooses the losses whose gradients are computed: add saliency to --keep");
}

TEST(SaliencyRun, IsRefusedWhereMemoryIsShortAndSaysWhatFits) {
  const Checkpoint checkpoint = Checkpoint::open(test::demo_model("fox-pro-12m"));
  const RunNeeds needs = estimate_needs(checkpoint.config(), checkpoint.parameter_count(), {Keep::loss, Keep::saliency},
                                        DType::float32, Device{});
  const FreeMemory free{.host = std::int64_t{4} << 30};
  const MemoryUser user{"a run over 65536 tokens needs", "--length", {"leave saliency out of --keep"}};
  const std::string refused = test::error_of([&] { memory_left(needs, 65536, free, user); });
  EXPECT_TRUE(test::says(refused, {"a run over 65536 tokens needs about ", " and 4.0 GiB are available: use --length ",
                                   ", or leave saliency out of --keep"}))
      << refused;
  const std::string option = "--length ";
  const std::int64_t fitting = std::stoll(refused.substr(refused.find(option) + option.size()));
  EXPECT_GE(memory_left(needs, fitting, free, user).host, 0);
  EXPECT_GT(fitting, 8192);
}

}  // namespace
}  // namespace foxscope

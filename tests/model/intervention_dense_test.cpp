// Every kind of change to one head, against the dense float64 twin with that gate.
#include <cmath>
#include <random>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "tests/model/dense_twin.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

constexpr std::int64_t kPassageLength = 400;
constexpr double kBound = 2e-4;

/// One intervention on head 1 of layer 1 in the words of the command line, and the same done to the twin's tensors.
struct Change {
  const char* kind;
  std::function<void(const at::Tensor& log_gate)> gate;  ///< log f of the head [L]
  bool cuts = false;
};

const Change kChanges[] = {
    {"one", [](const at::Tensor& log_gate) { log_gate.zero_(); }},
    {"constant=0.9", [](const at::Tensor& log_gate) { log_gate.fill_(std::log(0.9)); }},
    {"mean", [](const at::Tensor& log_gate) { log_gate.fill_(std::log(at::exp(log_gate).mean().item<double>())); }},
    {"scale=0.25", [](const at::Tensor& log_gate) { log_gate.mul_(0.25); }},
    {"scale=3", [](const at::Tensor& log_gate) { log_gate.mul_(3); }},
    {"zero@300", [](const at::Tensor& log_gate) { log_gate.select(0, 300).fill_(-1000); }},
    {"cut", {}, true}};

struct Losses {
  at::Tensor loss;    ///< [L]
  at::Tensor logits;  ///< [L, V]
};

class InterventionsDense : public testing::TestWithParam<const char*> {
 protected:
  InterventionsDense() : checkpoint_(Checkpoint::open(test::data_path(GetParam()))) {
    model_ = CausalLM::load(checkpoint_, Device{}, DType::float32);
    const SafetensorsFile file(test::data_path(std::string(GetParam()) + "/model.safetensors"));
    for (const auto& [name, tensor] : file.tensors()) {
      std::vector<float> values = test::read_floats(file, name);
      weights_[name] = at::from_blob(values.data(), tensor.shape, at::kFloat).to(at::kDouble);
    }
    std::mt19937 random(7);
    std::uniform_int_distribution<std::int32_t> any(0, static_cast<std::int32_t>(model_->config().vocabulary_size) - 1);
    for (std::int64_t p = 0; p < kPassageLength; ++p) {
      batch_.input_ids.push_back(any(random));
      batch_.labels.push_back(any(random));
    }
    batch_.keep = {Keep::loss, Keep::logits};
  }

  Losses ours(const std::string& intervention) {
    batch_.interventions = {Intervention::parse(intervention)};
    const auto trace = test::run_batch(*model_, batch_).traces[0];
    const auto loss = trace->per_token_loss();
    const std::vector<float> logits = trace->source().logits();
    return {
        at::from_blob(const_cast<float*>(loss.data()), {kPassageLength}, at::kFloat).to(at::kDouble),
        at::from_blob(const_cast<float*>(logits.data()), {kPassageLength, model_->config().vocabulary_size}, at::kFloat)
            .to(at::kDouble)};
  }

  Losses twins(const test::TwinChange& change) {
    const auto ids = [](const std::vector<std::int32_t>& values) {
      return at::tensor(at::ArrayRef<std::int32_t>(values), at::kLong);
    };
    const test::OneThread few_cores;
    const at::Tensor logits = test::DenseTwin(model_->config(), weights_).logits(ids(batch_.input_ids), change);
    const at::Tensor scores = at::log_softmax(logits, 1);
    return {-scores.gather(1, ids(batch_.labels).unsqueeze(1)).squeeze(1), logits};
  }

  static double difference(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

  Checkpoint checkpoint_;
  std::unique_ptr<CausalLM> model_;
  std::map<std::string, at::Tensor> weights_;
  test::Batch batch_;
};

TEST_P(InterventionsDense, OnOneHeadEqualTheDenseModelWithThatGate) {
  const c10::InferenceMode guard;
  const Losses unchanged = twins({});
  for (const Change& one : kChanges) {
    test::TwinChange change;
    change.gates = [&](int layer, at::Tensor& log_gate) {
      if (layer == 1 && one.gate) one.gate(log_gate.select(1, 1));
    };
    change.heads = [&](int layer, at::Tensor& output) {
      if (layer == 1 && one.cuts) output.select(1, 1).zero_();
    };
    const Losses expected = twins(change);
    const Losses actual = ours(std::string("1:1:") + one.kind);
    EXPECT_LE(difference(actual.loss, expected.loss), kBound) << one.kind;
    EXPECT_LE(difference(actual.logits, expected.logits), kBound * expected.logits.abs().max().item<double>())
        << one.kind;
    EXPECT_EQ(actual.logits.size(1), expected.logits.size(1));
    const bool does_nothing = model_->config().forget_gate == ForgetGate::none &&
                              (std::string(one.kind) == "one" || std::string(one.kind) == "mean" ||
                               std::string(one.kind).starts_with("scale"));
    // Much more than the bound, so that the wrong head or no change at all is seen.
    EXPECT_EQ(difference(expected.loss, unchanged.loss) > 20 * kBound, !does_nothing) << one.kind;
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, InterventionsDense, testing::Values("fox-pro", "fox-llama", "transformer-pro"),
                         [](const auto& fixture) {
                           std::string name = fixture.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace foxscope

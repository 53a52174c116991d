// Steps of training against a float64 twin's: losses, norms, weights (the goldens of tests/data/training).
#include "backend/model/training/trainable_model.h"

#include <cmath>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/model/session/run_memory.h"
#include "backend/model/session/torch_model.h"
#include "backend/model/weights/checkpoint.h"
#include "backend/model/weights/initial_weights.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

constexpr std::int64_t kRowTokens = 128;
constexpr std::int64_t kStepRows = 4;  // a step's
constexpr double kStepLossBound = 3e-5;
constexpr double kStepNormBound = 1.5e-3;  // relative
constexpr double kTrainedBound = 2e-4;
constexpr double kTrainedChangeBound = 2e-4;  // relative, of all weights' changes together

std::map<std::string, std::vector<float>> all_of(const TrainingSnapshot& snapshot, TrainingPart part) {
  std::map<std::string, std::vector<float>> all;
  snapshot.read(part, [&](const Parameter& parameter, std::span<const float> values) {
    all[parameter.name] = {values.begin(), values.end()};
    return true;
  });
  return all;
}

/// The rows of tests/data/training in their order, round and round.
class Rows {
 public:
  explicit Rows(std::int32_t bos)
      : tokens_(test::read_ids(SafetensorsFile(test::data_path("training/ids.safetensors")), "tokens")), bos_(bos) {}

  /// @param first  row of the data
  TrainableModel::MicroBatch take(std::int64_t first, std::int64_t rows, double loss_weight) {
    labels_.clear();
    ids_.clear();
    const auto all = static_cast<std::int64_t>(tokens_.size()) / kRowTokens;
    for (std::int64_t row = first; row < first + rows; ++row) {
      const auto begin = tokens_.begin() + row % all * kRowTokens;
      labels_.insert(labels_.end(), begin, begin + kRowTokens);
      ids_.push_back(bos_);
      ids_.insert(ids_.end(), begin, begin + kRowTokens - 1);
    }
    return {rows, kRowTokens, ids_, labels_, loss_weight};
  }

 private:
  std::vector<std::int32_t> tokens_;
  std::int32_t bos_;
  std::vector<std::int32_t> labels_;
  std::vector<std::int32_t> ids_;
};

/// A training of the goldens, step by step.
class GoldenTraining {
 public:
  GoldenTraining(const std::string& name, const TrainableOptions& options, std::int64_t micro_rows = kStepRows)
      : checkpoint_(Checkpoint::open(test::data_path("training/" + name + "/init"))),
        golden_(test::data_path("training/" + name + "/golden.safetensors")),
        model_(TrainableModel::make(checkpoint_.config(), CheckpointSource(checkpoint_), options, {})),
        rows_(*checkpoint_.config().bos_token_id),
        micro_rows_(micro_rows),
        rates_(read_doubles("lr")) {}

  [[nodiscard]] TrainableModel& model() { return *model_; }
  [[nodiscard]] const Checkpoint& checkpoint() const { return checkpoint_; }
  [[nodiscard]] const SafetensorsFile& golden() const { return golden_; }
  [[nodiscard]] int steps() const { return static_cast<int>(rates_.size()); }

  /// @param number  from 0
  TrainableModel::StepReport step(int number) { return step(number, rates_[index_of(number)]); }
  TrainableModel::StepReport step(int number, double learning_rate) {
    for (std::int64_t row = 0; row < kStepRows; row += micro_rows_) {
      EXPECT_TRUE(model_->add_gradients(
          rows_.take(number * kStepRows + row, micro_rows_, 1.0 / static_cast<double>(kStepRows * kRowTokens)), {}));
    }
    return model_->step(learning_rate, {});
  }

  [[nodiscard]] std::vector<double> read_doubles(const std::string& name) const {
    const TensorView& view = golden_.tensors().at(name);
    std::vector<double> values(static_cast<std::size_t>(view.elements()));
    std::memcpy(values.data(), view.bytes.data(), view.bytes.size());
    return values;
  }

 private:
  Checkpoint checkpoint_;
  SafetensorsFile golden_;
  std::unique_ptr<TrainableModel> model_;
  Rows rows_;
  std::int64_t micro_rows_;
  std::vector<double> rates_;
};

void check_golden(GoldenTraining training) {
  const std::vector<double> losses = training.read_doubles("loss");
  const std::vector<double> norms = training.read_doubles("grad_norm");
  for (int step = 0; step < training.steps(); ++step) {
    const TrainableModel::StepReport report = training.step(step);
    const auto n = static_cast<std::size_t>(step);
    EXPECT_NEAR(report.loss, losses[n], kStepLossBound) << step;
    EXPECT_NEAR(report.gradient_norm, norms[n], kStepNormBound * norms[n]) << step;
    EXPECT_TRUE(report.stepped);
  }
  EXPECT_EQ(training.model().steps(), training.steps());
  double change = 0;
  double difference = 0;
  for (const auto& [name, values] : all_of(*training.model().snapshot(), TrainingPart::weights)) {
    const std::vector<float> wanted = test::read_floats(training.golden(), name);
    ASSERT_EQ(values.size(), wanted.size()) << name;
    std::size_t n = 0;
    training.checkpoint().read(name, [&](std::span<const float> before) {
      for (const float start : before) {
        const double off = static_cast<double>(values[n]) - static_cast<double>(wanted[n]);
        EXPECT_LE(std::abs(off), kTrainedBound) << name << " " << n;
        difference += off * off;
        change += std::pow(static_cast<double>(wanted[n]) - static_cast<double>(start), 2);
        ++n;
      }
      return true;
    });
  }
  EXPECT_LE(std::sqrt(difference / change), kTrainedChangeBound);
}

class TrainingGolden : public testing::TestWithParam<const char*> {};

TEST_P(TrainingGolden, StepsAreTheTwins) { check_golden({GetParam(), {}}); }

TEST_P(TrainingGolden, MicroBatchesAddUp) { check_golden({GetParam(), {}, 1}); }

TEST_P(TrainingGolden, CudaStepsInFloat32AreTheTwins) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  TrainableOptions options;
  options.device = Device::of(DeviceChoice::parse("cuda"));
  check_golden({GetParam(), options});
}

TEST_P(TrainingGolden, CudaStepsInBfloat16StayNear) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  TrainableOptions options;
  options.device = Device::of(DeviceChoice::parse("cuda"));
  options.dtype = DType::bfloat16;
  GoldenTraining training(GetParam(), options);
  const std::vector<double> losses = training.read_doubles("loss");
  for (int step = 0; step < training.steps(); ++step) {
    EXPECT_NEAR(training.step(step).loss, losses[index_of(step)], 0.02) << step;
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, TrainingGolden, testing::Values("fox-pro", "transformer-pro"),
                         test::fixture_test_name);

void expect_same_curves(const TrainableModel::Curves& found, const TrainableModel::Curves& wanted) {
  EXPECT_EQ(found.sequences, wanted.sequences);
  EXPECT_EQ(found.loss, wanted.loss);
  EXPECT_EQ(found.mean_log_gate, wanted.mean_log_gate);
}

/// Curves of a training that was saved and gone on with between two lines of its log.
TEST(TrainingCurves, GoOnFromASnapshot) {
  constexpr int kBefore = 2;
  constexpr int kSteps = 5;
  for (const char* name : {"fox-pro", "transformer-pro"}) {
    SCOPED_TRACE(name);
    GoldenTraining whole(name, {});
    for (int step = 0; step < kSteps; ++step) whole.step(step);
    const TrainableModel::Curves wanted = whole.model().take_curves();
    EXPECT_EQ(wanted.sequences, kSteps * kStepRows);
    EXPECT_TRUE(whole.model().snapshot()->curves().empty());

    GoldenTraining saved(name, {});
    for (int step = 0; step < kBefore; ++step) saved.step(step);
    const std::vector<CurveSums> sums = saved.model().snapshot()->curves();
    ASSERT_EQ(sums.size(), 1U);
    for (const bool resumed : {false, true}) {
      GoldenTraining training(name, {});
      for (int step = 0; step < kSteps; ++step) {
        training.step(step);
        if (step + 1 != kBefore) continue;
        if (resumed) training.model().take_curves();
        training.model().restore_curves(resumed ? sums : std::vector<CurveSums>());
        EXPECT_EQ(training.model().snapshot()->curves().size(), 1U);
      }
      expect_same_curves(training.model().take_curves(), wanted);
    }
  }
}

TEST(TrainingCurves, OneProcessTakesWhatSeveralHaveSeen) {
  GoldenTraining training("fox-pro", {});
  training.step(0);
  const CurveSums sums = training.model().snapshot()->curves()[0];
  const TrainableModel::Curves wanted = training.model().take_curves();
  training.model().restore_curves({sums, sums});
  const TrainableModel::Curves twice = training.model().take_curves();
  EXPECT_EQ(twice.sequences, 2 * wanted.sequences);
  EXPECT_EQ(twice.loss, wanted.loss);
  EXPECT_EQ(twice.mean_log_gate, wanted.mean_log_gate);
}

TEST(TrainedWeights, ThatAreNotFiniteAreSeen) {
  GoldenTraining training("fox-pro", {});
  training.step(1);
  EXPECT_TRUE(training.model().finite());
  ASSERT_TRUE(training.step(2, 1e39).stepped);
  EXPECT_FALSE(training.model().finite());
}

/// What a step leaves: the loss, the gradient's norm, the share of attention, and all weights.
struct Left {
  TrainableModel::StepReport report;
  std::map<std::string, std::vector<float>> weights;
  std::vector<double> losses;
};

Left step_once(const std::string& fixture, Recompute recompute) {
  const Checkpoint checkpoint = Checkpoint::open(test::data_path(fixture));
  const SafetensorsFile golden(test::data_path(fixture + "/golden.safetensors"));
  const std::vector<std::int32_t> ids = test::read_ids(golden, "input_ids");
  const std::vector<std::int32_t> labels = test::read_ids(golden, "labels");
  const auto batch = golden.tensors().at("input_ids").shape[0];
  const TrainableModel::MicroBatch rows = {batch, golden.tensors().at("input_ids").shape[1], ids, labels,
                                           1.0 / static_cast<double>(ids.size())};
  TrainableOptions options;
  options.recompute = recompute;
  const auto model = TrainableModel::make(checkpoint.config(), CheckpointSource(checkpoint), options, {});
  Left left;
  left.losses = model->losses(rows, {});
  EXPECT_TRUE(model->add_gradients(rows, {}));
  left.report = model->step(0.01, {});
  left.weights = all_of(*model->snapshot(), TrainingPart::weights);
  return left;
}

class RecomputedFixture : public testing::TestWithParam<const char*> {};

TEST_P(RecomputedFixture, GradientsHaveTheSameBits) {
  const Left kept = step_once(GetParam(), Recompute::none);
  double mean = 0;
  for (const double loss : kept.losses) mean += loss / static_cast<double>(kept.losses.size());
  EXPECT_NEAR(mean, kept.report.loss, 1e-5);
  for (const Recompute recompute : {Recompute::mlp, Recompute::layers}) {
    const Left again = step_once(GetParam(), recompute);
    EXPECT_EQ(again.report.loss, kept.report.loss);
    EXPECT_EQ(again.report.gradient_norm, kept.report.gradient_norm);
    EXPECT_EQ(again.report.attention_blocks, kept.report.attention_blocks);
    EXPECT_EQ(again.report.skipped_blocks, kept.report.skipped_blocks);
    EXPECT_TRUE(again.weights == kept.weights);
  }
}

/// Of kernels, and of autograd.
INSTANTIATE_TEST_SUITE_P(Fixtures, RecomputedFixture,
                         testing::Values("fox-pro", "transformer-llama", "qwen3", "gpt2", "gpt_neox", "hgrn2", "mamba2",
                                         "published/olmo3", "published/phi3", "published/glm4"),
                         test::fixture_test_name);

TEST(TrainableModel, RefusesModelsThatAreOnlyRun) {
  for (const char* name : {"published/gemma2", "published/gemma3-text"}) {
    const Checkpoint checkpoint = Checkpoint::open(test::data_path(name));
    const std::string message = test::error_of(
        [&] { TrainableModel::make(checkpoint.config(), CheckpointSource(checkpoint), TrainableOptions{}, {}); });
    EXPECT_PRED2(test::says, message,
                 (test::Parts{"norms hold what is beyond 1: such a model is run, but not trained"}));
  }
}

/// Of the 760M shape in bfloat16. What is made again is there of one layer at a time.
TEST(Recompute, SparesAllLayersButOne) {
  const std::string config = R"({"model_type": "forgetting_transformer-project_fox", "vocab_size": 50257,
    "hidden_size": 1536, "num_hidden_layers": 24, "num_heads": 24, "hidden_ratio": 3.5, "use_output_gate": true})";
  const ModelConfig sizes = ModelConfig::from_json(config, "config.json");
  const std::int64_t wide = 2 * 2 * sizes.intermediate_size;
  const std::int64_t projected = 2 * 5 * 1536;  // q, k, v, the gate, and what attention made
  const std::int64_t x = 4 * 1536;
  const auto taken = [&](Recompute recompute) {
    return estimate_needs(sizes, 0, {Keep::saliency}, DType::bfloat16, {true, 0}, recompute).gpu.value().per_token;
  };
  const auto spared = [&](Recompute recompute) { return taken(Recompute::none) - taken(recompute); };
  EXPECT_EQ(spared(Recompute::mlp), 23 * wide);
  const std::int64_t small = 24 * (4 + 8 + 4);  // f's logit, c, the normaliser
  EXPECT_EQ(spared(Recompute::layers), 23 * (wide + projected + x + small) - 24 * x);
}

/// Bytes of a position that `mlp` keeps of a layer of linear mixers, 760M in bfloat16.
TEST(Recompute, KeepsWhatLinearMixersMake) {
  const auto kept = [](const std::string& rest) {
    const ModelConfig config = ModelConfig::from_json(
        R"({"vocab_size": 50257, "hidden_size": 1536, "num_hidden_layers": 25, "bos_token_id": 0, )" + rest + "}",
        "config.json");
    const auto taken = [&](Recompute recompute) {
      return estimate_needs(config, 0, {Keep::saliency}, DType::bfloat16, {true, 0}, recompute).gpu.value().per_token;
    };
    return static_cast<double>(taken(Recompute::mlp) - taken(Recompute::layers)) / 24;
  };
  const std::int64_t x = 4 * 1536;
  // q, k, v of the projection; V', y and the states before each 64 positions.
  EXPECT_EQ(kept(R"("model_type": "delta_net-project_fox", "num_heads": 12, "hidden_ratio": 4)"),
            x + 2 * (3 * 1536 + 2 * 1536 + 12 * 128 * 128 / 64));
  // M, decayed q and k, y and states.
  EXPECT_EQ(kept(R"("model_type": "hgrn2-project_fox", "expand_ratio": 128, "hidden_ratio": 4)"),
            x + 2 * (12 * 64 + 2 * 1536 + 1536 + 12 * 128 * 128 / 64));
  // z, v, keys and queries of the projection, without an MLP.
  EXPECT_EQ(kept(R"("model_type": "mamba2-project_fox", "num_heads": 48, "head_dim": 64, "state_size": 128,
                    "n_groups": 1)"),
            2 * (2 * 48 * 64 + 2 * 128));
}

}  // namespace
}  // namespace foxscope

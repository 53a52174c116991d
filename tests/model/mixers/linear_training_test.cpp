// Trainings of linear mixers on a GPU, whose backward passes are kernels', against LibTorch's operations in float32 on
// the CPU.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/model/session/torch_model.h"
#include "backend/model/training/trainable_model.h"
#include "backend/model/weights/initial_weights.h"

namespace foxscope {
namespace {

constexpr int kTrainingSteps = 12;
constexpr std::int64_t kTrainingRows = 2;
constexpr std::int64_t kTrainingLength = 200;  // no multiple of a chunk
constexpr std::int32_t kTrainingVocabulary = 61;
constexpr double kLossBound = 0.06;  // nats
// Two trainings differ, because embeddings add their gradients up in any order: by float32's rounding at the first
// step, and AdamW lets later steps go apart.
constexpr double kFirstNormBound = 1e-5;  // relative
constexpr double kAgainBound = 0.02;      // of later losses, relative

struct TrainedFamily {
  const char* name;
  const char* config;
};

void PrintTo(const TrainedFamily& family, std::ostream* out) { *out << family.name; }

constexpr TrainedFamily kTrainedFamilies[] = {
    {"Mamba2",
     R"({"model_type": "mamba2-project_fox", "vocab_size": 61, "hidden_size": 64, "num_hidden_layers": 2,
         "num_heads": 4, "head_dim": 32, "state_size": 64, "n_groups": 1, "bos_token_id": 0})"},
    {"HGRN2",
     R"({"model_type": "hgrn2-project_fox", "vocab_size": 61, "hidden_size": 64, "num_hidden_layers": 3,
         "expand_ratio": 32, "hidden_ratio": 4, "bos_token_id": 0})"},
    {"GLA",
     R"({"model_type": "gla", "vocab_size": 61, "hidden_size": 64, "num_hidden_layers": 2, "num_heads": 2,
         "expand_k": 0.5, "expand_v": 1.0, "hidden_ratio": 4, "bos_token_id": 0})"},
    {"DeltaNet",
     R"({"model_type": "delta_net-project_fox", "vocab_size": 61, "hidden_size": 64, "num_hidden_layers": 2,
         "num_heads": 2, "hidden_ratio": 4, "bos_token_id": 0})"},
    {"GatedDeltaNet",
     R"({"model_type": "gated_deltanet", "vocab_size": 61, "hidden_size": 64, "num_hidden_layers": 2, "num_heads": 2,
         "head_dim": 24, "expand_v": 2.0, "hidden_ratio": 4, "bos_token_id": 0})"},
};

/// Rows in which a token depends on the two before it.
std::vector<std::int32_t> predictable_tokens(std::int64_t count) {
  std::vector<std::int32_t> ids = {1, 2};
  while (static_cast<std::int64_t>(ids.size()) < count) {
    ids.push_back((3 * ids[ids.size() - 1] + ids[ids.size() - 2] + 7) % kTrainingVocabulary);
  }
  return ids;
}

struct Trained {
  std::vector<double> losses;
  std::vector<double> norms;
};

Trained train(const TrainedFamily& family, TrainableOptions options) {
  const ModelConfig config = ModelConfig::from_json(family.config, family.name);
  const auto model = TrainableModel::make(config, InitialWeights(config, 3), options, {});
  const std::vector<std::int32_t> labels = predictable_tokens(kTrainingRows * kTrainingLength);
  std::vector<std::int32_t> ids(labels.size());
  for (std::size_t n = 0; n < ids.size(); ++n) ids[n] = n % kTrainingLength == 0 ? 0 : labels[n - 1];
  Trained trained;
  for (int step = 0; step < kTrainingSteps; ++step) {
    EXPECT_TRUE(model->add_gradients(
        {kTrainingRows, kTrainingLength, ids, labels, 1.0 / static_cast<double>(kTrainingRows * kTrainingLength)}, {}));
    const TrainableModel::StepReport report = model->step(3e-3, {});
    EXPECT_TRUE(report.stepped);
    trained.losses.push_back(report.loss);
    trained.norms.push_back(report.gradient_norm);
  }
  return trained;
}

class CudaLinearTraining : public testing::TestWithParam<TrainedFamily> {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  }
  static TrainableOptions on_gpu(Recompute recompute) {
    TrainableOptions options;
    options.device = {true, 0};
    options.dtype = DType::bfloat16;
    options.recompute = recompute;
    return options;
  }
};

TEST_P(CudaLinearTraining, StaysNearThatOfTheComposedOperations) {
  const Trained expected = train(GetParam(), {});
  const Trained found = train(GetParam(), on_gpu(Recompute::none));
  EXPECT_LT(expected.losses.back(), expected.losses.front() - 0.2);
  for (std::size_t step = 0; step < expected.losses.size(); ++step) {
    EXPECT_NEAR(found.losses[step], expected.losses[step], kLossBound) << step;
  }
  EXPECT_NEAR(found.norms.front(), expected.norms.front(), 0.02 * expected.norms.front());
}

TEST_P(CudaLinearTraining, IsThatOfLayersWhichAreComputedAgain) {
  const Trained kept = train(GetParam(), on_gpu(Recompute::none));
  for (const Recompute recompute : {Recompute::mlp, Recompute::layers}) {
    const Trained again = train(GetParam(), on_gpu(recompute));
    EXPECT_EQ(kept.losses.front(), again.losses.front());
    EXPECT_NEAR(again.norms.front(), kept.norms.front(), kFirstNormBound * kept.norms.front());
    for (std::size_t step = 0; step < kept.losses.size(); ++step) {
      EXPECT_NEAR(again.losses[step], kept.losses[step], kAgainBound * kept.losses[step]) << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, CudaLinearTraining, testing::ValuesIn(kTrainedFamilies),
                         [](const testing::TestParamInfo<TrainedFamily>& of) { return std::string(of.param.name); });

}  // namespace
}  // namespace foxscope

// A layer's second run takes results from its first (Recompute::mlp).
#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include "backend/model/layer/torch/kept_results_torch.h"
#include "backend/model/training/trainable_model.h"
#include "backend/model/weights/initial_weights.h"

namespace foxscope {
namespace {

TEST(KeptResults, AreTakenOnceInTheOrderOfTheirKind) {
  using Of = KeptResults::Of;
  KeptResults kept;
  const auto number = [](double x) { return [x] { return at::full({}, x); }; };
  for (const double x : {1.0, 2.0}) result_of(&kept, Of::sum, number(x));
  result_of(&kept, Of::product, number(3));
  kept.take_from_here();
  const auto take = [&](Of of) { return result_of(&kept, of, number(-1)).item<double>(); };
  EXPECT_EQ(take(Of::product), 3);
  EXPECT_EQ(take(Of::sum), 1);
  EXPECT_EQ(take(Of::mixing), -1);
  EXPECT_EQ(take(Of::sum), 2);
  EXPECT_EQ(take(Of::sum), -1);
}

std::atomic<int> matrix_products = 0;

/// How many products of matrices one micro-batch's gradients take.
int products_of(const ModelConfig& config, Recompute recompute) {
  TrainableOptions options;
  options.recompute = recompute;
  const auto model = TrainableModel::make(config, InitialWeights(config, 3), options, {});
  const std::vector<std::int32_t> ids = {0, 5, 3, 9, 2, 7, 1, 8};
  const std::vector<std::int32_t> labels = {5, 3, 9, 2, 7, 1, 8, 4};
  const auto count = [](const at::RecordFunction& function) -> std::unique_ptr<at::ObserverContext> {
    const std::string_view name = function.name();
    if (name == "aten::mm" || name == "aten::addmm") ++matrix_products;
    return nullptr;
  };
  const at::CallbackHandle handle =
      at::addGlobalCallback(at::RecordFunctionCallback(count).scopes({at::RecordScope::FUNCTION}));
  matrix_products = 0;
  EXPECT_TRUE(model->add_gradients({1, 8, ids, labels, 1.0 / 8}, {}));
  at::removeCallback(handle);
  return matrix_products;
}

/// A layer has the projection, what the mixer and what the MLP add to x, and the MLP's inputs, which alone are not
/// kept.
TEST(KeptResults, SpareProductsOfLayersThatAreRunAgain) {
  const ModelConfig config = ModelConfig::from_json(
      R"({"model_type": "delta_net-project_fox", "vocab_size": 11, "hidden_size": 16, "num_hidden_layers": 4,
          "num_heads": 2, "hidden_ratio": 4, "bos_token_id": 0})",
      "config.json");
  const int none = products_of(config, Recompute::none);
  const int kept = products_of(config, Recompute::mlp);
  const int all = products_of(config, Recompute::layers);
  EXPECT_EQ(all - kept, 3 * 3);
  EXPECT_GE(kept - none, 3);
}

}  // namespace
}  // namespace foxscope

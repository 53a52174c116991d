// Checkpoints as transformers 5.24 saves them itself, where its words, keys or tensors are not the hub's, and what it
// returns for them; and FLA's KDA with more heads of values than of keys, by its naive function in float64.
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/model/session/decode_state.h"
#include "backend/model/session/torch_model.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

using test::largest_difference;

/// Logits are held to this share of the largest.
constexpr double kSavedShare = 2e-4;

struct SavedGolden {
  explicit SavedGolden(const std::string& name)
      : golden(test::data_path("saved/" + name) + "/golden.safetensors"),
        checkpoint(Checkpoint::open(test::data_path("saved/" + name))),
        logits(test::read_floats(golden, "logits")) {
    for (const float logit : logits) largest = std::max(largest, std::abs(static_cast<double>(logit)));
  }
  [[nodiscard]] std::unique_ptr<CausalLM> load() const { return CausalLM::load(checkpoint, Device{}, DType::float32); }
  [[nodiscard]] std::unique_ptr<CausalLM> load_composed() const {
    return load_torch_model(checkpoint, Device{}, DType::float32);
  }
  /// All logits, while losses are compared with the library's.
  [[nodiscard]] std::vector<float> run(CausalLM& model) const {
    test::Batch batch;
    batch.input_ids = test::read_ids(golden, "input_ids");
    batch.labels = test::read_ids(golden, "labels");
    batch.keep = {Keep::loss, Keep::logits};
    const auto trace = test::run_batch(model, batch).traces.front();
    EXPECT_LE(largest_difference(trace->per_token_loss(), test::read_floats(golden, "per_token_loss")),
              kSavedShare * largest);
    return trace->source().logits();
  }
  SafetensorsFile golden;
  Checkpoint checkpoint;
  std::vector<float> logits;  ///< of the last positions
  double largest = 0;
};

void check_saved(CausalLM& model, const SavedGolden& wanted) {
  const std::vector<float> logits = wanted.run(model);
  const double error = largest_difference(std::span(logits).last(wanted.logits.size()), wanted.logits);
  EXPECT_LE(error, kSavedShare * wanted.largest);
  testing::Test::RecordProperty("logits", std::to_string(error / wanted.largest));
  const std::vector<std::int32_t> ids = test::read_ids(wanted.golden, "input_ids");
  test::check_continued(model, ids, logits, ids.size() / 2, kSavedShare * wanted.largest);
}

class Saved : public testing::TestWithParam<const char*> {};

TEST_P(Saved, FusedForwardGivesTheLibrarysOutputs) {
  const SavedGolden wanted(GetParam());
  check_saved(*wanted.load(), wanted);
}

TEST_P(Saved, ComposedTwinGivesTheLibrarysOutputs) {
  const SavedGolden wanted(GetParam());
  check_saved(*wanted.load_composed(), wanted);
}

INSTANTIATE_TEST_SUITE_P(ByTransformers, Saved,
                         testing::Values("qwen3_moe", "qwen3_5_moe", "granitemoehybrid", "zamba2", "nemotron_h",
                                         "nemotron_h-latent", "olmo3", "kimi_linear", "olmo_hybrid", "ministral3",
                                         "smollm3"),
                         test::fixture_test_name);
INSTANTIATE_TEST_SUITE_P(ByFla, Saved, testing::Values("fla-kda"), test::fixture_test_name);

/// Where the names are not the hub's, all tensors tell which they are.
TEST(SavedNames, AreChosenByAllTensors) {
  for (const char* name : {"qwen3_5_moe", "kimi_linear", "olmo_hybrid"}) {
    const std::string folder = test::data_path(std::string("saved/") + name);
    const Checkpoint saved = Checkpoint::open(folder);
    EXPECT_TRUE(saved.config().resaved) << name;
    std::vector<test::NamedTensor> tensors;
    for (const auto& [tensor, view] : saved.tensors()) {
      std::vector<float> values;
      saved.read(tensor, [&](std::span<const float> piece) {
        values.insert(values.end(), piece.begin(), piece.end());
        return true;
      });
      tensors.push_back({tensor, view.shape, values});
    }
    tensors.erase(tensors.begin() + static_cast<std::ptrdiff_t>(tensors.size() / 2));
    const test::TemporaryFolder one_less;
    test::write_checkpoint(one_less, nlohmann::json::parse(saved.config().json), tensors);
    EXPECT_PRED2(test::says, test::error_of([&] { Checkpoint::open(one_less.text()); }),
                 (test::Parts{"the tensors do not fit config.json", "missing 1: "}));
  }
  EXPECT_FALSE(Checkpoint::open(test::data_path("published/olmo_hybrid")).config().resaved);
  EXPECT_FALSE(Checkpoint::open(test::data_path("saved/zamba2")).config().resaved);
}

}  // namespace
}  // namespace foxscope

// The two trained models on held-out books, against losses kept from a plain dense program in float32, and their
// attention against float64.
#include <cmath>

#include <gtest/gtest.h>

#include "backend/model/session/run.h"
#include "tests/model/attention_errors.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

constexpr std::int64_t kLength = 2048;  // the loss of a position depends on what is before it alone

struct Window {
  std::vector<std::int32_t> input_ids;
  std::vector<std::int32_t> labels;
  std::vector<float> expected;
};

std::vector<Window> windows(const std::string& name, std::int32_t bos) {
  const SafetensorsFile reference(test::data_path("heldout/reference.safetensors"));
  const SafetensorsFile kept(test::data_path("heldout/reference_float32.safetensors"));
  const std::vector<std::int32_t> tokens = test::read_ids(reference, "tokens");
  const std::vector<float> losses = test::read_floats(kept, name + ".per_token_loss_float32");
  const std::int64_t width = reference.tensors().at("tokens").shape[1];
  std::vector<Window> result;
  for (std::int64_t n = 0; n < reference.tensors().at("tokens").shape[0]; ++n) {
    const auto first = tokens.begin() + n * width;
    Window window{{bos}, {first, first + kLength}, {losses.begin() + n * width, losses.begin() + n * width + kLength}};
    window.input_ids.insert(window.input_ids.end(), first, first + kLength - 1);
    result.push_back(std::move(window));
  }
  return result;
}

void check(const std::string& name, double pruning_tolerance) {
  const auto model = CausalLM::load(Checkpoint::open(test::demo_model(name + "-12m")), Device{}, DType::float32);
  const std::vector<Window> all = windows(name, model->config().bos_token_id.value());
  ASSERT_EQ(all.size(), 3U);
  for (const Window& window : all) {
    test::Batch batch;
    batch.input_ids = window.input_ids;
    batch.labels = window.labels;
    batch.keep = {Keep::loss};
    batch.pruning_tolerance = pruning_tolerance;
    const test::BatchResult result = test::run_batch(*model, batch);
    const auto loss = result.traces[0]->per_token_loss();
    EXPECT_LE(test::largest_difference(loss, window.expected), 1e-3);
    double mean = 0;
    for (std::size_t p = 0; p < loss.size(); ++p) {
      mean += (static_cast<double>(loss[p]) - static_cast<double>(window.expected[p])) / static_cast<double>(kLength);
    }
    EXPECT_LE(std::abs(mean), 1e-5);
    if (name == "fox-pro") {
      EXPECT_EQ(result.report.skipped_blocks > 0, pruning_tolerance > 0);
    }
  }
}

TEST(Heldout, ForgettingTransformer) { check("fox-pro", 0x1p-24); }
TEST(Heldout, ForgettingTransformerWithoutPruning) { check("fox-pro", 0); }
TEST(Heldout, Transformer) { check("transformer-pro", 0x1p-24); }

/// The error of an entry of A in float32 on the CPU, as docs/limits.md states it.
void check_attention(const std::string& name) {
  test::AskedRun request;
  request.name = name;
  request.model = test::demo_model(name + "-12m");
  request.device = DeviceChoice::parse("cpu");
  const Window window = windows(name, 0).front();
  request.input = {nullptr, window.labels, {}, "ids"};
  request.keep = {Keep::gates, Keep::rows, Keep::query_key};
  const auto result = test::run(request, Job{});
  ASSERT_TRUE(result.has_value());
  test::AttentionErrors errors = test::attention_errors(result->trace);
  EXPECT_LT(test::quantile_of(errors.entries, 0.5), 6e-7);
  EXPECT_LT(test::quantile_of(errors.entries, 0.99), 4e-6);
  EXPECT_LT(test::quantile_of(errors.entries, 1), 1e-5);
  EXPECT_LT(test::quantile_of(errors.normalizers, 1), 1e-5);
}

TEST(Heldout, AttentionOfTheForgettingTransformerIsAsPreciseAsSaid) { check_attention("fox-pro"); }
TEST(Heldout, AttentionOfTheTransformerIsAsPreciseAsSaid) { check_attention("transformer-pro"); }

}  // namespace
}  // namespace foxscope

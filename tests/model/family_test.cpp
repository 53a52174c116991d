// Plain Transformers of other families: what transformers returns for a small checkpoint of each, and the continuation
// against the pass over the whole.
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "backend/model/session/decode_state.h"
#include "backend/model/session/torch_model.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

using test::largest_difference;

/// Logits are held to this share of the largest.
constexpr double kLogitShare = 2e-4;
constexpr double kEntryBound = 1e-4;

struct FamilyGolden {
  explicit FamilyGolden(const std::string& name)
      : golden(test::data_path(name) + "/golden.safetensors"),
        checkpoint(Checkpoint::open(test::data_path(name))),
        ids(test::read_ids(golden, "input_ids")),
        labels(test::read_ids(golden, "labels")),
        logits(test::read_floats(golden, "logits")) {
    for (const float logit : logits) largest = std::max(largest, std::abs(static_cast<double>(logit)));
  }
  SafetensorsFile golden;
  Checkpoint checkpoint;
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> labels;
  std::vector<float> logits;
  double largest = 0;
};

/// The last rows of A [H, rows, L], entry by entry, from what the trace keeps.
std::vector<float> last_rows(const Trace& trace, int layer, std::int64_t rows) {
  const TraceInfo& info = trace.info();
  std::vector<float> entries;
  std::vector<float> query_scratch;
  std::vector<float> key_scratch;
  const LayerMixer mixer = info.mixer(layer);
  const auto dim = static_cast<std::size_t>(mixer.head_dim);
  for (int head = 0; head < mixer.heads; ++head) {
    const auto query = trace.query_key()->rows(QueryKeyStore::Part::query, layer, head, 0, info.length, query_scratch);
    const auto key = trace.query_key()->rows(
        QueryKeyStore::Part::key, layer, shared_head(mixer.heads, mixer.key_heads, head), 0, info.length, key_scratch);
    for (std::int64_t i = info.length - rows; i < info.length; ++i) {
      for (std::int64_t j = 0; j < info.length; ++j) {
        double dot = 0;
        for (std::size_t n = 0; n < dim; ++n) {
          dot += static_cast<double>(query[static_cast<std::size_t>(i) * dim + n]) *
                 static_cast<double>(key[static_cast<std::size_t>(j) * dim + n]);
        }
        const double normalizer = static_cast<double>(trace.log_normalizer(layer, head)[index_of(i)]);
        const double logit = capped_logit(info, dot / std::sqrt(static_cast<double>(dim)));
        const bool seen = j <= i && (window_of(info, layer) == 0 || i - j < window_of(info, layer));
        entries.push_back(seen ? static_cast<float>(std::exp(logit - normalizer)) : 0.0F);
      }
    }
  }
  return entries;
}

void check_family(CausalLM& model, const FamilyGolden& wanted) {
  test::Batch batch;
  batch.input_ids = wanted.ids;
  batch.labels = wanted.labels;
  batch.keep = {Keep::loss, Keep::rows, Keep::query_key, Keep::logits, Keep::hidden};
  const auto trace = test::run_batch(model, batch).traces.front();
  const double of_logits = largest_difference(trace->source().logits(), wanted.logits);
  EXPECT_LE(of_logits, kLogitShare * wanted.largest);
  const double of_losses =
      largest_difference(trace->per_token_loss(), test::read_floats(wanted.golden, "per_token_loss"));
  EXPECT_LE(of_losses, kLogitShare * wanted.largest);
  double of_entries = 0;
  for (int layer = 0; layer <= model.config().layers; ++layer) {
    const std::string name = "hidden_states." + std::to_string(layer);
    if (wanted.golden.tensors().contains(name)) {
      EXPECT_LE(largest_difference(trace->source().hidden_states(layer), test::read_floats(wanted.golden, name)), 1e-4)
          << name;
    }
    const std::string attention = "layers." + std::to_string(layer) + ".attention";
    if (layer == model.config().layers || model.config().is_linear(layer)) continue;
    const std::int64_t rows = wanted.golden.tensors().at(attention).shape[2];
    const double error =
        largest_difference(last_rows(*trace, layer, rows), test::read_floats(wanted.golden, attention));
    EXPECT_LE(error, kEntryBound) << attention;
    of_entries = std::max(of_entries, error);
  }
  testing::Test::RecordProperty("largest_logit", std::to_string(wanted.largest));
  testing::Test::RecordProperty("logits", std::to_string(of_logits));
  testing::Test::RecordProperty("losses", std::to_string(of_losses));
  testing::Test::RecordProperty("attention", std::to_string(of_entries));
}

void check_continued_family(CausalLM& model, const FamilyGolden& wanted) {
  test::check_continued(model, wanted.ids, wanted.logits, wanted.ids.size() / 2, kLogitShare * wanted.largest);
}

class Family : public testing::TestWithParam<const char*> {};

TEST_P(Family, FusedForwardGivesTheLibrarysOutputs) {
  const FamilyGolden wanted(GetParam());
  check_family(*CausalLM::load(wanted.checkpoint, Device{}, DType::float32), wanted);
}

TEST_P(Family, ComposedTwinGivesTheLibrarysOutputs) {
  const FamilyGolden wanted(GetParam());
  check_family(*load_torch_model(wanted.checkpoint, Device{}, DType::float32), wanted);
}

TEST_P(Family, ContinuesAsTheWholeTextGoesOn) {
  const FamilyGolden wanted(GetParam());
  check_continued_family(*CausalLM::load(wanted.checkpoint, Device{}, DType::float32), wanted);
  check_continued_family(*load_torch_model(wanted.checkpoint, Device{}, DType::float32), wanted);
}

TEST_P(Family, CudaInFloat32GivesTheLibrarysOutputs) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const FamilyGolden wanted(GetParam());
  const auto model = CausalLM::load(wanted.checkpoint, Device::of(DeviceChoice::parse("cuda")), DType::float32);
  check_family(*model, wanted);
  check_continued_family(*model, wanted);
}

TEST_P(Family, CudaInBfloat16StaysNearTheLibrarysLosses) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  const FamilyGolden wanted(GetParam());
  const auto model = CausalLM::load(wanted.checkpoint, Device::of(DeviceChoice::parse("cuda")), DType::bfloat16);
  test::Batch batch;
  batch.input_ids = wanted.ids;
  batch.labels = wanted.labels;
  batch.keep = {Keep::loss};
  const test::BatchResult result = test::run_batch(*model, batch);
  if (model->config().attention_cap == 0 && !model->config().sinks) {
    EXPECT_TRUE(result.report.attention_kernel.starts_with("cuda ")) << result.report.attention_kernel;
  }
  const std::vector<float> losses = test::read_floats(wanted.golden, "per_token_loss");
  const std::span<const float> found = result.traces.front()->per_token_loss();
  ASSERT_EQ(found.size(), losses.size());
  std::int64_t apart = 0;
  for (std::size_t n = 0; n < losses.size(); ++n) apart += std::abs(found[n] - losses[n]) <= 0.2F ? 0 : 1;
  // By rounding a position may choose another expert, whose output is no neighbour of the first one's.
  EXPECT_LE(apart, model->config().mixture ? static_cast<std::int64_t>(losses.size()) / 10 : 0);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Family,
                         testing::Values("gpt2", "gpt_neox", "llama", "llama-tied-bias", "mistral", "qwen2", "qwen3"),
                         test::fixture_test_name);
INSTANTIATE_TEST_SUITE_P(Published, Family,
                         testing::Values("published/qwen2-window", "published/qwen2-window-off",
                                         "published/qwen3-window", "published/qwen3-yarn", "published/ministral",
                                         "published/ministral3-published", "published/olmo2", "published/olmo3",
                                         "published/phi3", "published/glm", "published/glm4", "published/smollm3",
                                         "published/qwen3_5-published", "published/gemma2", "published/gemma3-text",
                                         "published/gemma3-published", "published/gpt_oss", "published/qwen3_moe",
                                         "published/olmoe", "published/mixtral", "published/qwen3_next-moe",
                                         "published/qwen3_5_moe-published"),
                         test::fixture_test_name);

}  // namespace
}  // namespace foxscope

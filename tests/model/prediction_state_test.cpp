// The state that predictions are made of, as each pass keeps it.
#include <cmath>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "backend/eval/predictions/predictions.h"
#include "backend/model/session/torch_model.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

test::Batch golden_batch() {
  const SafetensorsFile golden(test::data_path("fox-pro") + "/golden.safetensors");
  test::Batch batch;
  batch.input_ids = test::read_ids(golden, "input_ids");
  batch.labels = test::read_ids(golden, "labels");
  batch.keep = {Keep::loss, Keep::predictions};
  return batch;
}

/// A trace with the tokens that a run gives it.
std::shared_ptr<const Trace> with_tokens(const Trace& run, const test::Batch& batch, DType dtype) {
  TraceInfo info = run.info();
  info.dtype = dtype;
  Recorder recorder(info, batch.keep, nullptr);
  std::ranges::copy(run.prediction_state(), recorder.prediction_state(info.hidden_size).begin());
  std::ranges::copy(run.per_token_loss(), recorder.per_token_loss().begin());
  auto tokens = std::make_shared<TokenTable>();
  tokens->id = batch.labels;
  tokens->input_id = batch.input_ids;
  return recorder.finish(nullptr, tokens);
}

/// @param bound  of log p against the loss, nats
void check_losses(CausalLM& model, DType dtype, double bound) {
  const test::Batch batch = golden_batch();
  const auto trace = with_tokens(*test::run_batch(model, batch).traces.front(), batch, dtype);
  ModelRequest request;
  request.model = test::data_path("fox-pro");
  request.device = DeviceChoice::parse("cpu");
  const OutputHead head(Engine().open(request), dtype);
  for (std::int64_t p = 0; p < trace->info().length; ++p) {
    const auto found = predict(*trace, &head, p, 1, {});
    ASSERT_TRUE(found);
    EXPECT_NEAR(found->scored.log_probability, -trace->per_token_loss()[index_of(p)], bound) << p;
  }
}

/// In bfloat16 head and state are rounded to it, which float16 holds exactly: only sums are rounded otherwise.
TEST(PredictionState, OfEachPassGivesItsLosses) {
  const Checkpoint checkpoint = Checkpoint::open(test::data_path("fox-pro"));
  check_losses(*CausalLM::load(checkpoint, Device{}, DType::float32), DType::float32, 1e-2);
  check_losses(*load_torch_model(checkpoint, Device{}, DType::float32), DType::float32, 1e-2);
  check_losses(*load_torch_model(checkpoint, Device{}, DType::bfloat16), DType::bfloat16, 1e-3);
}

/// Of several sequences each has its own.
TEST(PredictionState, OfABatchIsThatOfEachSequence) {
  const test::Batch one = golden_batch();
  test::Batch two = one;
  two.size = 2;
  two.input_ids.insert(two.input_ids.end(), one.labels.begin(), one.labels.end());
  two.labels.insert(two.labels.end(), one.input_ids.begin(), one.input_ids.end());
  const Checkpoint checkpoint = Checkpoint::open(test::data_path("fox-pro"));
  for (const auto& model :
       {CausalLM::load(checkpoint, Device{}, DType::float32), load_torch_model(checkpoint, Device{}, DType::float32)}) {
    const auto alone = test::run_batch(*model, one);
    const auto together = test::run_batch(*model, two);
    const auto wanted = alone.traces[0]->prediction_state();
    const auto found = together.traces[0]->prediction_state();
    ASSERT_EQ(found.size(), wanted.size());
    for (std::size_t n = 0; n < found.size(); ++n) {
      ASSERT_NEAR(from_float16(found[n]), from_float16(wanted[n]), 1e-2);
    }
    EXPECT_FALSE(std::ranges::equal(together.traces[1]->prediction_state(), found));
  }
}

}  // namespace
}  // namespace foxscope

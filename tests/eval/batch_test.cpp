// `eval heads` and `eval needle` read several texts in one pass: their results are those of each text alone.
#include <cmath>
#include <iterator>

#include <gtest/gtest.h>

#include "backend/data/windows_ids.h"
#include "backend/eval/heads/heads.h"
#include "backend/eval/heads/heads_evaluation.h"
#include "backend/eval/needle/needle.h"
#include "backend/eval/needle/needle_prompt.h"
#include "tests/model/model_test_support.h"

namespace foxscope::test {
namespace {

AskedRun demo_run(const char* name) {
  test::AskedRun request;
  request.name = name;
  request.model = demo_model("fox-pro-12m");
  request.device = DeviceChoice::parse("cpu");
  return request;
}

TEST(EvalBatch, HeadsOfWindowsTogetherAreMeansOfSingleRuns) {
  HeadsRequest request;
  request.models = {Engine().open(demo_run("fox"))};
  request.input.ids.file = data_path("heldout/reference.safetensors");
  request.input.ids.tensor = "tokens";
  request.input.ids.length = 120;
  request.input.ids.windows = 3;
  const EvaluatedHeads together = evaluate_heads(request, {}, Job{}).value().models.at(0);

  std::vector<EvaluatedHeads> alone;
  for (const Window& window : read_window_ids(request.input.ids).windows) {
    AskedRun run = demo_run("fox");
    run.input.ids = window.ids;
    run.input.name = "window";
    run.keep = {Keep::gates, Keep::rows, Keep::query_key};
    alone.push_back(evaluate_run(test::run(run, Job{}).value().trace, Job{}).value());
  }
  ASSERT_EQ(alone.size(), 3U);
  int compared = 0;
  for (const HeadArray& array : together.numbers) {
    if (array.name == "rate_decay_time") continue;  // that of the mean gate, not a mean
    for (std::size_t head = 0; head < array.value.size(); ++head) {
      double mean = 0;
      for (const EvaluatedHeads& one : alone) mean += find_array(one.numbers, array.name)->value[head] / 3;
      if (std::isnan(mean)) continue;
      EXPECT_NEAR(array.value[head], mean, 1e-4 * (1 + std::abs(mean))) << array.name << ", " << head;
      ++compared;
    }
  }
  EXPECT_GT(compared, 300);
}

class NeedleBatch : public testing::Test {
 protected:
  NeedleBatch() {
    for (int n = 0; n < 60; ++n) haystack_ += "The road went on over the hill, and nobody knew how far it was. ";
    folder_.write("haystack.txt", haystack_);
  }
  NeedleModel evaluate(const std::vector<double>& depths, const std::string& name) {
    NeedleRequest request;
    request.models = {Engine().open(demo_run("fox"))};
    request.haystack = folder_.path() / "haystack.txt";
    request.lengths = {kLength};
    request.depths = depths;
    request.output = folder_.path() / name;
    Job job;
    job.report = [&](const Progress& progress) {
      if (progress.stage == std::string_view("forward")) ADD_FAILURE();
      if (progress.stage != std::string_view("needle")) return;
      EXPECT_LE(progress.done, progress.total);
    };
    return evaluate_needle(request, {}, job).value().models.at(0);
  }

  static constexpr std::int64_t kLength = 400;
  std::string haystack_;
  TemporaryFolder folder_;
};

TEST_F(NeedleBatch, PromptsTogetherGiveWhatEachGivesWithTheBaseline) {
  const std::vector<double> depths = {0, 0.5, 1};
  const NeedleModel together = evaluate(depths, "together.h5");
  const auto heads = static_cast<std::ptrdiff_t>(together.info.layers) * together.info.heads;
  for (std::size_t q = 0; q < depths.size(); ++q) {
    const NeedleModel one = evaluate({depths[q]}, "one" + std::to_string(q) + ".h5");
    EXPECT_NEAR(together.answer_log_probability[q], one.answer_log_probability[0], 1e-4);
    EXPECT_NEAR(together.baseline_log_probability[0], one.baseline_log_probability[0], 1e-4);
    EXPECT_EQ(together.continuation[q], one.continuation[0]);
    EXPECT_EQ(together.found[q], one.found[0]);
    const auto part = [&](const std::vector<float>& all) {
      const auto first = all.begin() + static_cast<std::ptrdiff_t>(q) * heads;
      return std::vector<float>(first, first + heads);
    };
    EXPECT_LE(largest_difference(part(together.needle_mass), one.needle_mass), 1e-5);
    EXPECT_LE(largest_difference(part(together.needle_gate), one.needle_gate), 1e-5);
  }
}

TEST_F(NeedleBatch, AnswersHaveTheScoresOfOnePassOverThem) {
  const NeedleModel needle = evaluate({0, 1}, "needle.h5");
  const Checkpoint checkpoint = Checkpoint::open(demo_model("fox-pro-12m"));
  const Tokenizer tokenizer = Tokenizer::load(checkpoint.folder());
  NeedleParts parts = cut_needle(NeedleTemplate::built_in(), NeedleMode::easy, tokenizer);
  cut_haystack({haystack_}, "haystack", kLength, tokenizer, parts);
  const std::int32_t bos = checkpoint.config().bos_token_id.value();
  const auto model = CausalLM::load(checkpoint, Device{}, DType::float32);
  const auto mean_of = [&](const NeedlePrompt& prompt) {
    std::vector<std::int32_t> ids = prompt.input_ids;
    ids.insert(ids.end(), parts.answer.begin(), parts.answer.end() - 1);
    ScoreRequest request;
    request.texts = {{ids, std::ssize(prompt.input_ids) - 1, std::ssize(ids), parts.answer}};
    double sum = 0;
    const auto scores = model->score(request, {}).value();
    for (const ScoredPosition& score : scores[0]) sum += static_cast<double>(score.log_probability);
    return sum / static_cast<double>(parts.answer.size());
  };
  EXPECT_NEAR(needle.answer_log_probability[0], mean_of(needle_prompt(parts, bos, kLength, 0)), 1e-4);
  EXPECT_NEAR(needle.answer_log_probability[1], mean_of(needle_prompt(parts, bos, kLength, 1)), 1e-4);
  EXPECT_NEAR(needle.baseline_log_probability[0], mean_of(plain_prompt(parts, bos, kLength)), 1e-4);
}

}  // namespace
}  // namespace foxscope::test

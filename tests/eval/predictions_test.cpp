// What a run expected, made of the states that it kept and the head of its model: against logits that the families' own
// libraries give, in float64, and against the run's losses.
#include "backend/eval/predictions/predictions.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/file/run_file.h"
#include "backend/model/session/run.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

/// float16 rounds a number to 2^-11 of it; a logit, a sum of many products, to about as much of the largest.
constexpr double kRounding = 0x1p-10;

test::AskedRun golden_run(const std::string& fixture, const KeepSet& keep) {
  const SafetensorsFile golden(test::data_path(fixture) + "/golden.safetensors");
  test::AskedRun run;
  run.name = "fox";
  run.model = test::data_path(fixture);
  run.device = DeviceChoice::parse("cpu");
  run.keep = keep;
  // Texts of the same length, of which the first is read.
  const auto length = index_of(golden.tensors().at("input_ids").shape.back());
  const auto first = [&](const char* name) {
    std::vector<std::int32_t> ids = test::read_ids(golden, name);
    ids.resize(length);
    return ids;
  };
  run.input.ids = first("input_ids");
  run.input.labels = first("labels");
  return run;
}

OpenedModel open_model(const std::string& path) {
  ModelRequest request;
  request.model = path;
  request.device = DeviceChoice::parse("cpu");
  return Engine().open(request);
}

OutputHead head_of(const std::string& fixture) { return {open_model(test::data_path(fixture)), DType::float32}; }

/// log p of a position in float64.
std::vector<double> log_probabilities(std::span<const float> logits) {
  const double largest = std::ranges::max(logits);
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit) - largest);
  std::vector<double> log_p;
  for (const float logit : logits) log_p.push_back(static_cast<double>(logit) - largest - std::log(sum));
  return log_p;
}

class Predictions : public testing::TestWithParam<const char*> {};

/// "gpt2" and "llama-tied-bias" have the embedding as head.
TEST_P(Predictions, AreThoseOfTheLibrarysLogits) {
  const std::string fixture = GetParam();
  const auto run = test::run(golden_run(fixture, {Keep::loss, Keep::predictions}), {});
  ASSERT_TRUE(run);
  const Trace& trace = *run->trace;
  const SafetensorsFile golden(test::data_path(fixture) + "/golden.safetensors");
  const std::vector<float> logits = test::read_floats(golden, "logits");
  const OutputHead head = head_of(fixture);
  const auto vocabulary = static_cast<std::size_t>(head.vocabulary_size());
  ASSERT_GE(logits.size(), vocabulary * index_of(trace.info().length));
  const double bound =
      kRounding *
      std::abs(static_cast<double>(*std::ranges::max_element(logits, {}, [](float logit) { return std::abs(logit); })));
  for (std::int64_t p = 0; p < trace.info().length; ++p) {
    const std::vector<double> wanted =
        log_probabilities(std::span(logits).subspan(index_of(p) * vocabulary, vocabulary));
    const auto found = predict(trace, &head, p, 5, {});
    ASSERT_TRUE(found);
    ASSERT_EQ(found->log_probability.size(), vocabulary);
    double entropy = 0;
    for (std::size_t id = 0; id < vocabulary; ++id) {
      ASSERT_NEAR(found->log_probability[id], wanted[id], bound) << "position " << p << ", token " << id;
      entropy -= std::exp(wanted[id]) * wanted[id];
    }
    const auto label = index_of(trace.tokens()->id[index_of(p)]);
    const ScoredPosition& scored = found->scored;
    EXPECT_NEAR(scored.log_probability, wanted[label], bound);
    EXPECT_NEAR(scored.log_probability, -trace.per_token_loss()[index_of(p)], bound);
    EXPECT_NEAR(scored.entropy, entropy, bound * std::log(vocabulary));
    // Tokens that are surely likelier, and those that are not surely less likely.
    const auto surely = std::ranges::count_if(wanted, [&](double log_p) { return log_p > wanted[label] + 2 * bound; });
    const auto perhaps = std::ranges::count_if(wanted, [&](double log_p) { return log_p > wanted[label] - 2 * bound; });
    EXPECT_GE(scored.rank, surely + 1);
    EXPECT_LE(scored.rank, perhaps);
    ASSERT_EQ(scored.top.size(), 5U);
    std::vector<double> sorted = wanted;
    std::ranges::sort(sorted, std::greater<>());
    for (std::size_t n = 0; n < 5; ++n) {
      EXPECT_NEAR(wanted[index_of(scored.top[n].id)], sorted[n], 2 * bound);
      EXPECT_EQ(scored.top[n].log_probability, found->log_probability[index_of(scored.top[n].id)]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Predictions,
                         testing::Values("fox-pro", "fox-llama", "transformer-pro", "fla-fox", "gpt2", "gpt_neox",
                                         "llama", "llama-tied-bias", "mistral", "qwen2", "qwen3", "samba", "mamba"),
                         test::fixture_test_name);

/// Ranks of exact logits, in whatever way they are kept.
TEST(KeptPredictions, OfLogitsHiddenStatesAndFilesAgree) {
  const test::TemporaryFolder folder;
  const auto run = test::run(golden_run("fox-pro", {Keep::loss, Keep::logits, Keep::hidden, Keep::predictions}), {});
  const auto hidden = test::run(golden_run("fox-pro", {Keep::hidden}), {});
  ASSERT_TRUE(run && hidden);
  const OutputHead head = head_of("fox-pro");
  EXPECT_EQ(prediction_source(*run->trace, true), PredictionSource::states);
  EXPECT_EQ(prediction_source(*run->trace, false), PredictionSource::logits);
  const auto of_logits = distributions_of(*run->trace, nullptr, {});
  const auto of_states = distributions_of(*run->trace, &head, {});
  const auto of_hidden = distributions_of(*hidden->trace, &head, {});
  ASSERT_TRUE(of_logits && of_states && of_hidden);
  const std::vector<float> logits = run->trace->source().logits();
  const std::size_t length = of_logits->rank.size();
  ASSERT_EQ(length, index_of(run->trace->info().length));
  for (std::size_t p = 0; p < length; ++p) {
    const auto row = std::span(logits).subspan(p * logits.size() / length, logits.size() / length);
    const float came = row[index_of(run->trace->tokens()->id[p])];
    EXPECT_EQ(of_logits->rank[p], 1 + std::ranges::count_if(row, [&](float logit) { return logit > came; }));
    EXPECT_EQ(of_logits->likeliest[p].id, std::ranges::max_element(row) - row.begin());
    EXPECT_EQ(of_hidden->likeliest[p].id, of_logits->likeliest[p].id);
    EXPECT_EQ(of_hidden->rank[p], of_logits->rank[p]);
    EXPECT_NEAR(of_hidden->entropy[p], of_logits->entropy[p], 1e-4);
    EXPECT_NEAR(of_states->entropy[p], of_logits->entropy[p], 1e-2);
    EXPECT_NEAR(of_states->likeliest[p].log_probability, of_logits->likeliest[p].log_probability, 1e-2);
  }
  const std::filesystem::path path = folder.path() / "run.h5";
  ASSERT_TRUE(write_run_file(path, {&run->trace, 1}, {"command", ""}, Overwrite::refuse, {}));
  const auto reopened = RunFile::open(path).traces.front();
  EXPECT_EQ(reopened->info().hidden_size, run->trace->info().hidden_size);
  EXPECT_TRUE(std::ranges::equal(reopened->prediction_state(), run->trace->prediction_state()));
  const auto of_file = distributions_of(*reopened, &head, {});
  ASSERT_TRUE(of_file);
  EXPECT_EQ(of_file->rank, of_states->rank);
  EXPECT_EQ(of_file->entropy, of_states->entropy);
  EXPECT_EQ(has_made(open_model(test::data_path("fox-pro")), *reopened, {}), true);
  EXPECT_EQ(has_made(open_model(test::data_path("transformer-pro")), *reopened, {}), false);
}

/// The passes that also go backwards keep the same.
TEST(KeptPredictions, OfARunWithSaliencyAreTheSame) {
  const auto plain = test::run(golden_run("fox-pro", {Keep::loss, Keep::predictions}), {});
  const auto both = test::run(golden_run("fox-pro", {Keep::loss, Keep::predictions, Keep::saliency}), {});
  const auto composed = test::run(golden_run("gpt2", {Keep::loss, Keep::predictions, Keep::saliency}), {});
  ASSERT_TRUE(plain && both && composed);
  const auto numbers = [](const Trace& trace) {
    std::vector<float> states;
    for (const std::uint16_t bits : trace.prediction_state()) states.push_back(from_float16(bits));
    return states;
  };
  EXPECT_LE(test::largest_difference(numbers(*plain->trace), numbers(*both->trace)), 1e-2);
  const auto other = test::run(golden_run("gpt2", {Keep::predictions}), {});
  ASSERT_TRUE(other);
  EXPECT_LE(test::largest_difference(numbers(*other->trace), numbers(*composed->trace)), 1e-2);
}

TEST(KeptPredictions, SayWhatIsMissing) {
  const auto without = test::run(golden_run("fox-pro", {Keep::loss}), {});
  const auto states = test::run(golden_run("fox-pro", {Keep::predictions}), {});
  ASSERT_TRUE(without && states);
  const OutputHead head = head_of("fox-pro");
  EXPECT_FALSE(keeps_predictions(*without->trace));
  EXPECT_TRUE(distributions_of(*without->trace, &head, {})->rank.empty());
  EXPECT_TRUE(distributions_of(*states->trace, nullptr, {})->rank.empty());
  EXPECT_EQ(test::error_of([&] { (void)predict(*without->trace, &head, 0, 1, {}); }),
            "model 'fox': the run did not keep predictions: run again with 'predictions' in --keep");
  EXPECT_EQ(test::error_of([&] { (void)predict(*states->trace, nullptr, 0, 1, {}); }),
            "model 'fox': predictions need the head of the model beside the states that the run kept: give its "
            "checkpoint");
  EXPECT_EQ(test::error_of([&] { (void)predict(*states->trace, &head, 64, 1, {}); }),
            "position 64: the run of 'fox' has positions 0 to 63");
  const OutputHead wide = {open_model(test::demo_model("fox-pro-12m")), DType::float32};
  EXPECT_NE(test::error_of([&] {
              (void)predict(*states->trace, &wide, 0, 1, {});
            }).find("and the head of the checkpoint has 256"),
            std::string::npos);
  Recorder recorder(states->trace->info(), {Keep::predictions}, nullptr);
  const auto kept = recorder.prediction_state(states->trace->info().hidden_size);
  kept[index_of(3 * states->trace->info().hidden_size)] = to_float16(1e6F);
  const auto large = recorder.finish(nullptr, states->trace->tokens());
  EXPECT_EQ(test::error_of([&] { (void)predict(*large, &head, 3, 1, {}); }),
            "model 'fox': the state of position 3 is no number, or too large for 16 bit: run again with 'logits' in "
            "--keep");
  std::stop_source stop;
  stop.request_stop();
  Job job;
  job.stop = stop.get_token();
  EXPECT_FALSE(predict(*states->trace, &head, 0, 1, job));
  EXPECT_FALSE(distributions_of(*states->trace, &head, job));
}

TEST(KeptPredictions, NameTokens) {
  const OutputHead demo = {open_model(test::demo_model("fox-pro-12m")), DType::float32};
  const Tokens tokens = Tokenizer::load(test::demo_model("fox-pro-12m")).encode("The fox\n");
  std::string text;
  for (const std::int32_t id : tokens.id) text += demo.token_string(id);
  EXPECT_EQ(text, "The fox\n");
  EXPECT_EQ(head_of("fox-pro").token_string(12), "⟨12⟩");
}

}  // namespace
}  // namespace foxscope

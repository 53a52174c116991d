// From a folder and a text to a trace: positions, BOS, limits, identities, memory, and what is refused on the way.
#include "backend/model/session/run.h"

#include <cmath>
#include <fstream>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/base/sha256.h"
#include "backend/generate/generate.h"
#include "backend/model/session/run_memory.h"
#include "backend/model/session/run_tokens.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

using nlohmann::json;

/// A byte-level vocabulary of 11: single letters, a space, "ab", and one byte of a two-byte character each.
constexpr const char* kTokenizer = R"({"added_tokens":[],"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},
  "decoder":{"type":"ByteLevel"},"model":{"type":"BPE",
  "vocab":{"<s>":0,"a":1,"b":2,"c":3,"Ġ":4,"ab":5,"Ã":6,"¤":7,"d":8,"e":9,"f":10},"merges":["a b"]}})";

class RunModel : public testing::Test {
 protected:
  RunModel() {
    config_ = test::tiny_config();
    write();
    request_.name = "tiny";
    request_.model = folder_.text();
    request_.device = DeviceChoice::parse("cpu");
    request_.keep = {Keep::loss, Keep::gates, Keep::rows, Keep::query_key};
  }
  void write() {
    test::write_checkpoint(folder_, config_, test::random_weights(config_));
    folder_.write("tokenizer.json", kTokenizer);
  }
  void set_text(const std::string& text) {
    request_.input = {};
    request_.input.name = "text.txt";
    request_.input.text = std::make_shared<const Text>(Text{text, ""});
  }
  void set_ids(std::vector<std::int32_t> ids, std::optional<std::vector<std::int32_t>> labels = {}) {
    request_.input = {nullptr, std::move(ids), std::move(labels), "ids.json"};
  }
  RunResult run() {
    std::optional<RunResult> result = test::run(request_, Job{});
    EXPECT_TRUE(result.has_value());
    return std::move(result).value();
  }
  std::string error() {
    return test::error_of([this] { test::run(request_, Job{}); });
  }

  test::TemporaryFolder folder_;
  json config_;
  test::AskedRun request_;
};

TEST_F(RunModel, PositionsReadThePreviousTokenAndPredictTheirOwn) {
  set_text("ab cä");
  const RunResult result = run();
  const TokenTable& tokens = *result.trace->tokens();
  EXPECT_EQ(tokens.id, (std::vector<std::int32_t>{5, 4, 3, 6, 7}));
  EXPECT_EQ(tokens.input_id, (std::vector<std::int32_t>{0, 5, 4, 3, 6}));
  EXPECT_EQ(tokens.byte_start[2], 3);
  EXPECT_EQ(tokens.byte_end[2], 4);
  EXPECT_EQ(tokens.string, (std::vector<std::string>{"ab", " ", "c", "\xef\xbf\xbd", "\xef\xbf\xbd"}));
  EXPECT_EQ(result.trace->text()->sha256, sha256("ab cä"));

  // The same numbers as a forward pass over these ids.
  const auto model = CausalLM::load(Checkpoint::open(folder_.text()), Device{}, DType::float32);
  test::Batch batch;
  batch.input_ids = tokens.input_id;
  batch.labels = tokens.id;
  batch.keep = {Keep::loss};
  const auto direct = test::run_batch(*model, batch);
  EXPECT_EQ(test::largest_difference(direct.traces[0]->per_token_loss(), result.trace->per_token_loss()), 0);
}

TEST_F(RunModel, DescribesItself) {
  set_text("abc");
  request_.interventions = {Intervention::parse("0:1:cut"), Intervention::parse("*:0:zero@1")};
  const RunResult result = run();
  const TraceInfo& info = result.trace->info();
  EXPECT_EQ(info.name, "tiny");
  EXPECT_EQ(info.model_type, "forgetting_transformer-project_fox");
  EXPECT_EQ(json::parse(info.config), config_);
  std::ifstream file(folder_.path() / "model.safetensors", std::ios::binary);
  const std::string weights{std::istreambuf_iterator<char>(file), {}};
  EXPECT_EQ(info.weights_sha256, sha256(weights));
  EXPECT_EQ(info.dtype, DType::float32);
  EXPECT_EQ(info.layers, 1);
  EXPECT_EQ(info.length, 2);
  EXPECT_EQ(info.softmax_scale, 0.5F);
  EXPECT_TRUE(forgets(info));
  EXPECT_EQ(json::parse(info.intervention), json({"0:1:cut", "*:0:zero@1"}));
  EXPECT_FALSE(info.attention_kernel.empty());
  EXPECT_EQ(info.attention_kernel, result.report.forward.attention_kernel);
  EXPECT_GT(result.report.forward_seconds, 0);
  EXPECT_GT(result.report.load_seconds, 0);
}

TEST_F(RunModel, KnowsWhetherThereAreGates) {
  config_["fgate_type"] = "none";
  write();
  set_text("abc");
  EXPECT_FALSE(forgets(run().trace->info()));
  request_.interventions = {Intervention::parse("0:1:cut")};
  EXPECT_FALSE(forgets(run().trace->info()));
  request_.interventions = {Intervention::parse("0:1:constant=0.5")};
  EXPECT_TRUE(forgets(run().trace->info()));
}

TEST_F(RunModel, LimitsToTheFirstTokens) {
  set_text("ab cab c");
  request_.limit = 3;
  EXPECT_EQ(run().trace->tokens()->id, (std::vector<std::int32_t>{5, 4, 3}));
  set_ids({1, 2, 3, 4, 5});
  EXPECT_EQ(run().trace->tokens()->input_id, (std::vector<std::int32_t>{0, 1, 2}));
  set_ids({9, 8, 7, 6}, std::vector<std::int32_t>{1, 2, 3, 4});
  const RunResult result = run();
  EXPECT_EQ(result.trace->tokens()->id, (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ(result.trace->tokens()->input_id, (std::vector<std::int32_t>{9, 8, 7}));
  request_.limit = -1;
  EXPECT_PRED2(test::says, error(), (test::Parts{"--length -1"}));
}

TEST_F(RunModel, ReadsTheTokensThatItsEstimateHasCut) {
  set_text("abab cd");
  const OpenedModel model = Engine().open(request_);
  const auto estimate = estimate_run(model, request_, TokenCount::exact, Job{});
  ASSERT_TRUE(estimate.has_value());
  EXPECT_EQ(estimate->tokens, std::ssize(estimate->cut->id));
  const RunPlan plan = plan_run(model, request_, estimate->cut);
  EXPECT_EQ(plan.tokens, estimate->cut);
  EXPECT_EQ(*plan.tokens, *plan_run(model, request_).tokens);
  EXPECT_EQ(run_model(plan, Job{})->trace->tokens(), estimate->cut);
  EXPECT_EQ(estimate_run(model, request_, TokenCount::at_most, Job{})->cut, nullptr);
}

TEST_F(RunModel, WithALimitHoldsTheTextThatWasRead) {
  const auto text_of = [&](const std::string& text, std::int64_t limit) {
    set_text(text);
    request_.limit = limit;
    return *run().trace->text();
  };
  const Text between = text_of("ab cab c", 3);  // ab, blank, c
  EXPECT_EQ(between.content, "ab c");
  EXPECT_EQ(between.sha256, sha256("ab c"));
  EXPECT_EQ(between.unread_bytes, 4);
  EXPECT_TRUE(between.cut_word);
  EXPECT_FALSE(text_of("ab c ab", 3).cut_word) << "white space follows";
  EXPECT_FALSE(text_of("ab cab", 2).cut_word) << "it ends in white space";
  // The first byte of a character brings all of it.
  const Text within = text_of("cä c", 2);
  EXPECT_EQ(within.content, "cä");
  EXPECT_TRUE(within.cut_word);
  const Text whole = text_of("ab c", 3);
  EXPECT_EQ(whole.content, "ab c");
  EXPECT_EQ(whole.unread_bytes, 0);
  EXPECT_FALSE(whole.cut_word);
  // What was cut once is cut when it is read again, as a change of the model does.
  request_.input.text = std::make_shared<const Text>(between);
  request_.limit = 3;
  EXPECT_EQ(run().trace->text()->unread_bytes, 4);
  request_.limit = 2;
  const Text less = *run().trace->text();
  EXPECT_EQ(less.content, "ab ");
  EXPECT_EQ(less.unread_bytes, 5);
}

TEST_F(RunModel, WhatHelpsWhereMemoryIsShortIsSaidOnceAndForWhatThereIs) {
  request_.keep = {Keep::loss, Keep::gates, Keep::saliency, Keep::logits};
  set_text("abc");
  TraceInfo info = run().trace->info();
  info.length = 171'414;
  RunRequest asked;
  asked.keep = request_.keep;
  asked.saliency = Range{900, 901};
  const MemoryUser user = memory_user(asked, info, info.dtype);
  EXPECT_EQ(user.what, "a run over 171414 tokens needs");
  EXPECT_EQ(user.remedies, (std::vector<std::string>{
                               "use --length 901, because gates behind the positions of --saliency have no gradient",
                               "leave saliency out of --keep", "leave logits out of --keep"}));
  asked.saliency = Range{0, 171'414};
  EXPECT_EQ(memory_user(asked, info, info.dtype).remedies.front(), "leave saliency out of --keep");
}

TEST_F(RunModel, TakesIdsWithoutATokenizer) {
  set_ids({5, 6});
  EXPECT_EQ(run().trace->tokens()->string, (std::vector<std::string>{"ab", "\xef\xbf\xbd"}));
  std::filesystem::remove(folder_.path() / "tokenizer.json");
  const RunResult result = run();
  EXPECT_TRUE(result.trace->tokens()->string.empty());
  EXPECT_TRUE(result.trace->tokens()->byte_start.empty());
  EXPECT_EQ(result.trace->text(), nullptr);
}

TEST_F(RunModel, OneTokenIsEnoughAndNoneIsNot) {
  set_text("a");
  EXPECT_EQ(run().trace->per_token_loss().size(), 1U);
  set_text("");
  EXPECT_PRED2(test::says, error(), (test::Parts{"text.txt: holds no tokens", "at least one"}));
  set_ids({});
  EXPECT_PRED2(test::says, error(), (test::Parts{"ids.json: holds no tokens"}));
}

TEST_F(RunModel, AsksForBosWhereNobodyNamesIt) {
  config_.erase("bos_token_id");
  write();
  set_text("ab");
  EXPECT_PRED2(test::says, error(), (test::Parts{"neither config.json nor the tokenizer", "--bos"}));
  EXPECT_THROW(test::run(request_, Job{}), UsageError);
  request_.bos = 9;
  EXPECT_EQ(run().trace->tokens()->input_id[0], 9);
  request_.bos = 11;
  EXPECT_PRED2(test::says, error(), (test::Parts{"--bos 11", "0 to 10"}));
  request_.bos.reset();
  set_ids({1, 2}, std::vector<std::int32_t>{2, 3});  // labels need no BOS
  EXPECT_EQ(run().trace->tokens()->input_id[0], 1);
}

TEST_F(RunModel, OptionBeatsConfigBeatsTokenizerForBos) {
  folder_.write("tokenizer_config.json", R"({"bos_token": "<s>"})");
  config_["bos_token_id"] = 2;
  write();
  set_text("ab");
  EXPECT_EQ(run().trace->tokens()->input_id[0], 2);
  config_.erase("bos_token_id");
  write();
  EXPECT_EQ(run().trace->tokens()->input_id[0], 0);
}

TEST_F(RunModel, RefusesIdsOutsideTheVocabulary) {
  set_ids({1, 11});
  EXPECT_PRED2(test::says, error(),
               (test::Parts{"ids.json: the id 11 at position 1 is outside the model's vocabulary (0 to 10)"}));
  set_ids({1, -2}, std::vector<std::int32_t>{2, 3});
  EXPECT_PRED2(test::says, error(), (test::Parts{"ids.json, input_ids: the id -2 at position 1"}));
  set_ids({1, 2, 3}, std::vector<std::int32_t>{2, 3});
  EXPECT_PRED2(test::says, error(), (test::Parts{"ids.json: 3 input_ids and 2 labels"}));
}

TEST_F(RunModel, RefusesUnknownOptions) {
  set_text("ab");
  request_.dtype = DType::bfloat16;
  EXPECT_EQ(error(), "--dtype bfloat16 needs --device cuda: on a CPU models run in float32");
  request_.dtype.reset();
  for (const double pruning : {1.0, -0.5, std::numeric_limits<double>::quiet_NaN()}) {
    request_.pruning_tolerance = pruning;
    EXPECT_PRED2(test::says, error(),
                 (test::Parts{"--pruning ", ": use a share from 0 (nothing is skipped) to below 1"}));
  }
  request_.pruning_tolerance.reset();
  for (const std::int64_t limit : {0, -5}) {
    request_.limit = limit;
    EXPECT_EQ(error(), "--length " + std::to_string(limit) + ": use a number of tokens from 1");
  }
  request_.limit.reset();
  for (const std::int64_t bos : {std::int64_t{-1}, std::int64_t{11}, std::int64_t{1} << 40}) {
    request_.bos = bos;
    EXPECT_EQ(error(), "--bos " + std::to_string(bos) + ": the model's vocabulary has ids 0 to 10");
  }
  request_.bos.reset();
  request_.saliency = Range{0, Range::kToTheEnd};
  EXPECT_EQ(error(), "--saliency chooses the losses whose gradients are computed: add saliency to --keep");
  request_.saliency.reset();
  request_.interventions = {Intervention::parse("1:0:one")};
  EXPECT_PRED2(test::says, error(), (test::Parts{"there is no layer 1"}));
  request_.interventions = {Intervention::parse("0:0:zero@1")};
  EXPECT_PRED2(test::says, error(), (test::Parts{"0:0:zero@1"}));
}

TEST_F(RunModel, OptionBeatsConfigForPruning) {
  set_text("ab");
  EXPECT_EQ(run().trace->info().pruning_tolerance, 0x1p-24);
  config_["log_pruning_tolerance"] = -10;
  write();
  EXPECT_DOUBLE_EQ(run().trace->info().pruning_tolerance, std::exp(-10.0));
  request_.pruning_tolerance = 0;
  EXPECT_EQ(run().trace->info().pruning_tolerance, 0);
}

TEST_F(RunModel, APruningToleranceOfTheConfigIsBlamedOnTheConfig) {
  set_text("ab");
  for (const double logarithm : {0.0, -0.0, -1e-17, 3.0, 1e308}) {
    config_["log_pruning_tolerance"] = logarithm;
    write();
    request_.pruning_tolerance.reset();
    EXPECT_PRED2(test::says, error(),
                 (test::Parts{folder_.text() + "/config.json: log_pruning_tolerance is", "below 0", "give --pruning"}));
    EXPECT_EQ(error().find("--pruning 1"), std::string::npos);
    request_.pruning_tolerance = 0;
    EXPECT_EQ(run().trace->info().pruning_tolerance, 0) << "the option counts";
  }
  request_.pruning_tolerance.reset();
  config_["log_pruning_tolerance"] = -1e308;
  write();
  EXPECT_EQ(run().trace->info().pruning_tolerance, 0);
}

TEST_F(RunModel, ABosTokenOfTheTokenizerIsBlamedOnTheTokenizer) {
  folder_.write("tokenizer_config.json", R"({"bos_token": "d"})");
  config_.erase("bos_token_id");
  config_["vocab_size"] = 3;
  write();
  set_text("a");
  EXPECT_PRED2(test::says, error(), (test::Parts{"the tokenizer's BOS token", "ids 0 to 2", "--bos"}));
  EXPECT_EQ(error().find("--bos "), std::string::npos) << "nobody gave the option";
}

TEST_F(RunModel, PassesOnWhatTheUserShouldKnow) {
  config_ = test::tiny_config("forgetting_transformer");
  config_["window_size"] = 4;
  write();
  set_text("ab");
  const RunResult result = run();
  ASSERT_EQ(result.report.notes.size(), 1U);
  EXPECT_PRED2(test::says, result.report.notes[0], (test::Parts{"window_size 4"}));
  EXPECT_EQ(result.trace->info().window_size, 0);
}

TEST_F(RunModel, AContinuationThatDoesNotFitIsNotBegun) {
  const GenerateRequest generation{{nullptr, {1, 2}, {}, "ids.json"}, 10'000'000'000'000, {}};
  EXPECT_PRED2(test::says, test::error_of([&] { generate(Engine().open(request_), generation, {}, Job{}); }),
               (test::Parts{"a prompt of 3 tokens and 10000000000000 more need about", "GiB of memory and",
                            "shorten the prompt, or ask for fewer --max-tokens"}));
}

TEST_F(RunModel, StopsWithoutAnError) {
  set_text("ab");
  std::stop_source stop;
  stop.request_stop();
  Job job;
  job.stop = stop.get_token();
  EXPECT_FALSE(test::run(request_, job).has_value());
}

TEST(RunMemory, GrowsWithWhatIsKept) {
  const ModelConfig config = Checkpoint::open(test::demo_model("fox-pro-12m")).config();
  const auto estimate = [&](const KeepSet& keep) {
    return estimate_needs(config, 11'600'000, keep, DType::float32, {}).host;
  };
  const RunMemory usual = estimate({Keep::loss, Keep::gates, Keep::rows, Keep::query_key});
  EXPECT_EQ(usual.stored_per_token, 8 * 2 * 256 * 4);
  // What was measured for 8192 tokens, process included: 0.35 GiB.
  const double gib = static_cast<double>(usual.fixed + 8192 * (usual.per_token + usual.stored_per_token)) / 0x1p30;
  EXPECT_GT(gib, 0.3);
  EXPECT_LT(gib, 0.6);
  EXPECT_EQ(estimate({Keep::loss, Keep::logits}).per_token - estimate({Keep::loss}).per_token, 8192 * 4);
  EXPECT_EQ(estimate({Keep::hidden}).per_token - estimate({}).per_token, 9 * 256 * 4);
  EXPECT_EQ(estimate({Keep::predictions}).per_token - estimate({}).per_token, 256 * 2);
}

TEST(RunMemory, CountsEveryArrayThatIsKept) {
  const ModelConfig config = Checkpoint::open(test::demo_model("fox-pro-12m")).config();  // 8 layers of 4 heads
  const auto estimate = [&](const KeepSet& keep) {
    return estimate_needs(config, 11'600'000, keep, DType::bfloat16, {true, 0}).host;
  };
  const RunMemory nothing = estimate({});
  EXPECT_EQ(nothing.stored_per_token, 0);
  EXPECT_EQ(estimate({Keep::gates}).per_token - nothing.per_token, 8 * 4 * 8);
  EXPECT_EQ(estimate({Keep::rows}).per_token - nothing.per_token, 8 * 4 * 4);
  EXPECT_EQ(estimate({Keep::saliency}).per_token - nothing.per_token, 8 * 4 * 4);
  EXPECT_EQ(estimate({Keep::values}).stored_per_token, 8 * 256 * 2);
  EXPECT_EQ(estimate({Keep::values, Keep::query_key}).stored_per_token, 8 * 3 * 256 * 2);
}

TEST(RunMemory, CountsWhatAGpuHolds) {
  const ModelConfig config = Checkpoint::open(test::demo_model("fox-pro-12m")).config();
  const auto estimate = [&](const KeepSet& keep, DType dtype = DType::bfloat16) {
    return estimate_needs(config, 11'600'000, keep, dtype, {true, 0}).gpu.value();
  };
  EXPECT_EQ(estimate({Keep::query_key}).stored_per_token, 8 * 2 * 256 * 2);
  EXPECT_EQ(estimate({Keep::query_key}, DType::float32).stored_per_token, 8 * 2 * 256 * 4);
  EXPECT_EQ(estimate({Keep::loss}).stored_per_token, 0);
  EXPECT_EQ(estimate({Keep::hidden}).per_token - estimate({}).per_token, 4 * 256);
  // The norm in float32, as the head reads it, and in float16.
  EXPECT_EQ(estimate({Keep::predictions}).per_token - estimate({}).per_token, (4 + 2 + 2) * 256);
  EXPECT_GT(estimate({}, DType::float32).per_token, 2 * estimate({}).per_token - 1024);
  EXPECT_GT(estimate({Keep::logits}).fixed, estimate({}).fixed);
}

}  // namespace
}  // namespace foxscope

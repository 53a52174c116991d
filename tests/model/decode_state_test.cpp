// Reading on from a cache: the same predictions as a pass over everything, for every kind of model.
#include "backend/model/session/decode_state.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/model/session/torch_model.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;
using Rows = std::vector<std::vector<float>>;
using Loader = std::function<std::unique_ptr<CausalLM>(const Checkpoint&)>;

std::unique_ptr<CausalLM> fused(const Checkpoint& checkpoint) {
  return CausalLM::load(checkpoint, Device{}, DType::float32);
}
std::unique_ptr<CausalLM> composed(const Checkpoint& checkpoint) {
  return load_torch_model(checkpoint, Device{}, DType::float32);
}

/// log p of every next token by one pass over all of a sequence.
Rows by_one_pass(CausalLM& model, const Ids& ids, const std::vector<Intervention>& interventions = {}) {
  test::Batch batch;
  batch.input_ids = ids;
  batch.labels = ids;
  batch.keep = {Keep::logits};
  batch.pruning_tolerance = 0;
  batch.interventions = interventions;
  const std::vector<float> logits = test::run_batch(model, batch).traces[0]->source().logits();
  const auto vocabulary = static_cast<std::size_t>(model.config().vocabulary_size);
  Rows rows;
  for (std::size_t p = 0; p < ids.size(); ++p) {
    const std::span<const float> row(logits.data() + p * vocabulary, vocabulary);
    double sum = 0;
    for (const float logit : row) sum += std::exp(static_cast<double>(logit));
    std::vector<float>& out = rows.emplace_back();
    for (const float logit : row) out.push_back(static_cast<float>(static_cast<double>(logit) - std::log(sum)));
  }
  return rows;
}

std::unique_ptr<DecodeState> begin(CausalLM& model, std::span<const std::int32_t> prompt, double tolerance = 0x1p-24,
                                   const std::vector<Intervention>& interventions = {}) {
  PromptRequest request;
  request.input_ids = prompt;
  request.pruning_tolerance = tolerance;
  request.interventions = interventions;
  return model.begin(request, Job{});
}

/// The largest difference in log p between reading on from a prompt and one pass, over all places after the prompt.
double difference(const Rows& expected, DecodeState& decode_state, const Ids& ids) {
  const auto length = static_cast<std::size_t>(decode_state.length());
  double largest = test::largest_difference(decode_state.log_probabilities(), expected[length - 1]);
  for (std::size_t p = length; p < ids.size(); ++p) {
    decode_state.read(ids[p]);
    const std::span<const float> found = decode_state.log_probabilities();
    EXPECT_EQ(decode_state.next().likeliest(), std::ranges::max_element(found) - found.begin()) << "position " << p;
    const double now = test::largest_difference(found, expected[p]);
    if (!(now <= largest)) largest = now;
  }
  return largest;
}

class ContinuedFixture : public testing::TestWithParam<const char*> {
 protected:
  /// The first golden sequence, again and again.
  static Ids tokens(std::size_t count) {
    const SafetensorsFile golden(test::data_path(GetParam()) + "/golden.safetensors");
    const Ids all = test::read_ids(golden, "input_ids");
    Ids ids;
    for (std::size_t n = 0; n < count; ++n) ids.push_back(all[n % all.size()]);
    return ids;
  }
  static void check(CausalLM& model, std::size_t count = 217) {
    const Ids ids = tokens(count);
    const Rows expected = by_one_pass(model, ids);
    for (const std::size_t prompt : {1, 2, 17}) {
      const auto decode_state = begin(model, {ids.data(), prompt});
      EXPECT_LE(difference(expected, *decode_state, ids), 1e-4) << "prompt of " << prompt;
      EXPECT_EQ(decode_state->length(), static_cast<std::int64_t>(count));
    }
    const auto after_all = begin(model, ids);
    EXPECT_LE(test::largest_difference(after_all->log_probabilities(), expected.back()), 1e-4);
  }
};

TEST_P(ContinuedFixture, PredictsLikeOnePass) { check(*fused(Checkpoint::open(test::data_path(GetParam())))); }

TEST_P(ContinuedFixture, ComposedPredictsLikeOnePass) {
  check(*composed(Checkpoint::open(test::data_path(GetParam()))), 40);
}

TEST_P(ContinuedFixture, CudaPredictsLikeOnePass) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  check(*CausalLM::load(Checkpoint::open(test::data_path(GetParam())), Device::of(DeviceChoice::parse("cuda")),
                        DType::float32));
}

TEST_P(ContinuedFixture, GreedyTokensAreThoseOfOnePassOverThem) {
  const auto model = fused(Checkpoint::open(test::data_path(GetParam())));
  Ids ids = tokens(9);
  const auto decode_state = begin(*model, ids);
  const auto likeliest = [](std::span<const float> row) {
    return static_cast<std::int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
  };
  for (int n = 0; n < 512; ++n) {
    ids.push_back(decode_state->next().likeliest());
    decode_state->read(ids.back());
  }
  const Rows expected = by_one_pass(*model, ids);
  for (std::size_t p = 8; p + 1 < ids.size(); ++p) ASSERT_EQ(ids[p + 1], likeliest(expected[p])) << "position " << p;
}

/// Reads on from prompts, all together, and each by itself: log p at every step, digit for digit.
void expect_together_as_alone(CausalLM& model, const Ids& ids, const std::vector<std::size_t>& prompts) {
  std::vector<std::unique_ptr<DecodeState>> together;
  std::vector<std::unique_ptr<DecodeState>> alone;
  std::vector<DecodeState*> all;
  for (const std::size_t prompt : prompts) {
    alone.push_back(begin(model, {ids.data(), prompt}));
    together.push_back(alone.back()->copy());
    all.push_back(together.back().get());
  }
  for (std::size_t step = 0; step < 20; ++step) {
    // One leaves and comes back: the others are beside fewer.
    const std::size_t count = step == 7 ? all.size() - 1 : all.size();
    Ids next;
    for (std::size_t n = 0; n < count; ++n) next.push_back(ids[(prompts[n] + step * (n + 1)) % ids.size()]);
    model.decode_step(std::span(all).first(count), next);
    for (std::size_t n = 0; n < count; ++n) {
      alone[n]->read(next[n]);
      ASSERT_EQ(together[n]->length(), alone[n]->length());
      ASSERT_EQ(test::largest_difference(together[n]->log_probabilities(), alone[n]->log_probabilities()), 0)
          << "prompt of " << prompts[n] << ", step " << step;
    }
  }
}

TEST_P(ContinuedFixture, TogetherHaveTheDigitsOfEachAlone) {
  const auto model = fused(Checkpoint::open(test::data_path(GetParam())));
  expect_together_as_alone(*model, tokens(217), {17, 1, 130, 64, 5});
}

INSTANTIATE_TEST_SUITE_P(Fixtures, ContinuedFixture,
                         testing::Values("fox-llama", "fox-pro", "transformer-pro", "transformer-llama",
                                         "fox-llama-rope", "fox-llama-qknorm", "fox-llama-fixed-gate",
                                         "fox-llama-data-independent-gate", "fox-pro-shared-qknorm", "fox-pro-bf16",
                                         "fla-fox", "fla-fox-gated-qknorm"),
                         test::fixture_test_name);

/// A tiny model made for one option.
class ContinuedOption : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<CausalLM> make(const json& options, const std::string& type = "forgetting_transformer-project_fox") {
    json config = test::tiny_config(type);
    config.update({{"num_hidden_layers", 2}});
    config.update(options);
    const test::TemporaryFolder folder;
    test::write_checkpoint(folder, config, weights_ ? weights_(config) : test::random_weights(config));
    return (GetParam() ? composed : fused)(Checkpoint::open(folder.text()));
  }
  static Ids tokens(int count) {
    Ids ids;
    for (int p = 0; p < count; ++p) ids.push_back((p * p + 3 * p) % 11);
    return ids;
  }
  static std::int64_t most(const std::vector<std::int64_t>& held) {
    return *std::max_element(held.begin(), held.end());
  }

  std::function<std::vector<test::NamedTensor>(const json&)> weights_;
};

INSTANTIATE_TEST_SUITE_P(Paths, ContinuedOption, testing::Bool(),
                         [](const auto& path) { return path.param ? "composed" : "fused"; });

TEST_P(ContinuedOption, WindowIsSeenAndNoMoreIsHeld) {
  const auto model = make({{"window_size", 7}}, "transformer-project_fox");
  const Ids ids = tokens(150);
  const Rows expected = by_one_pass(*model, ids);
  for (const std::size_t prompt : {1, 6, 7, 8, 70}) {
    const auto decode_state = begin(*model, {ids.data(), prompt});
    EXPECT_LE(difference(expected, *decode_state, ids), 1e-4) << prompt;
    EXPECT_EQ(most(decode_state->held_keys()), 6);  // the row to come adds its own
  }
}

TEST_P(ContinuedOption, GroupedKeysAndBiases) {
  const Ids ids = tokens(100);
  for (const auto& [type, options] : std::vector<std::pair<std::string, json>>{
           {"transformer-project_fox", {{"num_kv_heads", 1}}},
           {"forgetting_transformer", {{"num_kv_heads", 1}, {"qkv_bias", true}}}}) {
    const auto model = make(options, type);
    const auto decode_state = begin(*model, {ids.data(), 5});
    EXPECT_LE(difference(by_one_pass(*model, ids), *decode_state, ids), 1e-4) << type;
  }
}

TEST_P(ContinuedOption, GateChangesHoldForTokensThatAreReadOn) {
  const auto model = make(json::object());
  const Ids ids = tokens(60);
  const std::vector<std::vector<std::string>> changes = {{"0:1:one"},
                                                         {"*:0:constant=0.3"},
                                                         {"1:*:scale=3"},
                                                         {"*:*:zero@12"},
                                                         {"*:*:zero@39"},
                                                         {"0:0:cut", "1:1:cut"},
                                                         {"0:*:scale=2", "0:*:zero@20", "1:0:one"}};
  for (const auto& texts : changes) {
    std::vector<Intervention> interventions;
    for (const std::string& text : texts) interventions.push_back(Intervention::parse(text));
    const auto decode_state = begin(*model, {ids.data(), 10}, 0x1p-24, interventions);
    const Rows expected = by_one_pass(*model, ids, interventions);
    EXPECT_LE(difference(expected, *decode_state, ids), 1e-4) << texts[0];
    const Rows unchanged = by_one_pass(*model, ids);
    EXPECT_GT(test::largest_difference(expected[40], unchanged[40]), 1e-3) << texts[0];
  }
}

TEST_P(ContinuedOption, AForgettingHeadDropsKeysAndPredictsTheSame) {
  // Norms and a constant gate of sigmoid(-1): |S| is at most sqrt(d) = 2, and every token costs 1.3 nats.
  weights_ = [](const json& config) {
    auto tensors = test::random_weights(config);
    for (auto& tensor : tensors) {
      if (tensor.name.find("fgate_bias") != std::string::npos)
        std::fill(tensor.values.begin(), tensor.values.end(), -1);
    }
    return tensors;
  };
  const auto model = make({{"fgate_type", "fixed"}, {"qk_norm", true}});
  const Ids ids = tokens(300);
  const Rows expected = by_one_pass(*model, ids);
  for (const double tolerance : {0x1p-24, 1e-3}) {
    const auto decode_state = begin(*model, {ids.data(), 200}, tolerance);
    const auto held_at_first = most(decode_state->held_keys());
    EXPECT_LE(difference(expected, *decode_state, ids), std::max(1e-4, 20 * tolerance));
    // 2 |S| + log(300) + log(2 / tolerance) nats: 21 tokens, and 13.
    EXPECT_LE(held_at_first, tolerance < 1e-6 ? 24 : 15);
    EXPECT_LE(most(decode_state->held_keys()), tolerance < 1e-6 ? 24 : 15);
    EXPECT_GE(most(decode_state->held_keys()), 5);
  }
  const auto exact = begin(*model, {ids.data(), 200}, 0);
  EXPECT_EQ(exact->held_keys(), std::vector<std::int64_t>(4, 200));
  EXPECT_LE(difference(expected, *exact, ids), 1e-4);
}

TEST_P(ContinuedOption, CopiesGoTheirOwnWays) {
  const auto model = make({{"use_k_shift", true}, {"use_v_shift", true}});
  const Ids ids = tokens(90);
  const auto first = begin(*model, {ids.data(), 60});
  const auto second = first->copy();
  Ids other = ids;
  for (std::size_t p = 60; p < other.size(); ++p) other[p] = (other[p] + 5) % 11;
  const Rows expected_second = by_one_pass(*model, other);
  for (std::size_t p = 60; p < 75; ++p) second->read(other[p]);
  EXPECT_LE(difference(by_one_pass(*model, ids), *first, ids), 1e-4);
  EXPECT_LE(difference(expected_second, *second, other), 1e-4);
}

TEST_P(ContinuedOption, ARecorderTakesDownThePrompt) {
  const auto model = make(json::object());
  const Ids ids = tokens(40);
  test::Batch batch;
  batch.input_ids = {ids.begin(), ids.end() - 1};
  batch.labels = {ids.begin() + 1, ids.end()};
  batch.keep = {Keep::loss, Keep::gates, Keep::rows, Keep::query_key};
  const auto expected = test::run_batch(*model, batch).traces[0];
  const auto recorder = test::make_recorder(*model, 39, batch.keep);
  PromptRequest request;
  request.input_ids = batch.input_ids;
  request.labels = batch.labels;
  request.recorder = recorder.get();
  ASSERT_NE(model->begin(request, Job{}), nullptr);
  const auto trace = recorder->finish(nullptr, std::make_shared<const TokenTable>());
  EXPECT_EQ(test::largest_difference(trace->per_token_loss(), expected->per_token_loss()), 0);
  EXPECT_EQ(test::largest_difference(trace->log_normalizer(1, 1), expected->log_normalizer(1, 1)), 0);
}

TEST_P(ContinuedOption, TogetherHaveTheDigitsOfEachAlone) {
  for (const json& options : {json{{"window_size", 7}}, json{{"use_k_shift", true}, {"use_v_shift", true}}}) {
    const auto model = make(
        options, options.contains("window_size") ? "transformer-project_fox" : "forgetting_transformer-project_fox");
    std::vector<std::size_t> prompts;
    for (std::size_t n = 0; n < 70; ++n) prompts.push_back(1 + n * 13 % 90);  // more than go in one pass
    expect_together_as_alone(*model, tokens(100), prompts);
  }
}

TEST_P(ContinuedOption, TogetherWithOneThatIsChanged) {
  const auto model = make(json::object());
  const Ids ids = tokens(20);
  const auto plain = begin(*model, ids);
  const auto other = begin(*model, {ids.data(), 12});
  const auto changed = begin(*model, ids, 0x1p-24, {Intervention::parse("0:0:zero@20")});
  const auto expected = changed->copy();
  expected->read(3);
  const std::vector<DecodeState*> all = {plain.get(), changed.get(), other.get()};
  EXPECT_PRED2(test::says, test::error_of([&] {
                 model->decode_step(all, Ids{1, 2, 11});
               }),
               (test::Parts{"the next token: the id 11"}));
  EXPECT_PRED2(test::says, test::error_of([&] {
                 model->decode_step(all, Ids{1, 2});
               }),
               (test::Parts{"[decode_step] ids: expected 3, got 2"}));
  EXPECT_EQ(plain->length(), 20);
  model->decode_step(all, Ids{3, 3, 3});
  EXPECT_EQ(test::largest_difference(changed->log_probabilities(), expected->log_probabilities()), 0);
  EXPECT_GT(test::largest_difference(changed->log_probabilities(), plain->log_probabilities()), 1e-4);
  EXPECT_EQ(other->length(), 13);
}

TEST_P(ContinuedOption, PromptsOfSeveralLengths) {
  const auto model = make(json::object());
  const Ids ids = tokens(40);
  std::vector<PromptRequest> prompts;
  for (const std::size_t length : {7, 30, 7, 1}) prompts.emplace_back().input_ids = std::span(ids).first(length);
  const auto begun = model->prefill(prompts, Job{});
  ASSERT_EQ(begun.size(), prompts.size());
  for (std::size_t n = 0; n < prompts.size(); ++n) {
    const auto alone = begin(*model, prompts[n].input_ids, 0);
    ASSERT_EQ(begun[n]->length(), alone->length());
    for (const std::int32_t id : {3, 5}) {
      EXPECT_LE(test::largest_difference(begun[n]->log_probabilities(), alone->log_probabilities()), 1e-5) << n;
      begun[n]->read(id);
      alone->read(id);
    }
  }
}

TEST_P(ContinuedOption, BadRequestsAreRefused) {
  const auto model = make(json::object());
  const Ids ids = tokens(10);
  const auto error = [&](const Ids& prompt, double tolerance, const std::string& change) {
    std::vector<Intervention> interventions;
    if (!change.empty()) interventions.push_back(Intervention::parse(change));
    return test::error_of([&] { begin(*model, prompt, tolerance, interventions); });
  };
  EXPECT_PRED2(test::says, error({}, 0, ""), (test::Parts{"input_ids", "at least one"}));
  EXPECT_PRED2(test::says, error({1, 11}, 0, ""),
               (test::Parts{"the prompt: the id 11 at position 1 is outside the model's vocabulary (0 to 10)"}));
  EXPECT_PRED2(test::says, error(ids, 1, ""), (test::Parts{"--pruning 1"}));
  EXPECT_PRED2(test::says, error(ids, 0, "0:0:mean"), (test::Parts{"0:0:mean", "constant=f"}));
  EXPECT_PRED2(test::says, error(ids, 0, "2:0:one"), (test::Parts{"there is no layer 2"}));
  const auto decode_state = begin(*model, ids);
  EXPECT_PRED2(test::says, test::error_of([&] { decode_state->read(-1); }), (test::Parts{"the next token: the id -1"}));
  EXPECT_EQ(decode_state->length(), 10);
}

TEST_P(ContinuedOption, StopsWhenAsked) {
  const auto model = make(json::object());
  std::stop_source stop;
  stop.request_stop();
  PromptRequest request;
  const Ids ids = tokens(10);
  request.input_ids = ids;
  EXPECT_EQ(model->begin(request, Job{stop.get_token(), {}, nullptr}), nullptr);
}

}  // namespace
}  // namespace foxscope

// Changes to gates and heads: how they are written, and what they do to a run.
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/model/layer/checks.h"
#include "backend/model/session/engine.h"
#include "backend/model/session/torch_model.h"
#include "backend/model/spec/interventions.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

using nlohmann::json;
using Kind = Intervention::Kind;

TEST(InterventionText, IsReadAndWrittenAlike) {
  for (const char* text : {"0:1:one", "*:*:cut", "3:*:mean", "*:2:zero@17", "0:0:scale=0.5", "1:1:constant=0.25",
                           "1:1:constant=0", "1:1:constant=1", "0:0:scale=2"}) {
    EXPECT_EQ(Intervention::parse(text).text(), text);
  }
  EXPECT_EQ(Intervention::parse("2:*:constant=0.5").kind, Kind::constant);
  EXPECT_EQ(Intervention::parse("2:*:constant=0.5").layer, 2);
  EXPECT_EQ(Intervention::parse("2:*:constant=0.5").head, -1);
  EXPECT_EQ(Intervention::parse("2:*:constant=0.5").value, 0.5);
}

TEST(InterventionText, SaysWhatIsAllowed) {
  for (const char* text : {"",
                           "1",
                           "1:2",
                           "a:0:one",
                           "-1:0:one",
                           "0:-1:one",
                           "0:0:two",
                           "0:0:one=1",
                           "0:0:constant",
                           "0:0:constant=2",
                           "0:0:constant=-0.1",
                           "0:0:constant=nan",
                           "0:0:scale=-1",
                           "0:0:scale=x",
                           "0:0:zero@",
                           "0:0:zero@-1",
                           "0:0:zero@1.5",
                           "0:0:zero=1",
                           "0:0:mean:1",
                           "0:*:drop=",
                           "0:*:drop=-1",
                           "0:*:drop=x",
                           "0:1:drop=2"}) {
    EXPECT_THROW(Intervention::parse(text), UsageError) << text;
    EXPECT_PRED2(test::says, test::error_of([&] { Intervention::parse(text); }),
                 (test::Parts{std::string("--intervene '") + text + "'", "LAYER:HEAD:KIND",
                              "zero@p or cut, or with * for the head drop=e"}));
  }
}

TEST(InterventionText, IsReadInWords) {
  for (const auto& [text, words] :
       {std::pair{"3:0:one", "L3 H0, gate 1"}, std::pair{"*:*:cut", "all heads, cut"},
        std::pair{"3:*:mean", "L3, all heads, gate at its mean"},
        std::pair{"*:2:zero@17", "H2 of all layers, gate 0 at 17"}, std::pair{"0:0:scale=0.5", "L0 H0, log gate × 0.5"},
        std::pair{"1:1:constant=0.25", "L1 H1, gate 0.25"}, std::pair{"2:*:drop=7", "L2, without expert 7"},
        std::pair{"*:*:drop=0", "all layers, without expert 0"}}) {
    EXPECT_EQ(Intervention::parse(text).words(), words);
  }
}

TEST(InterventionText, OfAChangeOfEachHeadIsItsKind) {
  for (const char* kind : {"one", "cut", "mean", "constant=0.25", "scale=2"}) {
    const Intervention change = Intervention::parse_change(kind);
    EXPECT_EQ(change.kind_text(), kind);
    EXPECT_EQ(change.text(), std::string("*:*:") + kind);
  }
  for (const auto& [kind, why] :
       {std::pair{"two", "'two' is not known"}, std::pair{"", "'' is not known"},
        std::pair{"zero@3", "a position is of one text"}, std::pair{"drop=3", "an expert is of no head"},
        std::pair{"constant=2", "'2' is not a number from 0 to 1"}}) {
    EXPECT_EQ(test::error_of([kind = kind] { Intervention::parse_change(kind); }),
              std::string("--change '") + kind + "': " + why + "; use one, cut, mean, constant=f or scale=s");
  }
}

class Interventions : public testing::TestWithParam<bool> {
 protected:
  void make_model(const std::string& gate) {
    json config = test::tiny_config();
    config.update({{"num_hidden_layers", 2}, {"fgate_type", gate}});
    const test::TemporaryFolder folder;
    test::write_checkpoint(folder, config, test::random_weights(config));
    const Checkpoint checkpoint = Checkpoint::open(folder.text());
    model_ = GetParam() ? load_torch_model(checkpoint, Device{}, DType::float32)
                        : CausalLM::load(checkpoint, Device{}, DType::float32);
  }

  std::shared_ptr<const Trace> run(const std::vector<std::string>& interventions,
                                   const ForwardRequest::Start& start = {}) {
    test::Batch batch;
    batch.start = start;
    for (int p = 0; p < kLength; ++p) {
      batch.input_ids.push_back((p * p) % 11);
      batch.labels.push_back(p % 11);
    }
    batch.keep = {Keep::loss, Keep::gates, Keep::rows, Keep::hidden};
    for (const std::string& text : interventions) batch.interventions.push_back(Intervention::parse(text));
    return test::run_batch(*model_, batch).traces[0];
  }

  /// log f of one head.
  static std::vector<double> log_gate(const Trace& trace, int layer, int head) {
    const auto c = trace.cumulative_log_gate(layer, head);
    std::vector<double> values(c.size());
    std::adjacent_difference(c.begin(), c.end(), values.begin());
    return values;
  }

  static constexpr int kLength = 50;
  std::unique_ptr<CausalLM> model_;
};

TEST(ForgetsChanged, IsTrueWhereAHeadForgetsAfterAllChanges) {
  const auto after = [](const std::vector<std::string>& texts, bool forgets, int layer = 1) {
    std::vector<Intervention> changes;
    for (const std::string& text : texts) changes.push_back(Intervention::parse(text));
    return forgets_changed(changes, layer, 2, forgets);
  };
  EXPECT_TRUE(after({}, true));
  EXPECT_FALSE(after({}, false));
  // A layer without gates gets some, and loses them again.
  for (const char* change : {"1:0:constant=0.9", "*:*:zero@3", "1:*:constant=0"}) EXPECT_TRUE(after({change}, false));
  for (const char* change : {"0:*:constant=0.9", "1:*:mean", "*:*:scale=3", "1:1:cut", "1:*:constant=1", "*:*:one"}) {
    EXPECT_FALSE(after({change}, false)) << change;
  }
  EXPECT_FALSE(after({"1:0:constant=0.9", "1:*:one"}, false));
  EXPECT_TRUE(after({"1:*:one", "1:0:zero@3"}, false));
  // One with gates loses them where all of its heads do.
  for (const char* change : {"*:*:one", "1:*:scale=0", "1:*:constant=1"}) EXPECT_FALSE(after({change}, true)) << change;
  for (const char* change : {"1:0:one", "0:*:one", "1:*:mean", "*:*:cut", "1:*:scale=0.1"}) {
    EXPECT_TRUE(after({change}, true)) << change;
  }
}

std::string refused_gates(const ModelConfig& config, const std::vector<std::string>& texts) {
  std::vector<Intervention> changes;
  for (const std::string& text : texts) changes.push_back(Intervention::parse(text));
  return test::error_of<UsageError>([&] { check_gates_change(changes, config, "tiny"); });
}

TEST(GatesThatChange, AreNamedWhereAChangeFindsNone) {
  const Checkpoint plain = Checkpoint::open(test::data_path("transformer-pro"));
  for (const char* kind : {"one", "mean", "scale=2", "constant=1"}) {
    const std::string change = std::string("*:*:") + kind;
    EXPECT_EQ(refused_gates(plain.config(), {change}),
              "--intervene '" + change +
                  "': tiny has no gates, f is 1 there: use cut, or constant=f below 1, which gives it gates");
    EXPECT_PRED2(test::says, refused_gates(plain.config(), {std::string("1:0:") + kind}),
                 (test::Parts{"layer 1 of tiny has no gates, f is 1 there: nor has any other layer; use cut"}));
  }
  for (const char* kind : {"cut", "constant=0.5", "zero@3"}) {
    EXPECT_EQ(refused_gates(plain.config(), {std::string("*:*:") + kind}), "");
  }
  // An intervention before it gives gates, to its own layer alone.
  EXPECT_EQ(refused_gates(plain.config(), {"1:*:constant=0.5", "1:0:scale=2"}), "");
  EXPECT_PRED2(test::says, refused_gates(plain.config(), {"1:*:constant=0.5", "0:0:scale=2"}),
               (test::Parts{"'0:0:scale=2': layer 0 of tiny has no gates", "layers with gates are 1"}));

  const Checkpoint hybrid = Checkpoint::open(test::data_path("samba"));
  EXPECT_PRED2(test::says, refused_gates(hybrid.config(), {"1:*:one"}),
               (test::Parts{"layer 1 of tiny has no gates", "layers with gates are 0, 2; use cut"}));
  EXPECT_EQ(refused_gates(hybrid.config(), {"*:*:one"}), "");
  EXPECT_EQ(refused_gates(hybrid.config(), {"2:*:mean"}), "");
  const Checkpoint gated = Checkpoint::open(test::data_path("fox-pro"));
  for (const char* kind : {"one", "mean", "scale=2", "constant=1"}) {
    EXPECT_EQ(refused_gates(gated.config(), {std::string("0:0:") + kind}), "");
  }
}

TEST(GatesThatChange, AreLookedForBeforeAModelIsRead) {
  ModelRequest request;
  request.name = "plain";
  request.model = test::data_path("transformer-pro");
  request.device = DeviceChoice::parse("cpu");
  request.interventions = {Intervention::parse("0:0:one")};
  EXPECT_PRED2(test::says, test::error_of<UsageError>([&] { (void)Engine().open(request); }),
               (test::Parts{"--intervene '0:0:one': layer 0 of plain has no gates"}));
}

TEST_P(Interventions, ActOnTheGatesTheyName) {
  make_model("full");
  const auto plain = run({});
  const auto changed = run({"0:1:constant=0.25"});
  for (const double value : log_gate(*changed, 0, 1)) EXPECT_NEAR(value, std::log(0.25), 1e-9);
  const auto other = changed->cumulative_log_gate(0, 0);
  EXPECT_TRUE(std::equal(other.begin(), other.end(), plain->cumulative_log_gate(0, 0).begin()));
  EXPECT_GT(test::largest_difference(plain->per_token_loss(), changed->per_token_loss()), 1e-4);

  for (const double value : log_gate(*run({"*:*:one"}), 1, 0)) EXPECT_EQ(value, 0);
  for (const double value : log_gate(*run({"*:*:constant=0"}), 1, 1)) EXPECT_EQ(value, -1000);
}

TEST_P(Interventions, TakeTheMeanOfFAndScaleItsLogarithm) {
  make_model("full");
  const std::vector<double> before = log_gate(*run({}), 0, 0);
  double mean = 0;
  for (const double value : before) mean += std::exp(value) / kLength;
  for (const double value : log_gate(*run({"0:0:mean"}), 0, 0)) EXPECT_NEAR(value, std::log(mean), 1e-9);
  const std::vector<double> scaled = log_gate(*run({"0:0:scale=3"}), 0, 0);
  for (std::size_t p = 0; p < before.size(); ++p) EXPECT_NEAR(scaled[p], 3 * before[p], 1e-9);
  const std::vector<double> both = log_gate(*run({"0:0:constant=0.5", "0:0:scale=2"}), 0, 0);
  for (const double value : both) EXPECT_NEAR(value, std::log(0.25), 1e-9);
}

TEST_P(Interventions, ForgetEverythingAtOnePosition) {
  make_model("full");
  const auto plain = run({});
  const auto zero = run({"*:*:zero@20"});
  EXPECT_EQ(log_gate(*zero, 0, 0)[20], -1000);
  // What is before it stays as it was; at it, a row sees itself alone: the log-normaliser is its own logit's.
  for (std::size_t p = 0; p < 20; ++p) EXPECT_EQ(plain->per_token_loss()[p], zero->per_token_loss()[p]);
  EXPECT_NE(plain->per_token_loss()[30], zero->per_token_loss()[30]);
}

TEST_P(Interventions, CutAHeadsOutput) {
  make_model("full");
  const auto plain = run({});
  const auto cut = run({"*:*:cut"});
  const auto c = cut->cumulative_log_gate(0, 0);
  EXPECT_TRUE(std::equal(c.begin(), c.end(), plain->cumulative_log_gate(0, 0).begin()));
  // With every head cut, a position depends on what it reads and nothing else: equal tokens, equal hidden states.
  const std::vector<float> hidden = cut->source().hidden_states(2);
  const std::span<const float> values(hidden);
  EXPECT_LE(test::largest_difference(values.subspan(8 * 3, 8), values.subspan(8 * 14, 8)), 1e-5);  // 9 and 196 mod 11
  const std::vector<float> seen = plain->source().hidden_states(2);
  EXPECT_GT(test::largest_difference(std::span(seen).subspan(8 * 3, 8), std::span(seen).subspan(8 * 14, 8)), 1e-3);
}

TEST_P(Interventions, GiveAPlainTransformerGates) {
  make_model("none");
  const auto plain = run({});
  for (const double value : log_gate(*plain, 1, 1)) EXPECT_EQ(value, 0);
  const auto gated = run({"1:*:constant=0.5"});
  for (const double value : log_gate(*gated, 0, 1)) EXPECT_EQ(value, 0);
  for (const double value : log_gate(*gated, 1, 1)) EXPECT_NEAR(value, std::log(0.5), 1e-9);
  EXPECT_GT(test::largest_difference(plain->per_token_loss(), gated->per_token_loss()), 1e-4);
}

TEST_P(Interventions, LeaveTheLayersBelowAsTheyWere) {
  make_model("full");
  const std::vector<float> hidden = run({})->source().hidden_states(1);
  const auto whole = run({"1:0:one"});
  const auto begun = run({"1:0:one"}, {1, hidden});
  EXPECT_EQ(test::largest_difference(whole->per_token_loss(), begun->per_token_loss()), 0);
  EXPECT_EQ(test::largest_difference(whole->source().hidden_states(2), begun->source().hidden_states(2)), 0);
  EXPECT_NE(test::largest_difference(run({})->per_token_loss(), begun->per_token_loss()), 0);
}

TEST_P(Interventions, BeginWithAWholeLayersInput) {
  make_model("full");
  const std::vector<float> hidden(kLength * 8 - 1);
  EXPECT_THROW(run({}, {1, {}}), ShapeError);
  EXPECT_THROW(run({}, {1, hidden}), ShapeError);
  EXPECT_THROW(run({}, {2, hidden}), ShapeError);
  EXPECT_THROW(run({}, {-1, hidden}), ShapeError);
}

TEST_P(Interventions, NameWhatDoesNotExist) {
  make_model("full");
  const auto error = [&](const std::string& text) { return test::error_of([&] { run({text}); }); };
  EXPECT_PRED2(test::says, error("2:0:one"), (test::Parts{"'2:0:one': there is no layer 2", "0 to 1"}));
  EXPECT_PRED2(test::says, error("0:2:cut"), (test::Parts{"there is no head 2"}));
  EXPECT_PRED2(test::says, error("0:0:zero@50"), (test::Parts{"there is no position 50", "0 to 49"}));
}

INSTANTIATE_TEST_SUITE_P(Forwards, Interventions, testing::Bool(),
                         [](const auto& composed) { return composed.param ? "composed" : "fused"; });

}  // namespace
}  // namespace foxscope

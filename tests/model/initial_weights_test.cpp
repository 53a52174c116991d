// Weights that a training begins with: their distributions, and what is fixed.
#include "backend/model/weights/initial_weights.h"

#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

using nlohmann::json;

json wide_config() {
  json config = test::tiny_config();
  config["vocab_size"] = 300;
  config["hidden_size"] = 64;
  config["num_heads"] = 4;
  config["num_hidden_layers"] = 2;
  config["use_k_shift"] = config["use_v_shift"] = config["qk_norm"] = true;
  return config;
}

std::vector<float> values_of(const json& config, const std::string& name, std::uint64_t seed = 0,
                             const std::optional<DecayTimes>& gates = std::nullopt) {
  const ModelConfig model = ModelConfig::from_json(config.dump(), "config.json");
  const InitialWeights weights(model, seed, gates);
  for (const Parameter& parameter : parameters(model)) {
    if (parameter.name != name) continue;
    std::vector<float> values;
    weights.read(parameter, [&](std::span<const float> piece) {
      values.insert(values.end(), piece.begin(), piece.end());
      return true;
    });
    EXPECT_EQ(static_cast<std::int64_t>(values.size()), parameter.elements());
    EXPECT_EQ(weights.bytes(parameter), parameter.elements() * 4);
    return values;
  }
  ADD_FAILURE() << "no parameter " << name;
  return {};
}

/// Mean, deviation, skewness and kurtosis of N(0, s^2), within five of their standard errors.
void expect_normal(const std::vector<float>& values, double deviation) {
  const auto count = static_cast<double>(values.size());
  double moments[5] = {};
  for (const float value : values) {
    for (int power = 1; power <= 4; ++power)
      moments[power] += std::pow(static_cast<double>(value) / deviation, power) / count;
  }
  EXPECT_NEAR(moments[1], 0, 5 / std::sqrt(count));
  EXPECT_NEAR(moments[2], 1, 5 * std::sqrt(2 / count));
  EXPECT_NEAR(moments[3], 0, 5 * std::sqrt(15 / count));
  EXPECT_NEAR(moments[4], 3, 5 * std::sqrt(96 / count));
}

TEST(InitialWeights, MatricesAreNormal) {
  for (const char* name : {"model.embeddings.weight", "lm_head.weight", "model.layers.1.attn.q_proj.weight",
                           "model.layers.0.attn.k_proj.linear.weight", "model.layers.0.mlp.gate_proj.weight"}) {
    expect_normal(values_of(wide_config(), name), 0.02);
  }
  json config = wide_config();
  config["initializer_range"] = 0.5;
  expect_normal(values_of(config, "model.layers.0.attn.o_proj.weight"), 0.5);
}

TEST(InitialWeights, NormsAreOneAndBiasesZero) {
  for (const char* name :
       {"model.norm.weight", "model.layers.0.attn_norm.weight", "model.layers.1.attn.q_norm.weight"}) {
    for (const float value : values_of(wide_config(), name)) EXPECT_EQ(value, 1);
  }
  for (const float value : values_of(wide_config(), "model.layers.0.attn.fgate_proj.bias")) EXPECT_EQ(value, 0);
}

TEST(InitialWeights, ConstantGatesForgetOverDecayTimesEvenlySpreadOverTheirLogarithm) {
  for (const char* type : {"bias_only", "fixed"}) {
    json config = wide_config();
    config.update({{"fgate_type", type}, {"fgate_bias_init", true}, {"decay_time_min", 2}, {"decay_time_max", 128}});
    const std::vector<float> bias = values_of(config, "model.layers.1.attn.fgate_bias");
    const double times[] = {2, 8, 32, 128};
    for (std::size_t head = 0; head < 4; ++head) {
      const double log_gate = -std::log1p(std::exp(-static_cast<double>(bias[head])));
      EXPECT_NEAR(-1 / log_gate, times[head], 1e-5 * times[head]);
    }
  }
  json config = wide_config();
  config["fgate_type"] = "bias_only";
  for (const float value : values_of(config, "model.layers.0.attn.fgate_bias")) EXPECT_EQ(value, 0);
}

TEST(InitialWeights, GatesThatDependOnDataMayBeginLong) {
  const DecayTimes times{2, 128};
  const std::vector<float> bias = values_of(wide_config(), "model.layers.1.attn.fgate_proj.bias", 0, times);
  const double expected[] = {2, 8, 32, 128};
  for (std::size_t head = 0; head < 4; ++head) {
    const double log_gate = -std::log1p(std::exp(-static_cast<double>(bias[head])));
    EXPECT_NEAR(-1 / log_gate, expected[head], 1e-5 * expected[head]);
  }
  // Nothing else begins otherwise.
  for (const char* name : {"model.layers.1.attn.fgate_proj.weight", "model.layers.0.attn.k_proj.linear.weight"}) {
    EXPECT_EQ(values_of(wide_config(), name, 5, times), values_of(wide_config(), name, 5));
  }
  for (const char* type : {"bias_only", "none"}) {
    json config = wide_config();
    config["fgate_type"] = type;
    const ModelConfig model = ModelConfig::from_json(config.dump(), "config.json");
    EXPECT_EQ(test::error_of<UsageError>([&] { InitialWeights(model, 0, times); }),
              "--gate-decay-times: the model has no forget gates that depend on data: leave the option out");
  }
}

TEST(InitialWeights, ThePaddingTokensRowIsZero) {
  json config = wide_config();
  config["pad_token_id"] = 7;
  const std::vector<float> table = values_of(config, "model.embeddings.weight");
  const std::vector<float> without = values_of(wide_config(), "model.embeddings.weight");
  for (std::size_t n = 0; n < table.size(); ++n) EXPECT_EQ(table[n], n / 64 == 7 ? 0 : without[n]);
}

TEST(InitialWeights, DependOnSeedAndNameAlone) {
  const std::vector<float> one = values_of(wide_config(), "model.layers.0.attn.q_proj.weight", 3);
  json deeper = wide_config();
  deeper["num_hidden_layers"] = 5;
  deeper["vocab_size"] = 100;
  EXPECT_EQ(values_of(deeper, "model.layers.0.attn.q_proj.weight", 3), one);
  EXPECT_NE(values_of(wide_config(), "model.layers.0.attn.q_proj.weight", 4), one);
  EXPECT_NE(values_of(wide_config(), "model.layers.1.attn.q_proj.weight", 3), one);
}

TEST(InitialWeights, RefuseWhatCannotBegin) {
  const auto message = [](const json& changes) {
    json config = wide_config();
    config.update(changes);
    return test::error_of([&] { InitialWeights(ModelConfig::from_json(config.dump(), "config.json"), 0); });
  };
  EXPECT_NE(message({{"fgate_bias_init", true}}).find("fgate_bias_init"), std::string::npos);
  EXPECT_NE(message({{"fgate_type", "fixed"}}).find("decay_time_min"), std::string::npos);
  EXPECT_NE(message({{"fgate_type", "fixed"}, {"fgate_bias_init", false}}).find("fgate_bias_init"), std::string::npos);
  EXPECT_NE(message({{"fgate_type", "fixed"}, {"decay_time_min", 8}, {"decay_time_max", 4}}).find("decay_time_max"),
            std::string::npos);
  EXPECT_NE(message({{"initializer_range", -1}}).find("initializer_range"), std::string::npos);
}

}  // namespace
}  // namespace foxscope

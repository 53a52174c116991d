// Configurations of linear mixers: dialects told apart by their keys, options without a fixture by two ways to compute
// them, and what is refused in which words.
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/model/layer/checks.h"
#include "backend/model/session/run_memory.h"
#include "backend/model/session/torch_model.h"
#include "backend/model/spec/interventions.h"
#include "backend/model/training/trainable_model.h"
#include "backend/model/weights/initial_weights.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

using nlohmann::json;
using test::Parts;

json tiny_linear(const std::string& model_type, const json& keys = json::object()) {
  json config = {{"model_type", model_type},
                 {"vocab_size", 23},
                 {"hidden_size", 16},
                 {"num_hidden_layers", 2},
                 {"bos_token_id", 0}};
  if (model_type.starts_with("samba")) {
    config.update({{"attn", {{"layers", nullptr}, {"num_heads", 2}, {"window_size", 9}}}, {"state_size", 6}});
  } else if (model_type == "mamba") {
    config["state_size"] = 6;
  } else if (model_type == "falcon_mamba") {
    config.update({{"state_size", 6}, {"intermediate_size", 24}});
  } else if (model_type.starts_with("mamba2")) {
    config.update({{"num_heads", 4}, {"head_dim", 8}, {"state_size", 6}, {"n_groups", 1}});
  } else if (model_type.starts_with("qwen3")) {
    config.update({{"num_attention_heads", 2},
                   {"head_dim", 8},
                   {"intermediate_size", 12},
                   {"linear_num_key_heads", 2},
                   {"linear_num_value_heads", 4},
                   {"linear_key_head_dim", 5},
                   {"linear_value_head_dim", 6},
                   {"layer_types", {"linear_attention", "full_attention"}}});
  } else {
    config.update({{"num_heads", 2}, {"intermediate_size", 12}});
    if (model_type.starts_with("hgrn2")) config["expand_ratio"] = 8;
    for (const char* name : {"gated_deltanet", "gated_deltaproduct", "kda", "comba", "rwkv7"}) {
      if (model_type == name) config["head_dim"] = 8;
    }
  }
  config.update(keys);
  return config;
}

/// Ids that come again, each its own label.
test::Batch batch_of(std::int32_t tokens, Keep keep) {
  test::Batch batch;
  batch.keep = {keep};
  for (std::int32_t n = 0; n < tokens; ++n) batch.input_ids.push_back(n * 7 % 23);
  batch.labels = batch.input_ids;
  return batch;
}

ModelConfig linear_config(const std::string& model_type, const json& keys = json::object()) {
  return ModelConfig::from_json(tiny_linear(model_type, keys).dump(), "dir/config.json");
}

std::string linear_refusal(const std::string& model_type, const json& keys) {
  return test::error_of([&] { linear_config(model_type, keys); });
}

TEST(LinearConfig, ReadsNumbersThatJsonDoesNotHave) {
  const std::string start = R"({"model_type": "mamba2-project_fox", "vocab_size": 23, "hidden_size": 16,
      "num_hidden_layers": 2, "num_heads": 4, "head_dim": 8, "n_groups": 1, "_name_or_path": "NaN, \"Infinity", )";
  for (const char* limit : {R"([0.0, Infinity])", R"([0.0, {"__float__": "Infinity"}])"}) {
    const ModelConfig config = ModelConfig::from_json(start + "\"time_step_limit\": " + limit + "}", "config.json");
    EXPECT_EQ(config.linear->lowest_step, 0.0) << limit;
    EXPECT_EQ(config.linear->highest_step, std::numeric_limits<double>::infinity()) << limit;
    // What a run file holds is JSON.
    const json kept = json::parse(config.json);
    EXPECT_EQ(kept["time_step_limit"][1]["__float__"], "Infinity") << limit;
    EXPECT_EQ(kept["_name_or_path"], "NaN, \"Infinity") << limit;
  }
  const auto refused = [&](const char* limit) {
    return test::error_of(
        [&] { ModelConfig::from_json(start + "\"time_step_limit\": " + limit + "}", "dir/config.json"); });
  };
  for (const char* limit :
       {"[0.0, NaN]", "[-1.0, 2.0]", "[2.0, 1.0]", "[0.0]", "[0, -Infinity]", "3", "\"Infinity\""}) {
    EXPECT_PRED2(test::says, refused(limit), (Parts{"dir/config.json", "time_step_limit", "0 <= least <= largest"}))
        << limit;
  }
}

TEST(LinearConfig, TellsMamba2sDialectsApartByTheirKeys) {
  const LinearMixer hugging_face = *linear_config("mamba2", {{"layer_norm_epsilon", 1e-3}}).linear;
  EXPECT_EQ(hugging_face.norm_epsilon, 1e-3);
  EXPECT_EQ(linear_config("mamba2", {{"n_groups", nullptr}, {"num_heads", 8}, {"head_dim", 4}}).linear->key_heads, 8);
  const LinearMixer fla =
      *linear_config("mamba2", {{"norm_eps", 1e-4}, {"dt_limit", {0.5, 2.0}}, {"n_groups", nullptr}}).linear;
  EXPECT_EQ(fla.norm_epsilon, 1e-4);
  EXPECT_EQ(fla.lowest_step, 0.5);
  EXPECT_EQ(fla.highest_step, 2.0);
  EXPECT_EQ(fla.key_heads, 1);
  // Hugging Face's mixer does not look at it.
  EXPECT_EQ(linear_config("mamba2", {{"norm_before_gate", true}}).linear->gate, LinearGate::before_norm);
  const json before = {{"norm_before_gate", true}, {"norm_eps", 1e-4}};
  EXPECT_EQ(linear_config("mamba2", before).linear->gate, LinearGate::after_norm);
  const json counted = {{"norm_eps", 1e-4}, {"num_heads", nullptr}, {"head_dim", 8}};
  EXPECT_EQ(linear_config("mamba2", counted).linear->heads, 4);
  EXPECT_EQ(linear_config("mamba2", {{"rmsnorm", false}}).linear->norm_size, 0);
  EXPECT_EQ(linear_config("mamba2", {{"D_has_hdim", true}}).linear->skip, LinearSkip::channel);
}

TEST(LinearConfig, WhatIsOfTrainingLimitsNoStep) {
  const LinearMixer mixer =
      *linear_config("mamba2-project_fox",
                     {{"time_step_min", 0.001}, {"time_step_max", 0.1}, {"time_step_floor", 0.01}, {"rms_norm", false}})
           .linear;
  EXPECT_EQ(mixer.lowest_step, 0.0);
  EXPECT_EQ(mixer.highest_step, std::numeric_limits<double>::infinity());
  EXPECT_GT(mixer.norm_size, 0);
}

TEST(LinearConfig, BoundsOfHgrn2AreFlasAlone) {
  EXPECT_TRUE(linear_config("hgrn2-project_fox").linear->has_lower_bounds);
  EXPECT_FALSE(linear_config("hgrn2-project_fox").linear->lower_bound);
  EXPECT_TRUE(linear_config("hgrn2").linear->lower_bound);
  EXPECT_FALSE(linear_config("hgrn2", {{"use_lower_bound", false}}).linear->lower_bound);
  EXPECT_EQ(linear_config("hgrn2", {{"norm_eps", 0.5}}).linear->norm_epsilon, 1e-5);
  EXPECT_EQ(linear_config("hgrn2-project_fox", {{"norm_eps", 0.5}}).linear->norm_epsilon, 0.5);
}

TEST(LinearConfig, SiluOfTheAuthorsDeltaNetIsItsConvolutions) {
  const json without = {{"use_short_conv", false}};
  EXPECT_EQ(linear_config("delta_net-project_fox", without).linear->key_activation, LinearActivation::none);
  EXPECT_EQ(linear_config("delta_net", without).linear->key_activation, LinearActivation::silu);
  EXPECT_EQ(linear_config("delta_net-project_fox", without).linear->value_activation, LinearActivation::silu);
  EXPECT_EQ(linear_config("gla").linear->key_activation, LinearActivation::none);
  EXPECT_EQ(linear_config("gla", {{"use_short_conv", true}}).linear->key_activation, LinearActivation::silu);
}

TEST(LinearConfig, Qwen3NextIsDenseWhereNoLayerHasExperts) {
  for (const json& dense :
       {json{{"num_experts", 0}}, json{{"mlp_only_layers", {0, 1}}}, json{{"decoder_sparse_step", 3}}}) {
    EXPECT_EQ(linear_config("qwen3_next", dense).mixers, (std::vector{Mixer::delta_rule, Mixer::attention}));
  }
  json config = tiny_linear("qwen3_next", {{"num_experts", 0}, {"num_hidden_layers", 5}});
  config.erase("layer_types");
  const std::vector<Mixer> mixers = ModelConfig::from_json(config.dump(), "config.json").mixers;
  EXPECT_EQ(mixers, (std::vector{Mixer::delta_rule, Mixer::delta_rule, Mixer::delta_rule, Mixer::attention,
                                 Mixer::delta_rule}));
}

TEST(LinearConfig, EverySecondLayerOfSambaIsAttention) {
  const ModelConfig config = linear_config("samba-project_fox", {{"num_hidden_layers", 3}});
  EXPECT_EQ(config.mixers, (std::vector{Mixer::mamba, Mixer::attention, Mixer::mamba}));
  EXPECT_EQ(config.heads, 2);
  EXPECT_EQ(config.key_heads, 2);
  EXPECT_EQ(config.common_window(), 9);
  EXPECT_EQ(config.rotaries, (std::vector<Rotary>{{.base = 500000, .dim = 8}}));
  EXPECT_EQ(config.linear->heads, 32);
  EXPECT_EQ(config.linear->decay_rank, 1);
  EXPECT_EQ(config.linear->layer(), (LayerMixer{Mixer::mamba, Decay::rates, 32, 1, 1, 32, 6, 1}));
  // Of the paper's 760 million parameters.
  const ModelConfig paper = linear_config(
      "samba-project_fox",
      {{"hidden_size", 1536}, {"num_hidden_layers", 24}, {"attn", {{"num_heads", 12}, {"window_size", 2048}}}});
  EXPECT_EQ(paper.intermediate_of(1), 4096);
  EXPECT_EQ(paper.intermediate_of(0), 3072);
  EXPECT_EQ(paper.linear->heads, 3072);
  EXPECT_EQ(paper.linear->decay_rank, 96);
  EXPECT_EQ(linear_config("samba-project_fox", {{"time_step_rank", "auto"}, {"hidden_size", 40}}).linear->decay_rank,
            3);
  const ModelConfig alone = linear_config("samba-project_fox", {{"attn", nullptr}});
  EXPECT_FALSE(alone.is_hybrid());
  EXPECT_EQ(alone.heads, 32);
  EXPECT_EQ(alone.query_size(), 6) << "which all heads share";
  EXPECT_EQ(linear_config("samba-project_fox", {{"num_hidden_layers", 1}}).common_window(), 0);
  EXPECT_EQ(alone.intermediate_of(1), alone.linear_intermediate_size);
}

TEST(LinearConfig, OfMambasDecaysNoTokenHasMoreThanOneNumberAChannel) {
  const ModelConfig config = linear_config(
      "samba-project_fox",
      {{"hidden_size", 1536}, {"num_hidden_layers", 24}, {"attn", {{"num_heads", 12}}}, {"state_size", 16}});
  const RunMemory without = estimate_needs(config, 0, {}, DType::float32, {true, 0}).host;
  const RunMemory with = estimate_needs(config, 0, {Keep::gates}, DType::float32, {true, 0}).host;
  EXPECT_EQ(with.per_token - without.per_token, 12 * (3072 + 12) * 8);
  EXPECT_EQ(with.fixed - without.fixed, 12 * 3072 * 16 * 8);
}

TEST(LinearConfig, TellsMambasDialectsApartByTheirKeys) {
  const ModelConfig hugging_face = linear_config("mamba", {{"layer_norm_epsilon", 1e-3}});
  EXPECT_EQ(hugging_face.norm_epsilon, 1e-3);
  EXPECT_TRUE(hugging_face.tie_word_embeddings);
  EXPECT_FALSE(hugging_face.has_mlp());
  const ModelConfig fla = linear_config("mamba", {{"norm_eps", 1e-4}});
  EXPECT_EQ(fla.norm_epsilon, 1e-4);
  EXPECT_FALSE(fla.tie_word_embeddings);
}

/// As transformers 5.24 writes them: they choose among algorithms of equal results.
TEST(LinearConfig, SwitchesBetweenAlgorithmsOfMambaChangeNothing) {
  for (const char* key : {"use_associative_scan", "use_mambapy"}) {
    EXPECT_EQ(linear_refusal("mamba", {{key, true}}), "") << key;
    EXPECT_EQ(linear_refusal("samba-project_fox", {{key, true}}), "") << key;
  }
}

TEST(LinearConfig, SambaRefusesWhatDoesNotFit) {
  const auto refusal = [](const json& keys) { return linear_refusal("samba-project_fox", keys); };
  EXPECT_PRED2(test::says, refusal({{"attn", {{"layers", {1}}, {"num_heads", 2}}}}),
               (Parts{"dir/config.json", "attn.layers", "every second layer"}));
  EXPECT_PRED2(test::says, refusal({{"attn", {{"layers", nullptr}}}}), (Parts{"attn.num_heads is missing"}));
  EXPECT_PRED2(test::says, refusal({{"attn", {{"num_heads", 3}}}}), (Parts{"attn.num_heads is 3"}));
  EXPECT_PRED2(test::says, refusal({{"attn", {{"num_heads", 16}}}}), (Parts{"attn.num_heads is 16", "even number"}));
  EXPECT_PRED2(test::says, refusal({{"attn", {{"num_heads", 4}, {"num_kv_heads", 3}}}}),
               (Parts{"attn.num_kv_heads is 3", "divides num_heads 4"}));
  EXPECT_PRED2(test::says, refusal({{"attn", {{"num_heads", 2}, {"window_size", -1}}}}), (Parts{"attn.window_size"}));
  EXPECT_PRED2(test::says, refusal({{"attn", {{"num_heads", 2}, {"sparkle", 1}}}}), (Parts{"attn.sparkle"}));
  EXPECT_PRED2(test::says, refusal({{"hidden_act", "gelu"}}), (Parts{"hidden_act is \"gelu\"", "\"silu\""}));
  EXPECT_PRED2(test::says, refusal({{"time_step_rank", "half"}}), (Parts{"time_step_rank is \"half\"", "\"auto\""}));
  EXPECT_PRED2(test::says, refusal({{"expand", 1e3}, {"hidden_size", 1 << 18}}),
               (Parts{"expand", "hidden_size 262144"}));
  EXPECT_PRED2(test::says, refusal({{"state_size", 0}}), (Parts{"state_size is 0"}));
  EXPECT_PRED2(test::says, refusal({{"mamba_hidden_ratio", 1e3}, {"hidden_size", 1 << 16}}),
               (Parts{"mamba_hidden_ratio", "the MLP has 1 to"}));
  EXPECT_PRED2(test::says, refusal({{"sparkle", 4}}), (Parts{"sparkle", "does not know"}));
  EXPECT_PRED2(test::says, linear_refusal("mamba", {{"intermediate_size", 48}}),
               (Parts{"intermediate_size is 48", "expand times hidden_size, 32"}));
}

TEST(LinearConfig, RanksOfRwkv7AreItsClasssUnlessTheyAreNull) {
  const LinearMixer absent = *linear_config("rwkv7").linear;
  EXPECT_EQ(absent.decay_rank, 64);
  EXPECT_EQ(absent.erase_rank, 64);
  EXPECT_EQ(absent.value_rank, 16);
  EXPECT_EQ(absent.gate_rank, 128);
  EXPECT_EQ(linear_config("rwkv7", {{"decay_low_rank_dim", nullptr}}).linear->decay_rank, 32);
}

TEST(LinearConfig, NewerMixersRefuseWhatDoesNotFit) {
  EXPECT_PRED2(test::says, linear_refusal("retnet", {{"feature_map", "relu"}}), (Parts{"feature_map is \"relu\""}));
  EXPECT_PRED2(test::says, linear_refusal("retnet", {{"expand_k", 0.125}}), (Parts{"expand_k", "even number"}));
  EXPECT_PRED2(test::says, linear_refusal("linear_attn", {{"feature_map", "hedgehog"}}),
               (Parts{"feature_map is \"hedgehog\"", "\"elementwise_product\""}));
  EXPECT_PRED2(test::says, linear_refusal("linear_attn", {{"tie_feature_map_qk", true}}),
               (Parts{"tie_feature_map_qk is true"}));
  EXPECT_PRED2(test::says, linear_refusal("linear_attn", {{"norm_feature_map", true}}),
               (Parts{"norm_feature_map is true"}));
  for (const char* name : {"comba", "gated_deltaproduct"}) {
    EXPECT_PRED2(test::says, linear_refusal(name, {{"num_v_heads", 4}}), (Parts{"num_v_heads is 4", "of keys, 2"}));
  }
  EXPECT_PRED2(test::says, linear_refusal("kda", {{"num_v_heads", 3}}),
               (Parts{"num_v_heads is 3: it must be a multiple of num_heads 2"}));
  EXPECT_PRED2(test::says, linear_refusal("delta_net", {{"use_beta", false}, {"allow_neg_eigval", true}}),
               (Parts{"use_beta is false, which Foxscope does not run: it runs true where allow_neg_eigval is true"}));
  EXPECT_PRED2(test::says, linear_refusal("kda", {{"lower_bound", 1.0}}), (Parts{"lower_bound is 1"}));
  EXPECT_PRED2(test::says, linear_refusal("rwkv7", {{"head_dim", 5}}), (Parts{"head_dim is 5", "hidden_size 16"}));
  EXPECT_PRED2(test::says, linear_refusal("rwkv7", {{"value_dim", {16, 8}}}), (Parts{"value_dim is a list"}));
  EXPECT_PRED2(test::says, linear_refusal("rwkv7", {{"norm_bias", false}}), (Parts{"norm_bias is false"}));
  EXPECT_PRED2(test::says, linear_refusal("rwkv7", {{"hidden_act", "relu"}}), (Parts{"hidden_act is \"relu\""}));
  EXPECT_PRED2(test::says, linear_refusal("gated_deltaproduct", {{"num_householder", 0}}),
               (Parts{"num_householder is 0"}));
  EXPECT_PRED2(test::says, linear_refusal("gated_deltaproduct", {{"conv_bias", true}}), (Parts{"conv_bias is true"}));
  EXPECT_PRED2(test::says, linear_refusal("gated_deltaproduct", {{"expand_v", 0.01}}), (Parts{"expand_v is 0.01"}));
  for (const char* name : {"retnet", "linear_attn", "kda", "comba", "gated_deltaproduct", "rwkv7", "falcon_mamba"}) {
    EXPECT_PRED2(test::says, linear_refusal(name, {{"sparkle", 4}}), (Parts{"sparkle", "does not know"})) << name;
  }
}

/// Keys of configurations that FLA's models do not hand to their layers.
TEST(LinearConfig, KeysThatNoLayerOfFlaSeesChangeNothing) {
  const std::pair<const char*, json> dead[] = {
      {"comba", {{"use_inner_decay", false}, {"use_output_correction", false}, {"correction_factor", 0.02}}},
      {"retnet", {{"use_short_conv", true}, {"conv_size", 7}}},
  };
  for (const auto& [name, keys] : dead) {
    const auto tensors = [&](const json& of) {
      std::vector<std::pair<std::string, std::vector<std::int64_t>>> list;
      for (const Parameter& one : parameters(linear_config(name, of))) list.emplace_back(one.name, one.shape);
      return list;
    };
    EXPECT_EQ(tensors(keys), tensors(json::object())) << name;
    EXPECT_EQ(linear_config(name, keys).linear->query_activation, linear_config(name).linear->query_activation) << name;
  }
}

TEST(LinearConfig, RefusesWhatDoesNotFit) {
  EXPECT_PRED2(test::says, linear_refusal("mamba2", {{"num_heads", 3}}),
               (Parts{"dir/config.json", "num_heads is 3", "expand times hidden_size, 32"}));
  EXPECT_PRED2(test::says, linear_refusal("mamba2", {{"n_groups", 3}}),
               (Parts{"n_groups is 3", "divides num_heads 4"}));
  EXPECT_PRED2(test::says, linear_refusal("mamba2-project_fox", {{"n_groups", 2}}), (Parts{"n_groups is 2"}));
  EXPECT_PRED2(test::says, linear_refusal("gla", {{"num_kv_heads", 3}}), (Parts{"num_kv_heads is 3"}));
  EXPECT_PRED2(test::says, linear_refusal("gla", {{"feature_map", "elu"}}), (Parts{"feature_map"}));
  EXPECT_PRED2(test::says, linear_refusal("gla", {{"expand_k", 0.2}}), (Parts{"expand_k", "columns are 2 heads"}));
  EXPECT_PRED2(test::says, linear_refusal("hgrn2", {{"expand_ratio", 5}}), (Parts{"expand_ratio is 5"}));
  EXPECT_PRED2(test::says, linear_refusal("delta_net", {{"qk_norm", "l1"}}), (Parts{"qk_norm", "\"l2\" or \"sum\""}));
  EXPECT_PRED2(test::says, linear_refusal("delta_net", {{"qk_activation", "tanh"}}), (Parts{"qk_activation"}));
  EXPECT_PRED2(test::says, linear_refusal("gated_deltanet", {{"num_v_heads", 3}}), (Parts{"num_v_heads is 3"}));
  for (const char* name : {"gla", "hgrn2", "delta_net", "gated_deltanet"}) {
    EXPECT_PRED2(test::says, linear_refusal(name, {{"attn", {{"layers", {1}}}}}), (Parts{"attn.num_heads is missing"}))
        << name;
    EXPECT_PRED2(test::says, linear_refusal(name, {{"attn", {{"layers", {2}}, {"num_heads", 2}}}}),
                 (Parts{"attn.layers is a list", "layers from 0 to 1"}))
        << name;
    EXPECT_PRED2(test::says, linear_refusal(name, {{"attn", {{"layers", {1}}, {"num_heads", 3}}}}),
                 (Parts{"attn.num_heads is 3"}))
        << name;
    EXPECT_PRED2(test::says, linear_refusal(name, {{"attn", {{"layers", {1}}, {"num_heads", 2}, {"sparkle", 1}}}}),
                 (Parts{"attn.sparkle"}))
        << name;
    EXPECT_PRED2(test::says, linear_refusal(name, {{"attn", {3}}}), (Parts{"attn is a list", "list of objects"}))
        << name;
    EXPECT_PRED2(test::says, linear_refusal(name, {{"attnres_block_size", 4}}), (Parts{"attnres_block_size"})) << name;
    EXPECT_PRED2(test::says, linear_refusal(name, {{"sparkle", 4}}), (Parts{"sparkle", "does not know"})) << name;
  }
  EXPECT_PRED2(test::says, linear_refusal("qwen3_5_text", {{"layer_types", {"linear_attention", "moon_attention"}}}),
               (Parts{"layer_types", "for each of 2 layers"}));
  EXPECT_PRED2(test::says, linear_refusal("qwen3_5_text", {{"linear_num_value_heads", 3}}),
               (Parts{"linear_num_value_heads is 3"}));
  EXPECT_PRED2(test::says, linear_refusal("qwen3_next", {{"num_experts", 8}}),
               (Parts{"dir/config.json", "num_experts_per_tok is missing", "at most num_experts 8"}));
  EXPECT_PRED2(test::says, linear_refusal("qwen3_next", {{"num_experts", 0}, {"sparkle", 1}}), (Parts{"sparkle"}));
}

struct LinearOption {
  const char* model_type;
  json keys;
};

/// What no fixture has: the steps of the CPU and those of LibTorch, which share no code, and the next position's.
TEST(LinearOptions, TwoWaysToComputeAgree) {
  const LinearOption options[] = {
      {"mamba2", {{"n_groups", 2}, {"use_bias", true}}},
      {"mamba2", {{"use_conv_bias", false}, {"time_step_limit", {0.5, 0.9}}, {"conv_kernel", 2}}},
      {"mamba2", {{"norm_before_gate", true}, {"D_has_hdim", true}, {"n_groups", 2}, {"norm_eps", 1e-5}}},
      {"mamba2", {{"rmsnorm", false}, {"tie_word_embeddings", true}, {"conv_kernel", 1}}},
      {"hgrn2", {{"use_short_conv", true}}},
      {"hgrn2", {{"expand_ratio", nullptr}, {"use_lower_bound", false}}},
      {"hgrn2-project_fox", {{"num_heads", 4}, {"expand_ratio", 3}}},
      {"gla", {{"num_kv_heads", 1}, {"use_short_conv", true}, {"clamp_min", -0.02}}},
      {"gla", {{"use_output_gate", false}, {"expand_v", 2.0}}},
      {"delta_net", {{"qk_activation", "relu"}, {"expand_k", 0.5}, {"use_gate", true}}},
      {"delta_net", {{"qk_activation", "elu"}, {"qk_norm", "sum"}, {"use_beta", false}, {"use_short_conv", false}}},
      {"delta_net", {{"qk_activation", "identity"}, {"allow_neg_eigval", true}}},
      {"delta_net-project_fox", {{"norm_first", true}, {"use_short_conv", false}}},
      {"gated_deltanet", {{"num_v_heads", 4}, {"use_gate", false}, {"allow_neg_eigval", true}}},
      {"gated_deltanet", {{"use_short_conv", false}, {"expand_v", 0.5}}},
      {"qwen3_5_text", json::object()},
      {"qwen3_5_text", {{"layer_types", {"linear_attention", "linear_attention"}}}},
      {"qwen3_next", {{"num_experts", 0}, {"num_experts_per_tok", 10}}},
      {"samba-project_fox", {{"num_hidden_layers", 4}}},
      {"samba-project_fox", {{"attn", nullptr}, {"tie_word_embeddings", true}, {"conv_kernel", 1}}},
      {"samba-project_fox", {{"use_bias", true}, {"use_conv_bias", false}, {"expand", 1.5}, {"time_step_rank", 7}}},
      {"mamba", {{"norm_eps", 1e-3}, {"state_size", 1}}},
      {"gla", {{"attn", {{"layers", {0}}, {"num_heads", 2}, {"num_kv_heads", 1}, {"qkv_bias", true}}}}},
      {"delta_net",
       {{"attn",
         {{{"layers", {0}}, {"num_heads", 2}, {"window_size", 5}},
          {{"layers", {1}}, {"num_heads", 2}, {"rope_theta", 500.0}}}}}},
      {"retnet", {{"num_kv_heads", 1}, {"expand_v", 1.0}}},
      {"retnet", {{"use_output_gate", false}, {"attn", {{"layers", {1}}, {"num_heads", 2}}}}},
      {"linear_attn", {{"feature_map", "elu"}, {"norm_q", true}, {"norm_k", true}, {"num_kv_heads", 1}}},
      {"linear_attn", {{"feature_map", "identity"}, {"expand_k", 0.5}}},
      {"kda", {{"lower_bound", -5.0}, {"safe_gate", true}, {"expand_v", 0.5}}},
      {"kda", {{"allow_neg_eigval", true}, {"use_short_conv", false}}},
      {"kda", {{"num_v_heads", 4}, {"expand_v", 0.5}}},
      {"kda", {{"num_v_heads", 6}, {"use_short_conv", false}, {"attn", {{"layers", {1}}, {"num_heads", 2}}}}},
      {"comba", {{"expand_v", 0.5}}},
      {"comba", {{"use_output_gate", false}, {"use_short_conv", false}}},
      {"gated_deltaproduct", {{"num_householder", 3}, {"expand_v", 0.5}, {"use_forget_gate", true}}},
      {"gated_deltaproduct", {{"num_householder", 2}, {"use_output_gate", false}, {"use_short_conv", false}}},
      {"gated_deltaproduct", {{"allow_neg_eigval", true}, {"use_forget_gate", true}, {"head_dim", 5}}},
      {"gated_deltaproduct",
       {{"num_householder", 2}, {"expand_v", 1.0}, {"attn", {{"layers", {1}}, {"num_heads", 2}, {"window_size", 9}}}}},
      {"rwkv7", {{"fuse_norm", false}, {"tie_word_embeddings", true}}},
      {"falcon_mamba", {{"use_bias", true}, {"mixer_rms_eps", 1e-3}}},
  };
  for (const LinearOption& option : options) {
    SCOPED_TRACE(std::string(option.model_type) + " " + option.keys.dump());
    const test::TemporaryFolder folder;
    const json config = tiny_linear(option.model_type, option.keys);
    test::write_checkpoint(folder, config, test::random_weights(config));
    const Checkpoint checkpoint = Checkpoint::open(folder.text());
    const test::Batch batch = batch_of(70, Keep::logits);
    const auto fast = CausalLM::load(checkpoint, Device{}, DType::float32);
    const auto composed = load_torch_model(checkpoint, Device{}, DType::float32);
    const std::vector<float> ours = test::run_batch(*fast, batch).traces.front()->source().logits();
    const std::vector<float> wanted = test::run_batch(*composed, batch).traces.front()->source().logits();
    double largest = 0;
    for (const float logit : wanted) largest = std::max(largest, std::abs(static_cast<double>(logit)));
    EXPECT_LE(test::largest_difference(ours, wanted), 2e-4 * largest);
  }
}

TEST(LinearInterventions, ChangeDecaysWhereThereAreSome) {
  for (const auto& [name, head] :
       {std::pair{"mamba2", "1"}, {"gla", "0"}, {"hgrn2", "*"}, {"gated-deltanet", "1"}, {"mamba", "*"}}) {
    const Checkpoint checkpoint = Checkpoint::open(test::data_path(name));
    const auto fast = CausalLM::load(checkpoint, Device{}, DType::float32);
    const auto composed = load_torch_model(checkpoint, Device{}, DType::float32);
    for (const char* kind : {"one", "constant=0.9", "scale=0.5", "zero@11", "cut", "mean"}) {
      SCOPED_TRACE(std::string(name) + " " + kind);
      test::Batch batch;
      batch.keep = {Keep::logits};
      for (std::int32_t n = 0; n < 40; ++n) batch.input_ids.push_back(n * 37 % 131);
      batch.labels = batch.input_ids;
      const std::vector<float> untouched = test::run_batch(*fast, batch).traces.front()->source().logits();
      batch.interventions = {Intervention::parse("1:" + std::string(head) + ":" + kind)};
      const std::vector<float> ours = test::run_batch(*fast, batch).traces.front()->source().logits();
      EXPECT_LE(test::largest_difference(ours, test::run_batch(*composed, batch).traces.front()->source().logits()),
                2e-3);
      EXPECT_GT(test::largest_difference(ours, untouched), 1e-4);
    }
  }
}

TEST(LinearInterventions, AreRefusedWhereNothingDecays) {
  const auto refusal = [](const ModelConfig& config, const char* text) {
    const std::vector<Intervention> interventions = {Intervention::parse(text)};
    return test::error_of([&] { check_interventions(interventions, config, 10); });
  };
  const ModelConfig delta = linear_config("delta_net");
  EXPECT_PRED2(test::says, refusal(delta, "*:*:one"), (Parts{"'*:*:one'", "without decay", "cut"}));
  EXPECT_EQ(refusal(delta, "1:1:cut"), "");
  const ModelConfig shared = linear_config("gla", {{"num_kv_heads", 1}});
  EXPECT_PRED2(test::says, refusal(shared, "0:1:one"), (Parts{"2 heads that share the decays of 1"}));
  EXPECT_EQ(refusal(shared, "0:*:one"), "");
  const ModelConfig hybrid = linear_config("qwen3_5_text");
  EXPECT_EQ(refusal(hybrid, "0:3:one"), "");
  EXPECT_PRED2(test::says, refusal(hybrid, "1:3:one"), (Parts{"there is no head 3"}));
}

TEST(LinearWeights, RatesThatGiveNoNumbersAreRefused) {
  const test::TemporaryFolder folder;
  const json config = tiny_linear("mamba2");
  std::vector<test::NamedTensor> weights = test::random_weights(config);
  for (test::NamedTensor& tensor : weights) {
    if (tensor.name.ends_with("1.mixer.A_log")) tensor.values[2] = 95;
  }
  test::write_checkpoint(folder, config, weights);
  const Checkpoint checkpoint = Checkpoint::open(folder.text());
  const auto refusal = [&](auto load) { return test::error_of([&] { load(); }); };
  for (const std::string& message : {refusal([&] { CausalLM::load(checkpoint, Device{}, DType::float32); }),
                                     refusal([&] { load_torch_model(checkpoint, Device{}, DType::float32); })}) {
    EXPECT_PRED2(test::says, message, (Parts{"backbone.layers.1.mixer.A_log holds 95 at element 2"}));
  }
}

TEST(LinearWeights, DecaysThatAreNoNumbersAreRefusedWhenTheyComeUp) {
  struct Case {
    const char* model_type;
    const char* tensor;
    std::size_t first;  ///< from which on the tensor is so large that sums overflow
    Parts says;
  };
  const Case cases[] = {
      // The last 4 rows of the projection make dt.
      {"mamba2", "layers.1.mixer.in_proj.weight", (2 * 32 + 2 * 6) * 16 + 2 * 16, {"layer 1, head 2", "position 0"}},
      {"mamba", "layers.1.mixer.x_proj.weight", 0, {"layer 1, head", ": dt at position"}},
      {"gla",
       "layers.0.attn.gk_proj.0.weight",
       0,
       {"layer 0, head 0", "the log decay at position 0 is", "not above 0"}},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.model_type);
    const test::TemporaryFolder folder;
    const json config = tiny_linear(one.model_type);
    std::vector<test::NamedTensor> weights = test::random_weights(config);
    for (test::NamedTensor& tensor : weights) {
      if (!tensor.name.ends_with(one.tensor)) continue;
      for (std::size_t n = one.first; n < tensor.values.size(); ++n) tensor.values[n] = n % 2 == 0 ? 3e38F : -3e38F;
    }
    test::write_checkpoint(folder, config, weights);
    const Checkpoint checkpoint = Checkpoint::open(folder.text());
    const test::Batch batch = batch_of(20, Keep::loss);
    const auto fast = CausalLM::load(checkpoint, Device{}, DType::float32);
    const auto composed = load_torch_model(checkpoint, Device{}, DType::float32);
    EXPECT_PRED2(test::says, test::error_of([&] { test::run_batch(*fast, batch); }), one.says);
    EXPECT_PRED2(test::says, test::error_of([&] { test::run_batch(*composed, batch); }), one.says);
  }
}

TEST(LinearWeights, WhatIsNoNumberIsNamedWithItsPlace) {
  LinearMixer mixer;
  mixer.beta = LinearBeta::step;
  mixer.highest_step = 0.5;
  EXPECT_EQ(test::error_of([&] {
              throw_bad_beta({3, 2, 17}, mixer, std::numeric_limits<double>::infinity());
            }),
            "layer 3, head 2: dt at position 17 is inf, and has to be a number from 0 to 0.5: check the weights and "
            "--dtype");
  mixer.beta = LinearBeta::sigmoid;
  EXPECT_PRED2(test::says, test::error_of([&] {
                 throw_bad_beta({0, 1, 0}, mixer, std::nan(""));
               }),
               (Parts{"layer 0, head 1: beta at position 0 is nan, and has to be a number: check"}));
  EXPECT_EQ(
      test::error_of([] {
        throw_bad_decay({1, 0, 5}, 0.25);
      }),
      "layer 1, head 0: the log decay at position 5 is 0.25, and has to be a number not above 0: check the weights "
      "and --dtype");
}

/// Weights by name.
class NamedWeights final : public ParameterSource {
 public:
  explicit NamedWeights(const std::vector<test::NamedTensor>& tensors) {
    for (const test::NamedTensor& tensor : tensors) values[tensor.name] = tensor.values;
  }
  [[nodiscard]] std::int64_t bytes(const Parameter& parameter) const override { return 4 * parameter.elements(); }
  void read(const Parameter& parameter, const std::function<bool(std::span<const float>)>& take) const override {
    take(values.at(parameter.name));
  }
  std::map<std::string, std::vector<float>> values;
};

struct LinearTraining {
  explicit LinearTraining(const json& keys) : config(ModelConfig::from_json(keys.dump(), "config.json")) {
    for (std::int32_t n = 0; n < 90; ++n) ids.push_back(n * n % 23);
    labels.assign(ids.begin() + 1, ids.end());
    labels.push_back(0);
  }
  [[nodiscard]] TrainableModel::MicroBatch batch() const { return {1, 90, ids, labels, 1.0 / 90}; }
  [[nodiscard]] std::unique_ptr<TrainableModel> make(const ParameterSource& weights) const {
    TrainableOptions options;
    options.optimizer.clip = 0;
    return TrainableModel::make(config, weights, options, {});
  }
  [[nodiscard]] double loss(const ParameterSource& weights) const {
    const std::vector<double> losses = make(weights)->losses(batch(), {});
    return std::accumulate(losses.begin(), losses.end(), 0.0) / static_cast<double>(losses.size());
  }
  ModelConfig config;
  std::vector<std::int32_t> ids, labels;
};

/// The gradient by each tensor, against the change of the loss along it.
TEST(LinearTraining, GradientsAreTheLosssSlopes) {
  const LinearOption options[] = {{"mamba2", {{"n_groups", 2}, {"use_bias", true}}},
                                  {"hgrn2", {{"use_short_conv", true}}},
                                  {"hgrn2-project_fox", json::object()},
                                  {"gla", {{"num_kv_heads", 1}}},
                                  {"delta_net-project_fox", json::object()},
                                  {"gated_deltanet", {{"num_v_heads", 4}}},
                                  {"samba-project_fox", {{"use_bias", true}}},
                                  {"mamba", {{"norm_eps", 1e-5}}}};
  for (const LinearOption& option : options) {
    const json config = tiny_linear(option.model_type, option.keys);
    const LinearTraining training(config);
    NamedWeights weights(test::random_weights(config));
    const auto model = training.make(weights);
    ASSERT_TRUE(model->add_gradients(training.batch(), {}));
    ASSERT_TRUE(model->step(0, {}).stepped);
    constexpr double kFirstShare = 0.1;  // 1 - beta1: the first moment is so much of the gradient
    model->snapshot()->read(TrainingPart::first_moment, [&](const Parameter& parameter, std::span<const float> moment) {
      SCOPED_TRACE(std::string(option.model_type) + " " + parameter.name);
      double square = 0;
      for (const float value : moment) square += std::pow(static_cast<double>(value) / kFirstShare, 2);
      const double norm = std::sqrt(square);
      if (parameter.name.ends_with("lower_bounds") && option.model_type == std::string("hgrn2-project_fox")) {
        EXPECT_EQ(norm, 0) << "the authors' code never applies them";
        return true;
      }
      EXPECT_GT(norm, 0);
      std::vector<float>& values = weights.values.at(parameter.name);
      const std::vector<float> before = values;
      const double size = 1e-3 / std::max(norm, 1.0);
      const auto moved = [&](double step) {
        for (std::size_t n = 0; n < values.size(); ++n) {
          values[n] = static_cast<float>(static_cast<double>(before[n]) +
                                         step * static_cast<double>(moment[n]) / (kFirstShare * norm));
        }
        return training.loss(weights);
      };
      const double slope = (moved(size) - moved(-size)) / (2 * size);
      values = before;
      EXPECT_NEAR(slope, norm, 0.02 * norm + 2e-4);
      return true;
    });
  }
}

TEST(LinearTraining, BeginsAsTheAuthorsModulesDo) {
  const json config = tiny_linear("mamba2-project_fox", {{"hidden_size", 64}, {"num_heads", 16}});
  const ModelConfig model = ModelConfig::from_json(config.dump(), "config.json");
  const InitialWeights initial(model, 3);
  const auto values_of = [&](const std::string& name) {
    std::vector<double> values;
    for (const Parameter& parameter : parameters(model)) {
      if (!parameter.name.ends_with(name)) continue;
      values.clear();
      initial.read(parameter, [&](std::span<const float> piece) {
        values.insert(values.end(), piece.begin(), piece.end());
        return true;
      });
    }
    return values;
  };
  const std::vector<double> rates = values_of("1.mixer.A_log");
  for (std::size_t n = 0; n < rates.size(); ++n) EXPECT_NEAR(rates[n], std::log(static_cast<double>(n + 1)), 1e-6);
  for (const double factor : values_of("1.mixer.D")) EXPECT_EQ(factor, 1);
  for (const double bias : values_of("1.mixer.dt_bias")) {
    const double step = std::log1p(std::exp(bias));
    EXPECT_GE(step, 0.00099);
    EXPECT_LE(step, 0.101);
  }
  const auto expect_uniform = [&](const std::string& name, double range) {
    const std::vector<double> values = values_of(name);
    double square = 0;
    for (const double value : values) {
      EXPECT_LE(std::abs(value), range * (1 + 1e-6)) << name;
      square += value * value / static_cast<double>(values.size());
    }
    EXPECT_NEAR(std::sqrt(3 * square), range, 0.1 * range) << name;
  };
  expect_uniform("0.mixer.in_proj.weight", 1 / 8.0);
  expect_uniform("0.mixer.out_proj.weight", 1 / std::sqrt(128.0 * 2));
  expect_uniform("0.mixer.conv1d.weight", 0.5);
  expect_uniform("lm_head.weight", 1 / 8.0);
}

/// Samba's modules: what LibTorch draws of itself, and what their authors put in its place.
TEST(LinearTraining, SambaBeginsAsItsAuthorsModulesDo) {
  const auto initial_of = [](const json& keys) {
    json config = tiny_linear("samba-project_fox", {{"hidden_size", 64}, {"num_hidden_layers", 2}, {"use_bias", true}});
    config.update(keys);
    return ModelConfig::from_json(config.dump(), "config.json");
  };
  const auto values_of = [](const ModelConfig& model, const std::string& name) {
    std::vector<double> values;
    const InitialWeights initial(model, 3);
    for (const Parameter& parameter : parameters(model)) {
      if (!parameter.name.ends_with(name)) continue;
      values.clear();
      initial.read(parameter, [&](std::span<const float> piece) {
        values.insert(values.end(), piece.begin(), piece.end());
        return true;
      });
    }
    EXPECT_FALSE(values.empty()) << name;
    return values;
  };
  const ModelConfig model = initial_of(json::object());
  const std::vector<double> rates = values_of(model, "0.mixer.A_log");
  EXPECT_EQ(rates.size(), 128U * 6);
  for (std::size_t n = 0; n < rates.size(); ++n) EXPECT_NEAR(rates[n], std::log(static_cast<double>(n % 6 + 1)), 1e-6);
  for (const double factor : values_of(model, "0.mixer.D")) EXPECT_EQ(factor, 1);
  for (const char* bias : {"0.mixer.in_proj.bias", "0.mixer.out_proj.bias"}) {
    for (const double number : values_of(model, bias)) EXPECT_EQ(number, 0);
  }
  for (const double bias : values_of(model, "0.mixer.dt_proj.bias")) {
    const double step = std::log1p(std::exp(bias));
    EXPECT_GE(step, 0.00099);
    EXPECT_LE(step, 0.101);
  }
  const auto expect_uniform = [&](const std::string& name, double range) {
    const std::vector<double> values = values_of(model, name);
    double square = 0;
    for (const double value : values) {
      EXPECT_LE(std::abs(value), range * (1 + 1e-6)) << name;
      square += value * value / static_cast<double>(values.size());
    }
    EXPECT_NEAR(std::sqrt(3 * square), range, 0.1 * range) << name;
  };
  expect_uniform("0.mixer.in_proj.weight", 1 / 8.0);
  expect_uniform("0.mixer.x_proj.weight", 1 / std::sqrt(128.0));
  expect_uniform("0.mixer.dt_proj.weight", 1 / 2.0);
  expect_uniform("0.mixer.conv1d.weight", 0.5);
  expect_uniform("0.mixer.out_proj.weight", 1 / std::sqrt(128.0 * 4));
  expect_uniform("1.mixer.q_proj.weight", 1 / 8.0);
  expect_uniform("1.mixer.o_proj.weight", 1 / std::sqrt(64.0 * 4));
  expect_uniform("1.mlp.down_proj.weight", 1 / std::sqrt(256.0 * 4));
  expect_uniform("lm_head.weight", 1 / 8.0);
  double square = 0;
  const std::vector<double> table = values_of(model, "embeddings.weight");
  for (const double number : table) square += number * number / static_cast<double>(table.size());
  EXPECT_NEAR(std::sqrt(square), 0.02, 0.002);
  for (const double number :
       values_of(initial_of({{"time_step_init_scheme", "constant"}, {"time_step_scale", 3.0}}), "dt_proj.weight")) {
    EXPECT_EQ(number, 1.5);
  }
  EXPECT_PRED2(test::says, test::error_of([&] {
                 InitialWeights(initial_of({{"time_step_init_scheme", "odd"}}), 3);
               }),
               (Parts{"time_step_init_scheme is \"odd\"", "\"constant\""}));
}

}  // namespace
}  // namespace foxscope

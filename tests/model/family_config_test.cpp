// config.json of the plain families: what is read, what is refused and in which words, and values that nobody meant.

#include <cmath>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/model/session/decode_state.h"
#include "backend/model/session/torch_model.h"
#include "backend/model/spec/model_family.h"
#include "backend/model/spec/parameters.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

using nlohmann::json;
using test::Parts;

/// The smallest sound configuration of a family.
json tiny_family(const std::string& model_type) {
  if (model_type == "gpt2") {
    return {{"model_type", "gpt2"}, {"vocab_size", 11}, {"n_embd", 8},       {"n_head", 2},
            {"n_layer", 2},         {"n_inner", 6},     {"n_positions", 12}, {"bos_token_id", 0}};
  }
  json config = {{"model_type", model_type}, {"vocab_size", 11},       {"hidden_size", 8}, {"num_attention_heads", 2},
                 {"num_hidden_layers", 2},   {"intermediate_size", 6}, {"bos_token_id", 0}};
  if (model_type == "gpt_neox") config["rotary_pct"] = 1.0;
  if (model_type.starts_with("glm")) config["partial_rotary_factor"] = 1.0;
  if (model_type == "ministral3") config.update({{"head_dim", 4}, {"rope_scaling", {{"rope_type", "default"}}}});
  if (model_type == "gemma3_text")
    config["num_key_value_heads"] = 1;  // the class's own 4 are more than there are heads
  return config;
}

const std::vector<std::string> kPlainFamilies = {"gpt2",      "gpt_neox",    "llama",   "mistral", "qwen2", "qwen3",
                                                 "ministral", "ministral3",  "smollm3", "phi3",    "olmo2", "olmo3",
                                                 "gemma2",    "gemma3_text", "granite", "glm",     "glm4"};
const std::vector<std::string> kRotaryFamilies = {"gpt_neox",    "llama",   "mistral", "qwen2", "qwen3", "ministral",
                                                  "ministral3",  "smollm3", "phi3",    "olmo2", "olmo3", "gemma2",
                                                  "gemma3_text", "granite", "glm",     "glm4"};

json with(const std::string& model_type, const json& keys) {
  json config = tiny_family(model_type);
  config.update(keys);
  return config;
}

ModelConfig family_config(const json& config) { return ModelConfig::from_json(config.dump(), "dir/config.json"); }

/// The message with which a family's smallest configuration with other keys is refused.
std::string refusal(const std::string& model_type, const json& keys) {
  return test::error_of([&] { family_config(with(model_type, keys)); });
}

TEST(FamilyConfig, ReadsTheSmallest) {
  for (const std::string& name : kPlainFamilies) {
    const ModelConfig config = family_config(tiny_family(name));
    EXPECT_EQ(config.family->model_type, name);
    EXPECT_EQ(config.forget_gate, ForgetGate::none) << name;
    EXPECT_EQ(config.layers, 2) << name;
    const int head_dim = name == "qwen3" || name.starts_with("glm") ? 128 : name.starts_with("gemma") ? 256 : 4;
    EXPECT_EQ(config.head_dim, head_dim) << name;
    EXPECT_EQ(config.widest_rotary(), name == "gpt2" ? 0 : config.head_dim) << name;
    EXPECT_EQ(config.learned_positions, name == "gpt2" ? 12 : 0) << name;
    EXPECT_EQ(config.tie_word_embeddings, name == "gpt2" || name == "smollm3" || name.starts_with("gemma")) << name;
  }
}

TEST(FamilyConfig, KnowsTheFamiliesDefaults) {
  EXPECT_EQ(family_config(tiny_family("mistral")).common_window(), 4096);
  EXPECT_EQ(family_config(with("mistral", {{"sliding_window", nullptr}})).common_window(), 0);
  EXPECT_EQ(family_config(with("mistral", {{"sliding_window", 7}})).common_window(), 7);
  EXPECT_EQ(family_config(with("gpt2", {{"n_inner", nullptr}})).intermediate_size, 32);
  EXPECT_EQ(family_config(with("gpt2", {{"n_positions", nullptr}})).learned_positions, 1024);
  json neox = with("gpt_neox", {{"hidden_size", 32}});
  neox.erase("rotary_pct");
  EXPECT_EQ(family_config(neox).widest_rotary(), 4);
  for (const char* name : {"qwen2", "qwen3"}) {
    const json all = {{"use_sliding_window", true}, {"max_window_layers", 0}};
    EXPECT_EQ(family_config(tiny_family(name)).common_window(), 0) << name;
    EXPECT_EQ(family_config(with(name, all)).common_window(), 4096) << name;
    json none = all;
    none["sliding_window"] = nullptr;
    EXPECT_EQ(family_config(with(name, none)).common_window(), 0) << name;
  }
  EXPECT_EQ(family_config(with("qwen3", {{"hidden_size", 9}})).head_dim, 128);
  for (const char* name : {"glm", "glm4"}) {
    json glm = with(name, {{"num_attention_heads", 4}});
    glm.erase("partial_rotary_factor");
    const ModelConfig config = family_config(glm);
    EXPECT_EQ(config.widest_rotary(), 64) << name;
    EXPECT_EQ(config.key_heads, 2) << name;
    EXPECT_EQ(config.norm_epsilon, 1.5625e-7) << name;
    EXPECT_TRUE(config.query_key_value_bias) << name;
    EXPECT_FALSE(config.output_bias) << name;
    EXPECT_EQ(config.post_norm, name == std::string("glm4"));
  }
  json ministral = tiny_family("ministral3");
  ministral.erase("head_dim");
  EXPECT_EQ(family_config(ministral).head_dim, 128);
  EXPECT_PRED2(test::says, refusal("ministral3", {{"rope_scaling", nullptr}}),
               (Parts{"rope_parameters is missing: it must be there", "stretches texts by a factor of 16"}));
}

TEST(FamilyConfig, TakesWhatSaysNothingOfTheForwardPass) {
  const json said = {{"architectures", {"X"}},
                     {"torch_dtype", "float16"},
                     {"dtype", "bfloat16"},
                     {"transformers_version", "4.31.0"},
                     {"_name_or_path", "x"},
                     {"_attn_implementation_autoset", true},
                     {"eos_token_id", {1, 2}},
                     {"pad_token_id", 3},
                     {"initializer_range", 0.02},
                     {"max_position_embeddings", 4096},
                     {"use_cache", true},
                     {"task_specific_params", {{"text-generation", {{"do_sample", true}}}}},
                     {"pruned_heads", json::object()},
                     {"some_new_switch", false},
                     {"another", nullptr},
                     {"a_list", json::array()},
                     {"a_number", 0},
                     {"a_word", ""}};
  for (const std::string& name : kPlainFamilies) EXPECT_EQ(refusal(name, said), "") << name;
  // As the larger GPT-2s and SmolLM2 were published.
  EXPECT_EQ(refusal("gpt2", {{"n_ctx", 1024},
                             {"n_special", 0},
                             {"predict_special_tokens", true},
                             {"output_past", true},
                             {"summary_type", "cls_index"},
                             {"summary_use_proj", true},
                             {"_num_labels", 1}}),
            "");
  EXPECT_EQ(refusal("llama", {{"is_llama_config", true},
                              {"rope_interleaved", false},
                              {"rope_scaling", nullptr},
                              {"transformers.js_config", {{"dtype", "q4"}}}}),
            "");
  for (const char* name : {"llama", "mistral", "qwen2", "qwen3"}) {
    EXPECT_EQ(refusal(name, {{"pretraining_tp", 4}}), "") << name;
  }
}

TEST(FamilyConfig, RefusesUnknownSwitchesByName) {
  for (const std::string& name : kPlainFamilies) {
    for (const json& value : {json(true), json(2), json(0.5), json("fast"), json({1}), json({{"a", 1}})}) {
      EXPECT_PRED2(
          test::says, refusal(name, {{"new_switch", value}}),
          (Parts{"dir/config.json: \"new_switch\" is ", "a key that Foxscope does not know for this model_type",
                 "does not run the model", "remove it", "CONTRIBUTING.md"}));
    }
    EXPECT_PRED2(test::says, refusal(name, {{"line\nbreak", true}}), (Parts{R"("line\nbreak" is true)"}));
  }
  EXPECT_PRED2(test::says, refusal("gpt2", {{"pretraining_tp", 2}}), (Parts{"\"pretraining_tp\" is 2"}));
  EXPECT_PRED2(test::says, refusal("gpt2", {{"head_dim", 16}}), (Parts{"\"head_dim\" is 16"}));
  EXPECT_PRED2(test::says, refusal("gpt_neox", {{"head_dim", 16}}), (Parts{"\"head_dim\" is 16"}));
  EXPECT_PRED2(test::says, refusal("gpt_neox", {{"mlp_bias", true}}), (Parts{"\"mlp_bias\" is true"}));
  EXPECT_PRED2(test::says, refusal("llama", {{"sliding_window", 5}}), (Parts{"\"sliding_window\" is 5"}));
  EXPECT_PRED2(test::says, refusal("llama", {{"rope_interleaved", true}}), (Parts{"\"rope_interleaved\" is true"}));
  EXPECT_PRED2(test::says, refusal("llama", {{"partial_rotary_factor", 0.5}}),
               (Parts{"\"partial_rotary_factor\" is 0.5"}));
  EXPECT_PRED2(test::says, refusal("mistral", {{"attention_bias", true}}), (Parts{"\"attention_bias\" is true"}));
  EXPECT_PRED2(test::says, refusal("mistral", {{"layer_types", {"full_attention"}}}),
               (Parts{"\"layer_types\" is a list"}));
  EXPECT_PRED2(test::says, refusal("glm4", {{"mlp_bias", true}}), (Parts{"\"mlp_bias\" is true"}));
  EXPECT_PRED2(test::says, refusal("glm4", {{"sliding_window", 5}}), (Parts{"\"sliding_window\" is 5"}));
  EXPECT_PRED2(test::says, refusal("qwen2", {{"attention_bias", true}}), (Parts{"\"attention_bias\" is true"}));
  EXPECT_PRED2(test::says, refusal("qwen3", {{"mlp_bias", true}}), (Parts{"\"mlp_bias\" is true"}));
}

TEST(FamilyConfig, SaysWhatKindOfModelIsNotRun) {
  for (const std::string& name : kPlainFamilies) {
    EXPECT_PRED2(test::says, refusal(name, {{"quantization_config", {{"quant_method", "gptq"}}}}),
                 (Parts{"\"quantization_config\" is an object", "quantised weights are not read",
                        "give a checkpoint in float32, float16 or bfloat16"}));
    for (const char* key :
         {"num_experts", "num_local_experts", "num_experts_per_tok", "n_routed_experts", "moe_intermediate_size"}) {
      EXPECT_PRED2(
          test::says, refusal(name, {{key, 8}}),
          (Parts{std::string(1, '"') + key + "\" is 8", "no mixtures of experts in models of this model_type"}));
    }
    EXPECT_PRED2(test::says, refusal(name, {{"alibi", true}}), (Parts{"\"alibi\" is true", "ALiBi"}));
    EXPECT_PRED2(test::says, refusal(name, {{"auto_map", {{"AutoModel", "x.Y"}}}}), (Parts{"\"auto_map\"", "Python"}));
    EXPECT_PRED2(test::says, refusal(name, {{"add_cross_attention", true}}),
                 (Parts{"\"add_cross_attention\"", "attention to an encoder is not run"}));
  }
}

TEST(FamilyConfig, RefusesOtherActivations) {
  EXPECT_PRED2(test::says, refusal("gpt2", {{"activation_function", "relu"}}),
               (Parts{R"(activation_function is "relu", which Foxscope does not run: it runs "gelu", "gelu_new",)",
                      "CONTRIBUTING.md (A family of models) says how to add one"}));
  EXPECT_PRED2(test::says, refusal("gpt_neox", {{"hidden_act", "relu"}}), (Parts{R"(hidden_act is "relu", which)"}));
  for (const char* name : {"llama", "mistral", "qwen2", "qwen3", "glm4"}) {
    EXPECT_PRED2(test::says, refusal(name, {{"hidden_act", "gelu"}}),
                 (Parts{R"(hidden_act is "gelu", which Foxscope does not run: it runs "silu")"}));
  }
  EXPECT_PRED2(test::says, refusal("llama", {{"hidden_act", 3}}), (Parts{"hidden_act is 3: it must be a string"}));
}

TEST(FamilyConfig, RefusesOtherRotaryEmbeddings) {
  for (const std::string& name : kRotaryFamilies) {
    for (const char* type : {"mrope", "su", "ntk"}) {
      const std::string words =
          std::string(" is \"") + type +
          R"(", which Foxscope does not run: it runs "default", "linear", "dynamic", "llama3", "yarn" and "longrope"; CONTR)";
      const json factor = {{"factor", 2.0}, {"type", type}};
      EXPECT_PRED2(test::says, refusal(name, {{"rope_scaling", factor}}), (Parts{"rope_scaling.type" + words}));
      json newer = {{"rope_type", type}, {"rope_theta", 1e4}};
      std::string where = "rope_parameters.";
      if (name == "olmo3" || name == "gemma3_text") {
        newer = {{"full_attention", newer}};
        where += "full_attention.";
      }
      EXPECT_PRED2(test::says, refusal(name, {{"rope_parameters", newer}}), (Parts{where + "rope_type" + words}));
    }
  }
}

TEST(FamilyConfig, ReadsRotaryEmbeddingsByKindsOfLayers) {
  EXPECT_EQ(family_config(tiny_family("olmo3")).rotaries, (std::vector<Rotary>{{.base = 5e5, .dim = 4}}));
  // transformers hands rope_theta to the layers without a window alone.
  EXPECT_EQ(family_config(with("olmo3", {{"rope_theta", 100.0}})).rotaries,
            (std::vector<Rotary>{{.base = 100, .dim = 4}, {.base = 5e5, .dim = 4}}));
  const json linear = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 7.0}};
  for (const char* name : {"olmo3", "gemma3_text"}) {
    for (const char* kind : {"full_attention", "sliding_attention"}) {
      const ModelConfig config = family_config(with(name, {{"rope_parameters", {{kind, linear}}}}));
      ASSERT_EQ(config.rotaries.size(), 2U) << name;
      const Rotary& read = config.rotaries[kind == std::string("full_attention") ? 0 : 1];
      EXPECT_EQ(read.base, 7) << name;
      EXPECT_EQ(read.scaling.factor, 2) << name;
    }
    EXPECT_EQ(refusal(name, {{"rope_parameters", json::object()}}), "");
    EXPECT_PRED2(test::says, refusal(name, {{"rope_parameters", linear}}),
                 (Parts{"rope_parameters is an object: it must be an object for each kind of layer, full_attention and "
                        "sliding_attention"}));
    EXPECT_PRED2(test::says, refusal(name, {{"rope_parameters", {{"sliding_attention", 3}}}}),
                 (Parts{"rope_parameters.sliding_attention is 3: it must be an object"}));
    EXPECT_PRED2(test::says, refusal(name, {{"rope_parameters", {{"full_attention", linear}, {"other", linear}}}}),
                 (Parts{"\"rope_parameters.other\" is an object"}));
  }
  const json yarn = {{"type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 64}, {"truncate", nullptr}};
  EXPECT_FALSE(family_config(with("llama", {{"rope_scaling", yarn}})).rotaries.front().scaling.truncate)
      << "null is no for transformers";
}

TEST(FamilyConfig, RefusesSwitchesThatAreOff) {
  for (const std::string& name : kPlainFamilies) {
    for (const char* key : {"is_causal", "causal", "elementwise_affine"}) {
      for (const json& off : {json(false), json(), json(0)}) {
        EXPECT_PRED2(test::says, refusal(name, {{key, off}}),
                     (Parts{std::string(key) + " is " + off.dump() + ", which Foxscope does not run: it runs true"}));
      }
      EXPECT_EQ(refusal(name, {{key, true}}), "");
      EXPECT_PRED2(test::says, refusal(name, {{key, 2}}), (Parts{std::string(1, '"') + key + "\" is 2"}));
    }
  }
}

TEST(FamilyConfig, RefusesHalfSaidRotaryEmbeddings) {
  const auto scaling = [](const json& keys) { return refusal("llama", {{"rope_scaling", keys}}); };
  EXPECT_PRED2(test::says, scaling({{"type", "linear"}}), (Parts{"rope_scaling.factor is missing"}));
  EXPECT_PRED2(test::says, scaling({{"type", "linear"}, {"factor", 0.5}}), (Parts{"rope_scaling.factor is 0.5"}));
  EXPECT_PRED2(test::says, scaling({{"type", "linear"}, {"rope_type", "llama3"}}),
               (Parts{"rope_scaling.type is \"linear\": it must be what rope_type says"}));
  EXPECT_PRED2(test::says, scaling({{"type", "linear"}, {"factor", 2}, {"attention_factor", 1.5}}),
               (Parts{"\"rope_scaling.attention_factor\" is 1.5"}));
  EXPECT_PRED2(test::says, scaling("linear"), (Parts{"rope_scaling is \"linear\": it must be an object"}));
  EXPECT_PRED2(test::says, scaling(json::array({1})), (Parts{"rope_scaling is a list: it must be an object"}));
  const json whole = {{"rope_type", "llama3"},
                      {"factor", 8},
                      {"low_freq_factor", 1},
                      {"high_freq_factor", 4},
                      {"original_max_position_embeddings", 8192}};
  EXPECT_EQ(scaling(whole), "");
  for (const char* key : {"factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"}) {
    json part = whole;
    part.erase(key);
    EXPECT_PRED2(test::says, scaling(part), (Parts{std::string("rope_scaling.") + key + " is missing"}));
  }
  json equal = whole;
  equal["high_freq_factor"] = 1;
  EXPECT_PRED2(test::says, scaling(equal), (Parts{"high_freq_factor is 1: it must be above low_freq_factor"}));
  for (const json& value : {json("x"), json(3), json::array({json::object()}), json(true)}) {
    EXPECT_PRED2(test::says, refusal("qwen2", {{"rope_parameters", value}}),
                 (Parts{"rope_parameters is ", "it must be an object"}));
  }
  // By kinds of layers, as newer families write it.
  EXPECT_PRED2(test::says, refusal("qwen3", {{"rope_parameters", {{"full_attention", {{"rope_theta", 1e6}}}}}}),
               (Parts{"\"rope_parameters.full_attention\" is an object"}));
  EXPECT_PRED2(test::says, refusal("llama", {{"rope_parameters", {{"rope_theta", 1e4}}}, {"rope_scaling", whole}}),
               (Parts{"\"rope_scaling\" is an object"}));
}

TEST(FamilyConfig, RefusesHeadsOfWhichNoPairsTurn) {
  const std::string words = "it must be such that an even number of a head's ";
  EXPECT_PRED2(test::says, refusal("gpt_neox", {{"rotary_pct", 0.25}}),
               (Parts{"rotary_pct is 0.25: " + words + "4 numbers turn (rotary embedding), and 1 would"}));
  EXPECT_PRED2(test::says, refusal("gpt_neox", {{"rope_parameters", {{"partial_rotary_factor", 0.75}}}}),
               (Parts{"rope_parameters.partial_rotary_factor is 0.75: " + words + "4", "and 3 would"}));
  EXPECT_PRED2(test::says, refusal("llama", {{"head_dim", 5}}), (Parts{"head_dim is 5: " + words + "5"}));
  EXPECT_PRED2(test::says, refusal("llama", {{"hidden_size", 6}}), (Parts{"num_attention_heads is 2: " + words + "3"}));
  EXPECT_PRED2(test::says, refusal("gpt_neox", {{"rotary_pct", 1.5}}),
               (Parts{"rotary_pct is 1.5: it must be a number from 1e-06 to 1"}));
}

/// transformers 5.24 computes the frequencies of these families from whole heads (compute_default_rope_parameters of
/// each); where the embedding is stretched its cosines are of a part, and the forward pass fails.
TEST(FamilyConfig, HeadsOfLlamaTurnWholeWhateverRopeParametersSay) {
  const json half = {{"rope_theta", 100.0}, {"partial_rotary_factor", 0.5}};
  for (const char* name : {"llama", "mistral", "qwen2", "qwen3"}) {
    const ModelConfig config = family_config(with(name, {{"rope_parameters", half}}));
    EXPECT_EQ(config.rotaries.front(), (Rotary{.base = 100, .dim = config.head_dim})) << name;
    ASSERT_EQ(config.notes.size(), 1U) << name;
    EXPECT_PRED2(test::says, config.notes[0], (Parts{"partial_rotary_factor 0.5", "heads turn whole here too"}));
    json whole = half;
    whole["partial_rotary_factor"] = 1.0;
    EXPECT_TRUE(family_config(with(name, {{"rope_parameters", whole}})).notes.empty()) << name;
    json stretched = half;
    stretched.update({{"rope_type", "linear"}, {"factor", 2.0}});
    EXPECT_PRED2(test::says, refusal(name, {{"rope_parameters", stretched}}),
                 (Parts{"rope_parameters.partial_rotary_factor is 0.5, which Foxscope does not run"}));
  }
  EXPECT_EQ(family_config(with("gpt_neox", {{"rope_parameters", half}})).widest_rotary(), 2);
}

TEST(FamilyConfig, SaysWhichKeyIsNearest) {
  EXPECT_PRED2(test::says, refusal("llama", {{"attentoin_bias", true}}),
               (Parts{"\"attentoin_bias\" is true", "did you mean \"attention_bias\"?"}));
  EXPECT_PRED2(test::says, refusal("llama", {{"rope_scaling", {{"type", "linear"}, {"factor", 2}, {"fator", 2}}}}),
               (Parts{"\"rope_scaling.fator\" is 2", "did you mean \"rope_scaling.factor\"?"}));
  EXPECT_PRED2(test::says, refusal("gpt_neox", {{"use_parallel_residua", false}}),
               (Parts{"\"use_parallel_residua\" is false", "did you mean \"use_parallel_residual\"?",
                      "another model than was meant might be run"}));
  EXPECT_EQ(refusal("llama", {{"new_switch", true}}).find("did you mean"), std::string::npos);
}

std::vector<std::int64_t> windows_of(const json& config) {
  std::vector<std::int64_t> windows;
  for (const AttentionLayer& layer : family_config(config).attention) windows.push_back(layer.window_size);
  return windows;
}

std::vector<int> rotaries_of(const json& config) {
  std::vector<int> rotaries;
  for (const AttentionLayer& layer : family_config(config).attention) rotaries.push_back(layer.rotary);
  return rotaries;
}

using Windows = std::vector<std::int64_t>;

TEST(FamilyConfig, ReadsWindowsByLayer) {
  for (const char* name : {"qwen2", "qwen3"}) {
    const json window = {{"use_sliding_window", true}, {"sliding_window", 4}};
    json late = window;
    late["max_window_layers"] = 1;
    EXPECT_EQ(windows_of(with(name, late)), (Windows{0, 4})) << name;
    late["layer_types"] = {"sliding_attention", "full_attention"};
    EXPECT_EQ(windows_of(with(name, late)), (Windows{4, 0})) << name << ": the list decides";
    EXPECT_EQ(family_config(with(name, late)).common_window(), std::nullopt);
    late["use_sliding_window"] = false;
    late["layer_types"] = {"full_attention", "full_attention"};
    EXPECT_EQ(windows_of(with(name, late)), (Windows{0, 0})) << name;
  }
  EXPECT_EQ(windows_of(with("ministral", {{"sliding_window", 4}})), (Windows{4, 4}));
  EXPECT_EQ(windows_of(with("ministral", {{"sliding_window", nullptr}})), (Windows{0, 0}));
  EXPECT_EQ(windows_of(tiny_family("ministral3")), (Windows{0, 0}));
  EXPECT_EQ(windows_of(with("phi3", {{"sliding_window", 4}})), (Windows{4, 4}));
  EXPECT_EQ(windows_of(tiny_family("phi3")), (Windows{0, 0}));
  EXPECT_EQ(windows_of(with("olmo3", {{"num_hidden_layers", 5}})), (Windows{4096, 4096, 4096, 0, 4096}));
  EXPECT_EQ(windows_of(with("gemma2", {{"num_hidden_layers", 3}})), (Windows{4096, 0, 4096}));
  const json seven = with("gemma3_text", {{"num_hidden_layers", 7}, {"sliding_window", 9}});
  EXPECT_EQ(windows_of(seven), (Windows{9, 9, 9, 9, 9, 0, 9}));
  EXPECT_EQ(rotaries_of(seven), (std::vector{1, 1, 1, 1, 1, 0, 1}));
  const ModelConfig gemma = family_config(seven);
  EXPECT_EQ(gemma.rotaries[0].base, 1e6);
  EXPECT_EQ(gemma.rotaries[1].base, 1e4);
  const json newer = {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 2e6}}},
                      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 500.0}}}};
  const ModelConfig by_kind = family_config(with("gemma3_text", {{"rope_parameters", newer}}));
  EXPECT_EQ(by_kind.rotaries[0].base, 2e6);
  EXPECT_EQ(by_kind.rotaries[0].scaling.factor, 8);
  EXPECT_EQ(by_kind.rotaries[1], (Rotary{.base = 500, .dim = 256}));
  json other = newer;
  other["sliding_attention"]["rope_type"] = "linear";
  EXPECT_PRED2(test::says, refusal("gemma3_text", {{"rope_parameters", other}}),
               (Parts{"rope_parameters.sliding_attention.factor is missing"}));
  EXPECT_EQ(windows_of(with("smollm3", {{"sliding_window", 5}, {"max_window_layers", 0}})), (Windows{0, 0}));
  json named = {{"sliding_window", 5}, {"layer_types", {"sliding_attention", "attention"}}};
  EXPECT_EQ(windows_of(with("smollm3", named)), (Windows{5, 0})) << "the list decides alone";
  named["sliding_window"] = nullptr;
  EXPECT_PRED2(test::says, refusal("smollm3", named), (Parts{"layer_types is a list", "a model that uses no window"}));
  for (const char* name : {"gemma2", "gemma3_text"}) {
    EXPECT_PRED2(test::says, refusal(name, {{"sliding_window", nullptr}}),
                 (Parts{"sliding_window is missing: it must be a window: layer 0 has one"}));
    EXPECT_EQ(windows_of(with(name, {{"sliding_window", nullptr}, {"layer_types", {"attention", "attention"}}})),
              (Windows{0, 0}));
  }
}

TEST(FamilyConfig, ReadsLayersWhoseHeadsDoNotTurn) {
  EXPECT_EQ(rotaries_of(with("smollm3", {{"no_rope_layers", {1, 0}}, {"no_rope_layer_interval", 1}})),
            (std::vector{0, -1}));
  EXPECT_EQ(rotaries_of(with("smollm3", {{"num_hidden_layers", 5}})), (std::vector{0, 0, 0, -1, 0}));
  for (const json& list :
       {json::array({1}), json::array({1, 0, 1}), json::array({1, 2}), json("1"), json::array({1, "0"})}) {
    EXPECT_PRED2(test::says, refusal("smollm3", {{"no_rope_layers", list}}),
                 (Parts{"no_rope_layers is ", "it must be 1 or 0 for each of 2 layers"}))
        << list;
  }
}

TEST(FamilyConfig, RefusesListsOfLayersThatDoNotFit) {
  for (const char* name : {"qwen2", "qwen3", "ministral", "olmo3", "gemma2", "gemma3_text"}) {
    for (const json& types : {json("full_attention"), json(5), json(true), json({{"a", "full_attention"}}),
                              json::array({"full_attention"}), json::array({"full_attention", "linear_attention"}),
                              json::array({"full_attention", 3}), json::array({nullptr, nullptr}),
                              json::array({"sliding_attention", "sliding_attention", "sliding_attention"})}) {
      for (const bool slides : {false, true}) {
        json keys = {{"layer_types", types}};
        if (std::string(name).starts_with("qwen")) keys["use_sliding_window"] = slides;
        EXPECT_PRED2(test::says, refusal(name, keys),
                     (Parts{"layer_types is ", "\"full_attention\" or \"sliding_attention\" for each of 2 layers"}))
            << name << types;
      }
    }
    EXPECT_PRED2(test::says, refusal(name, {{"sliding_window", 0}}), (Parts{"sliding_window is 0"}));
  }
  for (const char* name : {"qwen2", "qwen3"}) {
    // Without a window the types may not ask for one.
    EXPECT_PRED2(test::says, refusal(name, {{"layer_types", {"full_attention", "sliding_attention"}}}),
                 (Parts{"layer_types is a list: it must be \"full_attention\" for every layer"}));
    EXPECT_PRED2(test::says, refusal(name, {{"max_window_layers", -1}}), (Parts{"max_window_layers is -1"}));
    EXPECT_PRED2(test::says, refusal(name, {{"use_sliding_window", "yes"}}),
                 (Parts{"use_sliding_window is \"yes\": it must be true or false"}));
  }
  EXPECT_PRED2(test::says, refusal("mistral", {{"sliding_window", 0}}), (Parts{"sliding_window is 0"}));
}

TEST(FamilyConfig, RefusesStretchedPositionsThatDoNotFit) {
  const auto scaled = [](const json& scaling, json keys = json::object()) {
    keys["rope_scaling"] = scaling;
    return refusal("llama", keys);
  };
  const json yarn = {{"type", "yarn"}, {"factor", 4}};
  EXPECT_PRED2(test::says, scaled(yarn), (Parts{"rope_scaling.original_max_position_embeddings is missing"}));
  EXPECT_EQ(scaled(yarn, {{"max_position_embeddings", 64}}), "");
  const auto changed = [](json base, const json& keys) {
    base.update(keys);
    return base;
  };
  const json whole = changed(yarn, {{"original_max_position_embeddings", 64}});
  EXPECT_EQ(scaled(whole), "");
  EXPECT_PRED2(test::says, scaled(changed(whole, {{"truncate", "no"}})), (Parts{"rope_scaling.truncate is \"no\""}));
  EXPECT_PRED2(test::says, scaled(changed(whole, {{"beta_fast", 0}})), (Parts{"rope_scaling.beta_fast is 0"}));
  EXPECT_PRED2(test::says, scaled(changed(whole, {{"attention_factor", -1}})),
               (Parts{"rope_scaling.attention_factor is -1"}));
  EXPECT_PRED2(test::says, scaled(whole, {{"rope_theta", 1}}), (Parts{"rope_theta is", "above 1"}));
  EXPECT_PRED2(test::says, scaled(changed(whole, {{"new_switch", 2}})), (Parts{"\"rope_scaling.new_switch\" is 2"}));
  EXPECT_PRED2(test::says, scaled({{"type", "dynamic"}, {"factor", 2}}), (Parts{"max_position_embeddings is missing"}));
  EXPECT_PRED2(test::says,
               scaled({{"type", "dynamic"}, {"factor", 2}}, {{"max_position_embeddings", 9}, {"head_dim", 2}}),
               (Parts{"rope_scaling.type is \"dynamic\""}));
  const json longrope = {{"type", "longrope"}, {"short_factor", {1, 1.5}}, {"long_factor", {1, 2}}};
  const auto phi = [&](const json& scaling) {
    return refusal(
        "phi3", {{"rope_scaling", scaling}, {"original_max_position_embeddings", 16}, {"max_position_embeddings", 64}});
  };
  EXPECT_EQ(phi(longrope), "");
  for (const json& list :
       {json::array({1}), json::array({1, 2, 3}), json::array({1, 0}), json::array({1, "2"}), json(3)}) {
    EXPECT_PRED2(test::says, phi(changed(longrope, {{"long_factor", list}})),
                 (Parts{"rope_scaling.long_factor is ", "a list of 2 numbers above 0, one for each pair that turns"}));
  }
  EXPECT_PRED2(test::says, refusal("phi3", {{"rope_scaling", longrope}, {"original_max_position_embeddings", 16}}),
               (Parts{"max_position_embeddings is missing"}));
  EXPECT_PRED2(test::says, phi({{"type", "longrope"}, {"long_factor", {1, 2}}}),
               (Parts{"rope_scaling.short_factor is missing"}));
}

TEST(FamilyConfig, RefusesOptionsOfGemmaThatAreNotRun) {
  EXPECT_PRED2(test::says, refusal("gemma3_text", {{"attn_logit_softcapping", 50.0}}),
               (Parts{"attn_logit_softcapping is 50.0, which Foxscope does not run: it runs null"}));
  EXPECT_PRED2(test::says, refusal("gemma2", {{"hidden_activation", "relu"}}),
               (Parts{"hidden_activation is \"relu\"", "\"gelu_pytorch_tanh\" and \"silu\""}));
  EXPECT_PRED2(test::says, refusal("gemma2", {{"attn_logit_softcapping", 0}}), (Parts{"attn_logit_softcapping is 0"}));
  EXPECT_PRED2(test::says, refusal("gemma2", {{"use_bidirectional_attention", true}}),
               (Parts{"\"use_bidirectional_attention\" is true"}));
  EXPECT_EQ(refusal("gemma2", {{"hidden_act", "relu"}, {"cache_implementation", "hybrid"}}), "");
  EXPECT_EQ(family_config(with("gemma2", {{"attn_logit_softcapping", nullptr}})).attention_cap, 0);
  EXPECT_EQ(family_config(tiny_family("gemma2")).attention_cap, 50);
  EXPECT_EQ(family_config(tiny_family("gemma2")).logit_cap, 30);
}

TEST(FamilyConfig, ReadsTheFactorsOfGranite) {
  const ModelConfig config = family_config(with("granite", {{"embedding_multiplier", 12},
                                                            {"attention_multiplier", 0.25},
                                                            {"residual_multiplier", 0.5},
                                                            {"logits_scaling", 8}}));
  EXPECT_EQ(config.embedding_factor, 12);
  EXPECT_EQ(config.query_factor, 0.25 * 2);  // of 1/sqrt(4)
  EXPECT_EQ(config.residual_factor, 0.5);
  EXPECT_EQ(config.logit_factor, 0.125);
  for (const char* key : {"embedding_multiplier", "attention_multiplier", "residual_multiplier", "logits_scaling"}) {
    EXPECT_PRED2(test::says, refusal("granite", {{key, 0}}), (Parts{std::string(key) + " is 0"}));
  }
}

TEST(FamilyConfig, RefusesHostileValuesOfEveryKey) {
  const std::vector<json> hostile = {json(-1),
                                     json(0),
                                     json(std::numeric_limits<std::int64_t>::max()),
                                     json(std::numeric_limits<std::int64_t>::min()),
                                     json(std::numeric_limits<std::uint64_t>::max()),
                                     json(1e300),
                                     json(-0.5),
                                     json("12"),
                                     json(std::string(1 << 16, 'x')),
                                     json("\xff\xfe"),
                                     json(true),
                                     json::array(),
                                     json::array({1, "x", nullptr}),
                                     json::object(),
                                     json({{"a", {{"b", 1}}}}),
                                     json()};
  const std::vector<std::string> keys = {"vocab_size",
                                         "n_embd",
                                         "n_layer",
                                         "n_head",
                                         "n_inner",
                                         "n_positions",
                                         "hidden_size",
                                         "num_hidden_layers",
                                         "intermediate_size",
                                         "num_attention_heads",
                                         "num_key_value_heads",
                                         "head_dim",
                                         "sliding_window",
                                         "max_window_layers",
                                         "layer_types",
                                         "use_sliding_window",
                                         "rope_theta",
                                         "rope_scaling",
                                         "rope_parameters",
                                         "rotary_pct",
                                         "rotary_emb_base",
                                         "layer_norm_epsilon",
                                         "layer_norm_eps",
                                         "rms_norm_eps",
                                         "hidden_act",
                                         "activation_function",
                                         "bos_token_id",
                                         "tie_word_embeddings",
                                         "attention_bias",
                                         "mlp_bias",
                                         "scale_attn_weights",
                                         "use_parallel_residual",
                                         "no_rope_layers",
                                         "no_rope_layer_interval",
                                         "partial_rotary_factor",
                                         "original_max_position_embeddings",
                                         "max_position_embeddings",
                                         "query_pre_attn_scalar",
                                         "attn_logit_softcapping",
                                         "final_logit_softcapping",
                                         "hidden_activation",
                                         "sliding_window_pattern",
                                         "rope_local_base_freq"};
  for (const std::string& name : kPlainFamilies) {
    for (const std::string& key : keys) {
      for (const json& value : hostile) {
        json config = tiny_family(name);
        config[key] = value;
        const std::string text = config.dump(-1, ' ', false, json::error_handler_t::replace);
        // Refused in one short line, or a description that makes sense.
        const std::string message = test::error_of([&] {
          const ModelConfig read = ModelConfig::from_json(text, "config.json");
          EXPECT_GT(read.head_dim, 0);
          EXPECT_GT(read.heads, 0);
          EXPECT_EQ(read.heads % read.key_heads, 0);
          EXPECT_EQ(std::ssize(read.attention), read.layers);
          for (const Rotary& rotary : read.rotaries) {
            EXPECT_EQ(rotary.dim % 2, 0);
            EXPECT_LE(rotary.dim, read.head_dim);
            for (const double frequency : rotary.frequencies(100)) EXPECT_TRUE(std::isfinite(frequency));
          }
          for (const AttentionLayer& layer : read.attention) EXPECT_GE(layer.window_size, 0);
          for (const Parameter& parameter : parameters(read)) {
            for (const std::int64_t extent : parameter.shape) EXPECT_GT(extent, 0) << parameter.name;
          }
        });
        EXPECT_LE(message.size(), 400U) << message;
      }
    }
  }
}

TEST(FamilyConfig, LargestSizesDoNotOverflow) {
  json config = with("llama", {{"vocab_size", 1 << 24},
                               {"hidden_size", 1 << 18},
                               {"num_attention_heads", 1 << 18},
                               {"num_key_value_heads", 1 << 18},
                               {"head_dim", 1024},
                               {"intermediate_size", 1 << 22}});
  for (const Parameter& parameter : parameters(family_config(config))) {
    std::int64_t count = 1;
    for (const std::int64_t extent : parameter.shape) count *= extent;
    EXPECT_GT(count, 0) << parameter.name;
    EXPECT_GE(parameter.first, 0) << parameter.name;
  }
  EXPECT_PRED2(test::says, refusal("gpt2", {{"n_positions", 1 << 30}}), (Parts{"n_positions is 1073741824"}));
}

// What lies in the file.

struct WrittenFamily {
  explicit WrittenFamily(const json& keys) : tensors(test::random_weights(keys)), config(keys) {}
  test::NamedTensor& named(const std::string& name) {
    for (test::NamedTensor& tensor : tensors) {
      if (tensor.name == name) return tensor;
    }
    throw std::logic_error(name);
  }
  std::string open_message() {
    test::write_checkpoint(folder, config, tensors);
    return test::error_of([&] { CausalLM::load(Checkpoint::open(folder.text()), Device{}, DType::float32); });
  }
  std::vector<test::NamedTensor> tensors;
  json config;
  test::TemporaryFolder folder;
};

TEST(FamilyCheckpoint, OpensWhatFits) {
  for (const std::string& name : kPlainFamilies) EXPECT_EQ(WrittenFamily(tiny_family(name)).open_message(), "") << name;
}

TEST(FamilyCheckpoint, NamesWhatIsMissingMisshapenOrTooMuch) {
  WrittenFamily gpt2(tiny_family("gpt2"));
  gpt2.named("transformer.h.1.attn.c_attn.weight").shape = {24, 8};
  gpt2.named("transformer.h.0.ln_1.bias").name = "transformer.h.0.ln_1.offset";
  EXPECT_PRED2(test::says, gpt2.open_message(),
               (Parts{"the tensors do not fit config.json (gpt2)", "missing 1: transformer.h.0.ln_1.bias;",
                      "unexpected 1: transformer.h.0.ln_1.offset;",
                      "wrong 1: transformer.h.1.attn.c_attn.weight is [24, 8] and should be [8, 24]",
                      "use the config.json that belongs to them"}));
  WrittenFamily more(tiny_family("gpt2"));
  more.config["n_layer"] = 1;
  EXPECT_PRED2(test::says, more.open_message(), (Parts{"unexpected 12: transformer.h.1.attn.c_attn.bias,", "more"}));
  WrittenFamily positions(tiny_family("gpt2"));
  positions.config["n_positions"] = 1024;
  EXPECT_PRED2(test::says, positions.open_message(),
               (Parts{"wrong 1: transformer.wpe.weight is [12, 8] and should be [1024, 8]"}));
  WrittenFamily untied(tiny_family("gpt2"));
  untied.config["tie_word_embeddings"] = false;
  EXPECT_PRED2(test::says, untied.open_message(), (Parts{"missing 1: lm_head.weight"}));
  WrittenFamily llama(with("llama", {{"attention_bias", true}}));
  llama.config["attention_bias"] = false;
  EXPECT_PRED2(test::says, llama.open_message(), (Parts{"unexpected 8: model.layers.0.self_attn.k_proj.bias"}));
  WrittenFamily grouped(with("llama", {{"num_key_value_heads", 1}}));
  grouped.config.erase("num_key_value_heads");
  EXPECT_PRED2(test::says, grouped.open_message(),
               (Parts{"wrong 4: model.layers.0.self_attn.k_proj.weight is [4, 8] and should be [8, 8]"}));
  // A buffer of another family is no buffer here.
  WrittenFamily buffer(tiny_family("llama"));
  buffer.tensors.push_back({"model.layers.0.attn.masked_bias", {1}, {0}});
  EXPECT_PRED2(test::says, buffer.open_message(), (Parts{"unexpected 1: model.layers.0.attn.masked_bias"}));
}

TEST(FamilyCheckpoint, RefusesWeightsThatAreNoNumbers) {
  for (const std::string& name : kPlainFamilies) {
    for (const float value : {std::nanf(""), -std::numeric_limits<float>::infinity()}) {
      WrittenFamily written(tiny_family(name));
      test::NamedTensor& damaged = written.tensors[written.tensors.size() / 2];
      damaged.values.back() = value;
      EXPECT_PRED2(test::says, written.open_message(),
                   (Parts{"tensor " + damaged.name + " holds ", std::isnan(value) ? "NaN" : "an infinity"}));
    }
  }
}

// A model that has a table of positions.

std::vector<std::int32_t> ids_of(std::int64_t count) {
  std::vector<std::int32_t> ids;
  for (std::int64_t n = 0; n < count; ++n) ids.push_back(static_cast<std::int32_t>(n * 7 % 11));
  return ids;
}

void check_positions(CausalLM& model) {
  const std::int64_t most = model.config().learned_positions;
  test::Batch batch;
  batch.input_ids = batch.labels = ids_of(most);
  batch.keep = {Keep::loss, Keep::logits};
  const std::shared_ptr<const Trace> whole = test::run_batch(model, batch).traces.front();
  batch.input_ids = batch.labels = ids_of(most + 1);
  const Parts words = {"13 tokens are more than the model has positions for, which is 12",
                       "take fewer tokens, or a shorter text"};
  EXPECT_PRED2(test::says, test::error_of<UsageError>([&] { test::run_batch(model, batch); }), words);
  const std::vector<std::int32_t> ids = ids_of(most + 1);
  PromptRequest request;
  request.input_ids = ids;
  EXPECT_PRED2(test::says, test::error_of<UsageError>([&] { (void)model.begin(request, {}); }), words);
  request.input_ids = std::span(ids).first(static_cast<std::size_t>(most - 1));
  const auto decode_state = model.begin(request, {});
  decode_state->read(ids[index_of(most - 1)]);
  const std::vector<float> last(decode_state->log_probabilities().begin(), decode_state->log_probabilities().end());
  EXPECT_PRED2(test::says, test::error_of<UsageError>([&] { decode_state->read(1); }), words);
  // What was refused changed nothing.
  EXPECT_EQ(decode_state->length(), most);
  EXPECT_EQ(test::largest_difference(decode_state->log_probabilities(), last), 0);
}

TEST(LearnedPositions, NoTextGoesBeyondThem) {
  const test::TemporaryFolder folder;
  const json config = tiny_family("gpt2");
  test::write_checkpoint(folder, config, test::random_weights(config));
  const Checkpoint checkpoint = Checkpoint::open(folder.text());
  check_positions(*CausalLM::load(checkpoint, Device{}, DType::float32));
  check_positions(*load_torch_model(checkpoint, Device{}, DType::float32));
}

}  // namespace
}  // namespace foxscope

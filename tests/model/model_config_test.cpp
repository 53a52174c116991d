// config.json: the three dialects, their defaults, and everything that is refused.

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include <gtest/gtest.h>

#include "backend/model/spec/model_family.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

using nlohmann::json;

ModelConfig read(const json& config) { return ModelConfig::from_json(config.dump(), "dir/config.json"); }

std::string config_error(const json& config) {
  return test::error_of([&] { read(config); });
}

std::string error_with(const std::string& key, const json& value,
                       const std::string& model_type = "forgetting_transformer-project_fox") {
  json config = test::tiny_config(model_type);
  config[key] = value;
  return config_error(config);
}

TEST(ModelConfig, ReadsForgettingTransformerDefaults) {
  json config = test::tiny_config();
  config.erase("intermediate_size");
  const ModelConfig read_config = read(config);
  EXPECT_EQ(read_config.family->model_type, "forgetting_transformer-project_fox");
  EXPECT_EQ(read_config.forget_gate, ForgetGate::full);
  EXPECT_TRUE(read_config.rotaries.empty());
  EXPECT_EQ(read_config.key_heads, 2);
  EXPECT_EQ(read_config.head_dim, 4);
  EXPECT_EQ(read_config.intermediate_size, 256);  // 8 * 4 * 2 / 3 rounded up
  EXPECT_EQ(read_config.bos_token_id, 0);
  EXPECT_EQ(read_config.json, config.dump());
}

TEST(ModelConfig, RoundsTheMlpUp) {
  json config = test::tiny_config();
  config.update({{"hidden_size", 1536}, {"num_heads", 24}, {"hidden_ratio", 3.5}, {"intermediate_size", nullptr}});
  EXPECT_EQ(read(config).intermediate_size, 3584);  // exactly 14 * 256
  config["hidden_ratio"] = 4;
  EXPECT_EQ(read(config).intermediate_size, 4096);
  config["hidden_size"] = 768;
  config["hidden_ratio"] = 3.5;
  EXPECT_EQ(read(config).intermediate_size, 1792);
  config["hidden_size"] = 1152;
  EXPECT_EQ(read(config).intermediate_size, 2816);  // 2688 rounded up
}

TEST(ModelConfig, PlainTransformersRotateUnlessTold) {
  json config = test::tiny_config("transformer-project_fox");
  EXPECT_EQ(read(config).rotaries, (std::vector<Rotary>{{.base = 500000, .dim = 4}}));
  EXPECT_EQ(read(config).forget_gate, ForgetGate::none);
  config["use_rope"] = false;
  config["window_size"] = 7;
  EXPECT_TRUE(read(config).rotaries.empty());
  EXPECT_EQ(read(config).common_window(), 7);
}

TEST(ModelConfig, FlaIgnoresItsWindowAndSaysSo) {
  json config = test::tiny_config("forgetting_transformer");
  EXPECT_TRUE(read(config).notes.empty());
  config.update({{"window_size", 512}, {"qkv_bias", true}});
  const ModelConfig fla = read(config);
  EXPECT_EQ(fla.common_window(), 0);
  EXPECT_TRUE(fla.query_key_value_bias);
  ASSERT_EQ(fla.notes.size(), 1U);
  EXPECT_PRED2(test::says, fla.notes[0], (test::Parts{"window_size 512", "does not apply"}));
}

TEST(ModelConfig, ReadsThePruningTolerance) {
  json config = test::tiny_config();
  EXPECT_FALSE(read(config).log_pruning_tolerance.has_value());
  config["log_pruning_tolerance"] = -10;
  EXPECT_EQ(read(config).log_pruning_tolerance, -10.0);
}

TEST(ModelConfig, RefusesWhatIsNoConfig) {
  const auto error = [](const std::string& content) {
    return test::error_of([&] { ModelConfig::from_json(content, "dir/config.json"); });
  };
  EXPECT_PRED2(test::says, error(""), (test::Parts{"dir/config.json", "is not JSON"}));
  EXPECT_PRED2(test::says, error("\xff\xfe{}"), (test::Parts{"is not JSON"}));
  EXPECT_PRED2(test::says, error(std::string(1 << 20, '[')),
               (test::Parts{"dir/config.json", "deeper than 256 levels"}));
  EXPECT_PRED2(test::says, error("[1]"), (test::Parts{"is not a JSON object"}));
  EXPECT_PRED2(test::says, error("{}"),
               (test::Parts{"model_type is missing: foxscope info --supported lists those that are read"}));
}

TEST(ModelConfig, RefusesOtherModels) {
  EXPECT_PRED2(test::says, config_error({{"model_type", "bert"}}),
               (test::Parts{R"(model_type "bert" is not known: foxscope info --supported)", "CONTRIBUTING.md"}));
  json alike = {{"model_type", "zephyr"}, {"vocab_size", 11},         {"hidden_size", 8},
                {"num_hidden_layers", 1}, {"num_attention_heads", 2}, {"intermediate_size", 6}};
  EXPECT_PRED2(test::says, config_error(alike),
               (test::Parts{R"("zephyr" is not known (its keys are those of llama): foxscope info)"}));
  alike["model_type"] = "lama";
  EXPECT_PRED2(test::says, config_error(alike), (test::Parts{"(the nearest is llama, which knows all its keys)"}));
  alike["num_experts"] = 8;
  EXPECT_PRED2(test::says, config_error(alike), (test::Parts{"(the nearest is llama): foxscope info --supported"}));
  for (const SupportedModel& model : supported_models()) EXPECT_FALSE(model.model_type.empty());
  EXPECT_PRED2(test::says, config_error({{"model_type", "line\nbreak"}}), (test::Parts{R"("line\nbreak")"}));
  EXPECT_PRED2(test::says, config_error({{"model_type", 5}}), (test::Parts{"model_type is 5: it must be a string"}));
  for (const char* name : {"samba", "jamba"}) {
    EXPECT_PRED2(test::says, config_error({{"model_type", name}}), (test::Parts{name, "the first Mamba"}));
  }
}

json wrapped_config() {
  const json text = {{"model_type", "qwen3_5_text"},
                     {"vocab_size", 8},
                     {"hidden_size", 8},
                     {"num_attention_heads", 2},
                     {"intermediate_size", 6},
                     {"num_hidden_layers", 4},
                     {"linear_num_key_heads", 2},
                     {"linear_num_value_heads", 2}};
  return {{"model_type", "qwen3_5"}, {"architectures", {"Qwen3_5ForConditionalGeneration"}},
          {"image_token_id", 5},     {"vision_start_token_id", 6},
          {"text_config", text},     {"vision_config", {{"model_type", "qwen3_5"}, {"depth", 3}}}};
}

TEST(ModelConfig, ReadsTheLanguageModelOfAModelOfTextAndPictures) {
  json config = wrapped_config();
  const ModelConfig inner = read(config);
  EXPECT_EQ(inner.family->model_type, "qwen3_5_text");
  EXPECT_EQ(inner.model_type, "qwen3_5");
  EXPECT_EQ(inner.hidden_size, 8);
  EXPECT_TRUE(inner.tied_by_tensor) << "nothing says whether the head is the embedding";
  config["tie_word_embeddings"] = true;
  config["text_config"]["tie_word_embeddings"] = false;
  EXPECT_TRUE(read(config).tie_word_embeddings) << "the whole decides";
  EXPECT_FALSE(read(config).tied_by_tensor);
  config.erase("tie_word_embeddings");
  EXPECT_FALSE(read(config).tie_word_embeddings);
  // The language model of one that does not name it.
  json holes = {
      {"model_type", "gemma3"},
      {"text_config", {{"vocab_size", 8}, {"hidden_size", 16}, {"intermediate_size", 6}, {"num_hidden_layers", 2}}}};
  const ModelConfig gemma = read(holes);
  EXPECT_EQ(gemma.family->model_type, "gemma3_text");
  EXPECT_EQ(gemma.heads, 8);
  EXPECT_EQ(gemma.key_heads, 4);
  EXPECT_EQ(gemma.head_dim, 256);
}

TEST(ModelConfig, RefusesModelsOfTextAndPicturesThatDoNotFit) {
  const auto error = [](const std::string& key, const json& value) {
    json config = wrapped_config();
    config[key] = value;
    return config_error(config);
  };
  json text = wrapped_config()["text_config"];
  text["model_type"] = "bert";
  EXPECT_PRED2(test::says, error("text_config", text), (test::Parts{"\"bert\" is not known"}));
  EXPECT_PRED2(test::says, error("text_config", "text"), (test::Parts{"text_config is \"text\"", "an object"}));
  EXPECT_PRED2(test::says, error("text_config", nullptr), (test::Parts{"text_config is missing"}));
  EXPECT_PRED2(test::says, error("new_switch", true), (test::Parts{"\"new_switch\" is true"}));
  text = wrapped_config()["text_config"];
  text["new_switch"] = 2;
  EXPECT_PRED2(test::says, error("text_config", text), (test::Parts{"\"text_config.new_switch\" is 2"}));
  text["new_switch"] = 0;
  text["hidden_size"] = "x";
  EXPECT_PRED2(test::says, error("text_config", text), (test::Parts{"text_config.hidden_size is \"x\""}));
  json other = wrapped_config();
  other["model_type"] = "qwen3_6";
  EXPECT_PRED2(test::says, config_error(other), (test::Parts{"\"qwen3_6\" is not known (the nearest is qwen3_5"}));
  EXPECT_EQ(config_error({{"model_type", "bert"}}).find("nearest"), std::string::npos);
}

TEST(ModelConfig, RefusesKeysOfFoxThatNobodyKnows) {
  EXPECT_PRED2(test::says, error_with("fgate_typ", "none"),
               (test::Parts{"dir/config.json", R"("fgate_typ" is "none", a key that Foxscope does not know)",
                            R"(did you mean "fgate_type"?)", "does not run the model"}));
  EXPECT_PRED2(test::says, error_with("use_output_gat", true), (test::Parts{R"(did you mean "use_output_gate"?)"}));
  EXPECT_PRED2(test::says, error_with("use_rop", true, "transformer-project_fox"),
               (test::Parts{R"(did you mean "use_rope"?)"}));
  EXPECT_PRED2(test::says, error_with("fgate_type", "none", "transformer-project_fox"),
               (test::Parts{R"("fgate_type" is "none")"}));
  EXPECT_PRED2(test::says, error_with("use_rope", true, "forgetting_transformer"),
               (test::Parts{R"("use_rope" is true)"}));
  EXPECT_PRED2(test::says, error_with("attnres_block_size", 4, "forgetting_transformer"),
               (test::Parts{"attnres_block_size is 4, which Foxscope does not run"}));
  EXPECT_EQ(error_with("sparkle", false), "") << "what says no changes nothing in a forward pass";
  for (const auto& [key, value] : {std::pair<const char*, json>{"initializer_range", 0.02},
                                   {"fuse_norm", true},
                                   {"decay_time_min", 16},
                                   {"fgate_bias_init", true},
                                   {"attention_bias", true},
                                   {"max_position_embeddings", 2048},
                                   {"auto_map", {{"AutoConfig", "x.Y"}}},
                                   {"id2label", {{"0", "LABEL_0"}}}}) {
    EXPECT_EQ(error_with(key, value), "") << key;
  }
}

TEST(ModelConfig, RefusesMisspeltKeysThatSayNo) {
  for (const json& no : {json(false), json(0), json(nullptr), json::array(), json::object(), json("")}) {
    EXPECT_PRED2(test::says, error_with("use_output_gat", no),
                 (test::Parts{R"(dir/config.json: "use_output_gat" is )", "a key that Foxscope does not know",
                              R"(did you mean "use_output_gate"?)", "another model than was meant might be run",
                              "correct it or remove it"}));
    EXPECT_EQ(error_with("use_cach", no), "") << "use_cache changes nothing either";
    EXPECT_EQ(error_with("use_output_scaling", no), "") << "near, but another name";
  }
}

/// Every configuration of a checkpoint at hand is read as one of another folder is: none of its keys is taken for
/// another one misspelt.
TEST(ModelConfig, NoKeyOfPublishedConfigurationsIsTakenForAMisspeltOne) {
  for (const auto& folder : {FOXSCOPE_TEST_DATA, FOXSCOPE_TEST_DATA "/../../resources/models"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      const std::filesystem::path file = entry.path() / "config.json";
      if (!std::filesystem::exists(file)) continue;
      std::ifstream stream(file);
      const std::string content{std::istreambuf_iterator<char>(stream), {}};
      EXPECT_EQ(test::error_of([&] { ModelConfig::from_json(content, file.string()); }), "");
    }
  }
}

TEST(ModelConfig, InOneToBeTrainedEveryUnknownKeyIsRefused) {
  const auto refusal = [](const std::string& key, const json& value, const std::string& model_type) {
    json config = test::tiny_config(model_type);
    config[key] = value;
    return test::error_of([&] { ModelConfig::from_json(config.dump(), "config", UnknownKeys::refused); });
  };
  for (const char* name : {"forgetting_transformer-project_fox", "transformer-project_fox", "forgetting_transformer"}) {
    EXPECT_PRED2(test::says, refusal("use_output_gat", false, name),
                 (test::Parts{R"(config: "use_output_gat" is false, a key that Foxscope does not know)",
                              R"(did you mean "use_output_gate"?)", "correct it or remove it"}));
    EXPECT_PRED2(test::says, refusal("sparkle", nullptr, name), (test::Parts{R"("sparkle" is null)"}));
    EXPECT_EQ(refusal("pruned_heads", json::object(), name), "");
    EXPECT_EQ(refusal("is_encoder_decoder", false, name), "");
  }
}

/// What a checkpoint says of itself a training may begin with.
TEST(ModelConfig, EveryPublishedConfigurationMayBeTrained) {
  int read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(FOXSCOPE_TEST_DATA)) {
    const std::filesystem::path file = entry.path() / "config.json";
    if (!std::filesystem::exists(file)) continue;
    std::ifstream stream(file);
    const std::string content{std::istreambuf_iterator<char>(stream), {}};
    EXPECT_EQ(test::error_of([&] { ModelConfig::from_json(content, file.string(), UnknownKeys::refused); }), "");
    ++read;
  }
  EXPECT_GE(read, 25);
}

TEST(ModelConfig, SortsKeysOfAConfiguration) {
  EXPECT_EQ(sorted_config("{\"b\": 1,\n \"a\": {\"d\": Infinity, \"c\": 1e-06}}", "config.json"),
            R"({"a":{"c":1e-06,"d":{"__float__":"Infinity"}},"b":1})");
  EXPECT_PRED2(test::says, test::error_of([] { sorted_config("{\"b\": ", "dir/config.json"); }),
               (test::Parts{"dir/config.json", "is not JSON"}));
}

/// Bare words become objects: what they grow to is held against the file.
TEST(ModelConfig, RefusesMoreThanAFileOfItsSizeHolds) {
  std::string many = "{\"x\": [";
  for (int n = 0; n < 300'000; ++n) many += "NaN,";
  EXPECT_PRED2(test::says, test::error_of([&] { ModelConfig::from_json(many + "0]}", "dir/config.json"); }),
               (test::Parts{"dir/config.json", "more lists, objects and values than a file of its size has"}));
}

TEST(ModelConfig, RefusesAbsurdSizes) {
  for (const char* key : {"vocab_size", "hidden_size", "num_hidden_layers", "num_heads"}) {
    for (const json& value : {json(0), json(-5), json(1'000'000'000), json(1e30), json("12"), json(1.5), json(true),
                              json(18446744073709551615ULL)}) {
      EXPECT_PRED2(test::says, error_with(key, value), (test::Parts{key, "it must be a whole number from 1 to"}));
    }
    json config = test::tiny_config();
    config.erase(key);
    EXPECT_PRED2(test::says, config_error(config), (test::Parts{std::string(key) + " is missing"}));
  }
  EXPECT_PRED2(test::says, error_with("intermediate_size", -1), (test::Parts{"intermediate_size is -1"}));
  EXPECT_PRED2(test::says, error_with("intermediate_size", json::array({1, 2})),
               (test::Parts{"intermediate_size is a list"}));
  EXPECT_PRED2(test::says, error_with("hidden_ratio", -4), (test::Parts{"hidden_ratio is -4"}));
  EXPECT_PRED2(test::says, error_with("num_heads", 3),
               (test::Parts{"num_heads is 3: it must be such that it divides hidden_size 8"}));
  EXPECT_PRED2(test::says, error_with("num_kv_heads", 3),
               (test::Parts{"num_kv_heads is 3: it must be a whole number from 1 to 2"}));
  json config = test::tiny_config();
  config.update({{"hidden_size", 12}, {"num_heads", 4}, {"num_kv_heads", 3}});
  EXPECT_PRED2(test::says, config_error(config),
               (test::Parts{"num_kv_heads is 3: it must be such that it divides num_heads 4"}));
  config.update({{"hidden_size", 8192}, {"num_heads", 2}, {"num_kv_heads", nullptr}});
  EXPECT_PRED2(test::says, config_error(config),
               (test::Parts{"num_heads is 2: it must be such that heads of hidden_size 8192 have at most 1024"}));
  config.update({{"hidden_size", 200000}, {"num_heads", 400}, {"hidden_ratio", 1000}, {"intermediate_size", nullptr}});
  EXPECT_PRED2(test::says, config_error(config), (test::Parts{"hidden_ratio is 1000: it must be such that"}));
}

TEST(ModelConfig, AnOutputGateBehindANormIsASigmoid) {
  json config = test::tiny_config();
  config.update({{"use_output_gate", true}, {"ogate_act", "silu"}});
  EXPECT_TRUE(read(config).gates_by_silu());
  config["use_output_norm"] = true;
  EXPECT_FALSE(read(config).gates_by_silu());
  config.update({{"use_output_norm", false}, {"ogate_act", "sigmoid"}});
  EXPECT_FALSE(read(config).gates_by_silu());
}

TEST(ModelConfig, RefusesOptionsThatDoNotExist) {
  EXPECT_PRED2(test::says, error_with("fgate_type", "half"),
               (test::Parts{R"(fgate_type is "half": it must be "full", "bias_only", "fixed" or "none")"}));
  EXPECT_PRED2(test::says, error_with("ogate_act", "tanh"), (test::Parts{R"(ogate_act is "tanh")"}));
  EXPECT_PRED2(test::says, error_with("hidden_act", "gelu"), (test::Parts{R"(hidden_act is "gelu")"}));
  EXPECT_PRED2(test::says, error_with("use_k_shift", "yes"),
               (test::Parts{R"(use_k_shift is "yes": it must be true or false)"}));
  EXPECT_PRED2(test::says, error_with("elementwise_affine", false), (test::Parts{"elementwise_affine is false"}));
  EXPECT_PRED2(test::says, error_with("norm_eps", -1),
               (test::Parts{"norm_eps is -1: it must be a number from 0 to 1"}));
  EXPECT_PRED2(test::says, error_with("rope_base", 0), (test::Parts{"rope_base is 0"}));
  EXPECT_PRED2(test::says, error_with("window_size", 0), (test::Parts{"window_size is 0"}));
  EXPECT_PRED2(test::says, error_with("window_size", -3, "forgetting_transformer"), (test::Parts{"window_size is -3"}));
  EXPECT_PRED2(test::says, error_with("log_pruning_tolerance", "off"),
               (test::Parts{R"(log_pruning_tolerance is "off")"}));
  EXPECT_PRED2(test::says, error_with("bos_token_id", 11),
               (test::Parts{"bos_token_id is 11: it must be a whole number from 0 to 10"}));
  json config = test::tiny_config();
  config.update({{"hidden_size", 6}, {"use_rope", true}});
  EXPECT_PRED2(test::says, config_error(config), (test::Parts{"the head dimension is odd, and it is 3"}));
}

}  // namespace
}  // namespace foxscope

// Recipes: those that are shipped, learning rates, and that what is written reads back.
#include "backend/train/recipe.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/base/sha256.h"
#include "backend/model/spec/parameters.h"
#include "backend/model/weights/initial_weights.h"
#include "tests/text/helpers.h"

namespace foxscope {
namespace {

const std::filesystem::path kRecipes = FOXSCOPE_SOURCE_DIR "/resources/recipes";

Recipe shipped(const std::string& name) {
  const std::vector<RecipeSetting> data = {{"data", {"books"}}};
  return read_recipe(kRecipes / (name + ".json"), data);
}

TEST(Recipe, EveryOneThatIsShippedBegins) {
  int read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kRecipes)) {
    SCOPED_TRACE(entry.path().filename());
    const Recipe recipe = shipped(entry.path().stem().string());
    const ModelConfig config = ModelConfig::from_json(recipe.config, entry.path().string(), UnknownKeys::refused);
    const InitialWeights weights(config, recipe.seed, recipe.gate_decay_times);  // refuses gates that cannot begin
    ++read;
    if (config.linear) continue;
    EXPECT_EQ(config.forget_gate == ForgetGate::none, entry.path().filename().string().starts_with("transformer"));
    EXPECT_EQ(!config.rotaries.empty(), config.forget_gate == ForgetGate::none);
  }
  EXPECT_EQ(read, 38);
}

TEST(Recipe, ThoseOfTheComparisonAreOfOneSizeAndReadTheSameData) {
  // docs/architectures.md.
  const Recipe fox = shipped("fox-pro-12m");
  const auto numbers = [](const Recipe& recipe) {
    std::int64_t sum = 0;
    for (const Parameter& parameter :
         parameters(ModelConfig::from_json(recipe.config, "config", UnknownKeys::refused))) {
      sum += std::reduce(parameter.shape.begin(), parameter.shape.end(), std::int64_t{1}, std::multiplies<>());
    }
    return static_cast<double>(sum);
  };
  for (const char* name : {"transformer-pro", "mamba2", "hgrn2", "gla", "delta_net", "gated_deltanet"}) {
    SCOPED_TRACE(name);
    const Recipe recipe = shipped(std::string(name) + "-12m");
    EXPECT_NEAR(numbers(recipe) / numbers(fox), 1, 0.02);
    EXPECT_EQ(recipe.tokenizer, fox.tokenizer);
    EXPECT_EQ(recipe.length, fox.length);
    EXPECT_EQ(recipe.batch_tokens, fox.batch_tokens);
    EXPECT_EQ(recipe.lr, fox.lr);
    EXPECT_EQ(recipe.seed, fox.seed);
    for (const std::int64_t step : {1, 100, 3000, 6000}) EXPECT_EQ(recipe.learning_rate(step), fox.learning_rate(step));
  }
}

TEST(Recipe, ThePapersTakeItsSteps) {
  const std::map<std::string, std::int64_t> steps = {
      {"760m-48b", 92160}, {"760m-16b", 30720}, {"360m-7.5b", 14336}, {"125m-2.7b", 5120}};
  for (const auto& [size, count] : steps) {
    for (const char* model : {"fox-pro-", "fox-llama-", "transformer-pro-", "transformer-llama-"}) {
      EXPECT_EQ(shipped(model + size).steps(), count);
      EXPECT_EQ(shipped(model + size).rows_per_step(), 32);
    }
  }
  EXPECT_EQ(shipped("samba-760m-16b").steps(), 30720);
  EXPECT_EQ(shipped("fox-pro-760m-48b").lr, 2e-3);
  EXPECT_EQ(shipped("transformer-llama-760m-48b").lr, 5e-4);
}

TEST(Recipe, RatesGoUpAndDown) {
  Recipe recipe;
  recipe.batch_tokens = 100;
  recipe.warmup_tokens = 1000;
  recipe.max_tokens = 5000;
  recipe.lr = 0.5;
  recipe.init_lr = 0.1;
  recipe.end_lr = 0.2;
  for (const RateSchedule schedule : {RateSchedule::cosine, RateSchedule::linear, RateSchedule::constant}) {
    recipe.schedule = schedule;
    EXPECT_EQ(recipe.learning_rate(1), 0.1);
    EXPECT_NEAR(recipe.learning_rate(6), 0.3, 1e-15);
    EXPECT_NEAR(recipe.learning_rate(11), 0.5, 1e-15);
  }
  EXPECT_EQ(recipe.learning_rate(50), 0.5);
  recipe.schedule = RateSchedule::linear;
  EXPECT_NEAR(recipe.learning_rate(31), 0.35, 1e-15);
  EXPECT_NEAR(recipe.learning_rate(51), 0.2, 1e-15);
  recipe.schedule = RateSchedule::cosine;
  EXPECT_NEAR(recipe.learning_rate(31), 0.35, 1e-15);
  EXPECT_NEAR(recipe.learning_rate(21), 0.2 + 0.3 * (1 + std::sqrt(0.5)) / 2, 1e-15);
  EXPECT_NEAR(recipe.learning_rate(51), 0.2, 1e-15);
}

TEST(Recipe, ReadsBackWhatIsWritten) {
  for (const char* name : {"fox-pro-12m-fixed-gate", "transformer-llama-360m-7.5b", "fox-pro-1m"}) {
    const Recipe recipe = shipped(name);
    const test::TemporaryFolder folder;
    const auto path = folder.path() / "recipe.json";
    std::ofstream(path) << recipe_text(recipe);
    const Recipe again = read_recipe(path, {});
    EXPECT_EQ(recipe_text(again), recipe_text(recipe));
    EXPECT_EQ(again.learning_rate(1234), recipe.learning_rate(1234));
    EXPECT_EQ(again.tokenizer,
              recipe.tokenizer.empty() ? "" : std::filesystem::absolute(recipe.tokenizer).lexically_normal());
  }
}

TEST(Recipe, DecayTimesOfGatesAreTwoAndOfAModelThatIsBegun) {
  EXPECT_FALSE(shipped("fox-pro-1m").gate_decay_times);
  const Recipe recipe = shipped("fox-pro-1m-long-gates");
  ASSERT_TRUE(recipe.gate_decay_times);
  EXPECT_EQ(recipe.gate_decay_times->shortest, 4);
  EXPECT_EQ(recipe.gate_decay_times->longest, 256);
  // Other gates are another training.
  const test::TemporaryFolder folder;
  std::ofstream(folder / "recipe.json") << recipe_text(recipe);
  EXPECT_EQ(recipe_identity(read_recipe(folder / "recipe.json", {})), recipe_identity(recipe));
  Recipe without = recipe;
  without.gate_decay_times.reset();
  EXPECT_NE(recipe_identity(without), recipe_identity(recipe));
  const auto message = [&](std::vector<RecipeSetting> settings) {
    settings.push_back({"data", {"books"}});
    return test::error_of<UsageError>([&] { read_recipe(kRecipes / "fox-pro-1m.json", settings); });
  };
  const std::pair<const char*, const char*> wrong_times[] = {{"8", "4"}, {"0", "4"}, {"1", "1e13"}};
  for (const auto& [shortest, longest] : wrong_times) {
    const std::vector<std::string> wrong = {shortest, longest};
    EXPECT_EQ(message({{"gate_decay_times", wrong}}),
              "--gate-decay-times: use two numbers of tokens from 0.001 to 1e+12, the shorter one first");
  }
  EXPECT_EQ(message({{"gate_decay_times", {"4", "8"}}, {"init", {"checkpoint"}}}),
            "--gate-decay-times: the gates of --init are trained: leave the option out");
}

TEST(Recipe, AllThatIsMissingIsNamedAtOnce) {
  EXPECT_EQ(
      test::error_of<UsageError>([] { read_recipe({}, {}, {"a folder to write: give -o OUT"}); }),
      "train needs a folder to write: give -o OUT; a model: give either --config FILE|DIR, to begin anew, or --init "
      "CHECKPOINT; data: give --data PATH; an end: give --max-tokens N; a learning rate: give --lr RATE, 0.001 for "
      "instance");
}

TEST(Recipe, AnOptionWinsOverTheModelOfTheFile) {
  const std::vector<RecipeSetting> begun = {{"data", {"books"}}, {"init", {"checkpoint"}}};
  const Recipe recipe = read_recipe(kRecipes / "fox-pro-1m.json", begun);
  EXPECT_EQ(recipe.init, "checkpoint");
  EXPECT_EQ(recipe.config, "");
  const test::TemporaryFolder folder;
  std::ofstream(folder / "recipe.json") << recipe_text(recipe);
  const std::filesystem::path config = FOXSCOPE_SOURCE_DIR "/tests/data/fox-pro/config.json";
  const std::vector<RecipeSetting> anew = {{"config", {config.string()}}};
  EXPECT_EQ(read_recipe(folder / "recipe.json", anew).init, "");
  const std::vector<RecipeSetting> both = {{"config", {config.string()}}, {"init", {"checkpoint"}}};
  EXPECT_NE(test::error_of<UsageError>([&] { read_recipe(folder / "recipe.json", both); }).find("either --config"),
            std::string::npos);
}

TEST(Recipe, NumbersAreShownAsTheyWereTyped) {
  for (const char* const tokens : {"1000", "1e3"}) {
    const std::vector<RecipeSetting> typed = {{"data", {"books"}}, {"max_tokens", {tokens}}};
    const std::string said = test::error_of<Error>([&] { read_recipe(kRecipes / "fox-pro-1m.json", typed); });
    EXPECT_TRUE(said.starts_with("--max-tokens 1000: ")) << said;
  }
  const std::vector<RecipeSetting> half = {{"data", {"books"}}, {"max_tokens", {"0.5"}}};
  EXPECT_TRUE(test::error_of<Error>([&] {
                read_recipe(kRecipes / "fox-pro-1m.json", half);
              }).starts_with("--max-tokens 0.5: use a whole number"));
}

TEST(Recipe, AnEpsilonThatFloatsDoNotHoldIsRefused) {
  const auto read = [](const char* eps) {
    const std::vector<RecipeSetting> typed = {{"data", {"books"}}, {"eps", {eps}}};
    return read_recipe(kRecipes / "fox-pro-1m.json", typed);
  };
  EXPECT_EQ(read("1.2e-38").optimizer.epsilon, 1.2e-38);
  EXPECT_EQ(test::error_of<UsageError>([&] { read("1e-50"); }),
            "--eps 1e-50: use a number from 1.2e-38, the least that float32 holds");
}

/// A recipe whose config is a file of its own, and what a training writes of it.
struct WrittenRecipe {
  test::TemporaryFolder folder;

  Recipe read(const std::string& config) const {
    test::write_bytes(folder / "config.json", config);
    test::write_bytes(folder / "recipe.json",
                      R"({"config": "config.json", "data": "books", "length": 8, "batch_tokens": 8, "max_tokens": 800,
                          "lr": 0.1})");
    return read_recipe(folder / "recipe.json", {});
  }
  Recipe again(const std::string& text) const {
    test::write_bytes(folder / "written.json", text);
    return read_recipe(folder / "written.json", {});
  }
};

const std::string kUnsorted = R"({"vocab_size": 5, "model_type": "x", "norm_eps": 1e-06})";
const std::string kSorted = R"({"model_type": "x", "norm_eps": 1e-06, "vocab_size": 5})";

TEST(RecipeIdentity, IsOfTheKeysWhateverTheirOrder) {
  const WrittenRecipe written;
  const Recipe recipe = written.read(kUnsorted);
  EXPECT_EQ(recipe_text(recipe), recipe_text(written.read(kSorted)));
  EXPECT_TRUE(has_identity(written.again(recipe_text(recipe)), recipe_identity(recipe)));
  EXPECT_FALSE(has_identity(written.read(R"({"model_type": "y"})"), recipe_identity(recipe)));
  Recipe faster = recipe;
  faster.lr = 0.2;
  EXPECT_FALSE(has_identity(faster, recipe_identity(recipe)));
}

/// Versions that did not sort keys wrote and hashed them as config.json has them.
TEST(RecipeIdentity, OfEarlierVersionsIsKnownInEitherOrder) {
  const WrittenRecipe written;
  const Recipe recipe = written.read(kUnsorted);
  const auto earlier = [](const std::string& text, const std::string& order) {
    auto json = nlohmann::ordered_json::parse(text);
    json["config"] = nlohmann::ordered_json::parse(order);
    return json.dump(1) + "\n";
  };
  Recipe hashed = recipe;  // without what may change
  hashed.data.clear();
  for (const std::string& order : {kUnsorted, kSorted}) {
    const Recipe again = written.again(earlier(recipe_text(recipe), order));
    EXPECT_TRUE(has_identity(again, sha256(earlier(recipe_text(hashed), order)))) << order;
  }
  const std::string other = R"({"vocab_size": 6, "model_type": "x", "norm_eps": 1e-06})";
  EXPECT_FALSE(has_identity(written.again(earlier(recipe_text(recipe), kUnsorted)),
                            sha256(earlier(recipe_text(hashed), other))));
}

TEST(RecipeIdentity, WithACheckpointIsOfNoFolder) {
  const WrittenRecipe written;
  Recipe recipe = written.read(kSorted);
  recipe.config.clear();
  recipe.init = "there";
  const std::string here = recipe_identity(recipe);
  const std::filesystem::path folder = std::filesystem::current_path();
  std::filesystem::current_path(written.folder.path());
  const std::string elsewhere = recipe_identity(recipe);
  std::filesystem::current_path(folder);
  EXPECT_EQ(here, elsewhere);
  // As earlier versions hashed it, in the folder that they were started in.
  Recipe earlier = recipe;
  earlier.init = "init";
  earlier.data.clear();
  EXPECT_TRUE(has_identity(recipe, sha256(recipe_text(earlier))));
}

TEST(Recipe, ReadsNumbersThatJsonDoesNotHave) {
  const WrittenRecipe written;
  const Recipe recipe = written.read(R"({"time_step_limit": [0.0, Infinity], "model_type": "x"})");
  EXPECT_EQ(recipe.config, R"({"model_type":"x","time_step_limit":[0.0,{"__float__":"Infinity"}]})");
  EXPECT_EQ(written.again(recipe_text(recipe)).config, recipe.config);
}

TEST(Recipe, ThatIsNestedDeepIsRefused) {
  const WrittenRecipe written;
  for (const std::string& hostile : {"{\"config\": " + std::string(400'000, '['), std::string(1 << 20, '['),
                                     "{\"data\": " + std::string(400'000, '[') + std::string(400'000, ']') + "}"}) {
    EXPECT_PRED2(test::says, test::error_of([&] { written.again(hostile); }),
                 (test::Parts{"written.json", "deeper than 256 levels"}));
  }
  EXPECT_PRED2(test::says, test::error_of([&] { written.read(std::string(400'000, '[')); }),
               (test::Parts{"config.json", "deeper than 256 levels"}));
  EXPECT_PRED2(test::says, test::error_of([&] { written.again("{\"lr\": "); }),
               (test::Parts{"written.json", "is not JSON"}));
}

}  // namespace
}  // namespace foxscope

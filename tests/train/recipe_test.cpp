// Recipes: those that are shipped, learning rates, and that what is written reads back.
#include "backend/train/recipe.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/model/initial_weights.h"
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
    const ModelConfig config = ModelConfig::from_json(recipe.config, entry.path().string());
    const InitialWeights weights(config, recipe.seed);  // refuses gates that cannot begin
    ++read;
    if (config.linear) continue;
    EXPECT_EQ(config.forget_gate == ForgetGate::none, entry.path().filename().string().starts_with("transformer"));
    EXPECT_EQ(config.rope, config.forget_gate == ForgetGate::none);
  }
  EXPECT_EQ(read, 34);
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

}  // namespace
}  // namespace foxscope

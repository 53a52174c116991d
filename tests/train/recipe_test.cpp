// Recipes: those that are shipped, learning rates, and that what is written reads back.
#include "backend/train/recipe.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace foxscope

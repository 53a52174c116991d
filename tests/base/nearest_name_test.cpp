#include "backend/base/nearest_name.h"

#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace foxscope::test {
namespace {

const std::vector<std::string> kNames = {"map",        "heads",           "generate",
                                         "fgate_type", "use_output_gate", "use_output_norm"};

std::optional<std::string> nearest(std::string_view given) { return nearest_name(given, kNames); }

TEST(NearestName, OfALetterTooManyTooFewWrongOrExchanged) {
  EXPECT_EQ(nearest("fgate_typ"), "fgate_type");
  EXPECT_EQ(nearest("fgatee_type"), "fgate_type");
  EXPECT_EQ(nearest("fgate_tipe"), "fgate_type");
  EXPECT_EQ(nearest("haeds"), "heads");
  EXPECT_EQ(nearest("mpa"), "map");
  EXPECT_EQ(nearest("maps"), "map");
  EXPECT_EQ(nearest("use_output_gat"), "use_output_gate");
}

TEST(NearestName, CapitalsAndDashesAreTheSame) {
  EXPECT_EQ(nearest("USE-OUTPUT-NORM"), "use_output_norm");
  EXPECT_EQ(nearest_name("use_flsh", std::vector<std::string>{"use-flash"}), "use-flash");
}

TEST(NearestName, IsTheOnlyOneThatBeginsSo) {
  EXPECT_EQ(nearest("gen"), "generate");
  EXPECT_EQ(nearest("use"), std::nullopt) << "two names begin so";
  EXPECT_EQ(nearest("ge"), std::nullopt) << "two letters say little";
  EXPECT_EQ(nearest("generate-text"), "generate") << "that it begins with";
}

TEST(NearestName, IsAskedForInBothPlacesOfAMessage) {
  EXPECT_EQ(did_you_mean("haeds", kNames), "did you mean heads? else ");
  EXPECT_EQ(nearest_question("haeds", kNames), ": did you mean heads?");
  EXPECT_EQ(did_you_mean("other", kNames) + nearest_question("other", kNames), "");
}

TEST(NearestName, IsNoneWhereNothingIsNear) {
  EXPECT_EQ(nearest(""), std::nullopt);
  EXPECT_EQ(nearest("initializer_range"), std::nullopt);
  EXPECT_EQ(nearest("xap_"), std::nullopt);
  EXPECT_EQ(nearest("h"), std::nullopt);
  EXPECT_EQ(nearest(std::string(65, 'm')), std::nullopt);
  EXPECT_EQ(nearest_name("map", {}), std::nullopt);
}

TEST(NearestName, IsTheNearestAndOfEqualsTheFirst) {
  EXPECT_EQ(nearest_name("hidden_siz", std::vector<std::string>{"hidden_sizes", "hidden_size"}), "hidden_size");
  EXPECT_EQ(nearest_name("bat", std::vector<std::string>{"cat", "rat"}), "cat");
}

TEST(MisspeltName, IsTwoLettersFromTheNearest) {
  const std::vector<std::string> known{"use_parallel_residual", "head_dim", "bias"};
  const auto misspelt = [&known](std::string_view given) { return misspelt_name(given, known); };
  for (const char* given : {"use_parallel_residua", "use_paralel_residuals", "Use-parallel_residuall"}) {
    EXPECT_EQ(misspelt(given), "use_parallel_residual") << given;
  }
  EXPECT_EQ(misspelt("HEAD_DIM"), "head_dim") << "JSON tells capitals from small letters";
  for (const char* given :
       {"use_parallel_residual", "use_parallel_res", "use_parallel", "head_dimens", "qk_bias", ""}) {
    EXPECT_EQ(misspelt(given), std::nullopt) << given;
  }
}

}  // namespace
}  // namespace foxscope::test

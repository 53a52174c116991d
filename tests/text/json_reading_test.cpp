#include "backend/text/json_reading.h"

#include "tests/text/helpers.h"

namespace foxscope {
namespace {

using test::error_of;

std::string nested(std::size_t depth, std::string_view open, std::string_view close, const std::string& inside = "") {
  std::string text;
  for (std::size_t n = 0; n < depth; ++n) text += open;
  text += inside;
  for (std::size_t n = 0; n < depth; ++n) text += close;
  return text;
}

TEST(JsonDepth, IsLimited) {
  constexpr std::size_t most = kMaxJsonDepth;
  const std::string deep = "a.json: lists and objects lie inside one another deeper than 256 levels (byte ";
  EXPECT_TRUE(parse_json(nested(most, "[", "]"), "a.json").is_array());
  EXPECT_TRUE(parse_json(nested(most, "{\"a\":", "}", "1"), "a.json").is_object());
  EXPECT_EQ(error_of([&] { parse_json(nested(most + 1, "[", "]"), "a.json"); }),
            deep + "257); fetch the file again or repair it");
  EXPECT_EQ(error_of([&] { parse_json(nested(most + 1, "{\"a\":", "}", "1"), "a.json"); }),
            deep + "1281); fetch the file again or repair it");
  EXPECT_EQ(error_of([&] { parse_json(std::string(100'000'000, '['), "a.json"); }),
            deep + "257); fetch the file again or repair it");
}

TEST(JsonDepth, CountsWhatIsOpenAtATime) {
  std::string many = "[";
  for (int n = 0; n < 1000; ++n) many += "{\"a\": [[]]}, ";
  EXPECT_EQ(parse_json(many + "[]]", "a.json").size(), 1001U);
}

TEST(JsonDepth, BracketsInStringsAreText) {
  const std::string brackets(1000, '[');
  for (const std::string before : {"", R"(\")", R"(\\)", R"(\\\")", R"(\u005b)"}) {
    const std::string json = "[\"" + before + brackets + "\"]";
    EXPECT_NO_THROW(parse_json(json, "a.json")) << before;
    // A string that has ended hides nothing.
    EXPECT_NE(error_of([&] { check_json_depth("[\"" + before + "\", " + brackets, "a.json"); }), "") << before;
  }
}

/// What is not JSON is said to be none, as before.
TEST(JsonDepth, LeavesTheGrammarToTheParser) {
  for (const char* broken : {"", "[", "]", "]]]]", "\"", "\"\\", "{\"a\"", "[}", "\\\"[[["}) {
    EXPECT_NO_THROW(check_json_depth(broken, "a.json")) << broken;
    EXPECT_TRUE(error_of([&] { parse_json(broken, "a.json"); }).starts_with("a.json: is not valid JSON (byte "))
        << broken;
  }
  EXPECT_EQ(parse_json(R"({"a": 1, "a": 2})", "a.json").at("a"), 2);
  EXPECT_EQ(error_of([&] { parse_json("[1e999]", "a.json"); }),
            "a.json: holds a number that is too large; fetch the file again or repair it");
}

}  // namespace
}  // namespace foxscope

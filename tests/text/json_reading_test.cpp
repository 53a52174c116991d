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
    EXPECT_NE(error_of([&] { check_json_bounds("[\"" + before + "\", " + brackets, "a.json"); }), "") << before;
  }
}

/// What is not JSON is said to be none, as before.
TEST(JsonDepth, LeavesTheGrammarToTheParser) {
  for (const char* broken : {"", "[", "]", "]]]]", "\"", "\"\\", "{\"a\"", "[}", "\\\"[[["}) {
    EXPECT_NO_THROW(check_json_bounds(broken, "a.json")) << broken;
    EXPECT_TRUE(error_of([&] { parse_json(broken, "a.json"); }).starts_with("a.json: is not valid JSON (byte "))
        << broken;
  }
  EXPECT_EQ(parse_json(R"({"a": 1, "a": 2})", "a.json").at("a"), 2);
  EXPECT_EQ(error_of([&] { parse_json("[1e999]", "a.json"); }),
            "a.json: holds a number that is too large; fetch the file again or repair it");
}

/// What a value takes once it is parsed is bounded by its file's size.
TEST(JsonBounds, RefuseManyContainersAndValues) {
  const std::string words = "a.json: holds more lists, objects and values than a file of its size has (byte ";
  const auto many = [](const std::string& piece, std::size_t bytes) {
    std::string text = "[";
    while (text.size() < bytes) text += piece;
    return text + "0]";
  };
  constexpr std::size_t kLarge = std::size_t{8} << 20;
  for (const char* piece : {"[],", "{},", "\"\",", "[0],", "{\"a\":0},", "[[]],"}) {
    EXPECT_TRUE(error_of([&] { check_json_bounds(many(piece, kLarge), "a.json"); }).starts_with(words)) << piece;
    EXPECT_EQ(error_of([&] { check_json_bounds(many(piece, 100'000), "a.json"); }), "") << "a small file: " << piece;
  }
}

TEST(JsonBounds, NothingHidesBehindNul) {
  using namespace std::string_literals;
  EXPECT_EQ(error_of([] { check_json_bounds("{\"a\":0}\0{\"a\":9"s, "a.json"); }),
            "a.json: is not valid JSON (byte 8); fetch the file again or repair it");
}

TEST(JsonBounds, TakeWhatPeoplePublish) {
  std::string merges = "[";
  std::string vocabulary = "{";
  for (int n = 0; n < 400'000; ++n) {
    merges += "[\"t" + std::to_string(n % 1000) + "\",\"he\"],";
    vocabulary += "\"w" + std::to_string(n) + "\":" + std::to_string(n) + ",";
  }
  EXPECT_NO_THROW(check_json_bounds(merges + "0]", "tokenizer.json"));
  EXPECT_NO_THROW(check_json_bounds(vocabulary + "\"\":0}", "vocab.json"));
  std::string header = "{";
  for (int n = 0; n < 100'000; ++n) {
    header += "\"h." + std::to_string(n) + R"(.w":{"dtype":"F32","shape":[8,8],"data_offsets":[0,256]},)";
  }
  EXPECT_NO_THROW(check_json_bounds(header + "\"\":0}", "model.safetensors"));
}

TEST(PlainMembers, LeaveListsAndObjectsOut) {
  const auto read = [](const char* text) { return parse_plain_members(text, "a.json"); };
  const nlohmann::json plain = read(R"({"meta": {"text": "x", "b": [1]}, "text": "t", "ids": [1, {"a": 2}], "n": 3})");
  EXPECT_EQ(plain.at("text"), "t");
  EXPECT_EQ(plain.at("n"), 3);
  for (const char* key : {"meta", "ids"}) EXPECT_FALSE(plain.contains(key) && plain[key].is_structured()) << key;
  EXPECT_TRUE(read("[1, 2]").empty());
  EXPECT_FALSE(read("\"text\"").is_object());
  EXPECT_EQ(error_of([&] { read("{\"text\": "); }),
            "a.json: is not valid JSON (byte 10); fetch the file again or repair it");
}

TEST(RepeatedKeys, AreRefusedByName) {
  const auto said = [](const std::string& text) { return error_of([&] { refuse_repeated_keys(text, "a.json"); }); };
  EXPECT_EQ(said(R"({"lr": 1, "n": 2, "lr": 1})"), "a.json: the key 'lr' is given twice: leave one of them out");
  EXPECT_EQ(said(R"({"a": {"x": 1}, "config": {"b": [{"c": 1}, {"c": {"d": 1, "d": 2}}]}})"),
            "a.json: the key 'config.b.c.d' is given twice: leave one of them out");
  EXPECT_EQ(said(R"({"a\u0062": 1, "ab": 2})"), "a.json: the key 'ab' is given twice: leave one of them out");
  EXPECT_EQ(said(R"({"line\nbreak": {}, "line\nbreak": 2})"),
            "a.json: the key 'line?break' is given twice: leave one of them out");
  for (const char* text :
       {R"({"a": {"a": {"a": 1}}, "b": [{"a": 1}, {"a": 1}], "B": "b"})", "[1, 1]", "3", "", "{\"a\":"}) {
    EXPECT_EQ(said(text), "") << text;
  }
}

TEST(JsonBounds, OfTextThatWasMadeOfAFileAreTheFiles) {
  std::string text = "[";
  for (int n = 0; n < 400'000; ++n) text += "[   ],             ";
  EXPECT_NO_THROW(check_json_bounds(text, "a.json"));
  EXPECT_NE(error_of([&] { check_json_bounds(text, "a.json", text.size() / 8); }), "");
}

}  // namespace
}  // namespace foxscope

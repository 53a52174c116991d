#include "backend/text/token_ids.h"

#include "tests/text/helpers.h"

namespace foxscope::test {
namespace {

constexpr const char* forms = R"(; give an array of ids, or {"input_ids": [...], "labels": [...]})";

TokenIds read(std::string_view content) { return read_token_ids(content, "ids.json", 8192); }
std::string error(std::string_view content) {
  return error_of([&] { read(content); });
}

TEST(TokenIds, AnArrayIsTheTokensOfAText) {
  const TokenIds ids = read(" [0, 8191,\n5]");
  EXPECT_EQ(ids.ids, (std::vector<std::int32_t>{0, 8191, 5}));
  EXPECT_FALSE(ids.labels.has_value());
}

TEST(TokenIds, AnObjectGivesIdsAndLabels) {
  const TokenIds ids =
      read(R"({"labels": [2, 3], "attention_mask": [[1, 1.5], {"input_ids": null}], "input_ids": [1, 2]})");
  EXPECT_EQ(ids.ids, (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(ids.labels, (std::vector<std::int32_t>{2, 3}));
}

TEST(TokenIds, ManyIds) {
  std::string content = "[0";
  for (int i = 1; i < 1'000'000; ++i) content.append(",").append(std::to_string(i % 8192));
  const TokenIds ids = read(content + "]");
  ASSERT_EQ(ids.ids.size(), 1'000'000U);
  EXPECT_EQ(ids.ids[8193], 1);
}

TEST(TokenIds, IdsOutsideTheVocabulary) {
  const std::string rest = " is outside the model's vocabulary (0 to 8191); use the ids of this model's tokenizer";
  EXPECT_EQ(error("[1, 8192]"), "ids.json: the id 8192 at position 1" + rest);
  EXPECT_EQ(error("[-1]"), "ids.json: the id -1 at position 0" + rest);
  EXPECT_EQ(error("[18446744073709551615]"), "ids.json: the id 18446744073709551615 at position 0" + rest);
  EXPECT_EQ(error(R"({"input_ids": [1], "labels": [-100]})"), "ids.json: the id -100 at position 0 of labels" + rest);
}

TEST(TokenIds, WhatIsNoId) {
  const std::string rest = " is not a token id; give one list of integers";
  EXPECT_EQ(error("[1, 2.5]"), "ids.json: 2.5 at position 1" + rest);
  EXPECT_EQ(error("[1.0]"), "ids.json: 1.0 at position 0" + rest);
  EXPECT_EQ(error("[99999999999999999999]"), "ids.json: 99999999999999999999 at position 0" + rest);
  EXPECT_EQ(error("[null]"), "ids.json: null at position 0" + rest);
  EXPECT_EQ(error("[true]"), "ids.json: true at position 0" + rest);
  EXPECT_EQ(error("[\"a\\nb\"]"), "ids.json: 'a?b' at position 0" + rest);
  EXPECT_EQ(error("[[1, 2]]"), "ids.json: a list at position 0" + rest);
  EXPECT_EQ(error("[{}]"), "ids.json: an object at position 0" + rest);
  EXPECT_EQ(error(R"({"input_ids": [3, []], "labels": []})"), "ids.json: a list at position 1 of input_ids" + rest);
  EXPECT_EQ(error("[1e400]"),
            std::string("ids.json: holds a number that is too large for a token id (byte 6)") + forms);
}

TEST(TokenIds, WhatIsNoList) {
  EXPECT_EQ(error("5"), std::string("ids.json: holds neither a list nor an object") + forms);
  EXPECT_EQ(error("\"x\""), std::string("ids.json: holds neither a list nor an object") + forms);
  EXPECT_EQ(error(R"({"input_ids": 5})"), std::string("ids.json: 5 is not a list of token ids") + forms);
  EXPECT_EQ(error(R"({"labels": {}})"), std::string("ids.json: an object is not a list of token ids") + forms);
}

TEST(TokenIds, WhatIsMissingOrTooMuch) {
  EXPECT_EQ(error("[]"), std::string("ids.json: holds no token ids") + forms);
  EXPECT_EQ(error(R"({"input_ids": [], "labels": []})"), std::string("ids.json: holds no token ids") + forms);
  EXPECT_EQ(error("{}"), std::string("ids.json: lacks input_ids") + forms);
  EXPECT_EQ(error(R"({"input_ids": [1]})"), std::string("ids.json: lacks labels") + forms);
  EXPECT_EQ(error(R"({"input_ids": [1, 2], "labels": [1]})"),
            "ids.json: 2 input_ids but 1 labels; give one label for each id");
  EXPECT_EQ(error(R"({"input_ids": [1], "input_ids": [1]})"), "ids.json: gives input_ids twice; give them once");
}

TEST(TokenIds, WhatIsNoJson) {
  const std::string rest = "; fetch the file again or repair it";
  EXPECT_EQ(error(""), "ids.json: is not valid JSON (byte 1)" + rest);
  EXPECT_EQ(error("[1, 2"), "ids.json: is not valid JSON (byte 6)" + rest);
  EXPECT_EQ(error("[1] 2"), "ids.json: is not valid JSON (byte 5)" + rest);
  EXPECT_EQ(error("[\"\xFF\"]"), "ids.json: is not valid JSON (byte 3)" + rest);
  EXPECT_EQ(error(std::string_view("\0", 1)), "ids.json: is not valid JSON (byte 1)" + rest);
}

TEST(TokenIds, DeepNestingIsNoDanger) {
  constexpr std::size_t depth = 5'000'000;
  EXPECT_EQ(error(std::string(depth, '[')),
            "ids.json: a list at position 0 is not a token id; give one list of integers");
  const std::string deep = "{\"other\": " + std::string(depth, '[') + std::string(depth, ']');
  EXPECT_EQ(read(deep + R"(, "input_ids": [1], "labels": [2]})").ids, std::vector<std::int32_t>{1});
}

}  // namespace
}  // namespace foxscope::test

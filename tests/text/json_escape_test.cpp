#include "backend/text/json_escape.h"

#include "backend/text/unicode/utf8.h"
#include "tests/text/helpers.h"

namespace foxscope::test {
namespace {

TEST(JsonEscape, AsPythonWritesIt) {
  EXPECT_EQ(escape_json(""), "");
  EXPECT_EQ(escape_json("plain ~ text / 'x'"), "plain ~ text / 'x'");
  EXPECT_EQ(escape_json("\"\\\b\f\n\r\t"), R"(\"\\\b\f\n\r\t)");
  EXPECT_EQ(escape_json(std::string_view("\0\x1f\x7f", 3)), R"(\u0000\u001f\u007f)");
  EXPECT_EQ(escape_json("\xC3\xA9\xE6\x97\xA5\xF0\x9F\xA6\x8A"), R"(\u00e9\u65e5\ud83e\udd8a)");
}

TEST(JsonEscape, UndoingItGivesTheTextAgain) {
  std::string text;
  for (int c = 0; c < 128; ++c) text += static_cast<char>(c);
  text += "\xC3\xA9\xE6\x97\xA5\xEF\xBF\xBF\xF0\x90\x80\x80\xF4\x8F\xBF\xBF";
  EXPECT_EQ(unescape_json(escape_json(text)), text);
  EXPECT_EQ(nlohmann::json::parse(std::string(1, '"').append(escape_json(text)).append(1, '"')).get<std::string>(),
            text);
}

TEST(JsonEscape, OtherSpellingsAreUnderstood) {
  EXPECT_EQ(unescape_json(R"(\/\u00E9)"), "/\xC3\xA9");
  EXPECT_EQ(unescape_json(R"(\\u0041)"), R"(\u0041)");
}

TEST(JsonEscape, WhatIsNoEscapeStays) {
  for (const char* text :
       {"\\", "\\x", "\\u", "\\u12", "\\u12g4", "\\ud83e", "\\udd8a", "\\ud83e\\u0041x", "\\ud83e\\n"}) {
    const std::string result = unescape_json(text);
    if (std::string_view(text) == "\\ud83e\\u0041x") {
      EXPECT_EQ(result, "\\ud83eAx");
    } else if (std::string_view(text) == "\\ud83e\\n") {
      EXPECT_EQ(result, "\\ud83e\n");
    } else {
      EXPECT_EQ(result, text);
    }
  }
}

TEST(JsonEscape, PositionsBelongToTheEscapedCharacter) {
  const std::string text = "a\xF0\x9F\xA6\x8A\n\xC3\xA9z";
  EscapePosition position(text);
  std::size_t escaped = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t bytes = character_at(text, at).bytes;
    const std::size_t size = escape_json(text.substr(at, bytes)).size();
    for (std::size_t i = 0; i < size; ++i, ++escaped) {
      position.seek(escaped);
      EXPECT_EQ(position.begin(), at);
      EXPECT_EQ(position.end(), at + bytes);
    }
    at += bytes;
  }
}

}  // namespace
}  // namespace foxscope::test

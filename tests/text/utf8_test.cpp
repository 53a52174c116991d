#include "backend/text/unicode/utf8.h"

#include "tests/text/helpers.h"

namespace foxscope::test {
namespace {

/// UTF-8 of any number below 0x200000, surrogates and what is no code point included.
std::string spell(std::uint32_t c) {
  const auto byte = [](std::uint32_t value) { return static_cast<char>(value); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xC0 | c >> 6), byte(0x80 | (c & 0x3F))};
  if (c < 0x10000) return {byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F))};
  return {byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 0x3F)), byte(0x80 | (c >> 6 & 0x3F)), byte(0x80 | (c & 0x3F))};
}

TEST(Utf8, EveryCodePointAndNothingElse) {
  for (std::uint32_t c = 0; c < 0x200000; ++c) {
    const bool valid = c < 0x110000 && (c < 0xD800 || c >= 0xE000);
    const std::string text = "ascii ascii " + spell(c);
    ASSERT_EQ(find_invalid_utf8(text), valid ? std::optional<std::size_t>() : 12) << c;
    if (!valid) continue;
    ASSERT_EQ(character_at(text, 12).code_point, c);
    ASSERT_EQ(character_at(text, 12).bytes, text.size() - 12);
    ASSERT_EQ(previous_character(text, text.size()), 12U);
  }
}

TEST(Utf8, OffsetOfTheFirstIllFormedByte) {
  EXPECT_EQ(find_invalid_utf8(""), std::nullopt);
  EXPECT_EQ(find_invalid_utf8("\xFF"), 0U);
  EXPECT_EQ(find_invalid_utf8("abcdefgh\xC3\xA9\x80"), 10U);
  EXPECT_EQ(find_invalid_utf8("\xC3"), 0U);
  EXPECT_EQ(find_invalid_utf8("a\xC0\xAF"), 1U);      // overlong
  EXPECT_EQ(find_invalid_utf8("a\xE0\x9F\xBF"), 1U);  // overlong
  EXPECT_EQ(find_invalid_utf8("a\xF0\x8F\xBF\xBF"), 1U);
}

TEST(Utf8, MaximalPartsAreReplaced) {
  const std::string mark = "\xEF\xBF\xBD";
  EXPECT_EQ(replace_invalid_utf8("plain \xC3\xA9"), "plain \xC3\xA9");
  // The Unicode Standard, tables 3-8 to 3-11.
  EXPECT_EQ(replace_invalid_utf8("\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41"),
            mark + mark + mark + mark + mark + mark + mark + mark + "A");
  EXPECT_EQ(replace_invalid_utf8("\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41"),
            mark + mark + mark + mark + mark + mark + mark + mark + "A");
  EXPECT_EQ(replace_invalid_utf8("\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42"),
            mark + mark + mark + mark + mark + "A" + mark + mark + "B");
  EXPECT_EQ(replace_invalid_utf8("\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41"), mark + mark + mark + mark + "A");
}

TEST(Utf8, BytesOfNoCharacterAreSpelledOut) {
  EXPECT_EQ(spell_invalid_utf8("plain \xC3\xA9"), "plain \xC3\xA9");
  EXPECT_EQ(spell_invalid_utf8(" Br\xC3"), " Br\\xc3");
  EXPECT_EQ(spell_invalid_utf8("\xBCning \xE6\xBC\xFF"), "\\xbcning \\xe6\\xbc\\xff");
  EXPECT_EQ(spell_invalid_utf8(""), "");
}

TEST(Utf8, WhiteSpace) {
  std::size_t count = 0;
  for (char32_t c = 0; c < 0x110000; ++c) count += is_white_space(c) ? 1 : 0;
  EXPECT_EQ(count, 25U);  // PropList.txt since Unicode 6.3
  EXPECT_TRUE(is_white_space(0x85) && is_white_space(0x3000) && is_white_space(0x2029));
  EXPECT_FALSE(is_white_space(0x1C) || is_white_space(0x180E) || is_white_space(0x200B) || is_white_space(0xFEFF));
}

TEST(ByteAlphabet, SpellsEachByteOnce) {
  EXPECT_EQ(spell_byte(' '), "\xC4\xA0");
  EXPECT_EQ(spell_byte('A'), "A");
  EXPECT_EQ(spell_byte(0xAD), "\xC5\x83");  // U+0143, the last of the 68
  for (int byte = 0; byte < 256; ++byte) {
    EXPECT_EQ(unspell_bytes(spell_byte(static_cast<std::uint8_t>(byte))), std::string(1, static_cast<char>(byte)));
  }
  EXPECT_EQ(unspell_bytes(" "), std::nullopt);
  EXPECT_EQ(unspell_bytes("\xE6\x97\xA5"), std::nullopt);
}

}  // namespace
}  // namespace foxscope::test

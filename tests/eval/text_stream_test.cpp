// Text that comes token by token holds whole characters only, and all of them.
#include "backend/data/text_stream.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace foxscope {
namespace {

/// A tokenizer whose tokens are single bytes, so that every character and escape is cut everywhere.
Tokenizer bytes_alone(bool json_escaping) {
  // Bytes that print stand for themselves, others for the characters from U+0100 on, in order (GPT-2).
  nlohmann::json vocabulary;
  int other = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const bool prints = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const int code = prints ? byte : 256 + other++;
    std::string key;
    if (code < 128) {
      key += static_cast<char>(code);
    } else {
      key += static_cast<char>(0xC0 | (code >> 6));
      key += static_cast<char>(0x80 | (code & 0x3F));
    }
    vocabulary[key] = byte;
  }
  return Tokenizer::from_vocab_and_merges(vocabulary.dump(), "#version: 0.2\n", "vocab.json", json_escaping);
}

struct Pieces {
  std::vector<std::string> given;
  std::string all;
};

Pieces stream(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  TextStream text(tokenizer);
  Pieces pieces;
  for (const std::int32_t id : ids) pieces.given.push_back(text.add(id));
  pieces.given.push_back(text.finish());
  for (const std::string& piece : pieces.given) {
    EXPECT_FALSE(find_invalid_utf8(piece)) << piece;
    pieces.all += piece;
  }
  return pieces;
}

std::vector<std::int32_t> bytes(const std::string& text) {
  std::vector<std::int32_t> ids;
  for (const char byte : text) ids.push_back(static_cast<unsigned char>(byte));
  return ids;
}

TEST(TextStream, GivesCharactersWhenTheyAreWhole) {
  const Tokenizer tokenizer = bytes_alone(false);
  const std::string text = "a \xC3\xA9 \xE2\x82\xAC \xF0\x9F\xA6\x8A.";
  const Pieces pieces = stream(tokenizer, bytes(text));
  EXPECT_EQ(pieces.all, text);
  EXPECT_EQ(pieces.given[0], "a");
  EXPECT_EQ(pieces.given[2], "");
  EXPECT_EQ(pieces.given[3], "\xC3\xA9");
}

TEST(TextStream, EscapesAreUndoneHoweverTheyAreCut) {
  const Tokenizer tokenizer = bytes_alone(true);
  for (const std::string& text : {std::string("line\nnext\ttab \"said\" \\ back\\n \\\\u00e9 \\"),
                                  std::string("\xC3\xA9\xE2\x82\xAC \xF0\x9F\xA6\x8A\xF0\x9F\xA6\x8A end"),
                                  std::string("\\u12 \\ud83e no escape")}) {
    const std::vector<std::int32_t> ids = tokenizer.encode(text).id;
    EXPECT_EQ(stream(tokenizer, ids).all, text);
  }
  // As text of the model's own making: cut short, lone, and broken escapes stay as they are.
  for (const std::string raw : {"\\u00", "\\ud83e", "\\ud83e\\u00e9!", "\\ud83ex", "\\ux", "\\", "\\ud83e\\u"}) {
    EXPECT_EQ(stream(tokenizer, bytes(raw)).all, tokenizer.decode(bytes(raw))) << raw;
  }
}

TEST(TextStream, BytesThatAreNoCharacterAreReplaced) {
  const Tokenizer tokenizer = bytes_alone(false);
  EXPECT_EQ(stream(tokenizer, bytes("\xE2\x82")).all, "\xEF\xBF\xBD");
  EXPECT_EQ(stream(tokenizer, bytes("\xC3"
                                    "a"))
                .all,
            "\xEF\xBF\xBD"
            "a");
  EXPECT_EQ(stream(tokenizer, {'a', 256, 'b'}).all,
            "a\xEF\xBF\xBD"
            "b");
}

}  // namespace
}  // namespace foxscope

#include "backend/text/token_class.h"

#include <sys/wait.h>

#include <cstdlib>
#include <cstring>

#include "tests/text/helpers.h"

namespace foxscope::test {
namespace {

std::vector<TokenClassSet> classes_of(const Tokens& tokens, std::string_view text) {
  WordCounts counts;
  counts.add(text);
  return token_classes(text, {tokens.byte_start, tokens.byte_end}, counts);
}

/// Cuts a text at every `|`, which is left out, and names the classes of the pieces in letters: n newline, _ space,
/// . punctuation, S sentence start, F first, L later; R where the word is rare.
std::string letters_of(std::string_view marked) {
  std::string text;
  Tokens tokens;
  tokens.byte_start.push_back(0);
  for (const char c : marked) {
    if (c != '|') {
      text += c;
      continue;
    }
    tokens.byte_end.push_back(static_cast<std::int64_t>(text.size()));
    tokens.byte_start.push_back(static_cast<std::int64_t>(text.size()));
  }
  tokens.byte_end.push_back(static_cast<std::int64_t>(text.size()));
  std::string letters;
  for (const TokenClassSet set : classes_of(tokens, text)) {
    for (std::size_t n = 0; n < kTokenClasses; ++n) {
      if ((set & set_of(static_cast<TokenClass>(n))) != 0) letters += "bn_.SFLR"[n];
    }
  }
  return letters;
}

TEST(TokenClass, IsThatOfTheFirstCharacterBesideWhiteSpace) {
  EXPECT_EQ(letters_of("a| a|,| |\n|\n\n|b| b"), "SF._nnSF");
  EXPECT_EQ(letters_of("a| a|\n\"|, x| x"), "SF..F");
  EXPECT_EQ(letters_of("the| th|e| 42|nd|-|the"), "SFLFRLR.F");
}

TEST(TokenClass, ApostrophesBelongToWords) {
  EXPECT_EQ(letters_of("don|'t| don|'|t| '|don|'"), "SLFLL.FR.");
  EXPECT_EQ(letters_of("don\xE2\x80\x99|t don|\xE2\x80\x99t"), "SLL");
}

TEST(TokenClass, SentencesBeginBehindEndMarksAndBlankLines) {
  EXPECT_EQ(letters_of("So| so|.| So| so|!\"| \"|So| so|?| so"), "SF.SF..SF.F");
  EXPECT_EQ(letters_of("so| so|\n|so| so|\r\n|so| so|\n|\n|so|\n|\r|so"), "SFnFFnFFnnSnnS");
  EXPECT_EQ(letters_of("So| so|...| So| so|.,| So| so|.|So| so"), "SF.SF.FF.FF");
  EXPECT_EQ(letters_of("Mr|.| Fox|'s| Mr|.| Fox|.| Fox|'s"), "S.FLF.FR.SL");
  EXPECT_EQ(letters_of("A|.| B|!| A|.| A|?!| B"), "S.F.S.F.S");
}

TEST(TokenClass, SentencesOfChineseNeedNoSpace) {
  EXPECT_EQ(letters_of("\xE4\xB8\x80|\xE3\x80\x82|\xE4\xB8\x80|\xEF\xBC\x8C|\xE4\xB8\x80"), "S.S.F");
}

TEST(TokenClass, TokensWithinACharacterContinueIt) {
  // One character of three bytes in three tokens, in a word and as a mark.
  EXPECT_EQ(letters_of("\xE4|\xB8|\x80| \xE4|\xB8|\x80|\xE2\x80|\x9C"), "SLLFLL..");
}

TEST(TokenClass, NumbersAreNeverRareAndCapitalsDoNotCount) { EXPECT_EQ(letters_of("1| 22| Ox| ox| once"), "SFFFFR"); }

TEST(TokenClass, InACorpusAWordMayOccurAFewTimesAndBeRare) {
  WordCounts counts;
  std::string text;
  for (int n = 0; n < 150'000; ++n) text += "the the ";
  counts.add(text);
  counts.add("fox fox fox Ox ox ox ox");
  EXPECT_EQ(counts.words(), 300'007);
  EXPECT_TRUE(counts.is_rare("fox"));
  EXPECT_FALSE(counts.is_rare("OX"));
  EXPECT_TRUE(counts.is_rare("never"));
}

TEST(TokenClass, NamesAreThoseOfFilesAndTables) {
  EXPECT_STREQ(to_string(TokenClass::bos), "bos");
  EXPECT_STREQ(to_string(TokenClass::rare_word), "rare_word");
}

/// The classes that token_class_peer.py finds.
std::vector<TokenClassSet> peer_classes(const Tokens& tokens, std::string_view text) {
  const TemporaryFolder folder;
  write_bytes(folder / "text", text);
  std::string offsets(tokens.size() * 16, '\0');
  for (std::size_t n = 0; n < tokens.size(); ++n) {
    std::memcpy(offsets.data() + 16 * n, &tokens.byte_start[n], 8);
    std::memcpy(offsets.data() + 16 * n + 8, &tokens.byte_end[n], 8);
  }
  write_bytes(folder / "tokens", offsets);
  const std::string command = std::string(FOXSCOPE_TEST_PYTHON) + " " + FOXSCOPE_SOURCE_DIR +
                              "/tests/text/token_class_peer.py " + folder.path().string();
  EXPECT_EQ(WEXITSTATUS(std::system(command.c_str())), 0);
  const std::string bytes = read_bytes(folder / "classes");
  return {bytes.begin(), bytes.end()};
}

void expect_peer_agrees(const Tokenizer& tokenizer, std::string_view text) {
  const Tokens tokens = tokenizer.encode(text);
  const std::vector<TokenClassSet> actual = classes_of(tokens, text);
  const std::vector<TokenClassSet> expected = peer_classes(tokens, text);
  ASSERT_EQ(actual.size(), expected.size());
  int different = 0;
  for (std::size_t n = 0; n < actual.size() && different < 5; ++n) {
    if (actual[n] == expected[n]) continue;
    ++different;
    const auto start = static_cast<std::size_t>(tokens.byte_start[n]);
    ADD_FAILURE() << "token " << n << " at byte " << start << ": " << int{actual[n]} << ", expected "
                  << int{expected[n]} << " near " << text.substr(start < 20 ? 0 : start - 20, 40);
  }
}

TEST(TokenClassPeer, AgreesOnTheSampleTexts) {
  for (const char* name : {"black-beauty-1-3", "origin-of-species-3", "riddle-of-the-sands-1", "up-from-slavery-1"}) {
    const std::string text = read_bytes(std::string(FOXSCOPE_SOURCE_DIR "/resources/texts/") + name + ".txt");
    ASSERT_FALSE(text.empty());
    expect_peer_agrees(fixture_tokenizer(), text);
    expect_peer_agrees(fixture_tokenizer(true), text.substr(0, 20'000));
  }
}

TEST(TokenClassPeer, AgreesOnTextsOfManyScripts) {
  const std::string pieces[] = {"na\xC3\xAFve",
                                "\xD0\x9B\xD0\xB8\xD1\x81\xD0\xB0",
                                "\xE7\x8B\x90\xE7\x8B\xB8",
                                "\xE3\x80\x82",
                                "\xF0\x9F\xA6\x8A",
                                "e\xCC\x81t\xC3\xA9",
                                "\xE2\x80\x9C",
                                "\xE2\x80\x9D",
                                "\xE2\x80\x99",
                                "'",
                                ".",
                                "...",
                                "\xE2\x80\xA6",
                                "!",
                                ", ",
                                " ",
                                " ",
                                " ",
                                "\n",
                                "\r\n",
                                "\n\n",
                                "\xC2\xA0",
                                "\xE2\x80\xA9",
                                "Dr",
                                "J",
                                "Fox",
                                "fox",
                                "42",
                                "_",
                                "\xC2\xBD"};
  std::string text;
  std::uint32_t state = 7;
  for (int n = 0; n < 20'000; ++n) {
    state = state * 1664525U + 1013904223U;
    text += pieces[(state >> 16U) % std::size(pieces)];
  }
  expect_peer_agrees(fixture_tokenizer(), text);
  expect_peer_agrees(fixture_tokenizer(true), text);
}

}  // namespace
}  // namespace foxscope::test

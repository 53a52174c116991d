#include <algorithm>
#include <random>
#include <thread>

#include "backend/base/index.h"
#include "tests/text/helpers.h"

namespace foxscope::test {
namespace {

using nlohmann::json;

json golden() { return json::parse(read_bytes(FOXSCOPE_TEST_DATA "/tokenizer/golden.json")); }

/// Spans in characters, as the goldens have them: a part of a character stands for the whole of it.
std::vector<std::array<std::int64_t, 2>> character_spans(const std::string& text, const Tokens& tokens) {
  std::vector<std::int64_t> character;
  std::int64_t count = -1;
  for (const char byte : text) {
    if ((static_cast<unsigned char>(byte) & 0xC0U) != 0x80) ++count;
    character.push_back(count);
  }
  std::vector<std::array<std::int64_t, 2>> spans;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    spans.push_back({character[index_of(tokens.byte_start[i])], character[index_of(tokens.byte_end[i] - 1)] + 1});
  }
  return spans;
}

/// Each token's span holds its bytes, and the spans follow one another from the text's beginning to its end.
void expect_spans_cover(const Tokenizer& tokenizer, const std::string& text) {
  const Tokens tokens = tokenizer.encode(text);
  std::int64_t end = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    ASSERT_EQ(tokens.byte_start[i], end);
    end = tokens.byte_end[i];
    ASSERT_EQ(text.substr(static_cast<std::size_t>(tokens.byte_start[i]),
                          static_cast<std::size_t>(end - tokens.byte_start[i])),
              tokenizer.token_bytes(tokens.id[i]));
  }
  ASSERT_EQ(end, static_cast<std::int64_t>(text.size()));
}

TEST(Tokenizer, GivesTheGoldens) {
  const Tokenizer tokenizer = fixture_tokenizer();
  const Tokenizer escaping = fixture_tokenizer(true);
  for (const json& one : golden()) {
    const std::string text = one["text"];
    const Tokens tokens = tokenizer.encode(text);
    EXPECT_EQ(json(tokens.id), one["ids"]) << text;
    EXPECT_EQ(json(character_spans(text, tokens)), one["offsets"]) << text;
    EXPECT_EQ(json(escaping.encode(text).id), one["json_escaped_ids"]) << text;
  }
}

TEST(Tokenizer, IdsAloneAreTheSame) {
  for (const bool escaping : {false, true}) {
    const Tokenizer tokenizer = fixture_tokenizer(escaping);
    for (const json& one : golden()) {
      const std::string text = one["text"];
      std::vector<std::int32_t> ids = {-7};
      EXPECT_TRUE(tokenizer.encode_ids(text, ids, [](std::size_t) { return true; }));
      EXPECT_EQ(ids.front(), -7) << "what was there stays";
      ids.erase(ids.begin());
      EXPECT_EQ(ids, tokenizer.encode(text).id) << text;
    }
  }
}

TEST(Tokenizer, IdsAreGivenUpWhereTheyAreNotWanted) {
  const Tokenizer tokenizer = fixture_tokenizer();
  std::string text;
  for (int n = 0; n < 1000; ++n) text += "ab cd\n";
  const std::vector<std::int32_t> all = tokenizer.encode(text).id;
  std::vector<std::int32_t> ids;
  std::size_t asked = 0;
  EXPECT_FALSE(tokenizer.encode_ids(text, ids, [&](std::size_t count) {
    EXPECT_GT(count, asked);
    asked = count;
    return count < 100;
  }));
  ASSERT_GE(ids.size(), 100U);
  ASSERT_LT(ids.size(), 120U);
  EXPECT_EQ(ids.size(), asked);
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), all.begin()));
}

TEST(Tokenizer, BothFormsOfFileAreEqual) {
  const std::string folder = FOXSCOPE_TEST_DATA "/tokenizer/";
  const Tokenizer one = fixture_tokenizer();
  const Tokenizer other = Tokenizer::from_vocab_and_merges(read_bytes(folder + "vocab.json"),
                                                           read_bytes(folder + "merges.txt"), "vocab.json");
  ASSERT_EQ(one.vocabulary_size(), other.vocabulary_size());
  for (std::int32_t id = 0; id < one.vocabulary_size(); ++id) EXPECT_EQ(one.token_bytes(id), other.token_bytes(id));
  for (const json& entry : golden()) {
    const std::string text = entry["text"];
    EXPECT_EQ(one.encode(text).id, other.encode(text).id);
  }
}

TEST(Tokenizer, MergesMayBeStringsOrPairs) {
  json strings = small_tokenizer({{"a", "b"}, {"ab", "c"}});
  const Tokenizer pairs = tokenizer_of(strings);
  strings["model"]["merges"] = {"#version: 0.2", "a b", "ab c"};
  EXPECT_EQ(pairs.encode("abcabxa").id, tokenizer_of(strings).encode("abcabxa").id);
  EXPECT_EQ(pieces(pairs, "abcabxa"), (std::vector<std::string>{"abc", "ab", "x", "a"}));
}

TEST(Tokenizer, LowestRankFirstThenLeftmost) {
  const Tokenizer tokenizer = tokenizer_of(small_tokenizer({{"b", "c"}, {"a", "a"}, {"a", "bc"}}));
  EXPECT_EQ(pieces(tokenizer, "abcaaa"), (std::vector<std::string>{"abc", "aa", "a"}));
}

TEST(Tokenizer, OfEqualMergesTheLastCounts) {
  const Tokenizer tokenizer = tokenizer_of(small_tokenizer({{"a", "b"}, {"b", "c"}, {"a", "b"}}));
  EXPECT_EQ(pieces(tokenizer, "abc"), (std::vector<std::string>{"a", "bc"}));
}

TEST(Tokenizer, WordsLongerThanTheShortPathAreCutAlike) {
  // The same characters, in words on both sides of the length at which the algorithm changes, merges in random order.
  std::mt19937 random(7);
  std::vector<std::string> tokens = {"a", "b", "c"};
  std::vector<std::pair<std::string, std::string>> merges;
  for (int i = 0; i < 40; ++i) {
    merges.emplace_back(tokens[random() % tokens.size()], tokens[random() % tokens.size()]);
    tokens.push_back(merges.back().first + merges.back().second);
  }
  std::shuffle(merges.begin(), merges.end(), random);
  const json description = small_tokenizer(merges);
  const Tokenizer tokenizer = tokenizer_of(description);
  for (std::size_t size = 1; size < 200; ++size) {
    std::string text;
    while (text.size() < size) text += static_cast<char>('a' + random() % 3);
    // By definition: the pair of lowest rank, the leftmost, again and again.
    std::vector<std::string> expected;
    for (const char c : text) expected.emplace_back(1, c);
    while (true) {
      std::size_t best_rank = merges.size();
      std::size_t best = 0;
      for (std::size_t i = 0; i + 1 < expected.size(); ++i) {
        for (std::size_t rank = 0; rank < merges.size(); ++rank) {
          // Of equal merges the last counts.
          const bool later = std::find(merges.begin() + static_cast<std::ptrdiff_t>(rank) + 1, merges.end(),
                                       merges[rank]) != merges.end();
          if (!later && rank < best_rank && merges[rank] == std::pair(expected[i], expected[i + 1])) {
            best_rank = rank;
            best = i;
          }
        }
      }
      if (best_rank == merges.size()) break;
      expected[best] += expected[best + 1];
      expected.erase(expected.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    ASSERT_EQ(pieces(tokenizer, text), expected) << text;
  }
}

TEST(Tokenizer, WhiteSpaceIsUnicodes) {
  const Tokenizer tokenizer = tokenizer_of(small_tokenizer({{"Ġ", "Ġ"}, {"a", "a"}}));
  EXPECT_EQ(pieces(tokenizer, "aa  aa"), (std::vector<std::string>{"aa", " ", " ", "aa"}));
  EXPECT_EQ(pieces(tokenizer, "aa  "), (std::vector<std::string>{"aa", "  "}));
}

TEST(Tokenizer, SpansCoverTheText) {
  const Tokenizer tokenizer = fixture_tokenizer();
  for (const json& one : golden()) expect_spans_cover(tokenizer, one["text"]);
  const Tokens flag = tokenizer.encode("\xF0\x9F\xA6\x8A");
  EXPECT_GT(flag.size(), 1U);  // parts of a character, each with its own bytes
  expect_spans_cover(tokenizer, "x\xF0\x9F\xA6\x8A\xF0\x9F\xA6\x8Ay\xE6\x97\xA5");
}

TEST(Tokenizer, DecodeGivesTheTextAgain) {
  for (const bool escaping : {false, true}) {
    const Tokenizer tokenizer = fixture_tokenizer(escaping);
    for (const json& one : golden()) {
      const std::string text = one["text"];
      EXPECT_EQ(tokenizer.decode(tokenizer.encode(text).id), text);
    }
  }
}

TEST(Tokenizer, DecodeKeepsPartsOfCharacters) {
  const Tokenizer tokenizer = tokenizer_of(small_tokenizer());
  const Tokens tokens = tokenizer.encode("\xC3\xA9");
  ASSERT_EQ(tokens.size(), 2U);
  EXPECT_EQ(tokenizer.decode({tokens.id[0]}), "\xC3");
}

TEST(Tokenizer, EscapedSpansAreTheCharactersThatAreEscaped) {
  const Tokenizer tokenizer = tokenizer_of(small_tokenizer(), true);
  const std::string text = "a\n\xC3\xA9\xF0\x9F\xA6\x8A\"b";
  const Tokens tokens = tokenizer.encode(text);  // one token for each byte of a\n\u00e9\ud83e\udd8a\"b
  ASSERT_EQ(tokens.size(), 1U + 2 + 6 + 12 + 2 + 1);
  const std::vector<std::array<std::size_t, 3>> runs = {{1, 0, 1},  {2, 1, 2}, {6, 2, 4},
                                                        {12, 4, 8}, {2, 8, 9}, {1, 9, 10}};
  std::size_t i = 0;
  for (const auto& [count, begin, end] : runs) {
    for (std::size_t k = 0; k < count; ++k, ++i) {
      EXPECT_EQ(tokens.byte_start[i], static_cast<std::int64_t>(begin)) << i;
      EXPECT_EQ(tokens.byte_end[i], static_cast<std::int64_t>(end)) << i;
    }
  }
}

TEST(Tokenizer, PrefixedSpaceStandsForNoByte) {
  json description = small_tokenizer({{"Ġ", "a"}});
  description["pre_tokenizer"]["add_prefix_space"] = true;
  for (const bool escaping : {false, true}) {
    const Tokenizer tokenizer = tokenizer_of(description, escaping);
    const Tokens joined = tokenizer.encode("ab");
    EXPECT_EQ(joined.byte_start, (std::vector<std::int64_t>{0, 1}));
    EXPECT_EQ(joined.byte_end, (std::vector<std::int64_t>{1, 2}));
    const Tokens apart = tokenizer.encode("ba");
    EXPECT_EQ(apart.byte_start, (std::vector<std::int64_t>{0, 0, 1}));
    EXPECT_EQ(apart.byte_end, (std::vector<std::int64_t>{0, 1, 2}));
    EXPECT_EQ(tokenizer.encode("").size(), 0U);
    EXPECT_EQ(tokenizer.encode(" ab").size(), 2U);
  }
}

TEST(Tokenizer, HolesInTheVocabularyAreNothing) {
  json description = small_tokenizer();
  description["added_tokens"] = {{{"id", 300}, {"content", "<far>"}, {"special", true}}};
  const Tokenizer tokenizer = tokenizer_of(description);
  EXPECT_EQ(tokenizer.vocabulary_size(), 301);
  EXPECT_EQ(tokenizer.token_bytes(299), "");
  EXPECT_EQ(tokenizer.decode({300, 299, 300}), "<far><far>");
}

TEST(Tokenizer, AddedTokensAreLiteral) {
  // U+00E9 spells a byte in the vocabulary's alphabet; in an added token it is itself.
  json description = small_tokenizer();
  description["added_tokens"] = {{{"id", 256}, {"content", "<\xC3\xA9 >"}, {"special", true}}};
  const Tokenizer tokenizer = tokenizer_of(description);
  EXPECT_EQ(tokenizer.encode("<\xC3\xA9 >").id, std::vector<std::int32_t>{256});
  EXPECT_EQ(tokenizer.token_bytes(256), "<\xC3\xA9 >");
}

TEST(Tokenizer, ThreadsShareIt) {
  const Tokenizer tokenizer = fixture_tokenizer();
  const std::string text = golden().back()["text"];
  const std::vector<std::int32_t> expected = tokenizer.encode(text).id;
  std::vector<std::vector<std::int32_t>> ids(4);
  {
    std::vector<std::jthread> threads;
    threads.reserve(ids.size());
    for (std::vector<std::int32_t>& one : ids) threads.emplace_back([&] { one = tokenizer.encode(text).id; });
  }
  for (const std::vector<std::int32_t>& one : ids) EXPECT_EQ(one, expected);
}

// Where time grew with the square of a word's length, each of these would take hours.
TEST(Tokenizer, LongRunsTakeLinearTime) {
  const Tokenizer tokenizer = fixture_tokenizer();
  for (const char* unit : {"a", " ", "\n", "ab", "\xF0\x9F\xA6\x8A", "'s", "<|endoftext|"}) {
    std::string text;
    while (text.size() < 2'000'000) text += unit;
    const Tokens tokens = tokenizer.encode(text);
    EXPECT_EQ(tokens.byte_end.back(), static_cast<std::int64_t>(text.size())) << unit;
    EXPECT_EQ(tokenizer.decode(tokens.id), text) << unit;
  }
}

TEST(Tokenizer, MoreWordsThanTheCacheHolds) {
  const Tokenizer tokenizer = fixture_tokenizer();
  std::string text;
  for (int i = 0; i < 400'000; ++i) text.append(" ").append(std::to_string(1'000'000 + i));
  EXPECT_EQ(tokenizer.decode(tokenizer.encode(text).id), text);
}

}  // namespace
}  // namespace foxscope::test

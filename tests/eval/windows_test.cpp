// Which windows of a corpus are looked at.
#include "backend/data/windows.h"

#include <map>
#include <set>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "backend/base/sha256.h"
#include "tests/eval/eval_test_support.h"
#include "tests/model/model_test_support.h"

namespace foxscope {
namespace {

/// A text that begins nowhere twice with the same 8 letters.
std::string letters(std::size_t length, unsigned seed) {
  std::string text;
  for (std::size_t n = 0; n < length; ++n) {
    seed = seed * 1103515245U + 12345U;
    text += static_cast<char>('c' + (seed >> 16U) % 20U);
  }
  return text;
}

class WindowsOfCorpus : public testing::Test {
 protected:
  void add(const std::string& name, const std::string& text) {
    folder_.write(name + ".txt", text);
    texts_[name + ".txt"] = text;
  }
  Windows choose(std::int64_t length, std::optional<std::int64_t> number, std::uint64_t seed = 0) {
    auto windows = choose_windows(folder_.path(), tokenizer_, {length, number, seed}, Job{});
    EXPECT_TRUE(windows.has_value());
    return std::move(windows).value();
  }
  std::string error(std::int64_t length, std::optional<std::int64_t> number) {
    return test::error_of([&] { choose_windows(folder_.path(), tokenizer_, {length, number, 0}, Job{}); });
  }

  test::TemporaryFolder folder_;
  std::map<std::string, std::string> texts_;
  Tokenizer tokenizer_ = test::byte_tokenizer();
};

TEST_F(WindowsOfCorpus, ArePiecesOfDocumentsThatDoNotOverlap) {
  for (int n = 0; n < 9; ++n) add(fmt::format("{}", n), letters(static_cast<std::size_t>(n) * 37, 5U + n));
  for (const std::int64_t number : {1, 7, 40, 58}) {
    const Windows windows = choose(20, number, 3);
    EXPECT_EQ(windows.corpus_documents, 9);
    EXPECT_EQ(windows.corpus_tokens, 37 * 36);
    EXPECT_EQ(windows.room, 1 + 3 + 5 + 7 + 9 + 11 + 12 + 14);
    ASSERT_EQ(windows.windows.size(), static_cast<std::size_t>(number));
    std::set<std::int32_t> used;
    for (std::size_t n = 0; n < windows.windows.size(); ++n) {
      const Window& window = windows.windows[n];
      const WindowDocument& document = windows.documents.at(static_cast<std::size_t>(window.document));
      const std::string& text = texts_.at(document.name);
      EXPECT_EQ(document.sha256, sha256(text));
      EXPECT_EQ(window.byte_end - window.byte_start, 20);
      EXPECT_EQ(window.token_start, window.byte_start);
      EXPECT_EQ(window.text, text.substr(static_cast<std::size_t>(window.byte_start), 20));
      EXPECT_EQ(window.ids, tokenizer_.encode(window.text).id);
      used.insert(window.document);
      if (n == 0) continue;
      const Window& before = windows.windows[n - 1];
      EXPECT_TRUE(before.document < window.document ||
                  (before.document == window.document && before.byte_end <= window.byte_start));
    }
    EXPECT_EQ(used.size(), windows.documents.size());
  }
}

TEST_F(WindowsOfCorpus, DependOnTheSeedAlone) {
  add("a", letters(4000, 1));
  add("b", letters(2500, 2));
  const auto starts = [&](std::uint64_t seed) {
    std::vector<std::pair<std::int32_t, std::int64_t>> result;
    for (const Window& window : choose(64, 12, seed).windows) result.emplace_back(window.document, window.token_start);
    return result;
  };
  EXPECT_EQ(starts(7), starts(7));
  EXPECT_NE(starts(7), starts(8));
}

// The bits are std::mt19937_64's, whose 10,000th number for its default seed the C++ standard gives.
TEST_F(WindowsOfCorpus, RandomNumbersOfTheStandard) {
  WindowRandom random(5489);
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 63;
  for (int n = 1; n < 10'000; ++n) random.below(kHalf);
  EXPECT_EQ(random.below(kHalf), 9981545732273789042U % kHalf);
}

TEST_F(WindowsOfCorpus, EveryStartIsEquallyLikely) {
  add("a", letters(10, 1));
  add("b", letters(7, 2));  // as much room as a third of what both have
  std::map<std::string, int> counts;
  constexpr int kDraws = 2400;
  for (int seed = 0; seed < kDraws; ++seed) {
    const Windows windows = choose(3, 1, static_cast<std::uint64_t>(seed));
    ++counts[fmt::format("{} {}", windows.documents[0].name, windows.windows[0].token_start)];
  }
  ASSERT_EQ(counts.size(), 8U + 5U);
  for (const auto& [place, count] : counts) {
    const double expected = place[0] == 'a' ? kDraws * 0.6 / 8 : kDraws * 0.4 / 5;
    EXPECT_NEAR(count, expected, 5 * std::sqrt(expected)) << place;
  }
}

TEST_F(WindowsOfCorpus, NumberByDefault) {
  add("a", letters(1000, 1));
  EXPECT_EQ(choose(10, std::nullopt).windows.size(), static_cast<std::size_t>(kDefaultWindows));
  EXPECT_EQ(choose(90, std::nullopt).windows.size(), 11U);
}

TEST_F(WindowsOfCorpus, TextsHoldEveryCharacterThatTheWindowHasAByteOf) {
  add("a",
      "c\xc3\xa9"
      "d");  // 4 tokens, the character é of two
  const Windows windows = choose(2, 2);
  ASSERT_EQ(windows.windows.size(), 2U);
  EXPECT_EQ(windows.windows[0].byte_end, 2);
  EXPECT_EQ(windows.windows[0].text, "c\xc3\xa9");
  EXPECT_EQ(windows.windows[0].whole_characters(), "c");
  EXPECT_EQ(windows.windows[0].id_start, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(windows.windows[1].byte_start, 2);
  EXPECT_EQ(windows.windows[1].text,
            "\xc3\xa9"
            "d");
  EXPECT_EQ(windows.windows[1].whole_characters(), "d");
  EXPECT_EQ(windows.windows[1].text_start, 1);
  EXPECT_EQ(windows.windows[1].id_start, (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(windows.windows[1].id_end, (std::vector<std::int32_t>{2, 3}));
}

TEST_F(WindowsOfCorpus, OtherTokenizersGetWholeCharacters) {
  add("a",
      "ab\xc3\xa9"
      "ab");
  const Windows windows = choose(3, 2);
  const Windows cut = cut_windows(windows, tokenizer_, test::byte_tokenizer(true));
  EXPECT_EQ(cut.windows[0].text, "ab");
  EXPECT_EQ(cut.windows[0].ids, (std::vector<std::int32_t>{256}));
  EXPECT_EQ(cut.windows[0].id_end, (std::vector<std::int32_t>{2}));
  EXPECT_EQ(cut.windows[1].text, "ab");
  EXPECT_EQ(cut.windows[1].byte_start, 4);
  EXPECT_EQ(cut.windows[1].text_start, 4);
  EXPECT_EQ(cut.windows[1].id_start, (std::vector<std::int32_t>{0}));
}

TEST_F(WindowsOfCorpus, AWindowWithoutAWholeCharacterIsNotLeftOutInSilence) {
  add("a", "ab\xf0\x9f\xa6\x8a");
  const Windows windows = choose(2, 3);
  const std::string message = test::error_of([&] { cut_windows(windows, tokenizer_, test::byte_tokenizer(true)); });
  EXPECT_TRUE(test::says(message, {"a.txt: bytes 2 to 3", "without a whole character", "--length"})) << message;
}

/// Classes of a window's tokens are those that they have in the document, wherever the window is cut: within
/// characters, and within the escapes of a tokenizer that spells them as JSON does. Behind the window's first word,
/// that is, of which the beginning and what stands before it are not known; a last word that is cut may be rare.
TEST_F(WindowsOfCorpus, ClassesAreThoseOfTheDocument) {
  const std::string text =
      "\xe2\x80\x9cThe fox\xe2\x80\x9d, said \xc3\xa9lan \\ \xf0\x9f\xa6\x8a \xf0\x9f\xa6\x8a.\n\n\"It ran\"\t"
      "to caf\xc3\xa9s; na\xc3\xafve \xe4\xb8\xad\xe6\x96\x87\xe3\x80\x82 \xc3\x89t\xc3\xa9 \\u0041 was it.\n";
  add("a", text);
  WordCounts counts;
  counts.add(text);
  for (const bool escaped : {false, true}) {
    const Tokenizer tokenizer = escaped ? test::escaping_byte_tokenizer() : test::byte_tokenizer();
    const Tokens tokens = tokenizer.encode(text);
    const std::vector<TokenClassSet> expected = token_classes(text, {tokens.byte_start, tokens.byte_end}, counts);
    const auto known = [&](std::size_t token) {
      return expected[token] & static_cast<TokenClassSet>(~set_of(TokenClass::rare_word));
    };
    const auto in_word = [&](std::size_t token) {
      return known(token) != set_of(TokenClass::newline) && known(token) != set_of(TokenClass::space) &&
             known(token) != set_of(TokenClass::punctuation);
    };
    std::size_t compared = 0;
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      const Windows windows = choose_windows(folder_.path(), tokenizer, {23, 1, seed}, Job{}).value();
      const Window& window = windows.windows.front();
      const std::vector<TokenClassSet> found = window_classes(window, counts);
      ASSERT_EQ(found.size(), window.ids.size()) << "byte " << window.byte_start;
      const auto first = static_cast<std::size_t>(window.token_start);
      std::size_t n = 0;
      for (; n < found.size() && !in_word(first + n); ++n) EXPECT_EQ(found[n], known(first + n)) << first + n;
      for (; n < found.size() && in_word(first + n); ++n) EXPECT_NE(found[n], set_of(TokenClass::space)) << first + n;
      for (; n < found.size(); ++n, ++compared) {
        EXPECT_EQ(found[n] & static_cast<TokenClassSet>(~set_of(TokenClass::rare_word)), known(first + n))
            << "token " << first + n << " in a window from byte " << window.byte_start << ", escaped " << escaped;
      }
    }
    EXPECT_GT(compared, 1000U);
  }
}

TEST_F(WindowsOfCorpus, WithoutATextThereAreNoClasses) { EXPECT_TRUE(window_classes(Window{}, {}).empty()); }

TEST_F(WindowsOfCorpus, OtherTokenizersGetTheSameText) {
  add("a", "abcdabcdabcdabcd");
  const Windows windows = choose(5, 3);
  const Windows same = cut_windows(windows, tokenizer_, test::byte_tokenizer());
  EXPECT_EQ(same.windows[1].token_start, windows.windows[1].token_start);
  const Tokenizer other = test::byte_tokenizer(true);
  const Windows cut = cut_windows(windows, tokenizer_, other);
  for (std::size_t n = 0; n < 3; ++n) {
    EXPECT_EQ(cut.windows[n].token_start, -1);
    EXPECT_EQ(cut.windows[n].text, windows.windows[n].text);
    EXPECT_EQ(other.decode(cut.windows[n].ids), windows.windows[n].text);
    EXPECT_LT(cut.windows[n].ids.size(), 5U);
    EXPECT_EQ(cut.windows[n].byte_start, windows.windows[n].byte_start);
    EXPECT_EQ(cut.windows[n].byte_end, windows.windows[n].byte_end);
  }
}

TEST_F(WindowsOfCorpus, BosComesFirst) {
  EXPECT_EQ(input_ids({5, 6, 7}, 1), (std::vector<std::int32_t>{1, 5, 6}));
  EXPECT_TRUE(input_ids({}, 1).empty());
}

TEST_F(WindowsOfCorpus, StopsWhenAsked) {
  add("a", letters(100, 1));
  std::stop_source source;
  source.request_stop();
  EXPECT_FALSE(choose_windows(folder_.path(), tokenizer_, {10, 2, 0}, Job{source.get_token(), {}, nullptr}));
}

TEST_F(WindowsOfCorpus, AreOfDifferentDocuments) {
  add("a", letters(95, 1));
  add("b", letters(95, 1));
  add("c", letters(40, 2));
  add("d", letters(95, 1));
  add("e", letters(9, 3));
  add("f", letters(9, 3));  // has no window anyway
  const Windows windows = choose(10, 13);
  EXPECT_EQ(windows.repeated, 2);
  EXPECT_EQ(windows.room, 9 + 4);
  EXPECT_EQ(windows.corpus_documents, 6);
  EXPECT_EQ(windows.corpus_tokens, 3 * 95 + 40 + 2 * 9);
  ASSERT_EQ(windows.documents.size(), 2U);
  EXPECT_EQ(windows.documents[0].name, "a.txt");
  EXPECT_EQ(windows.documents[1].name, "c.txt");
}

TEST_F(WindowsOfCorpus, WhatCannotBeChosen) {
  using test::says;
  add("a", letters(100, 1));
  EXPECT_TRUE(says(error(101, {}), {"no document is 101 tokens long", "the longest has 100", "--length"}));
  EXPECT_TRUE(says(error(30, 4), {"room for 3 windows of 30 tokens", "not for 4", "--windows 3"}));
  EXPECT_TRUE(says(error(0, {}), {"--length 0"}));
  EXPECT_TRUE(says(error(5, 0), {"--windows 0"}));
}

}  // namespace
}  // namespace foxscope

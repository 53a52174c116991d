#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/eval/atlas/atlas_tables.h"

namespace foxscope {
namespace {

/// A window whose tokens are these pieces of a text.
Window window_of(const std::vector<std::string>& pieces) {
  Window window;
  for (const std::string& piece : pieces) {
    window.id_start.push_back(static_cast<std::int32_t>(window.text.size()));
    window.text += piece;
    window.id_end.push_back(static_cast<std::int32_t>(window.text.size()));
    window.ids.push_back(0);
  }
  window.byte_end = static_cast<std::int64_t>(window.text.size());
  return window;
}

/// Names of those of a token's classes that resets are held against, in their order.
std::string names_of(BoundaryClassSet classes) {
  std::string names;
  for (std::size_t n = 0; n < kResetClasses; ++n) {
    if ((classes >> n & 1U) != 0)
      names += std::string(names.empty() ? "" : " ") + to_string(static_cast<BoundaryClass>(n));
  }
  return names;
}

TEST(BoundaryClass, IsDecidedByWhatEndsOrBeginsWithAToken) {
  const std::vector<std::pair<std::string, std::string>> tokens = {
      {"The", "sentence_start capital word_start"},
      {" fo", "word_start"},
      {"x", ""},
      {".", "sentence_end punctuation"},
      {" Mr", "sentence_start capital word_start"},
      {".", "punctuation"},  // of a title
      {" Hill", "capital word_start"},
      {",", "punctuation"},
      {" 3", "number word_start"},
      {".", "punctuation"},
      {"5", "number word_start"},
      {"!", "sentence_end punctuation"},
      {"\n", "line_end"},
      {"\n", "paragraph_end line_end"},
      {"\"", "punctuation"},
      {"It", "sentence_start capital word_start"},
      {" ran", "word_start"},
      {"\xE2\x80\xA6", "sentence_end punctuation"},  // an ellipsis
      {"\n \n", "paragraph_end line_end"},
      {"\xC3\x89t\xC3\xA9", "sentence_start capital word_start"},
      {".", "punctuation"},  // nobody knows what comes behind it
  };
  std::vector<std::string> pieces;
  for (const auto& [piece, classes] : tokens) pieces.push_back(piece);
  const std::vector<BoundaryClassSet> found = boundary_classes(window_of(pieces));
  ASSERT_EQ(found.size(), tokens.size());
  for (std::size_t n = 0; n < tokens.size(); ++n) EXPECT_EQ(names_of(found[n]), tokens[n].second) << n << pieces[n];
  const std::vector<TokenClassSet> others = window_classes(window_of(pieces), {});
  for (std::size_t n = 0; n < tokens.size(); ++n) {
    for (const auto& [one, other] : {std::pair(BoundaryClass::newline, TokenClass::newline),
                                     {BoundaryClass::space, TokenClass::space},
                                     {BoundaryClass::word_first, TokenClass::word_first},
                                     {BoundaryClass::word_later, TokenClass::word_later}}) {
      EXPECT_EQ((found[n] & set_of(one)) != 0, (others[n] & set_of(other)) != 0) << n << to_string(one);
    }
  }
  EXPECT_TRUE(boundary_classes({}).empty());
}

TEST(BoundaryClass, TakesTokensThatBeginWithinACharacter) {
  const std::vector<BoundaryClassSet> found = boundary_classes(window_of({"\xE2\x80", "\xA6", " A", "\xC3", "\x89 b"}));
  ASSERT_EQ(found.size(), 5U);
  EXPECT_EQ(names_of(found[2]), "sentence_start capital word_start");
}

TEST(ExactSum, DoesNotDependOnTheOrderOfItsTerms) {
  std::mt19937_64 random(1);
  std::vector<double> terms;
  std::uniform_real_distribution<double> size(-60, 30);
  for (int n = 0; n < 1000; ++n) terms.push_back((n % 2 == 0 ? -1 : 1) * std::exp2(size(random)));
  std::array<std::int64_t, kExactLimbs> sum{};
  for (const double term : terms) add_exactly(term, sum);
  // Parts, in another order.
  std::ranges::shuffle(terms, random);
  std::array<std::int64_t, kExactLimbs> parts{};
  for (std::size_t part = 0; part < 3; ++part) {
    std::array<std::int64_t, kExactLimbs> one{};
    for (std::size_t n = part; n < terms.size(); n += 3) add_exactly(terms[n], one);
    add_whole(one, parts);
  }
  EXPECT_EQ(sum, parts);
  long double expected = 0;
  std::ranges::sort(terms, {}, [](double term) { return std::abs(term); });
  for (const double term : terms) expected += term;
  EXPECT_NEAR(exact_value(sum), static_cast<double>(expected), 1e-15 * std::exp2(30));
}

TEST(ExactSum, EqualSumsCarryToEqualNumbers) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> size(-60, 30);
  std::array<std::int64_t, kExactLimbs> whole{};
  std::array<std::int64_t, kExactLimbs> carried{};
  for (int n = 0; n < 1000; ++n) {
    const double term = (n % 2 == 0 ? -1 : 1) * std::exp2(size(random));
    add_exactly(term, whole);
    add_exactly(term, carried);
    carry(carried);
  }
  EXPECT_NE(whole, carried);
  EXPECT_EQ(exact_long_value(whole), exact_long_value(carried));
  for (std::size_t n = 1; n < kExactLimbs; ++n) {
    EXPECT_GE(carried[n], 0);
    EXPECT_LT(carried[n], std::int64_t{1} << 40);
  }
  carry(whole);
  EXPECT_EQ(whole, carried);
}

TEST(ExactSum, RefusesWhatLeavesItsRange) {
  std::array<std::int64_t, kExactLimbs> sum{};
  EXPECT_THROW(add_exactly(std::exp2(61), sum), Error);
  EXPECT_THROW(add_exactly(std::numeric_limits<double>::quiet_NaN(), sum), Error);
  std::array<std::int64_t, 1> whole{std::numeric_limits<std::int64_t>::max()};
  const std::array<std::int64_t, 1> one{1};
  EXPECT_THROW(add_whole(one, whole), Error);
}

TEST(AtlasSums, ComeBackFromWords) {
  AtlasShape shape{2, 2, 50, 3, 64};
  shape.numbers = 3;
  shape.profiles = 2;
  shape.bins = 4;
  shape.first_heads = 5;
  AtlasSums sums(shape);
  std::mt19937_64 random(2);
  for (std::size_t n = 0; n < kAtlasSums; ++n) {
    for (std::int64_t& value : sums.at(static_cast<AtlasSum>(n))) value = static_cast<std::int64_t>(random() >> 8U);
  }
  for (std::int64_t window = 0; window < 60; ++window) {
    for (std::size_t head = 0; head < 4; ++head) {
      AtlasPlace place{-static_cast<float>(random() % 10), window, 1 + window % 7, random(), {}};
      for (std::uint16_t& bits : place.log_gate) bits = static_cast<std::uint16_t>(random());
      for (std::size_t list = 0; list < kAtlasLists; ++list) {
        sums.add_place(static_cast<AtlasList>(list), head, place);
      }
    }
    sums.windows.push_back(window);
  }
  EXPECT_EQ(sums.places(AtlasList::resets, 0).size(), 3U);
  EXPECT_EQ(sums.places(AtlasList::samples, 0).size(), 6U);
  EXPECT_TRUE(std::ranges::is_sorted(sums.places(AtlasList::resets, 1), {}, &AtlasPlace::value));
  EXPECT_TRUE(std::ranges::is_sorted(sums.places(AtlasList::gain, 1), std::greater(), &AtlasPlace::value));
  DocumentSums& open = sums.document(4);
  open.windows = 5;
  open.sum.assign(open.sum.size(), 7);
  open.tokens[7] = {1, 2, 3, 4, 5};
  const std::size_t numbers = shape.entries() * shape.head_count();
  using Words = std::vector<std::int64_t>;
  sums.add_class(3, {Words(numbers, 1), Words(3 * numbers, 2), Words(3 * numbers, 3)});
  sums.add_documents(3, 6);
  const std::vector<std::int64_t> words = sums.packed();
  AtlasSums again(shape);
  again.add_packed(words);
  EXPECT_EQ(again.packed(), words);
  EXPECT_THROW(AtlasSums(shape).add_packed(std::span(words).first(words.size() - 1)), Error);
}

TEST(AtlasSums, MakeRoomForLongerWindows) {
  AtlasShape shape{1, 2, 10, 1, 64};
  shape.numbers = 1;
  shape.profiles = 2;
  shape.bins = 3;
  AtlasSums sums(shape);
  using Words = std::vector<std::int64_t>;
  sums.add_class(4, {Words(14, 5), Words(42, 7), Words(42, 8)});
  sums.widen(4, 1);
  EXPECT_EQ(sums.shape().bins, 4);
  const DocumentClass& one = sums.classes().at(4);
  // Of the new bin the first profile is 0 in as many documents as have the first bin, and the other one is unknown.
  EXPECT_EQ(Words(one.documents.begin() + 14, one.documents.end()), (Words{5, 5, 0, 0}));
  EXPECT_EQ(Words(one.sum.begin() + 42, one.sum.end()), Words(12, 0));
  EXPECT_EQ(sums.at(AtlasSum::row_variance).size(), 54U);
}

TEST(SimilarityOrder, PutsHeadsThatAreAlikeTogether) {
  const float none = std::numeric_limits<float>::quiet_NaN();
  // 0 and 3 are alike, 2 and 4 too; 1 is not known.
  const std::vector<float> similarity = {1,    none, 0.1F, 0.9F, 0.2F,  //
                                         none, none, none, none, none,  //
                                         0.1F, none, 1,    0,    0.8F,  //
                                         0.9F, none, 0,    1,    0.1F,  //
                                         0.2F, none, 0.8F, 0.1F, 1};
  EXPECT_EQ(similarity_order(similarity), (std::vector<std::int64_t>{0, 3, 2, 4, 1}));
  EXPECT_EQ(similarity_order({none}), std::vector<std::int64_t>{0});
  EXPECT_TRUE(similarity_order({}).empty());
}

}  // namespace
}  // namespace foxscope

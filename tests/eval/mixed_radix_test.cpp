#include "backend/eval/atlas/mixed_radix.h"

#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace foxscope {
namespace {

using Numbers = std::vector<std::pair<std::uint64_t, std::uint64_t>>;  // each with its bound

/// The words, after they were read back.
std::vector<std::int32_t> words_of(const Numbers& numbers) {
  MixedRadixWriter writer;
  for (const auto& [number, bound] : numbers) writer.put(number, bound);
  std::vector<std::int32_t> words = writer.finish();
  MixedRadixReader reader(words);
  for (std::size_t n = 0; n < numbers.size(); ++n) {
    EXPECT_EQ(reader.take(numbers[n].second), numbers[n].first) << "number " << n << " of " << numbers.size();
  }
  return words;
}

TEST(MixedRadix, TakesAsManyBitsAsTheBoundsNeed) {
  std::mt19937_64 random(1);
  for (const unsigned most_bits : {1U, 3U, 11U, 24U, 25U, 44U, 62U}) {
    Numbers numbers;
    double bits = 0;
    for (int n = 0; n < 20'000; ++n) {
      const std::uint64_t bound = 1 + (random() & ((std::uint64_t{1} << (1 + random() % most_bits)) - 1));
      numbers.emplace_back(random() % bound, bound);
      bits += std::log2(static_cast<double>(bound));
    }
    const auto words = static_cast<double>(words_of(numbers).size());
    EXPECT_GE(words, std::floor(bits / 32) - 1) << most_bits;
    EXPECT_LE(words, bits / 32 * 1.001 + 2) << most_bits;
  }
}

// Sums that come within a word of the next one carry into words before.
TEST(MixedRadix, CarriesOverManyWords) {
  for (const std::uint64_t bound : {2U, 3U, 255U, 65'537U, 16'777'216U}) {
    Numbers numbers(1000, {bound - 1, bound});
    words_of(numbers);
    for (std::size_t other = 0; other < 1000; other += 37) {
      numbers[other].first = 0;
      words_of(numbers);
    }
  }
}

TEST(MixedRadix, NumbersThatCanOnlyBeZeroTakeNothing) {
  EXPECT_TRUE(words_of({}).empty());
  EXPECT_TRUE(words_of(Numbers(1000, {0, 1})).empty());
  EXPECT_TRUE(words_of(Numbers(1000, {0, 7})).empty());
}

TEST(MixedRadix, DamagedWordsGiveNumbersBelowTheirBounds) {
  std::mt19937_64 random(2);
  std::vector<std::int32_t> words(100);
  for (std::int32_t& word : words) word = static_cast<std::int32_t>(random());
  words.insert(words.begin(), {-1, -1});
  MixedRadixReader reader(words);
  for (int n = 0; n < 2000; ++n) {
    const std::uint64_t bound = 1 + random() % (std::uint64_t{1} << (1 + n % 60));
    ASSERT_LT(reader.take(bound), bound);
  }
}

}  // namespace
}  // namespace foxscope

#include "kernels/cpu/rounded_logits.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "tests/kernels/instruction_set.h"

namespace foxscope::kernels::cpu {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

/// One tile with all that belongs to it.
struct Problem {
  Problem(std::int64_t d, std::int64_t count, const std::function<float()>& number) : head_dim(d), keys_count(count) {
    queries.resize(static_cast<std::size_t>(kMapTile * d));
    keys.resize(static_cast<std::size_t>(count * d));
    for (float& value : queries) value = number();
    for (float& value : keys) value = number();
    row.resize(kMapTile);
    gate.resize(static_cast<std::size_t>(count));
    finish();
  }
  void finish() {
    packed.resize(queries.size());
    pack_queries(queries.data(), kMapTile, head_dim, 1.4427 / std::sqrt(static_cast<double>(head_dim)), packed.data());
    rounded_queries.resize(queries.size());
    round_queries(packed.data(), head_dim, rounded_queries.data(), strip);
    rounded_keys.resize(keys.size());
    offset.resize(static_cast<std::size_t>(keys_count));
    block = round_keys(keys.data(), keys_count, head_dim, rounded_keys.data(), offset.data());
  }
  /// Each key forgets `rate` nats; the rows follow.
  void forget(double rate) {
    for (std::size_t n = 0; n < gate.size(); ++n) gate[n] = -100.3 - rate * static_cast<double>(n);
    for (std::size_t n = 0; n < row.size(); ++n) row[n] = gate.back() - rate * static_cast<double>(n + 40) - 3.2;
    terms.row = row.data();
    terms.key = gate.data();
    terms.reference = gate.front();
    terms.spread = gate.front() - gate.back();
  }
  void remember() {
    for (std::size_t n = 0; n < row.size(); ++n) row[n] = -4 - 0.01 * static_cast<double>(n);
    terms = {row.data(), nullptr, 0, 0};
  }
  [[nodiscard]] RoundedTile tile() const {
    return {packed.data(), keys.data(),         rounded_queries.data(),
            &strip,        rounded_keys.data(), offset.data(),
            block,         keys_count,          head_dim,
            terms};
  }
  /// Entries as every other picture has them.
  [[nodiscard]] std::vector<float> entries() const {
    std::vector<float> all(static_cast<std::size_t>(kMapTile * kMapTile));
    logit_tile(packed.data(), keys.data(), keys_count, head_dim, all.data());
    add_log_terms(terms, keys_count, all.data());
    return all;
  }

  std::int64_t head_dim;
  std::int64_t keys_count;
  std::vector<float> queries, keys, packed;
  std::vector<double> row, gate;
  std::vector<std::uint8_t> rounded_queries;
  std::vector<std::int8_t> rounded_keys;
  std::vector<std::int32_t> offset;
  RoundedQueries strip;
  RoundedKeys block;
  LogTerms terms;
};

TilePixels parts(std::initializer_list<int> key_ends, std::initializer_list<int> lane_ends) {
  TilePixels pixels;
  for (const int end : key_ends) pixels.key_end[pixels.pieces++] = static_cast<std::uint8_t>(end);
  for (const int end : lane_ends) pixels.lane_end[pixels.segments++] = static_cast<std::uint8_t>(end);
  return pixels;
}

/// The same floats as the tile's own, bit for bit, where they are above `current`.
void expect_largest(const Problem& problem, const TilePixels& pixels, float current) {
  const std::vector<float> entries = problem.entries();
  std::vector<float> known(static_cast<std::size_t>(kMapTile * kMapTile), current);
  std::vector<float> result(known.size());
  ASSERT_LE(largest_of_parts(problem.tile(), pixels, known.data(), 4096, result.data()), 4096);
  int first_lane = 0;
  for (int segment = 0; segment < pixels.segments; first_lane = pixels.lane_end[segment++]) {
    int first_key = 0;
    for (int piece = 0; piece < pixels.pieces; first_key = pixels.key_end[piece++]) {
      float largest = kNone;
      for (int key = first_key; key < pixels.key_end[piece]; ++key) {
        for (int lane = first_lane; lane < pixels.lane_end[segment]; ++lane) {
          largest = std::max(largest, entries[index_of(key * kMapTile + lane)]);
        }
      }
      EXPECT_EQ(std::max(result[index_of(segment * kMapTile + piece)], current), std::max(largest, current))
          << "d " << problem.head_dim << ", segment " << segment << ", piece " << piece << ", above " << current;
    }
  }
}

void expect_all(Problem& problem) {
  const auto count = static_cast<int>(problem.keys_count);
  const TilePixels pixels[] = {parts({count}, {64}), parts({count / 3, count}, {23, 64}),
                               parts({1, count / 2, count}, {5, 16, 33, 48, 63})};
  for (const double rate : {-1.0, 0.0, 0.003, 0.4, 30.0}) {
    if (rate < 0) {
      problem.remember();
    } else {
      problem.forget(rate);
    }
    for (const TilePixels& division : pixels) {
      for (const float current : {kNone, -8.0F, -3.0F}) expect_largest(problem, division, current);
    }
  }
}

TEST(RoundedLogits, FindTheTilesOwnLargestEntries) {
  if (!rounds_logits(64)) GTEST_SKIP() << "no AVX-4096 with VNNI";
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  for (const std::int64_t head_dim : {16, 48, 64, 128, 256}) {
    for (const std::int64_t count : {64, 17}) {
      Problem problem(head_dim, count, [&] { return normal(random); });
      expect_all(problem);
    }
  }
}

TEST(RoundedLogits, HoldWhereRoundingIsAtItsWorst) {
  if (!rounds_logits(64)) GTEST_SKIP() << "no AVX-4096 with VNNI";
  std::mt19937 random(5);
  // Half a step between two numbers, of one sign or the other, beside the largest that sets the step.
  std::uniform_int_distribution<int> step(-3, 2);
  Problem halves(64, 64, [&] { return static_cast<float>(step(random)) + 0.5F; });
  for (std::size_t n = 0; n < halves.keys.size(); n += 64) halves.keys[n] = 127;
  for (std::size_t n = 1; n < halves.queries.size(); n += 64) halves.queries[n] = 127;
  halves.finish();
  expect_all(halves);
  // A few channels that dwarf the others, as trained models have them; and numbers of all sizes.
  std::normal_distribution<float> normal;
  Problem heavy(64, 64, [&] { return std::pow(normal(random), 5.0F); });
  expect_all(heavy);
  Problem tiny(64, 64, [&] { return 1e-39F * normal(random); });
  expect_all(tiny);
  Problem nothing(64, 64, [] { return 0.0F; });
  expect_all(nothing);
}

/// Rounding takes all of the largest entry and adds to another: half of the rows are just below half a step everywhere,
/// the others just above it in some channels. Channel 0 sets the step, and the other side has 0 there.
TEST(RoundedLogits, HoldWhereAllRoundingErrorsAddUp) {
  if (!rounds_logits(64)) GTEST_SKIP() << "no AVX-4096 with VNNI";
  for (const bool of_keys : {true, false}) {
    Problem problem(64, 64, [] { return 1.0F; });
    std::vector<float>& rounded = of_keys ? problem.keys : problem.queries;
    std::vector<float>& exact = of_keys ? problem.queries : problem.keys;
    for (std::size_t row = 0; row < 64; ++row) {
      for (std::size_t k = 0; k < 64; ++k) {
        const float low = 0.45F + 0.0005F * static_cast<float>(row);
        rounded[row * 64 + k] = row % 2 == 0 ? low : (k < 40 ? 0.52F : 0.0F);
      }
      rounded[row * 64] = 127;
      exact[row * 64] = 0;
    }
    problem.finish();
    expect_all(problem);
  }
}

TEST(RoundedLogits, GiveUpWhereManyEntriesComeIntoQuestion) {
  if (!rounds_logits(64)) GTEST_SKIP() << "no AVX-4096 with VNNI";
  Problem alike(64, 64, [] { return 1.0F; });
  alike.remember();
  std::fill(alike.row.begin(), alike.row.end(), -4.0);
  const std::vector<float> current(static_cast<std::size_t>(kMapTile * kMapTile), kNone);
  std::vector<float> result(current.size());
  EXPECT_GT(largest_of_parts(alike.tile(), parts({64}, {64}), current.data(), 100, result.data()), 100);
}

TEST(RoundedLogits, KnowNothingOfWhatIsNotFinite) {
  if (!rounds_logits(64)) GTEST_SKIP() << "no AVX-4096 with VNNI";
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  const std::vector<float> current(static_cast<std::size_t>(kMapTile * kMapTile), kNone);
  std::vector<float> result(current.size());
  for (const float odd : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    for (const int where : {0, 1, 2, 3}) {
      Problem problem(64, 64, [&] { return normal(random); });
      problem.forget(0.01);
      if (where == 0) problem.keys[700] = odd;
      if (where == 1) problem.queries[4095] = odd;
      if (where == 2) problem.row[13] = static_cast<double>(odd);
      if (where == 3) problem.gate[13] = static_cast<double>(odd);
      problem.finish();
      EXPECT_GT(largest_of_parts(problem.tile(), parts({64}, {64}), current.data(), 4096, result.data()), 4096)
          << where;
    }
  }
}

TEST(RoundedLogits, AreThereForSomeProcessorsAndDimensions) {
  EXPECT_FALSE(rounds_logits(24));
  EXPECT_FALSE(rounds_logits(512));
  for (const std::int64_t target : testing::InstructionSet::available()) {
    const testing::InstructionSet chosen(target);
    EXPECT_TRUE(target == HWY_AVX3 || !rounds_logits(64)) << target;
  }
}

}  // namespace
}  // namespace foxscope::kernels::cpu

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "kernels/cpu/forgetting_attention.h"
#include "tests/kernels/attention_problem.h"
#include "tests/largest_error.h"

namespace foxscope::kernels::testing {
namespace {

// What float32 arithmetic alone may change.
constexpr double kRounding = 3e-6;

struct Comparison {
  cpu::AttentionBlocks blocks;
  double output = 0;              // largest difference
  double missing_normalizer = 0;  // largest fall of a log-normaliser
  double without_gate = 0;        // largest difference of a log-normaliser without gate
  double largest_value = 0;
};

Comparison compare_with_unpruned(const Problem& exact, double tolerance, bool ungated) {
  Problem pruned = exact;
  pruned.options.pruning_tolerance = tolerance;
  for (std::vector<float>* written : {&pruned.output, &pruned.log_normalizer, &pruned.log_normalizer_without_gate}) {
    std::ranges::fill(*written, std::numeric_limits<float>::quiet_NaN());
  }
  cpu::ForgettingAttention arguments = pruned.arguments();
  if (!ungated) arguments.log_normalizer_without_gate = nullptr;
  Comparison result;
  result.blocks = run(arguments);
  for (std::size_t i = 0; i < exact.output.size(); ++i) {
    result.output = test::largest_error(result.output, static_cast<double>(exact.output[i]) - pruned.output[i]);
    result.largest_value = std::max(result.largest_value, std::abs(static_cast<double>(exact.value[i])));
  }
  for (std::size_t i = 0; i < exact.log_normalizer.size(); ++i) {
    const double fall = static_cast<double>(exact.log_normalizer[i]) - pruned.log_normalizer[i];
    result.missing_normalizer = test::largest_error(result.missing_normalizer, fall < 0 ? 0 : fall);
    if (ungated) {
      result.without_gate =
          test::largest_error(result.without_gate, static_cast<double>(exact.log_normalizer_without_gate[i]) -
                                                       pruned.log_normalizer_without_gate[i]);
    }
  }
  return result;
}

/// A share s of a row's weight that is left out moves its output by at most 2 s max|v| and lowers its log-normaliser
/// by -log(1 - s).
void expect_within_tolerance(const Comparison& found, double tolerance, double rounding = kRounding) {
  EXPECT_LE(found.output, 2 * tolerance * found.largest_value + rounding) << tolerance;
  EXPECT_LE(found.missing_normalizer, -std::log1p(-tolerance) + rounding) << tolerance;
  EXPECT_LE(found.without_gate, rounding) << tolerance;
}

Problem unpruned(const ProblemOptions& options, std::uint64_t seed) {
  Problem problem = make_problem(options, seed);
  EXPECT_EQ(run(problem.arguments()).skipped, 0);
  return problem;
}

TEST(AttentionPruning, LeavesOutNoMoreThanTheTolerance) {
  for (const Gate gate : {Gate::mixed, Gate::near_zero, Gate::cuts, Gate::far_offset}) {
    const Problem exact = unpruned({.heads = 3, .key_heads = 3, .length = 1500, .head_dim = 32, .gate = gate}, 1);
    std::int64_t skipped_before = 0;
    for (const double tolerance : {0x1p-24, 1e-6, 1e-4, 1e-2, 0.3}) {
      for (const bool ungated : {false, true}) {
        const Comparison found = compare_with_unpruned(exact, tolerance, ungated);
        expect_within_tolerance(found, tolerance);
        EXPECT_GE(found.blocks.skipped, skipped_before);
        EXPECT_GT(found.blocks.skipped, 0);
        EXPECT_LT(found.blocks.skipped, found.blocks.total);
        skipped_before = found.blocks.skipped;
      }
    }
  }
}

TEST(AttentionPruning, KeepsAStrongKeyThatTheGateHasNotSilenced) {
  // Key 3 outweighs a gate of e^-60: its logit is near 100 for every later row, and rounded accordingly.
  Problem problem = make_problem({.length = 600, .head_dim = 16, .gate = Gate::none}, 2);
  for (std::int64_t row = 0; row < 600; ++row) {
    problem.cumulative_log_gate.push_back(-0.1 * static_cast<double>(row));
    for (std::int64_t x = 0; x < 16; ++x) {
      problem.query[index_of(row * 16 + x)] += 1.0F;
    }
  }
  for (std::size_t x = 0; x < 16; ++x) problem.key[3 * 16 + x] = 25.0F;
  run(problem.arguments());
  for (const double tolerance : {0x1p-24, 1e-3}) {
    expect_within_tolerance(compare_with_unpruned(problem, tolerance, false), tolerance, 1e-4);
  }
  EXPECT_LE(compare_with_reference(problem, 2).output, 1e-4);
}

TEST(AttentionPruning, HoldsInsideAWindow) {
  const Problem exact = unpruned({.length = 1500, .head_dim = 32, .gate = Gate::near_zero, .window_size = 700}, 3);
  const Comparison found = compare_with_unpruned(exact, 0x1p-24, false);
  expect_within_tolerance(found, 0x1p-24);
  EXPECT_GT(found.blocks.skipped, 0);
}

TEST(AttentionPruning, SkipsNothingWithoutGate) {
  Problem problem = make_problem({.length = 1500, .gate = Gate::none, .pruning_tolerance = 0.5}, 4);
  EXPECT_EQ(run(problem.arguments()).skipped, 0);
}

TEST(AttentionPruning, CountsTheSameBlocksForEveryTolerance) {
  Problem problem = make_problem({.heads = 2, .key_heads = 1, .length = 1000, .gate = Gate::near_zero}, 5);
  const cpu::AttentionBlocks all = run(problem.arguments());
  problem.options.pruning_tolerance = 0x1p-24;
  const cpu::AttentionBlocks pruned = run(problem.arguments());
  EXPECT_EQ(all.total, pruned.total);
  EXPECT_GT(pruned.skipped, pruned.total / 2);
}

}  // namespace
}  // namespace foxscope::kernels::testing

#include "kernels/cpu/forgetting_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "tests/kernels/attention_problem.h"

namespace foxscope::kernels::testing {
namespace {

// Of float32 arithmetic with logits and values near 1, whatever the gate does.
constexpr double kLargestDifference = 3e-6;
// Logits, caps or sinks are 50 to 90 here, where an ulp of float32 is 3.8e-6 or 7.6e-6.
constexpr double kLargestDifferenceOfLargeLogits = 1e-5;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

constexpr Gate kGates[] = {Gate::none, Gate::near_one, Gate::mixed,     Gate::near_zero,
                           Gate::zero, Gate::cuts,     Gate::far_offset};

void expect_reference(const Problem& problem, double largest_difference = kLargestDifference) {
  const Differences found = compare_with_reference(problem, 1);
  EXPECT_LE(found.output, largest_difference) << problem.describe();
  EXPECT_LE(found.log_normalizer, largest_difference) << problem.describe();
  EXPECT_LE(found.log_normalizer_without_gate, largest_difference) << problem.describe();
}

Problem computed(const ProblemOptions& options, std::uint64_t seed) {
  Problem problem = make_problem(options, seed);
  run(problem.arguments());
  return problem;
}

TEST(ForgettingAttention, EqualsFloat64AtEveryLengthAndGate) {
  std::uint64_t seed = 1;
  for (const std::int64_t length : {1, 2, 17, 63, 64, 65, 81, 96, 97, 128, 987, 2048}) {
    for (const Gate gate : kGates) {
      expect_reference(computed({.heads = 3, .key_heads = 3, .length = length, .head_dim = 32, .gate = gate}, seed++));
    }
  }
}

TEST(ForgettingAttention, EqualsFloat64AtEveryHeadDimension) {
  std::uint64_t seed = 100;
  for (const std::int64_t head_dim : {1, 2, 15, 16, 20, 32, 48, 64, 80, 96, 128, 200}) {
    for (const Gate gate : {Gate::none, Gate::mixed, Gate::near_zero}) {
      expect_reference(
          computed({.heads = 2, .key_heads = 2, .length = 203, .head_dim = head_dim, .gate = gate}, seed++));
    }
  }
}

TEST(ForgettingAttention, EqualsFloat64InEveryWindow) {
  std::uint64_t seed = 200;
  for (const std::int64_t window : {1, 2, 7, 64, 65, 100, 299, 300, 1000}) {
    for (const Gate gate : {Gate::none, Gate::mixed, Gate::near_zero, Gate::cuts}) {
      expect_reference(
          computed({.heads = 2, .key_heads = 2, .length = 300, .gate = gate, .window_size = window}, seed++));
    }
  }
}

TEST(ForgettingAttention, EqualsFloat64WithCappedLogits) {
  std::uint64_t seed = 250;
  for (const float cap : {0.5F, 4.0F, 50.0F}) {
    for (const Gate gate : kGates) {
      for (const std::int64_t window : {0, 70}) {
        ProblemOptions options{.heads = 2, .length = 300, .gate = gate, .window_size = window};
        options.logit_scale = 8;  // beyond the cap, where a reference of the logits as they are would be far too high
        options.logit_cap = cap;
        expect_reference(computed(options, seed++), cap < 10 ? kLargestDifference : kLargestDifferenceOfLargeLogits);
      }
    }
  }
}

TEST(ForgettingAttention, EqualsFloat64WithSinks) {
  std::uint64_t seed = 270;
  for (const float sink : {-30.0F, 0.5F, 20.0F, 90.0F}) {
    for (const Gate gate : kGates) {
      for (const std::int64_t window : {0, 70}) {
        ProblemOptions options{.batch = 2, .heads = 2, .key_heads = 1, .length = 300, .gate = gate};
        options.window_size = window;
        options.sink = sink;
        expect_reference(computed(options, seed++), sink < 10 ? kLargestDifference : kLargestDifferenceOfLargeLogits);
      }
    }
  }
}

TEST(ForgettingAttention, EqualsFloat64WithGroupedHeadsBatchesAndStrides) {
  std::uint64_t seed = 300;
  for (const Layout layout : {Layout::heads_first, Layout::positions_first, Layout::padded}) {
    for (const std::int64_t key_heads : {1, 2, 3, 6}) {
      expect_reference(computed(
          {.batch = 3, .heads = 6, .key_heads = key_heads, .length = 101, .head_dim = 24, .layout = layout}, seed++));
    }
  }
}

TEST(ForgettingAttention, EqualsFloat64WithLargeLogits) {
  // Logits of some tens: rounding of the products grows with them.
  for (const Gate gate : kGates) {
    expect_reference(computed({.length = 700, .head_dim = 64, .gate = gate, .logit_scale = 10}, 400), 1e-4);
  }
}

TEST(ForgettingAttention, ComputesManyHeadsInSeveralPasses) {
  // More keys than are packed at a time.
  expect_reference(computed({.batch = 2, .heads = 12, .key_heads = 12, .length = 3000, .head_dim = 64}, 500));
}

TEST(ForgettingAttention, ResultsDoNotDependOnThreads) {
  Problem one = make_problem({.heads = 4, .key_heads = 2, .length = 500}, 600);
  Problem three = one;
  run(one.arguments(), 1);
  run(three.arguments(), 3);
  EXPECT_EQ(one.output, three.output);
  EXPECT_EQ(one.log_normalizer, three.log_normalizer);
}

TEST(ForgettingAttention, OutputsThatAreNotAskedForChangeNothing) {
  Problem all = make_problem({.length = 300, .gate = Gate::near_one}, 700);
  Problem output_only = all;
  run(all.arguments());
  cpu::ForgettingAttention arguments = output_only.arguments();
  arguments.log_normalizer = nullptr;
  arguments.log_normalizer_without_gate = nullptr;
  run(arguments);
  for (std::size_t i = 0; i < all.output.size(); ++i) EXPECT_NEAR(all.output[i], output_only.output[i], 2e-6);
}

TEST(ForgettingAttention, WritesNothingBetweenRows) {
  const Problem problem =
      computed({.batch = 2, .heads = 2, .key_heads = 2, .length = 50, .layout = Layout::padded}, 800);
  std::size_t written = 0;
  for (const float value : problem.output) written += std::isnan(value) ? 0 : 1;
  EXPECT_EQ(written, 2U * 2U * 50U * 16U);
}

TEST(ForgettingAttention, ZeroGatesLeaveEachRowItsOwnValue) {
  const Problem problem = computed({.length = 400, .gate = Gate::zero}, 900);
  for (std::size_t i = 0; i < problem.output.size(); ++i) {
    EXPECT_NEAR(problem.output[i], problem.value[i], 1e-6F * std::abs(problem.value[i]));
  }
}

struct NanCase {
  const char* name;
  std::vector<float> Problem::*tensor;
  bool later_rows_too;  // a query is read by its own row only
};

class NotANumber : public ::testing::TestWithParam<std::tuple<NanCase, Gate, double>> {};

TEST_P(NotANumber, ReachesTheRowsThatReadItAndNoOther) {
  const auto& [nan_case, gate, tolerance] = GetParam();
  constexpr std::int64_t kLength = 300;
  for (const std::int64_t position : {0, 5, 130, 299}) {
    Problem problem =
        make_problem({.length = kLength, .head_dim = 16, .gate = gate, .pruning_tolerance = tolerance}, 1000);
    (problem.*nan_case.tensor)[index_of(problem.key_at(0, 0, position) + 3)] = kNan;
    run(problem.arguments());
    for (std::int64_t row = 0; row < kLength; ++row) {
      const bool reads = row == position || (nan_case.later_rows_too && row > position);
      const float found = problem.output[index_of(problem.query_at(0, 0, row) + 3)];
      EXPECT_EQ(std::isnan(found), reads) << nan_case.name << " position " << position << " row " << row;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(ForgettingAttention, NotANumber,
                         ::testing::Combine(::testing::Values(NanCase{"query", &Problem::query, false},
                                                              NanCase{"key", &Problem::key, true},
                                                              NanCase{"value", &Problem::value, true}),
                                            ::testing::Values(Gate::none, Gate::mixed, Gate::near_zero),
                                            ::testing::Values(0.0, 0x1p-24)));

TEST(ForgettingAttention, NanInAGateReachesItsRowAndAllLater) {
  for (const std::size_t position : {0U, 63U, 64U, 200U}) {
    Problem problem = make_problem({.length = 300, .gate = Gate::near_one, .pruning_tolerance = 0x1p-24}, 1100);
    problem.cumulative_log_gate[position] = std::numeric_limits<double>::quiet_NaN();
    run(problem.arguments());
    for (std::size_t row = 0; row < 300; ++row) {
      EXPECT_EQ(std::isnan(problem.output[row * 16]), row >= position) << "position " << position << " row " << row;
    }
  }
}

TEST(ForgettingAttention, StopsBetweenTasks) {
  Problem problem = make_problem({.heads = 2, .key_heads = 2, .length = 500}, 1200);
  StoppingExecutor counting(std::numeric_limits<std::int64_t>::max());
  ASSERT_EQ(cpu::forgetting_attention(problem.arguments(), counting, counting.token(), nullptr), Status::ok);
  for (std::int64_t after = 0; after < counting.begun(); ++after) {
    StoppingExecutor executor(after);
    EXPECT_EQ(cpu::forgetting_attention(problem.arguments(), executor, executor.token(), nullptr), Status::cancelled);
  }
}

TEST(ForgettingAttention, RefusesInvalidArguments) {
  Problem problem = make_problem({.heads = 4, .key_heads = 2, .length = 10}, 1300);
  const cpu::ForgettingAttention good = problem.arguments();
  ThreadPool pool(1);
  const auto status_after = [&](auto change) {
    cpu::ForgettingAttention changed = good;
    change(changed);
    return cpu::forgetting_attention(changed, pool, {}, nullptr);
  };
  using Arguments = cpu::ForgettingAttention;
  EXPECT_EQ(status_after([](Arguments&) {}), Status::ok);
  for (std::int64_t Arguments::*size :
       {&Arguments::batch, &Arguments::heads, &Arguments::key_heads, &Arguments::length, &Arguments::head_dim}) {
    EXPECT_EQ(status_after([size](Arguments& a) { a.*size = 0; }), Status::invalid_argument);
    EXPECT_EQ(status_after([size](Arguments& a) { a.*size = -1; }), Status::invalid_argument);
  }
  EXPECT_EQ(status_after([](Arguments& a) { a.key_heads = 3; }), Status::invalid_argument);
  EXPECT_EQ(status_after([](Arguments& a) { a.key_heads = 8; }), Status::invalid_argument);
  EXPECT_EQ(status_after([](Arguments& a) { a.window_size = -1; }), Status::invalid_argument);
  for (const float* Arguments::*tensor : {&Arguments::query, &Arguments::key, &Arguments::value}) {
    EXPECT_EQ(status_after([tensor](Arguments& a) { a.*tensor = nullptr; }), Status::invalid_argument);
  }
  EXPECT_EQ(status_after([](Arguments& a) { a.output = nullptr; }), Status::invalid_argument);
  EXPECT_EQ(status_after([](Arguments& a) { a.output_strides.row = a.head_dim - 1; }), Status::invalid_argument);
  EXPECT_EQ(status_after([](Arguments& a) { a.scale = kNan; }), Status::invalid_argument);
  for (const float cap : {-1.0F, kNan, std::numeric_limits<float>::infinity()}) {
    EXPECT_EQ(status_after([cap](Arguments& a) { a.logit_cap = cap; }), Status::invalid_argument);
  }
  for (const double tolerance : {-1e-9, 1.0, 2.0, std::numeric_limits<double>::quiet_NaN()}) {
    EXPECT_EQ(status_after([tolerance](Arguments& a) { a.pruning_tolerance = tolerance; }), Status::invalid_argument);
  }
}

}  // namespace
}  // namespace foxscope::kernels::testing

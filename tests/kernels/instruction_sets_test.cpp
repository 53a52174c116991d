#include <gtest/gtest.h>

#include "tests/kernels/attention_problem.h"
#include "tests/kernels/instruction_set.h"

namespace foxscope::kernels::testing {
namespace {

TEST(ForgettingAttention, EveryInstructionSetEqualsFloat64) {
  ASSERT_GE(InstructionSet::available().size(), 2U);
  for (const std::int64_t target : InstructionSet::available()) {
    const InstructionSet chosen(target);
    for (const Gate gate : {Gate::none, Gate::mixed, Gate::near_zero}) {
      for (const std::int64_t head_dim : {20, 64}) {
        Problem problem = make_problem({.heads = 2,
                                        .key_heads = 1,
                                        .length = 331,
                                        .head_dim = head_dim,
                                        .gate = gate,
                                        .window_size = 250,
                                        .pruning_tolerance = 0x1p-24},
                                       7);
        run(problem.arguments());
        const Differences found = compare_with_reference(problem, 8);
        EXPECT_LE(found.output, 3e-6) << hwy::TargetName(target) << ' ' << problem.describe();
        EXPECT_LE(found.log_normalizer, 3e-6) << hwy::TargetName(target) << ' ' << problem.describe();
        EXPECT_LE(found.log_normalizer_without_gate, 3e-6) << hwy::TargetName(target) << ' ' << problem.describe();
      }
    }
  }
}

}  // namespace
}  // namespace foxscope::kernels::testing

// Forgetting attention on the GPU against float64. Skipped by name where there is none.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <new>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kernels/cuda_attention_problem.h"
#include "tests/kernels/cuda_test.h"

namespace foxscope::kernels::testing {
namespace {

using cuda::AttentionKernel;

// A row that sees one key has no error at all when it is composed.
constexpr double kBfloat16Rounding = 1.0 / 512;
constexpr double kFloatRounding = 1.0 / (1 << 23);

/// Nats by which a log-normaliser may be off: what float32 leaves of the largest logits, and of a gate that falls by
/// 128 nats within a key block; gates that fall further lose no more.
double normalizer_tolerance(const CudaProblemOptions& o) {
  const double logit = static_cast<double>(o.row_norm * o.row_norm) * std::sqrt(static_cast<double>(o.head_dim));
  return 4 * (logit + 128) * kFloatRounding + 2 * o.pruning_tolerance;
}

class CudaAttention : public CudaTest {
 protected:
  static void check(const CudaProblemOptions& options, AttentionKernel kernel, std::uint64_t seed) {
    SCOPED_TRACE(describe(options));
    CudaProblem problem(options, seed);
    ASSERT_EQ(problem.run(kernel), Status::ok);
    const CudaProblem::Errors errors = problem.compare();
    EXPECT_EQ(errors.not_finite, 0);
    EXPECT_LE(errors.output, std::max(2 * errors.composed, kBfloat16Rounding));
    EXPECT_LE(errors.log_normalizer, normalizer_tolerance(options));
  }

  /// The kernels that compute a head dimension on this device.
  static std::vector<AttentionKernel> kernels(std::int64_t head_dim) {
    CudaProblem problem({.head_dim = head_dim}, 1);
    std::vector<AttentionKernel> all = {AttentionKernel::portable};
    if (head_dim == 128) all.push_back(AttentionKernel::portable_small);  // differs from portable there
    if (problem.run(AttentionKernel::hopper) == Status::ok) all.push_back(AttentionKernel::hopper);
    return all;
  }
};

constexpr CudaGate kCudaGates[] = {CudaGate::none,      CudaGate::one,        CudaGate::mixed,
                                   CudaGate::near_zero, CudaGate::zero,       CudaGate::cuts,
                                   CudaGate::late_cuts, CudaGate::far_offset, CudaGate::steady};

TEST_F(CudaAttention, AgreesWithFloat64AtEveryLengthAndGate) {
  std::uint64_t seed = 100;
  for (const std::int64_t head_dim : {16, 32, 64, 96, 128, 192, 256}) {
    for (const AttentionKernel kernel : kernels(head_dim)) {
      for (const std::int64_t length : {1, 17, 81, 987}) {
        for (const CudaGate gate : kCudaGates) {
          check({.length = length, .head_dim = head_dim, .gate = gate}, kernel, ++seed);
        }
      }
      check({.heads = 3, .key_heads = 3, .length = 2048, .head_dim = head_dim}, kernel, ++seed);
      check({.length = 4097, .head_dim = head_dim}, kernel, ++seed);
    }
  }
}

// Each row sees itself alone, whatever follows in its key block.
TEST_F(CudaAttention, OfARowThatForgetsAllIsOneOnItself) {
  for (const std::int64_t head_dim : {32, 64, 128, 256}) {
    for (const AttentionKernel kernel : kernels(head_dim)) {
      CudaProblem problem({.length = 1000, .head_dim = head_dim, .gate = CudaGate::zero}, 12);
      ASSERT_EQ(problem.run(kernel), Status::ok);
      const CudaProblem::OnSelf on_self = problem.on_self();
      EXPECT_LE(on_self.largest, 1 + 2e-5);
      EXPECT_GE(on_self.smallest, 1 - 2e-5);
    }
  }
}

TEST_F(CudaAttention, SharesKeyHeadsAmongQueryHeads) {
  for (const std::int64_t head_dim : {32, 64, 128, 256}) {
    for (const AttentionKernel kernel : kernels(head_dim)) {
      CudaProblemOptions options = {.batch = 3, .heads = 6, .key_heads = 2, .length = 300, .head_dim = head_dim};
      check(options, kernel, 1);
      options.pruning_tolerance = 1e-6;
      check(options, kernel, 1);
    }
  }
}

TEST_F(CudaAttention, SeesNoFurtherThanTheWindow) {
  for (const std::int64_t head_dim : {64, 96, 128, 192, 256}) {
    for (const AttentionKernel kernel : kernels(head_dim)) {
      for (const std::int64_t window : {1, 5, 64, 300, 999, 1000, 5000}) {
        check({.batch = 2, .length = 1000, .head_dim = head_dim, .window_size = window}, kernel, 2);
        // Later logits exceed those of a row's own key block.
        check({.length = 1000, .head_dim = head_dim, .window_size = window, .row_norm = 12.0F}, kernel, 22);
      }
    }
  }
}

TEST_F(CudaAttention, TakesRowsWithGaps) {
  for (const AttentionKernel kernel : kernels(64)) check({.length = 500, .padding = 8}, kernel, 3);
  for (const std::int64_t head_dim : {16, 32, 64, 96, 128, 192, 256}) {
    check({.length = 500, .head_dim = head_dim, .padding = 2}, AttentionKernel::automatic, 3);
  }
  check({.length = 500, .head_dim = 192, .padding = 8}, AttentionKernel::automatic, 3);
}

// Rows whose first key block says nothing of how large later logits are.
TEST_F(CudaAttention, KeepsLargeLogits) {
  for (const std::int64_t head_dim : {64, 128, 256}) {
    for (const AttentionKernel kernel : kernels(head_dim)) {
      for (const float norm : {3.0F, 6.0F, 12.0F}) {
        check({.length = 1500, .head_dim = head_dim, .row_norm = norm}, kernel, 4);
        // More blocks of rows than the device computes at a time.
        check({.heads = 40, .key_heads = 40, .length = 1100, .head_dim = head_dim, .row_norm = norm}, kernel, 5);
      }
    }
  }
}

TEST_F(CudaAttention, IsExactFarFromTheStart) {
  for (const std::int64_t head_dim : {64, 128}) {
    for (const AttentionKernel kernel : kernels(head_dim)) {
      check({.length = 65536, .head_dim = head_dim, .gate = CudaGate::steady}, kernel, 5);
      check({.heads = 1, .key_heads = 1, .length = 65536, .head_dim = head_dim}, kernel, 6);
    }
  }
}

TEST_F(CudaAttention, SkipsWhatTheToleranceAllows) {
  const double tolerance = std::exp(-10.0);
  for (const std::int64_t head_dim : {32, 64, 128}) {
    for (const AttentionKernel kernel : kernels(head_dim)) {
      const CudaProblemOptions options = {
          .batch = 2, .heads = 4, .key_heads = 2, .length = 4097, .head_dim = head_dim, .pruning_tolerance = tolerance};
      check(options, kernel, 7);
      CudaProblem problem(options, 8);
      ASSERT_EQ(problem.run(kernel), Status::ok);
      const cuda::AttentionBlocks blocks = problem.blocks();
      EXPECT_GT(blocks.skipped, blocks.total / 4);
      EXPECT_LT(blocks.skipped, blocks.total);
      // With f = 1 everywhere there is nothing to skip; with f = 0 all but the rows' own blocks.
      CudaProblemOptions plain = options;
      plain.gate = CudaGate::one;
      CudaProblem remembers(plain, 9);
      ASSERT_EQ(remembers.run(kernel), Status::ok);
      EXPECT_EQ(remembers.blocks().skipped, 0);
      check({.length = 2048, .head_dim = head_dim, .gate = CudaGate::cuts, .pruning_tolerance = tolerance}, kernel, 10);
      check({.length = 2048, .head_dim = head_dim, .gate = CudaGate::zero, .pruning_tolerance = tolerance}, kernel, 11);
    }
  }
  for (const CudaGate gate : {CudaGate::mixed, CudaGate::cuts, CudaGate::zero}) {
    check({.length = 2048, .head_dim = 256, .gate = gate, .pruning_tolerance = tolerance}, AttentionKernel::portable,
          12);
  }
}

// Row 192 begins a block, and keys up to 127 end one: their weight in it is 2 %, though another row of the block, which
// has a key of its own direction, could do without them.
TEST_F(CudaAttention, SkipsNothingThatOneRowOfABlockNeeds) {
  for (const AttentionKernel kernel : kernels(64)) {
    check({.length = 384, .gate = CudaGate::slow, .pruning_tolerance = std::exp(-10.0), .opposed = true}, kernel, 21);
  }
}

TEST_F(CudaAttention, RefusesWhatItCannotTake) {
  CudaProblem problem({.length = 10}, 12);
  const cuda::ForgettingAttention good = problem.arguments();
  const auto status = [](const cuda::ForgettingAttention& a) { return cuda::forgetting_attention(a, nullptr); };
  EXPECT_EQ(status(good), Status::ok);
  std::vector<cuda::ForgettingAttention> bad(11, good);
  bad[0].length = 0;
  bad[1].head_dim = 48;
  bad[2].key_heads = 3;
  bad[3].query = nullptr;
  bad[4].window_size = -1;
  bad[5].pruning_tolerance = 1;
  bad[6].scale = 0;
  bad[7].workspace = nullptr;
  bad[8].batch = 0;
  bad[9].head_dim = 160;
  bad[10].head_dim = 264;
  for (std::size_t i = 0; i < bad.size(); ++i) EXPECT_EQ(status(bad[i]), Status::invalid_argument) << i;
  EXPECT_TRUE(cuda::synchronize());
}

TEST(CudaAttentionWithoutDevice, SaysSo) {
  if (cuda::is_available()) GTEST_SKIP() << "there is a CUDA device";
  cuda::ForgettingAttention arguments;
  EXPECT_NE(cuda::forgetting_attention(arguments, nullptr), Status::ok);
  EXPECT_THROW(cuda::DeviceBuffer(16), std::bad_alloc);
}

}  // namespace
}  // namespace foxscope::kernels::testing

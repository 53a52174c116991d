// Float32 attention on the GPU against float64 and against the CPU's kernel.
#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kernels/cuda_attention_problem.h"
#include "tests/kernels/cuda_test.h"

namespace foxscope::kernels::testing {
namespace {

constexpr double kTolerance = 1e-5;

class CudaAttentionFloat32 : public CudaTest {
 protected:
  static CudaProblemOptions float32(CudaProblemOptions options) {
    options.type = cuda::ElementType::float32;
    return options;
  }

  static void check(const CudaProblemOptions& given, std::uint64_t seed) {
    const CudaProblemOptions options = float32(given);
    SCOPED_TRACE(describe(options));
    CudaProblem problem(options, seed);
    ASSERT_EQ(problem.run(), Status::ok);
    const CudaProblem::Errors errors = problem.compare();
    EXPECT_EQ(errors.not_finite, 0);
    EXPECT_LE(errors.output, kTolerance);
    EXPECT_LE(errors.log_normalizer, kTolerance);
  }
};

constexpr CudaGate kGates[] = {CudaGate::none, CudaGate::one,  CudaGate::mixed,      CudaGate::near_zero,
                               CudaGate::zero, CudaGate::cuts, CudaGate::far_offset, CudaGate::steady};

TEST_F(CudaAttentionFloat32, AgreesWithFloat64AtEveryLengthAndGate) {
  std::uint64_t seed = 300;
  for (const std::int64_t head_dim : {8, 16, 32, 40, 64, 96, 120, 128}) {
    for (const std::int64_t length : {1, 17, 81, 987}) {
      for (const CudaGate gate : kGates) check({.length = length, .head_dim = head_dim, .gate = gate}, ++seed);
    }
    check({.heads = 3, .key_heads = 3, .length = 2048, .head_dim = head_dim}, ++seed);
    check({.length = 4097, .head_dim = head_dim}, ++seed);
  }
}

TEST_F(CudaAttentionFloat32, SharesKeyHeadsAndSeesNoFurtherThanTheWindow) {
  for (const std::int64_t head_dim : {32, 64, 128}) {
    check({.batch = 3, .heads = 6, .key_heads = 2, .length = 300, .head_dim = head_dim}, 1);
    for (const std::int64_t window : {1, 5, 64, 300, 999, 1000, 5000}) {
      check({.batch = 2, .length = 1000, .head_dim = head_dim, .window_size = window}, 2);
    }
  }
}

TEST_F(CudaAttentionFloat32, TakesRowsWithGaps) {
  for (const std::int64_t padding : {1, 2, 4, 8}) {
    check({.length = 500, .head_dim = 64, .padding = padding}, 3);
    check({.length = 300, .head_dim = 96, .pruning_tolerance = 1e-6, .padding = padding}, 3);
  }
}

TEST_F(CudaAttentionFloat32, IsExactFarFromTheStart) {
  for (const std::int64_t head_dim : {64, 128}) {
    check({.length = 65536, .head_dim = head_dim, .gate = CudaGate::steady}, 5);
    check({.heads = 1, .key_heads = 1, .length = 65536, .head_dim = head_dim}, 6);
  }
}

TEST_F(CudaAttentionFloat32, SkipsWhatTheToleranceAllows) {
  for (const std::int64_t head_dim : {32, 64, 128}) {
    const CudaProblemOptions options = float32(
        {.batch = 2, .heads = 4, .key_heads = 2, .length = 4097, .head_dim = head_dim, .pruning_tolerance = 0x1p-24});
    check(options, 7);
    CudaProblem problem(options, 8);
    ASSERT_EQ(problem.run(), Status::ok);
    const cuda::AttentionBlocks blocks = problem.blocks();
    EXPECT_GT(blocks.skipped, blocks.total / 4);
    EXPECT_LT(blocks.skipped, blocks.total);
  }
}

TEST_F(CudaAttentionFloat32, SkipsNothingThatOneRowOfABlockNeeds) {
  check({.length = 384, .gate = CudaGate::slow, .pruning_tolerance = std::exp(-10.0), .opposed = true}, 21);
}

TEST_F(CudaAttentionFloat32, AgreesWithTheCpu) {
  std::uint64_t seed = 900;
  for (const std::int64_t head_dim : {16, 48, 64, 128}) {
    for (const CudaGate gate : kGates) {
      const CudaProblemOptions options = float32({.batch = 2,
                                                  .heads = 4,
                                                  .key_heads = 2,
                                                  .length = 777,
                                                  .head_dim = head_dim,
                                                  .gate = gate,
                                                  .padding = head_dim == 48 ? 3 : 0});
      SCOPED_TRACE(describe(options));
      CudaProblem problem(options, ++seed);
      ASSERT_EQ(problem.run(), Status::ok);
      const CudaProblem::Errors errors = problem.compare_with_cpu();
      EXPECT_LE(errors.output, kTolerance);
      EXPECT_LE(errors.log_normalizer, kTolerance);
    }
  }
}

TEST_F(CudaAttentionFloat32, RefusesWhatItCannotTake) {
  CudaProblem problem(float32({.length = 10}), 12);
  const cuda::ForgettingAttention good = problem.arguments();
  std::vector<cuda::ForgettingAttention> bad(6, good);
  bad[0].length = 0;
  bad[1].head_dim = 136;
  bad[2].head_dim = 20;
  bad[3].key_heads = 3;
  bad[4].value = nullptr;
  bad[5].pruning_tolerance = -1;
  for (const auto& arguments : bad) {
    EXPECT_EQ(cuda::forgetting_attention_float32(arguments, nullptr), Status::invalid_argument);
  }
}

}  // namespace
}  // namespace foxscope::kernels::testing

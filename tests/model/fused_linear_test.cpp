// What stands between the products of a linear mixer on a GPU, against LibTorch's operations in float32 on the CPU.
#include <stop_token>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "backend/model/composed_linear_torch.h"
#include "backend/model/fused_linear_torch.h"
#include "kernels/cuda/device.h"

namespace foxscope {
namespace {

/// Of the largest entry: products of numbers that have been rounded to bfloat16 a few times.
constexpr double kBfloat16Error = 2e-2;
constexpr double kFloat32Error = 2e-5;

class CudaLinearChunks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kernels::cuda::is_available()) GTEST_SKIP() << "no GPU, or a build without CUDA";
    at::manual_seed(7);
  }
};

double largest_error(const at::Tensor& found, const at::Tensor& expected) {
  const at::Tensor reference = expected.to(at::kDouble);
  return ((found.to(at::kCPU).to(at::kDouble) - reference).abs().max() / reference.abs().max()).item<double>();
}

struct Sizes {
  std::int64_t batch, heads, groups, length, rows, columns;
};

enum class Decay { none, head, channel };

/// On the CPU, numbers as bfloat16 has them.
LinearOperands random_operands(const Sizes& sizes, Decay decay, double strength) {
  const auto normal = [](at::IntArrayRef shape) { return at::randn(shape).to(at::kBFloat16).to(at::kFloat); };
  LinearOperands operands;
  operands.heads = sizes.heads;
  operands.query = normal({sizes.batch, sizes.groups, sizes.length, sizes.rows}) / 8;
  operands.key = normal({sizes.batch, sizes.groups, sizes.length, sizes.rows});
  operands.value = normal({sizes.batch, sizes.heads, sizes.length, sizes.columns});
  if (decay == Decay::head) {
    operands.log_decay = -strength * at::rand({sizes.batch, sizes.heads, sizes.length}, at::kDouble);
    operands.beta = at::rand({sizes.batch, sizes.heads, sizes.length});
  } else if (decay == Decay::channel) {
    operands.log_decay = -strength * at::rand({sizes.batch, sizes.heads, sizes.length, sizes.rows}, at::kDouble);
  }
  return operands;
}

std::vector<at::Tensor*> tensors_of(LinearOperands& operands) {
  std::vector<at::Tensor*> all;
  for (at::Tensor* x : {&operands.query, &operands.key, &operands.value, &operands.log_decay, &operands.beta}) {
    if (x->defined()) all.push_back(x);
  }
  return all;
}

LinearOperands on_gpu(LinearOperands operands) {
  for (at::Tensor* x : tensors_of(operands)) *x = x->to(at::kCUDA);
  return operands;
}

void check_mixing(const Sizes& sizes, Decay decay, double strength, bool continued) {
  SCOPED_TRACE(::testing::Message() << sizes.length << " positions, " << sizes.heads << " heads, decay "
                                    << static_cast<int>(decay) << " of " << strength);
  const at::NoGradGuard no_graph;
  const LinearOperands operands = random_operands(sizes, decay, strength);
  at::Tensor expected_state;
  if (continued) expected_state = at::randn({sizes.batch, sizes.heads, sizes.rows, sizes.columns});
  at::Tensor state = continued ? expected_state.to(at::kCUDA) : at::Tensor();
  const LinearOperands there = on_gpu(operands);
  ASSERT_TRUE(fused_linear_takes(there, at::kBFloat16));
  EXPECT_FALSE(fused_linear_takes(there, at::kFloat));
  const auto expected = composed_linear_mixing(operands, expected_state, {});
  const auto found = fused_linear_mixing(there, state, {});
  ASSERT_TRUE(found && expected);
  EXPECT_LE(largest_error(*found, *expected), kBfloat16Error);
  EXPECT_LE(largest_error(state, expected_state), kBfloat16Error);
}

TEST_F(CudaLinearChunks, MixAsTheComposedOperationsDo) {
  for (const double strength : {1e-3, 0.1, 3.0, 200.0}) {
    for (const bool continued : {false, true}) {
      check_mixing({2, 4, 1, 333, 128, 64}, Decay::head, strength, continued);
      check_mixing({1, 6, 3, 64, 16, 24}, Decay::head, strength, continued);
      check_mixing({2, 2, 2, 333, 128, 64}, Decay::channel, strength, continued);
      check_mixing({1, 1, 1, 1000, 256, 32}, Decay::channel, strength, continued);
    }
  }
  check_mixing({1, 3, 3, 200, 32, 32}, Decay::none, 0, true);
  check_mixing({1, 2, 1, 40000, 64, 64}, Decay::head, 0.1, true);  // several spans
}

TEST_F(CudaLinearChunks, GradientsAreThoseOfTheComposedOperations) {
  for (const double strength : {1e-3, 0.1, 3.0}) {
    LinearOperands operands = random_operands({2, 4, 2, 300, 64, 48}, Decay::head, strength);
    LinearOperands there = on_gpu(operands);
    const at::Tensor weight = at::randn({2, 4, 300, 48});
    const auto gradients = [&weight](LinearOperands& all, bool fused) {
      std::vector<at::Tensor> by;
      for (at::Tensor* x : tensors_of(all)) by.push_back(x->requires_grad_());
      at::Tensor state;
      const auto y = fused ? fused_linear_mixing(all, state, {}) : composed_linear_mixing(all, state, {});
      return torch::autograd::grad({(*y * weight.to(y->device())).sum()}, by);
    };
    const auto expected = gradients(operands, false);
    const auto found = gradients(there, true);
    ASSERT_EQ(found.size(), 5U);
    for (std::size_t n = 0; n < found.size(); ++n) {
      EXPECT_LE(largest_error(found[n], expected[n]), kBfloat16Error) << "operand " << n << ", decay " << strength;
    }
  }
}

TEST_F(CudaLinearChunks, GradientsAreTheSameEachTime) {
  const LinearOperands operands = on_gpu(random_operands({2, 4, 1, 300, 64, 48}, Decay::head, 0.1));
  const auto gradients = [&] {
    LinearOperands all = operands;
    std::vector<at::Tensor> by;
    for (at::Tensor* x : tensors_of(all)) by.push_back(*x = x->detach().requires_grad_());
    at::Tensor state;
    return torch::autograd::grad({fused_linear_mixing(all, state, {})->square().sum()}, by);
  };
  const auto first = gradients();
  const auto second = gradients();
  for (std::size_t n = 0; n < first.size(); ++n) EXPECT_TRUE(at::equal(first[n], second[n])) << "operand " << n;
}

TEST_F(CudaLinearChunks, ConvolveAsTheComposedOperationsDo) {
  for (const std::int64_t taps : {2, 3, 4}) {
    for (const std::int64_t length : {1, 2, 63, 64, 65, 200}) {
      const at::Tensor wide = at::randn({2, length, 150});
      const at::Tensor x = wide.slice(2, 10, 140);
      const at::Tensor before = at::randn({2, taps - 1, 130});
      const at::Tensor weight = at::randn({130, taps});
      const at::Tensor bias = at::randn({130});
      const auto both = [&](const at::Tensor& seen, const at::Tensor& more) {
        const at::Tensor at_gpu = wide.to(at::kCUDA).slice(2, 10, 140);
        const auto move = [](const at::Tensor& t) { return t.defined() ? t.to(at::kCUDA) : t; };
        const at::NoGradGuard no_graph;
        ASSERT_TRUE(fused_convolution_takes(at_gpu, move(seen), move(weight)));
        const at::Tensor found = fused_convolution(at_gpu, move(seen), move(weight), move(more));
        const at::Tensor zeros = at::zeros_like(before);
        const at::Tensor expected = at::silu(composed_convolution(x, seen.defined() ? seen : zeros, weight, more));
        EXPECT_LE(largest_error(found, expected), kFloat32Error) << taps << " taps, " << length;
      };
      both(before, bias);
      both(at::Tensor(), at::Tensor());
    }
  }
}

TEST_F(CudaLinearChunks, GradientsOfTheConvolutionAreThoseOfTheComposedOperations) {
  for (const std::int64_t length : {3, 64, 200}) {
    const at::Tensor x = at::randn({2, length, 130});
    const at::Tensor weight = at::randn({130, 4});
    const at::Tensor bias = at::randn({130});
    const at::Tensor factor = at::randn({2, length, 130});
    const auto gradients = [&](bool fused) {
      std::vector<at::Tensor> by;
      for (const at::Tensor& t : {x, weight, bias})
        by.push_back((fused ? t.to(at::kCUDA) : t.clone()).requires_grad_());
      const at::Tensor y = fused ? fused_convolution(by[0], at::Tensor(), by[1], by[2])
                                 : at::silu(composed_convolution(by[0], at::zeros({2, 3, 130}), by[1], by[2]));
      return torch::autograd::grad({(y * factor.to(y.device())).sum()}, by);
    };
    const auto expected = gradients(false);
    const auto found = gradients(true);
    for (std::size_t n = 0; n < found.size(); ++n) {
      EXPECT_LE(largest_error(found[n], expected[n]), kFloat32Error) << "operand " << n << ", length " << length;
    }
  }
}

}  // namespace
}  // namespace foxscope

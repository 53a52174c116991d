// What stands between the products of a linear mixer on a GPU, against LibTorch's operations in float32 on the CPU.
#include <cmath>
#include <stop_token>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "backend/model/layer/torch/composed_linear_torch.h"
#include "backend/model/layer/torch/fused_linear_torch.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/linear/delta_chunks.h"

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

/// Keys and queries of length 1 (the latter times d^-0.5), beta between two bounds, a decay a head or none.
LinearOperands random_delta_operands(const Sizes& sizes, double strength, double least_beta, double most_beta) {
  const auto unit = [](const at::Tensor& x) { return x / x.square().sum(-1, true).sqrt(); };
  const auto rounded = [](const at::Tensor& x) { return x.to(at::kBFloat16).to(at::kFloat); };
  LinearOperands operands = random_operands(sizes, Decay::head, strength);
  operands.delta_rule = true;
  operands.query = rounded(unit(operands.query) / std::sqrt(static_cast<double>(sizes.rows)));
  operands.key = rounded(unit(operands.key));
  operands.beta = least_beta + (most_beta - least_beta) * operands.beta;
  if (strength == 0) operands.log_decay = at::Tensor();
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

/// y and the state behind the last position.
void check_operands(const LinearOperands& operands, bool continued) {
  const at::NoGradGuard no_graph;
  at::Tensor expected_state;
  if (continued) {
    expected_state =
        at::randn({operands.key.size(0), operands.heads, operands.key.size(3), operands.value.size(3)}, at::kFloat);
  }
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

void check_mixing(const Sizes& sizes, Decay decay, double strength, bool continued) {
  SCOPED_TRACE(::testing::Message() << sizes.length << " positions, " << sizes.heads << " heads, decay "
                                    << static_cast<int>(decay) << " of " << strength);
  check_operands(random_operands(sizes, decay, strength), continued);
}

void check_delta_rule(const Sizes& sizes, double strength, double least_beta, double most_beta, bool continued) {
  SCOPED_TRACE(::testing::Message() << sizes.length << " positions, " << sizes.heads << " heads of " << sizes.rows
                                    << " x " << sizes.columns << ", decay of " << strength << ", beta from "
                                    << least_beta << " to " << most_beta);
  check_operands(random_delta_operands(sizes, strength, least_beta, most_beta), continued);
}

TEST_F(CudaLinearChunks, MixAsTheComposedOperationsDo) {
  for (const double strength : {1e-3, 0.1, 3.0, 200.0}) {
    for (const bool continued : {false, true}) {
      check_mixing({2, 4, 1, 333, 128, 64}, Decay::head, strength, continued);
      check_mixing({1, 6, 3, 64, 16, 24}, Decay::head, strength, continued);
      check_mixing({2, 3, 1, 130, 24, 72}, Decay::head, strength, continued);
      check_mixing({2, 2, 2, 333, 128, 64}, Decay::channel, strength, continued);
      check_mixing({1, 1, 1, 1000, 256, 32}, Decay::channel, strength, continued);
    }
  }
  check_mixing({1, 3, 3, 200, 32, 32}, Decay::none, 0, true);
  check_mixing({1, 2, 1, 40000, 64, 64}, Decay::head, 0.1, true);  // several spans
}

/// Operands as a layer has them, heads beside each other in a row, and one row apart from the next.
TEST_F(CudaLinearChunks, TakeOperandsWhereTheyLie) {
  const auto apart = [](const at::Tensor& x) {
    if (!x.defined()) return x;
    const std::int64_t width = x.dim() == 4 ? x.size(1) * x.size(3) : x.size(1);
    const at::Tensor wide = at::zeros({x.size(0), x.size(2), width + 8}, x.options());
    at::Tensor rows = wide.slice(2, 4, 4 + width);
    if (x.dim() == 4) rows = rows.unflatten(2, {x.size(1), x.size(3)});
    rows = rows.transpose(1, 2);
    rows.copy_(x);
    return rows;
  };
  const at::NoGradGuard no_graph;
  for (LinearOperands operands : {random_operands({2, 4, 2, 150, 64, 48}, Decay::head, 0.1),
                                  random_operands({2, 2, 2, 150, 64, 48}, Decay::channel, 0.1),
                                  random_delta_operands({2, 4, 2, 150, 64, 48}, 0.1, 0, 1)}) {
    const LinearOperands dense = on_gpu(operands);
    LinearOperands there = dense;
    for (at::Tensor* x : tensors_of(there)) *x = apart(*x);
    at::Tensor dense_state;
    at::Tensor state;
    EXPECT_TRUE(at::equal(*fused_linear_mixing(there, state, {}), *fused_linear_mixing(dense, dense_state, {})));
    EXPECT_TRUE(at::equal(state, dense_state));
  }
}

TEST_F(CudaLinearChunks, MixByTheDeltaRuleAsTheComposedOperationsDo) {
  for (const double strength : {0.0, 1e-3, 0.1, 3.0, 200.0}) {
    for (const bool continued : {false, true}) {
      check_delta_rule({1, 2, 2, 64, 64, 64}, strength, 0, 1, continued);
      check_delta_rule({2, 6, 3, 65, 64, 24}, strength, 0, 2, continued);
      check_delta_rule({2, 4, 4, 333, 128, 64}, strength, 0, 0.01, continued);
      check_delta_rule({1, 2, 1, 333, 128, 128}, strength, 1.98, 2, continued);
      check_delta_rule({1, 2, 2, 333, 136, 104}, strength, 0, 2, continued);
      check_delta_rule({1, 1, 1, 1000, 256, 256}, strength, 0, 2, continued);
    }
  }
  check_delta_rule({1, 1, 1, 130, 192, 384}, 0.1, 0, 1, true);
  check_delta_rule({1, 2, 1, 40000, 64, 64}, 0.1, 0, 1, true);  // several spans
  check_delta_rule({1, 1, 1, 17000, 128, 64}, 0, 0, 1, false);
}

/// A state that is carried on through parts of a text, none of them whole chunks.
TEST_F(CudaLinearChunks, DeltaRuleGoesOnFromItsState) {
  const at::NoGradGuard no_graph;
  const LinearOperands operands = random_delta_operands({2, 4, 2, 500, 64, 48}, 0.1, 0, 2);
  at::Tensor expected_state;
  const auto expected = composed_linear_mixing(operands, expected_state, {});
  const LinearOperands there = on_gpu(operands);
  std::vector<at::Tensor> parts;
  at::Tensor state;
  for (const auto& [begin, end] : {std::pair(0, 150), std::pair(150, 214), std::pair(214, 500)}) {
    LinearOperands part = there;
    for (at::Tensor* x : tensors_of(part)) *x = x->slice(2, begin, end);
    ASSERT_TRUE(fused_linear_takes(part, at::kBFloat16));
    parts.push_back(*fused_linear_mixing(part, state, {}));
  }
  EXPECT_LE(largest_error(at::cat(parts, 2), *expected), kBfloat16Error);
  EXPECT_LE(largest_error(state, expected_state), kBfloat16Error);
}

TEST_F(CudaLinearChunks, DeltaRuleOfOtherKindsIsLeftToTheComposedOperations) {
  const auto takes = [](const Sizes& sizes) {
    return fused_linear_takes(on_gpu(random_delta_operands(sizes, 0.1, 0, 1)), at::kBFloat16);
  };
  const at::NoGradGuard no_graph;
  EXPECT_TRUE(takes({1, 2, 1, 64, 256, 512}));
  EXPECT_FALSE(takes({1, 2, 1, 63, 64, 64}));
  EXPECT_FALSE(takes({1, 2, 1, 64, 264, 64}));
  EXPECT_FALSE(takes({1, 2, 1, 64, 12, 64}));
  EXPECT_FALSE(takes({1, 2, 1, 64, 64, 12}));
  const at::AutoGradMode with_graph(true);
  EXPECT_FALSE(takes({1, 2, 1, 64, 64, 64}));
}

/// Compares the matrices of each chunk, which the pass over the chunks reads, with their definition
/// (kernels/cuda/linear/delta_chunks.h).
TEST_F(CudaLinearChunks, DeltaChunksAreThoseOfFloat64) {
  namespace gpu = kernels::cuda;
  for (const double strength : {1e-3, 3.0}) {
    const at::NoGradGuard no_graph;
    const Sizes sizes{2, 4, 2, 128, 72, 104};
    const LinearOperands operands = random_delta_operands(sizes, strength, 0, 2);
    const LinearOperands there = on_gpu(operands);
    const auto in_chunks = [](const at::Tensor& x) {
      return x.to(at::kDouble).repeat_interleave(4 / x.size(1), 1).unflatten(2, {2, 64});
    };
    const at::Tensor query = in_chunks(operands.query), key = in_chunks(operands.key);
    const at::Tensor beta = in_chunks(operands.beta).unsqueeze(4);
    const at::Tensor c = in_chunks(operands.log_decay).cumsum(3);
    const at::Tensor gamma = (c.unsqueeze(4) - c.unsqueeze(3)).clamp_max(0).exp();
    const at::Tensor triangle = (beta * at::matmul(key, key.transpose(3, 4)) * gamma).tril(-1);
    const at::Tensor inverse = at::linalg_inv(triangle + at::eye(64, at::kDouble));
    const at::Tensor from_begin = c.exp().unsqueeze(4);
    const at::Tensor to_end = (c.slice(3, 63) - c).exp().unsqueeze(4);

    const at::TensorOptions half = there.key.options().dtype(at::kBFloat16);
    const auto of_positions = [&](std::int64_t width) { return at::full({2, 4, 2, 64, width}, NAN, half); };
    const at::Tensor scores = of_positions(64), query_decayed = of_positions(72), key_decayed = of_positions(72);
    const at::Tensor erased = of_positions(72), written = of_positions(104);
    const at::Tensor kept = at::full({2, 4, 2}, NAN, there.key.options());
    const auto rows = [](const at::Tensor& x) {
      return gpu::HeadRows{x.const_data_ptr<float>(), x.stride(0), x.stride(1), x.stride(2)};
    };
    gpu::DeltaChunks call;
    call.batch = sizes.batch;
    call.heads = sizes.heads;
    call.groups = sizes.groups;
    call.length = sizes.length;
    call.rows = sizes.rows;
    call.columns = sizes.columns;
    call.query = rows(there.query);
    call.key = rows(there.key);
    call.value = rows(there.value);
    call.log_decay = there.log_decay.const_data_ptr<double>();
    call.beta = there.beta.const_data_ptr<float>();
    call.scores = scores.mutable_data_ptr();
    call.query_decayed = query_decayed.mutable_data_ptr();
    call.key_decayed = key_decayed.mutable_data_ptr();
    call.erased = erased.mutable_data_ptr();
    call.written = written.mutable_data_ptr();
    call.kept = kept.mutable_data_ptr<float>();
    ASSERT_EQ(gpu::delta_chunks(call, nullptr), kernels::Status::ok);
    // Each is rounded once; 2^-8 of the largest.
    EXPECT_LE(largest_error(scores, (at::matmul(query, key.transpose(3, 4)) * gamma).tril()), 4e-3);
    EXPECT_LE(largest_error(query_decayed, query * from_begin), 4e-3);
    EXPECT_LE(largest_error(key_decayed, key * to_end), 4e-3);
    EXPECT_LE(largest_error(erased, at::matmul(inverse, beta * from_begin * key)), 4e-3);
    EXPECT_LE(largest_error(written, at::matmul(inverse, beta * in_chunks(operands.value))), 4e-3);
    EXPECT_LE(largest_error(kept, c.select(3, 63).exp()), 1e-5);

    const auto refused = [&](auto change) {
      gpu::DeltaChunks other = call;
      change(other);
      return gpu::delta_chunks(other, nullptr) == kernels::Status::invalid_argument;
    };
    EXPECT_TRUE(refused([](gpu::DeltaChunks& a) { a.rows = 264; }));
    EXPECT_TRUE(refused([](gpu::DeltaChunks& a) { a.rows = 12; }));
    EXPECT_TRUE(refused([](gpu::DeltaChunks& a) { a.columns = 12; }));
    EXPECT_TRUE(refused([](gpu::DeltaChunks& a) { a.groups = 3; }));
    EXPECT_TRUE(refused([](gpu::DeltaChunks& a) { a.length = 0; }));
    EXPECT_TRUE(refused([](gpu::DeltaChunks& a) { a.key.data = nullptr; }));
    EXPECT_TRUE(refused([](gpu::DeltaChunks& a) { a.value.row_stride += 1; }));
    EXPECT_TRUE(refused([](gpu::DeltaChunks& a) { a.erased = nullptr; }));
  }
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

TEST_F(CudaLinearChunks, HeadsOfLengthOneAreThoseOfTheComposedOperations) {
  const at::NoGradGuard no_graph;
  for (const std::int64_t dim : {4, 32, 136, 1024}) {
    const at::Tensor wide = at::randn({2, 37, 3 * dim + 8});
    const at::Tensor x = wide.slice(2, 4, 4 + 3 * dim);
    const at::Tensor there = wide.to(at::kCUDA).slice(2, 4, 4 + 3 * dim);
    ASSERT_TRUE(fused_unit_heads_takes(there, dim));
    const at::Tensor expected = composed_linear_norm(x.unflatten(2, {3, dim}).transpose(1, 2), LinearNorm::l2) * 0.25;
    EXPECT_LE(largest_error(fused_unit_heads(there, dim, 0.25), expected), kFloat32Error) << dim;
  }
  EXPECT_FALSE(fused_unit_heads_takes(at::randn({1, 2, 6}, at::kCUDA), 6));
  EXPECT_FALSE(fused_unit_heads_takes(at::randn({1, 2, 8}), 8));
}

TEST_F(CudaLinearChunks, OutputsAreSkippedGatedAndNormedAsByTheComposedOperations) {
  const at::NoGradGuard no_graph;
  const std::int64_t heads = 6, dim = 76, length = 70;
  const at::Tensor y = at::randn({2, heads, length, dim});
  const at::Tensor value = at::randn({2, length, heads * dim + 12}).slice(2, 8, 8 + heads * dim);
  const at::Tensor z = at::randn({2, length, heads * dim + 4}).slice(2, 0, heads * dim);
  for (const LinearSkip skip : {LinearSkip::none, LinearSkip::head, LinearSkip::channel}) {
    for (const LinearGate gate : {LinearGate::none, LinearGate::before_norm, LinearGate::after_norm}) {
      for (const std::int64_t norm_size : {std::int64_t{0}, dim, heads * dim / 2, heads * dim}) {
        LinearMixer mixer;
        mixer.skip = skip;
        mixer.gate = gate;
        mixer.norm_size = norm_size;
        mixer.norm_epsilon = 1e-5;
        LinearOutput output;
        output.mixed = y;
        output.value = value.unflatten(2, {heads, dim}).transpose(1, 2);
        if (gate != LinearGate::none) output.gate = z;
        if (skip != LinearSkip::none) output.skip = at::randn({skip == LinearSkip::head ? heads : heads * dim});
        if (norm_size > 0) output.norm = at::randn({norm_size == dim ? dim : heads * dim});
        at::Tensor expected = y;
        if (skip == LinearSkip::head) expected = y + output.value * output.skip.view({heads, 1, 1});
        if (skip == LinearSkip::channel) expected = y + output.value * output.skip.view({heads, 1, dim});
        expected = expected.transpose(1, 2).flatten(2);
        if (gate == LinearGate::before_norm) expected = expected * at::silu(z);
        if (norm_size > 0) {
          const at::Tensor grouped = expected.unflatten(2, {heads * dim / norm_size, norm_size});
          expected =
              (grouped / (grouped.square().mean(3, true) + 1e-5).sqrt() * output.norm.view({-1, norm_size})).flatten(2);
        }
        if (gate == LinearGate::after_norm) expected = expected * at::silu(z);
        LinearOutput there = output;
        for (at::Tensor* x : {&there.mixed, &there.value, &there.gate, &there.skip, &there.norm}) {
          if (x->defined()) *x = x->to(at::kCUDA);
        }
        ASSERT_TRUE(fused_linear_output_takes(mixer, there, at::kBFloat16));
        EXPECT_FALSE(fused_linear_output_takes(mixer, there, at::kFloat));
        const at::Tensor found = fused_linear_output(mixer, there);
        EXPECT_EQ(found.scalar_type(), at::kBFloat16);
        LinearOutput half = there;
        half.mixed = y.to(at::kBFloat16).to(at::kCUDA);
        EXPECT_LE(largest_error(fused_linear_output(mixer, half).view_as(expected), expected), 8e-3);
        if (gate != LinearGate::none) {
          half.gate = there.gate.to(at::kBFloat16);
          EXPECT_LE(largest_error(fused_linear_output(mixer, half).view_as(expected), expected), 1.6e-2);
        }
        EXPECT_LE(largest_error(found.view_as(expected), expected), 4e-3)
            << "skip " << static_cast<int>(skip) << ", gate " << static_cast<int>(gate) << ", norm " << norm_size;
      }
    }
  }
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
        const at::Tensor half = at_gpu.to(at::kBFloat16);
        EXPECT_LE(largest_error(fused_convolution(half, move(seen), move(weight), move(more)),
                                at::silu(composed_convolution(half.cpu().to(at::kFloat), seen.defined() ? seen : zeros,
                                                              weight, more))),
                  kFloat32Error);
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

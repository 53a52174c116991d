// What stands between the products of a linear mixer on a GPU, against LibTorch's operations in float32 on the CPU.
#include <cmath>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "backend/model/layer/torch/composed_linear_torch.h"
#include "backend/model/layer/torch/fused/fused_linear_steps_torch.h"
#include "backend/model/layer/torch/fused/fused_linear_torch.h"
#include "backend/model/layer/torch/fused/fused_steps_torch.h"
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
    // References are of small tensors, on which many threads would only wait for each other.
    at::set_num_threads(1);
  }
  void TearDown() override { at::set_num_threads(threads_); }

 private:
  int threads_ = at::get_num_threads();
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
  check_mixing({1, 2, 1, 20000, 64, 64}, Decay::head, 0.1, true);  // several spans
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
  check_delta_rule({1, 2, 1, 20000, 64, 64}, 0.1, 0, 1, true);  // several spans
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

/// The recurrence of LinearMixer, position by position in float64.
at::Tensor recur(const LinearOperands& all) {
  const auto of_heads = [&](const at::Tensor& x) {
    return x.to(at::kDouble).repeat_interleave(all.heads / x.size(1), 1);
  };
  const at::Tensor query = of_heads(all.query), key = of_heads(all.key), value = of_heads(all.value);
  at::Tensor state = at::zeros({key.size(0), all.heads, key.size(3), value.size(3)}, at::kDouble);
  std::vector<at::Tensor> output;
  for (std::int64_t t = 0; t < key.size(2); ++t) {
    const auto at = [t](const at::Tensor& x) { return x.select(2, t); };
    const at::Tensor k = at(key).unsqueeze(3);
    if (all.log_decay.defined()) {
      const at::Tensor alpha = at(all.log_decay).exp();
      state = state * (alpha.dim() == 2 ? alpha.unsqueeze(2) : alpha).unsqueeze(3);
    }
    at::Tensor written = at(value);
    if (all.delta_rule) written = written - (state * k).sum(2);
    if (all.beta.defined()) written = written * at(all.beta).unsqueeze(2);
    state = state + k * written.unsqueeze(2);
    output.push_back((state * at(query).unsqueeze(3)).sum(2));
  }
  return at::stack(output, 2);
}

/// The same in chunks, composed of operations in float32 but for the products, whose operands are rounded to bfloat16,
/// and so their gradients.
at::Tensor mix_in_bfloat16(const LinearOperands& all) {
  const auto multiply = [](const at::Tensor& a, const at::Tensor& b) {
    return at::matmul(a.to(at::kBFloat16), b.to(at::kBFloat16)).to(at::kFloat);
  };
  const auto chunk = [&](const at::Tensor& x) {
    std::vector<std::int64_t> padding(static_cast<std::size_t>(2 * (x.dim() - 2)));
    padding.back() = (64 - x.size(2) % 64) % 64;
    return at::constant_pad_nd(x.repeat_interleave(all.heads / x.size(1), 1), padding).unflatten(2, {-1, 64});
  };
  const at::Tensor query = chunk(all.query), key = chunk(all.key), value = chunk(all.value);
  const at::Tensor ones = at::ones(value.sizes().slice(0, 4), at::kFloat);
  const at::Tensor beta = all.beta.defined() ? chunk(all.beta) : ones;
  at::Tensor c = all.log_decay.defined() ? chunk(all.log_decay).cumsum(3) : at::zeros_like(ones, at::kDouble);
  if (c.dim() == 4) c = c.unsqueeze(4);
  const at::Tensor total = c.slice(3, 63);
  const auto power = [](const at::Tensor& x) { return x.exp().to(at::kFloat); };
  const at::Tensor later = at::ones({64, 64}, at::kBool).triu(1).unsqueeze(2);
  const at::Tensor between =
      power((c.unsqueeze(4) - c.unsqueeze(3)).masked_fill(later, -INFINITY));  // [.., T, T, d or 1]
  const at::Tensor of_query = query * power(c), of_key = key * power(total - c);
  at::Tensor scores, written, erased;
  if (all.decays_by_channel()) {
    scores = (query.unsqueeze(4) * key.unsqueeze(3) * between).sum(5);
  } else {
    scores = multiply(query, key.transpose(3, 4)) * between.squeeze(5);
  }
  if (all.delta_rule) {
    const at::Tensor triangle = (beta.unsqueeze(4) * multiply(key, key.transpose(3, 4)) * between.squeeze(5)).tril(-1);
    const auto solve = [&](const at::Tensor& right) {
      return at::linalg_solve_triangular(triangle, right, false, true, true);
    };
    written = solve(beta.unsqueeze(4) * value);
    erased = solve(beta.unsqueeze(4) * power(c) * key);
  } else {
    scores = scores * beta.unsqueeze(3);
    written = value * beta.unsqueeze(4);
  }
  at::Tensor state = at::zeros({key.size(0), all.heads, key.size(4), value.size(4)}, at::kFloat);
  std::vector<at::Tensor> output;
  for (std::int64_t n = 0; n < key.size(2); ++n) {
    const auto at = [n](const at::Tensor& x) { return x.select(2, n); };
    at::Tensor update = at(written);
    if (all.delta_rule) update = update - multiply(at(erased), state);
    const at::Tensor within = all.delta_rule ? update : at(value);
    output.push_back(multiply(at(scores), within) + multiply(at(of_query), state));
    state = state * power(at(total)).transpose(2, 3) + multiply(at(of_key).transpose(2, 3), update);
  }
  return at::stack(output, 2).flatten(2, 3).slice(2, 0, all.query.size(2));
}

/// Compares gradients with the recurrence's in float64: their errors are at most twice those of the composed form.
void check_gradients(const LinearOperands& operands, const std::string& what) {
  const at::Tensor weight =
      at::randn({operands.value.size(0), operands.heads, operands.value.size(2), operands.value.size(3)})
          .to(at::kBFloat16)
          .to(at::kFloat);
  const auto gradients = [&weight](LinearOperands all, const auto& mix) {
    std::vector<at::Tensor> by;
    for (at::Tensor* x : tensors_of(all)) by.push_back(*x = x->detach().clone().requires_grad_());
    return torch::autograd::grad({(mix(all) * weight.to(by[0].device())).sum()}, by);
  };
  const auto expected = gradients(operands, recur);
  const auto composed = gradients(operands, mix_in_bfloat16);
  const auto found = gradients(on_gpu(operands), [](const LinearOperands& there) {
    EXPECT_TRUE(fused_linear_takes(there, at::kBFloat16));
    at::Tensor state;
    return *fused_linear_mixing(there, state, {});
  });
  ASSERT_EQ(found.size(), expected.size());
  const auto error = [](const at::Tensor& x, const at::Tensor& reference) {
    const at::Tensor exact = reference.to(at::kDouble);
    return ((x.to(at::kCPU).to(at::kDouble) - exact).norm() / exact.norm()).item<double>();
  };
  std::string errors;
  for (std::size_t n = 0; n < found.size(); ++n) {
    const double of_kernel = error(found[n], expected[n]);
    const double of_composed = error(composed[n], expected[n]);
    EXPECT_LE(of_kernel, 2 * of_composed) << what << ", operand " << n;
    errors += " " + std::to_string(of_kernel) + "/" + std::to_string(of_composed);
  }
  ::testing::Test::RecordProperty(what, errors);
}

std::string case_of(const std::string& family, const Sizes& sizes, double strength) {
  return family + "_" + std::to_string(sizes.length) + "_" + std::to_string(sizes.rows) + "_" +
         std::to_string(sizes.columns) + "_decay_" + std::to_string(strength);
}

TEST_F(CudaLinearChunks, GradientsOfDecaysOfHeads) {
  for (const double strength : {1e-3, 0.1, 3.0}) {
    for (const Sizes& sizes : {Sizes{2, 4, 2, 300, 64, 48}, Sizes{1, 4, 1, 150, 128, 64}}) {
      check_gradients(random_operands(sizes, Decay::head, strength), case_of("head", sizes, strength));
    }
  }
}

TEST_F(CudaLinearChunks, GradientsOfDecaysOfChannels) {
  for (const double strength : {1e-3, 0.1, 3.0, 50.0}) {
    for (const Sizes& sizes :
         {Sizes{2, 3, 3, 300, 64, 48}, Sizes{1, 2, 2, 128, 128, 128}, Sizes{1, 1, 1, 150, 256, 64}}) {
      check_gradients(random_operands(sizes, Decay::channel, strength), case_of("channel", sizes, strength));
    }
  }
}

TEST_F(CudaLinearChunks, GradientsOfTheDeltaRule) {
  for (const double strength : {0.0, 1e-3, 0.1, 3.0}) {
    for (const double most_beta : {1.0, 2.0}) {
      for (const Sizes& sizes : {Sizes{2, 4, 2, 300, 64, 48}, Sizes{1, 2, 2, 128, 128, 128},
                                 Sizes{1, 1, 1, 150, 256, 64}, Sizes{1, 1, 1, 130, 192, 384}}) {
        check_gradients(random_delta_operands(sizes, strength, 0, most_beta),
                        case_of("delta_beta_" + std::to_string(most_beta), sizes, strength));
      }
    }
  }
}

TEST_F(CudaLinearChunks, GradientsAreTheSameEachTime) {
  const auto gradients = [](const LinearOperands& operands) {
    LinearOperands all = operands;
    std::vector<at::Tensor> by;
    for (at::Tensor* x : tensors_of(all)) by.push_back(*x = x->detach().requires_grad_());
    at::Tensor state;
    return torch::autograd::grad({fused_linear_mixing(all, state, {})->square().sum()}, by);
  };
  for (const LinearOperands& operands : {random_operands({2, 4, 1, 300, 64, 48}, Decay::head, 0.1),
                                         random_operands({2, 4, 4, 300, 64, 48}, Decay::channel, 0.1),
                                         random_delta_operands({2, 4, 2, 300, 64, 48}, 0.1, 0, 2)}) {
    const LinearOperands there = on_gpu(operands);
    const auto first = gradients(there);
    const auto second = gradients(there);
    for (std::size_t n = 0; n < first.size(); ++n) EXPECT_TRUE(at::equal(first[n], second[n])) << "operand " << n;
  }
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

std::vector<at::Tensor*> tensors_of(LinearOutput& output) {
  return {&output.mixed, &output.value, &output.gate, &output.skip, &output.norm};
}

/// [B, n, H d_v]
at::Tensor composed_output(const LinearMixer& mixer, const LinearOutput& output) {
  const std::int64_t heads = output.mixed.size(1);
  at::Tensor y = output.mixed;
  if (mixer.skip == LinearSkip::head) y = y + output.value * output.skip.view({heads, 1, 1});
  if (mixer.skip == LinearSkip::channel) y = y + output.value * output.skip.view({heads, 1, -1});
  y = y.transpose(1, 2).flatten(2);
  if (mixer.gate == LinearGate::before_norm) y = y * at::silu(output.gate);
  if (mixer.norm_size > 0) {
    const at::Tensor grouped = y.unflatten(2, {y.size(2) / mixer.norm_size, mixer.norm_size});
    y = (grouped / (grouped.square().mean(3, true) + mixer.norm_epsilon).sqrt() *
         output.norm.view({-1, mixer.norm_size}))
            .flatten(2);
  }
  return mixer.gate == LinearGate::after_norm ? y * at::silu(output.gate) : y;
}

void check_output_gradients(const LinearMixer& mixer, const LinearOutput& output) {
  const at::Tensor y = composed_output(mixer, output);
  const at::Tensor weight = at::randn(y.sizes()).to(at::kBFloat16).to(at::kFloat);
  const auto gradients = [&](LinearOutput all, bool fused) {
    std::vector<at::Tensor> by;
    for (at::Tensor* x : tensors_of(all)) {
      if (!x->defined() || (x == &all.value && !all.skip.defined())) continue;
      *x = (fused ? x->to(at::kCUDA) : x->detach().clone()).requires_grad_();
      by.push_back(*x);
    }
    const at::Tensor made = fused ? fused_linear_output(mixer, all).view_as(weight) : composed_output(mixer, all);
    return torch::autograd::grad({(made * weight.to(made.device())).sum()}, by);
  };
  const auto expected = gradients(output, false);
  const auto found = gradients(output, true);
  for (std::size_t n = 0; n < found.size(); ++n) {
    EXPECT_LE(largest_error(found[n], expected[n]), kFloat32Error)
        << "operand " << n << ", skip " << static_cast<int>(mixer.skip) << ", gate " << static_cast<int>(mixer.gate)
        << ", norm " << mixer.norm_size;
  }
}

/// Logits up to where sigmoids are 0 or 1 in float32.
TEST_F(CudaLinearChunks, DecaysAndKeysOfLogitsAndTheirGradients) {
  constexpr std::int64_t kHeads = 3, kDim = 24, kPositions = 70;
  const at::Tensor wide = 12 * at::randn({2, kPositions, kHeads * kDim + 8});
  const at::Tensor of_log = at::randn({2, kHeads, kPositions, kDim}, at::kDouble);
  const at::Tensor of_key = at::randn({2, kPositions, kHeads * kDim});
  for (const bool bounded : {false, true}) {
    const at::Tensor bounds = bounded ? 0.01 + 0.9 * at::rand({kHeads * kDim}) : at::Tensor();
    const auto in_float64 = [&](const at::Tensor& logit, const at::Tensor& bound) {
      const at::Tensor f = logit.slice(2, 0, kHeads * kDim).to(at::kDouble);
      const at::Tensor b = bound.defined() ? bound.to(at::kDouble) : at::zeros({kHeads * kDim}, at::kDouble);
      // 1 - alpha has digits where alpha is 1 in float64.
      const at::Tensor log_decay = bounded ? at::log1p(-(1 - b) * at::sigmoid(-f)) : at::log_sigmoid(f);
      return std::pair(log_decay.unflatten(2, {kHeads, kDim}).transpose(1, 2), (1 - b) * at::sigmoid(-f));
    };
    const auto by_kernel = [&](const at::Tensor& logit, const at::Tensor& bound) {
      const at::Tensor f = logit.slice(2, 0, kHeads * kDim);
      EXPECT_TRUE(fused_decay_keys_takes(f));
      const DecaysAndKeys made = fused_decay_keys(f, bound, kDim);
      return std::pair(made.log_decay, made.key);
    };
    const auto all_of = [&](const at::Device& device, const auto& make) {
      const at::Tensor logit = wide.to(device).detach().clone().requires_grad_();
      const at::Tensor bound = bounded ? bounds.to(device).detach().clone().requires_grad_() : at::Tensor();
      const auto [log_decay, key] = make(logit, bound);
      const at::Tensor loss = (log_decay * of_log.to(device)).sum() + (key * of_key.to(device)).sum();
      std::vector<at::Tensor> by = {logit};
      if (bounded) by.push_back(bound);
      std::vector<at::Tensor> all = torch::autograd::grad({loss}, by);
      all.push_back(key.detach());
      all.push_back(log_decay.detach());
      return all;
    };
    const auto expected = all_of(at::kCPU, in_float64);
    const auto found = all_of(at::kCUDA, by_kernel);
    for (std::size_t n = 0; n < expected.size(); ++n) {
      EXPECT_LE(largest_error(found[n], expected[n]), kFloat32Error) << n << (bounded ? ", bounded" : "");
    }
    // Log decays near 0 keep their digits.
    const at::Tensor near = (found.back().to(at::kCPU) / expected.back() - 1).abs();
    EXPECT_LE(near.masked_select(expected.back() > -1).max().item<double>(), 1e-5);
  }
}

TEST_F(CudaLinearChunks, GradientsOfHeadsOfLengthOne) {
  for (const std::int64_t dim : {4, 32, 136, 1024}) {
    const at::Tensor x = at::randn({2, 37, 3 * dim});
    const at::Tensor weight = at::randn({2, 3, 37, dim});
    const auto gradient = [&](const at::Tensor& by, bool fused) {
      const at::Tensor y = fused
                               ? fused_unit_heads(by, dim, 0.25)
                               : composed_linear_norm(by.unflatten(2, {3, dim}).transpose(1, 2), LinearNorm::l2) * 0.25;
      return torch::autograd::grad({(y * weight.to(by.device())).sum()}, {by})[0];
    };
    const at::Tensor expected = gradient(x.detach().clone().requires_grad_(), false);
    EXPECT_LE(largest_error(gradient(x.to(at::kCUDA).requires_grad_(), true), expected), kFloat32Error) << dim;
  }
}

/// @param dim  of a head: with 128 a group of a norm is whole warps' pieces, with 76 it is not
void check_outputs(std::int64_t dim) {
  const std::int64_t heads = 6, length = 70;
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
        const at::Tensor expected = composed_output(mixer, output);
        LinearOutput there = output;
        for (at::Tensor* x : {&there.mixed, &there.value, &there.gate, &there.skip, &there.norm}) {
          if (x->defined()) *x = x->to(at::kCUDA);
        }
        ASSERT_TRUE(fused_linear_output_takes(mixer, there, at::kBFloat16));
        EXPECT_FALSE(fused_linear_output_takes(mixer, there, at::kFloat));
        check_output_gradients(mixer, output);
        const at::NoGradGuard no_graph;
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

TEST_F(CudaLinearChunks, OutputsAreSkippedGatedAndNormedAsByTheComposedOperations) {
  check_outputs(76);
  check_outputs(128);
}

TEST_F(CudaLinearChunks, GatesBesideTheNormAndTheirGradients) {
  const at::Tensor rows = at::randn({300, 200}), weight = 1 + 0.1 * at::randn({200}),
                   matrix = at::randn({10, 200}) / 14;
  const at::Tensor of_normed = at::randn({300, 200}).to(at::kBFloat16).to(at::kFloat), of_gates = at::randn({300, 10});
  std::vector<at::Tensor> expected = {rows.to(at::kDouble), weight.to(at::kDouble), matrix.to(at::kDouble)};
  std::vector<at::Tensor> found = {rows.to(at::kCUDA), weight.to(at::kCUDA), matrix.to(at::kCUDA)};
  for (std::vector<at::Tensor>* all : {&expected, &found}) {
    for (at::Tensor& x : *all) x.requires_grad_();
  }
  const at::Tensor normed = expected[0] * (expected[0].square().mean(1, true) + 1e-6).rsqrt() * expected[1];
  const at::Tensor gates = at::matmul(normed, expected[2].t());
  const at::Tensor high = found[2].detach().to(at::kBFloat16);
  const at::Tensor rest = (found[2].detach() - high).to(at::kBFloat16);
  const NormedGates made = fused_norm_gates(found[0], found[1], 1e-6, found[2], at::cat({high, high}, 1), rest);
  EXPECT_LE(largest_error(made.normed.detach(), normed.detach()), 4e-3);
  EXPECT_LE(largest_error(made.gates.detach(), gates.detach()), 5e-5);
  const auto expected_gradients =
      torch::autograd::grad({normed, gates}, expected, {of_normed.to(at::kDouble), of_gates.to(at::kDouble)});
  const auto gradients = torch::autograd::grad({made.normed, made.gates}, found,
                                               {of_normed.to(at::kCUDA, at::kBFloat16), of_gates.to(at::kCUDA)});
  for (std::size_t n = 0; n < gradients.size(); ++n) {
    EXPECT_LE(largest_error(gradients[n], expected_gradients[n]), 1e-2) << n;
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

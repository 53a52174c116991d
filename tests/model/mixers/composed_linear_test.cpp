#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "backend/model/layer/torch/composed_linear_torch.h"
#include "kernels/cpu/linear_mixing.h"
#include "kernels/executor.h"

namespace foxscope {
namespace {

/// Heads 2h and 2h + 1 share queries and keys.
constexpr int kHeads = 4;
constexpr int kKeyHeads = 2;
constexpr std::int64_t kSteps = 37;
constexpr std::int64_t kKeyDim = 12;
constexpr std::int64_t kValueDim = 10;

struct Recurrence {
  const char* name;
  bool delta_rule;
  bool erases;  ///< by arrays
  bool beta;
  double decay = 0.3;  ///< most nats that a channel decays by in one position
};

LinearOperands recurrence_operands(const Recurrence& recurrence) {
  at::manual_seed(5);
  LinearOperands operands;
  operands.heads = kHeads;
  operands.query = at::randn({1, kKeyHeads, kSteps, kKeyDim});
  operands.key = at::randn({1, kKeyHeads, kSteps, kKeyDim});
  operands.key = operands.key / operands.key.square().sum(-1, true).sqrt();
  operands.value = at::randn({1, kHeads, kSteps, kValueDim});
  operands.log_decay = -recurrence.decay * at::rand({1, kKeyHeads, kSteps, kKeyDim}, at::kDouble);
  operands.delta_rule = recurrence.delta_rule;
  if (recurrence.beta) operands.beta = at::rand({1, kHeads, kSteps});
  if (!recurrence.erases) return operands;
  const at::Tensor read = at::randn({1, kKeyHeads, kSteps, kKeyDim});
  operands.erase_read = read / read.square().sum(-1, true).sqrt();
  operands.erase_write = -operands.erase_read * at::rand({1, kKeyHeads, kSteps, kKeyDim});
  return operands;
}

class ComposedRecurrence : public ::testing::TestWithParam<Recurrence> {};

TEST_P(ComposedRecurrence, IsTheKernels) {
  const LinearOperands operands = recurrence_operands(GetParam());
  const at::Tensor before = at::randn({1, kHeads, kKeyDim, kValueDim});
  at::Tensor state = before.clone();
  const auto composed = composed_linear_mixing(operands, state, {});
  ASSERT_TRUE(composed);

  const auto floats = [](const at::Tensor& x) { return x.defined() ? x.data_ptr<float>() : nullptr; };
  const at::Tensor alpha = operands.log_decay.exp().to(at::kFloat);
  at::Tensor kernel_state = before.clone();
  at::Tensor output = at::empty({kSteps, kHeads, kValueDim});
  kernels::cpu::LinearMixing arguments;
  arguments.heads = arguments.value_heads = kHeads;
  arguments.query_heads = arguments.key_heads = kKeyHeads;
  arguments.length = kSteps;
  arguments.key_dim = kKeyDim;
  arguments.value_dim = kValueDim;
  arguments.query = floats(operands.query);
  arguments.key = floats(operands.key);
  arguments.value = floats(operands.value);
  arguments.channel_decay = floats(alpha);
  arguments.beta = floats(operands.beta);
  arguments.delta_rule = operands.delta_rule;
  arguments.erase_read = floats(operands.erase_read);
  arguments.erase_write = floats(operands.erase_write);
  arguments.state = floats(kernel_state);
  arguments.output = floats(output);
  arguments.output_stride = kHeads * kValueDim;
  kernels::ThreadPool pool(2);
  ASSERT_EQ(kernels::cpu::linear_mixing(arguments, pool, {}), kernels::Status::ok);
  EXPECT_TRUE(at::allclose(composed->select(0, 0).transpose(0, 1), output, 1e-4, 1e-5));
  EXPECT_TRUE(at::allclose(state, kernel_state, 1e-4, 1e-5));
}

TEST_P(ComposedRecurrence, HasTheGradientsOfDifferences) {
  LinearOperands operands = recurrence_operands(GetParam());
  std::vector<at::Tensor*> inputs = {&operands.query, &operands.key, &operands.value, &operands.log_decay};
  for (at::Tensor* more : {&operands.beta, &operands.erase_read, &operands.erase_write}) {
    if (more->defined()) inputs.push_back(more);
  }
  const at::Tensor weight = at::randn({1, kHeads, kSteps, kValueDim}, at::kDouble);
  const auto weighted = [&] {
    at::Tensor state;
    return (composed_linear_mixing(operands, state, {})->to(at::kDouble) * weight).sum();
  };
  for (at::Tensor* input : inputs) input->requires_grad_(true);
  weighted().backward();
  for (at::Tensor* input : inputs) {
    const at::Tensor direction = at::randn(input->sizes(), input->options());
    const double expected = (input->grad() * direction).sum().item<double>();
    const at::Tensor at_rest = input->detach();
    const at::NoGradGuard no_graph;
    const auto at_step = [&](double step) {
      *input = at_rest + step * direction;
      return weighted().item<double>();
    };
    const auto slope = [&](double step) { return (at_step(step) - at_step(-step)) / (2 * step); };
    // Richardson: the error of second order in the step falls out.
    const double found = (4 * slope(1e-2) - slope(2e-2)) / 3;
    *input = at_rest;
    EXPECT_NEAR(found, expected, 5e-3 * (1 + std::abs(expected))) << input->sizes();
  }
}

INSTANTIATE_TEST_SUITE_P(Recurrences, ComposedRecurrence,
                         ::testing::Values(Recurrence{"channel_delta", true, false, true},
                                           Recurrence{"low_rank", false, true, false},
                                           Recurrence{"low_rank_with_beta", false, true, true},
                                           Recurrence{"channel_delta_that_forgets", true, false, true, 90},
                                           Recurrence{"low_rank_that_forgets", false, true, true, 90}),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace foxscope

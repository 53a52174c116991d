// The selective scan by kernels as LibTorch's autograd sees it, against its twin of LibTorch's operations.
#include <stop_token>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include "backend/model/backward/differentiable_scan_torch.h"
#include "backend/model/layer/torch/composed_linear_torch.h"

namespace foxscope {
namespace {

LinearOperands random_scan(std::int64_t batch, std::int64_t heads, std::int64_t length, std::int64_t states) {
  LinearOperands operands;
  operands.heads = heads;
  operands.query = at::randn({batch, 1, length, states});
  operands.key = at::randn({batch, 1, length, states});
  operands.value = at::randn({batch, heads, length, 1});
  operands.log_decay = -at::rand({batch, heads, length}, at::kDouble);
  operands.rate = at::rand({heads, states}) * 2;
  operands.beta = at::rand({batch, heads, length});
  return operands;
}

std::vector<at::Tensor*> parts_of(LinearOperands& operands) {
  return {&operands.query, &operands.key, &operands.value, &operands.log_decay, &operands.rate, &operands.beta};
}

double largest_share_off(const at::Tensor& found, const at::Tensor& wanted) {
  return ((found - wanted).abs().max() / wanted.abs().max()).item<double>();
}

TEST(DifferentiableScan, IsItsTwinForwardAndBack) {
  at::manual_seed(3);
  for (const auto& [batch, heads, length, states] :
       {std::tuple{1, 1, 1, 1}, std::tuple{2, 70, 65, 16}, std::tuple{3, 9, 150, 5}}) {
    LinearOperands operands = random_scan(batch, heads, length, states);
    ASSERT_TRUE(differentiable_scan_takes(operands));
    const at::Tensor weight = at::randn({batch, heads, length, 1});
    std::vector<at::Tensor> outputs;
    std::vector<torch::autograd::variable_list> gradients;
    for (const bool by_kernel : {true, false}) {
      torch::autograd::variable_list sought;
      for (at::Tensor* const part : parts_of(operands)) {
        *part = part->detach().requires_grad_();
        sought.push_back(*part);
      }
      at::Tensor state;
      const auto output = by_kernel ? differentiable_scan(operands, {}) : composed_linear_mixing(operands, state, {});
      ASSERT_TRUE(output.has_value());
      outputs.push_back(output->detach());
      gradients.push_back(torch::autograd::grad({(*output * weight).sum()}, sought));
    }
    EXPECT_LE(largest_share_off(outputs[0], outputs[1]), 2e-6);
    for (std::size_t part = 0; part < gradients[0].size(); ++part) {
      // Of one position no decay is looked at.
      if (length == 1 && (part == 3 || part == 4)) continue;
      EXPECT_LE(largest_share_off(gradients[0][part], gradients[1][part]), 1e-5) << part << " of " << length;
    }
  }
}

TEST(DifferentiableScan, StopsAndLeavesOthersAlone) {
  LinearOperands operands = random_scan(1, 3, 20, 2);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(differentiable_scan(operands, stop.get_token()));
  operands.rate = at::Tensor();
  EXPECT_FALSE(differentiable_scan_takes(operands));
}

}  // namespace
}  // namespace foxscope

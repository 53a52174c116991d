#include <cmath>
#include <limits>
#include <string>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "backend/model/layer/torch/composed_attention_torch.h"

namespace foxscope {
namespace {

struct Case {
  std::string name;
  std::int64_t batch = 1;
  std::int64_t heads = 2;
  std::int64_t key_heads = 2;
  std::int64_t length = 1;
  std::int64_t dim = 16;
  std::int64_t window = 0;
  double log_gate_scale = 0.1;  ///< mean of -log f; 0: no gate
};

/// Random inputs and their attention as L x L matrices in float64.
struct Problem {
  explicit Problem(const Case& c, std::uint64_t seed = 7) {
    auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
    const auto random = [&](std::int64_t heads) {
      return at::randn({c.batch, heads, c.length, c.dim}, generator, at::TensorOptions().dtype(at::kFloat));
    };
    arguments.query = random(c.heads);
    arguments.key = random(c.key_heads);
    arguments.value = random(c.key_heads);
    arguments.scale = 1 / std::sqrt(static_cast<double>(c.dim));
    arguments.window_size = c.window;
    if (c.log_gate_scale > 0) {
      const at::Tensor uniform =
          at::rand({c.batch, c.heads, c.length}, generator, at::TensorOptions().dtype(at::kDouble));
      arguments.cumulative_log_gate = at::cumsum(at::log(uniform) * c.log_gate_scale, 2);
    }
  }

  [[nodiscard]] at::Tensor logits(bool gated) const {
    const std::int64_t group = arguments.query.size(1) / arguments.key.size(1);
    const at::Tensor key = arguments.key.to(at::kDouble).repeat_interleave(group, 1);
    at::Tensor scores = at::matmul(arguments.query.to(at::kDouble), key.transpose(2, 3)) * arguments.scale;
    const at::Tensor& c = arguments.cumulative_log_gate;
    if (gated && c.defined()) scores = scores + c.unsqueeze(3) - c.unsqueeze(2);
    const at::Tensor position = at::arange(arguments.query.size(2));
    const at::Tensor distance = position.unsqueeze(1) - position;
    at::Tensor hidden = distance < 0;
    if (arguments.window_size > 0) hidden = hidden.logical_or(distance >= arguments.window_size);
    return scores.masked_fill(hidden, -std::numeric_limits<double>::infinity());
  }

  [[nodiscard]] at::Tensor output() const {
    const std::int64_t group = arguments.query.size(1) / arguments.key.size(1);
    return at::matmul(at::softmax(logits(true), 3), arguments.value.to(at::kDouble).repeat_interleave(group, 1));
  }

  ComposedAttention arguments;
};

double largest(const at::Tensor& difference) { return difference.abs().max().item<double>(); }

class ComposedAttentionTest : public testing::TestWithParam<Case> {};

TEST_P(ComposedAttentionTest, AgreesWithMatricesInFloat64) {
  Problem problem(GetParam());
  problem.arguments.without_gate_as_well = true;
  const auto result = composed_forgetting_attention(problem.arguments, {});
  ASSERT_TRUE(result.has_value());
  EXPECT_LE(largest(result->output.to(at::kDouble) - problem.output()), 1e-5);
  EXPECT_LE(largest(result->log_normalizer.to(at::kDouble) - at::logsumexp(problem.logits(true), 3)), 1e-5);
  EXPECT_LE(largest(result->log_normalizer_without_gate.to(at::kDouble) - at::logsumexp(problem.logits(false), 3)),
            1e-5);
  EXPECT_EQ(result->skipped_blocks, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, ComposedAttentionTest,
    testing::Values(Case{.name = "one_token"}, Case{.name = "odd", .batch = 3, .length = 987, .dim = 20},
                    Case{.name = "several_tiles", .length = 2600},
                    Case{.name = "two_key_tiles", .heads = 1, .key_heads = 1, .length = 5300, .dim = 4},
                    Case{.name = "grouped", .batch = 2, .heads = 6, .key_heads = 2, .length = 1100},
                    Case{.name = "window", .length = 2600, .window = 100},
                    Case{.name = "wide_window", .length = 2600, .window = 1500},
                    Case{.name = "ungated", .length = 1500, .log_gate_scale = 0},
                    Case{.name = "forgets_at_once", .length = 2600, .log_gate_scale = 200},
                    Case{.name = "hardly_forgets", .length = 2600, .log_gate_scale = 1e-6}),
    [](const auto& test) { return test.param.name; });

TEST(ComposedAttention, SkippingStaysWithinTheTolerance) {
  Problem problem({.name = "", .heads = 3, .key_heads = 3, .length = 5200, .log_gate_scale = 0.02});
  problem.arguments.cumulative_log_gate.select(1, 2).zero_();  // a head that forgets nothing
  const auto exact = composed_forgetting_attention(problem.arguments, {});
  for (const double tolerance : {0x1p-24, 1e-3}) {
    problem.arguments.pruning_tolerance = tolerance;
    const auto pruned = composed_forgetting_attention(problem.arguments, {});
    EXPECT_GT(pruned->skipped_blocks, 0);
    EXPECT_LT(pruned->skipped_blocks, pruned->blocks);
    // Missing mass of at most `tolerance` moves the normaliser by as much.
    EXPECT_LE(largest(pruned->log_normalizer - exact->log_normalizer), tolerance + 1e-6);
    EXPECT_LE(largest(pruned->output.select(1, 2) - exact->output.select(1, 2)), 1e-6);
  }
}

TEST(ComposedAttention, TakesBfloat16WithFloat32Logits) {
  Problem problem({.name = "", .length = 1300, .dim = 64});
  for (at::Tensor* tensor : {&problem.arguments.query, &problem.arguments.key, &problem.arguments.value}) {
    *tensor = tensor->to(at::kBFloat16);
  }
  const auto result = composed_forgetting_attention(problem.arguments, {});
  EXPECT_EQ(result->output.scalar_type(), at::kBFloat16);
  EXPECT_LE(largest(result->log_normalizer.to(at::kDouble) - at::logsumexp(problem.logits(true), 3)), 1e-5);
  EXPECT_LE(largest(result->output.to(at::kDouble) - problem.output()), 0x1p-8 * largest(problem.output()));
}

TEST(ComposedAttention, StopsWhenAsked) {
  const Problem problem({.name = "", .length = 3000});
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(composed_forgetting_attention(problem.arguments, stop.get_token()).has_value());
}

}  // namespace
}  // namespace foxscope

#include "kernels/cpu/linear_mixing.h"

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "kernels/executor.h"
#include "tests/kernels/instruction_set.h"

namespace foxscope::kernels::cpu {
namespace {

struct MixingShape {
  const char* name;
  int heads, query_heads, key_heads, value_heads;
  std::int64_t length, key_dim, value_dim;
  bool decay, by_channel, beta, delta_rule;
  double strongest = 0.5;  ///< largest fall of log alpha at a position, nats
  bool erases = false;     ///< by arrays
};

struct MixingProblem {
  explicit MixingProblem(const MixingShape& s, std::int64_t seed = 3) : shape(s) {
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    const auto fill = [&](std::int64_t count, auto make) {
      std::vector<float> values(static_cast<std::size_t>(count));
      for (float& number : values) number = static_cast<float>(make());
      return values;
    };
    const double small = 1 / std::sqrt(static_cast<double>(s.key_dim));
    query = fill(s.query_heads * s.length * s.key_dim, [&] { return normal(random); });
    key = fill(s.key_heads * s.length * s.key_dim, [&] { return normal(random) * small; });
    value = fill(s.value_heads * s.length * s.value_dim, [&] { return normal(random); });
    const auto alpha = [&] { return std::exp(-s.strongest * uniform(random) * uniform(random)); };
    if (s.decay) decay = fill(s.heads * s.length, alpha);
    if (s.by_channel) channel_decay = fill(s.key_heads * s.length * s.key_dim, alpha);
    if (s.beta) beta = fill(s.heads * s.length, [&] { return uniform(random); });
    if (s.erases) {
      erase_read = fill(s.key_heads * s.length * s.key_dim, [&] { return normal(random) * small; });
      erase_write = erase_read;
      for (float& number : erase_write) number *= static_cast<float>(-0.8 * uniform(random));
    }
    state = fill(s.heads * s.key_dim * s.value_dim, [&] { return normal(random); });
    output.resize(static_cast<std::size_t>(s.length * s.heads * s.value_dim));
  }

  [[nodiscard]] LinearMixing arguments() {
    const auto given = [](std::vector<float>& values) { return values.empty() ? nullptr : values.data(); };
    LinearMixing a;
    a.heads = shape.heads;
    a.query_heads = shape.query_heads;
    a.key_heads = shape.key_heads;
    a.value_heads = shape.value_heads;
    a.length = shape.length;
    a.key_dim = shape.key_dim;
    a.value_dim = shape.value_dim;
    a.query = query.data();
    a.key = key.data();
    a.value = value.data();
    a.decay = given(decay);
    a.channel_decay = given(channel_decay);
    a.beta = given(beta);
    a.delta_rule = shape.delta_rule;
    a.erase_read = given(erase_read);
    a.erase_write = given(erase_write);
    a.state = state.data();
    a.output = output.data();
    a.output_stride = shape.heads * shape.value_dim;
    return a;
  }

  /// The recurrence in float64, position by position; the largest |y| and |S| of it.
  void expect_recurrence() {
    const auto at = [](const std::vector<float>& values, std::int64_t n) {
      return static_cast<double>(values[index_of(n)]);
    };
    const std::vector<float> before = state;
    ThreadPool pool(2);
    ASSERT_EQ(linear_mixing(arguments(), pool, {}), Status::ok);
    const std::int64_t d = shape.key_dim;
    const std::int64_t dv = shape.value_dim;
    for (int head = 0; head < shape.heads; ++head) {
      const std::int64_t q = head / (shape.heads / shape.query_heads) * shape.length * d;
      const std::int64_t k = head / (shape.heads / shape.key_heads) * shape.length * d;
      const std::int64_t v = head / (shape.heads / shape.value_heads) * shape.length * dv;
      std::vector<double> s(static_cast<std::size_t>(d * dv));
      for (std::int64_t n = 0; n < d * dv; ++n) s[index_of(n)] = at(before, head * d * dv + n);
      for (std::int64_t t = 0; t < shape.length; ++t) {
        std::vector<double> erased(static_cast<std::size_t>(dv), 0.0);
        for (std::int64_t n = 0; !erase_read.empty() && n < d * dv; ++n) {
          erased[index_of(n % dv)] += at(erase_read, k + t * d + n / dv) * s[index_of(n)];
        }
        for (std::int64_t a = 0; a < d; ++a) {
          double alpha = decay.empty() ? 1 : at(decay, head * shape.length + t);
          if (!channel_decay.empty()) alpha = at(channel_decay, k + t * d + a);
          for (std::int64_t x = 0; x < dv; ++x) {
            double& entry = s[index_of(a * dv + x)];
            entry *= alpha;
            if (!erase_write.empty()) entry += at(erase_write, k + t * d + a) * erased[index_of(x)];
          }
        }
        for (std::int64_t x = 0; x < dv; ++x) {
          double u = at(value, v + t * dv + x);
          if (shape.delta_rule) {
            for (std::int64_t a = 0; a < d; ++a) u -= s[index_of(a * dv + x)] * at(key, k + t * d + a);
          }
          if (!beta.empty()) u *= at(beta, head * shape.length + t);
          double y = 0;
          for (std::int64_t a = 0; a < d; ++a) {
            double& entry = s[index_of(a * dv + x)];
            entry += u * at(key, k + t * d + a);
            y += entry * at(query, q + t * d + a);
          }
          const double ours = at(output, (t * shape.heads + head) * dv + x);
          ASSERT_NEAR(ours, y, 3e-5 * (std::sqrt(static_cast<double>(d)) + std::abs(y)))
              << "head " << head << ", position " << t << ", channel " << x;
        }
      }
      for (std::int64_t n = 0; n < d * dv; ++n) {
        ASSERT_NEAR(at(state, head * d * dv + n), s[index_of(n)], 3e-5) << "state " << n;
      }
    }
  }

  MixingShape shape;
  std::vector<float> query, key, value, decay, channel_decay, beta, erase_read, erase_write, state, output;
};

// clang-format off
const MixingShape kShapes[] = {
    {"mamba2", 4, 1, 1, 4, 200, 32, 16, true, false, true, false},
    {"mamba2_groups", 4, 2, 2, 4, 67, 24, 12, true, false, true, false},
    {"strong_decay", 2, 2, 2, 2, 150, 16, 16, true, false, true, false, 200},
    {"gla", 2, 2, 2, 2, 130, 20, 32, false, true, false, false},
    {"gla_shared_keys", 4, 4, 2, 2, 33, 16, 16, false, true, false, false},
    {"gla_strong", 2, 2, 2, 2, 100, 17, 5, false, true, false, false, 200},
    {"delta", 2, 2, 2, 2, 190, 32, 32, false, false, true, true},
    {"delta_without_beta", 1, 1, 1, 1, 40, 13, 7, false, false, false, true},
    {"gated_delta", 4, 2, 2, 4, 129, 12, 24, true, false, true, true},
    {"channel_delta", 4, 2, 2, 4, 70, 12, 24, false, true, true, true},
    {"low_rank", 4, 2, 2, 4, 75, 20, 12, false, true, false, false, 0.5, true},
    {"low_rank_with_beta", 2, 2, 2, 2, 40, 16, 16, false, true, true, false, 200, true},
    {"one_position", 2, 2, 2, 2, 1, 16, 16, true, false, true, true},
    {"no_decay", 2, 2, 2, 2, 65, 16, 16, false, false, false, false},
};
// clang-format on

class LinearMixingKernel : public ::testing::TestWithParam<MixingShape> {};

TEST_P(LinearMixingKernel, IsTheRecurrenceOnEveryInstructionSet) {
  for (const std::int64_t target : kernels::testing::InstructionSet::available()) {
    SCOPED_TRACE(hwy::TargetName(target));
    const kernels::testing::InstructionSet chosen(target);
    MixingProblem(GetParam()).expect_recurrence();
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, LinearMixingKernel, ::testing::ValuesIn(kShapes),
                         [](const auto& shape) { return std::string(shape.param.name); });

TEST(LinearMixing, GoesOnFromAStateAsOneText) {
  for (const MixingShape& shape : kShapes) {
    if (shape.length < 3) continue;
    MixingProblem whole(shape);
    MixingProblem parts(shape);
    ThreadPool pool(1);
    ASSERT_EQ(linear_mixing(whole.arguments(), pool, {}), Status::ok);
    // Rows of a part lie apart in all heads, so each head is taken alone.
    for (int head = 0; head < shape.heads; ++head) {
      for (const auto& [first, end] : {std::pair<std::int64_t, std::int64_t>{0, 1}, {1, shape.length}}) {
        LinearMixing a = parts.arguments();
        a.query += (head / (shape.heads / shape.query_heads) * shape.length + first) * shape.key_dim;
        a.key += (head / (shape.heads / shape.key_heads) * shape.length + first) * shape.key_dim;
        for (const float** of_keys : {&a.channel_decay, &a.erase_read, &a.erase_write}) {
          if (*of_keys == nullptr) continue;
          *of_keys += (head / (shape.heads / shape.key_heads) * shape.length + first) * shape.key_dim;
        }
        a.value += (head / (shape.heads / shape.value_heads) * shape.length + first) * shape.value_dim;
        if (a.decay != nullptr) a.decay += head * shape.length + first;
        if (a.beta != nullptr) a.beta += head * shape.length + first;
        a.state += head * shape.key_dim * shape.value_dim;
        a.output += first * a.output_stride + head * shape.value_dim;
        a.heads = a.query_heads = a.key_heads = a.value_heads = 1;
        a.length = end - first;
        ASSERT_EQ(linear_mixing(a, pool, {}), Status::ok);
      }
    }
    for (std::size_t n = 0; n < whole.output.size(); ++n) {
      ASSERT_NEAR(whole.output[n], parts.output[n], 1e-4) << shape.name << " " << n;
    }
  }
}

TEST(LinearMixing, RefusesWhatDoesNotFit) {
  ThreadPool pool(1);
  const auto refused = [&](auto change) {
    MixingProblem problem(kShapes[0]);
    LinearMixing a = problem.arguments();
    change(a);
    return linear_mixing(a, pool, {}) == Status::invalid_argument;
  };
  EXPECT_TRUE(refused([](LinearMixing& a) { a.key_heads = 3; }));
  EXPECT_TRUE(refused([](LinearMixing& a) { a.length = 0; }));
  EXPECT_TRUE(refused([](LinearMixing& a) { a.state = nullptr; }));
  EXPECT_TRUE(refused([](LinearMixing& a) { a.output_stride = 3; }));
  EXPECT_TRUE(refused([](LinearMixing& a) { a.channel_decay = a.key; }));
  EXPECT_TRUE(refused([](LinearMixing& a) { a.erase_write = a.key; }));
  EXPECT_TRUE(refused([](LinearMixing& a) {
    a.erase_read = a.erase_write = a.key;
    a.delta_rule = true;
  }));
  EXPECT_TRUE(refused([](LinearMixing& a) {
    a.decay = nullptr;
    a.channel_decay = a.erase_read = a.key;
  }));
}

TEST(LinearMixing, StopsBetweenChunks) {
  MixingProblem problem(kShapes[0]);
  ThreadPool pool(2);
  std::stop_source source;
  source.request_stop();
  EXPECT_EQ(linear_mixing(problem.arguments(), pool, source.get_token()), Status::cancelled);
}

}  // namespace
}  // namespace foxscope::kernels::cpu

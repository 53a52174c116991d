#include "kernels/cpu/forgetting_attention_backward.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "tests/kernels/attention_problem.h"
#include "tests/kernels/instruction_set.h"
#include "tests/largest_error.h"

namespace foxscope::kernels::testing {
namespace {

// Of the largest entry of a gradient: what float32 arithmetic may change with inputs near 1. Where a row sees itself
// alone, dS is the difference of two equal products, and it is of the largest of those.
constexpr double kLargestError = 1e-5;
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

/// A problem, dO, and gradients that are poisoned until they are computed.
struct Gradients {
  Problem problem;
  std::vector<float> output_gradient, query, key, value, log_gate, key_logit;

  cpu::ForgettingAttentionBackward arguments() {
    cpu::ForgettingAttentionBackward b;
    b.forward = problem.arguments();
    b.output_gradient = output_gradient.data();
    b.query_gradient = query.data();
    b.key_gradient = key.data();
    b.value_gradient = value.data();
    b.output_gradient_strides = b.query_gradient_strides = problem.query_strides;
    b.key_gradient_strides = b.value_gradient_strides = problem.key_strides;
    b.log_gate_gradient = log_gate.data();
    b.key_logit_gradient = key_logit.data();
    return b;
  }
};

Gradients poisoned_gradients(const ProblemOptions& options, std::uint64_t seed) {
  Gradients g;
  g.problem = make_problem(options, seed);
  std::mt19937_64 random(seed + 1);
  std::normal_distribution<float> normal;
  g.output_gradient = g.problem.query;  // NaN between its rows
  for (float& entry : g.output_gradient) entry = std::isnan(entry) ? entry : normal(random);
  g.query.assign(g.problem.query.size(), kNotANumber);
  g.key.assign(g.problem.key.size(), kNotANumber);
  g.value.assign(g.problem.value.size(), kNotANumber);
  g.log_gate.assign(g.problem.log_normalizer.size(), kNotANumber);
  g.key_logit = g.log_gate;
  return g;
}

cpu::AttentionBlocks backward(Gradients& g, int threads = 2) {
  ThreadPool pool(threads);
  cpu::AttentionBlocks blocks;
  EXPECT_EQ(cpu::forgetting_attention_backward(g.arguments(), pool, {}, &blocks), Status::ok);
  return blocks;
}

Gradients computed_gradients(const ProblemOptions& options, std::uint64_t seed) {
  Gradients g = poisoned_gradients(options, seed);
  run(g.problem.arguments());
  backward(g);
  return g;
}

/// One query head by the definition, in float64, each pair on its own.
struct DenseHead {
  std::int64_t length = 0;
  std::int64_t dim = 0;
  std::int64_t window = 0;
  std::vector<double> q, k, v, gradient;  ///< [L, d], of dO the last
  std::vector<double> cumulative;         ///< [L]

  [[nodiscard]] std::int64_t first(std::int64_t i) const {
    return window > 0 ? std::max<std::int64_t>(0, i - window + 1) : 0;
  }
  static double product(const double* a, const double* b, std::int64_t count) {
    double sum = 0;
    for (std::int64_t x = 0; x < count; ++x) sum += a[x] * b[x];
    return sum;
  }
  /// P_ij of j in [first(i), i].
  [[nodiscard]] std::vector<double> row(std::int64_t i) const {
    std::vector<double> weights;
    for (std::int64_t j = first(i); j <= i; ++j) {
      weights.push_back(product(&q[at(i)], &k[at(j)], dim) / std::sqrt(static_cast<double>(dim)) +
                        cumulative[index_of(i)] - cumulative[index_of(j)]);
    }
    const double largest = *std::max_element(weights.begin(), weights.end());
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - largest);
    for (double& weight : weights) weight /= sum;
    return weights;
  }
  /// sum_i dO_i O_i.
  [[nodiscard]] double loss() const {
    double sum = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      const std::vector<double> weights = row(i);
      for (std::int64_t j = first(i); j <= i; ++j) {
        sum += weights[index_of(j - first(i))] * product(&gradient[at(i)], &v[at(j)], dim);
      }
    }
    return sum;
  }
  [[nodiscard]] std::size_t at(std::int64_t row) const { return static_cast<std::size_t>(row * dim); }
};

struct DenseGradients {
  std::vector<double> query, key, value;    ///< [L, d]
  std::vector<double> log_gate, key_logit;  ///< [L]
  double product_with_itself = 0;           ///< largest |dO_i v_i|
};

/// dlog f_t is the sum of dS over the pairs that t lies between, i >= t > j.
DenseGradients gradients_of(const DenseHead& h) {
  DenseGradients g;
  for (std::vector<double>* tensor : {&g.query, &g.key, &g.value}) tensor->assign(h.q.size(), 0.0);
  for (std::vector<double>* tensor : {&g.log_gate, &g.key_logit}) tensor->assign(h.cumulative.size(), 0.0);
  const double scale = 1 / std::sqrt(static_cast<double>(h.dim));
  for (std::int64_t i = 0; i < h.length; ++i) {
    const std::vector<double> weights = h.row(i);
    std::vector<double> products;
    double mean = 0;
    for (std::int64_t j = h.first(i); j <= i; ++j) {
      products.push_back(DenseHead::product(&h.gradient[h.at(i)], &h.v[h.at(j)], h.dim));
      mean += weights[products.size() - 1] * products.back();
    }
    g.product_with_itself = std::max(g.product_with_itself, std::abs(products.back()));
    double crossing = 0;
    for (std::int64_t j = h.first(i); j <= i; ++j) {
      const auto n = static_cast<std::size_t>(j - h.first(i));
      const double logit = weights[n] * (products[n] - mean);
      if (j > 0) g.log_gate[index_of(j)] += crossing;
      crossing += logit;
      g.key_logit[index_of(j)] += logit;
      for (std::size_t x = 0; x < static_cast<std::size_t>(h.dim); ++x) {
        g.query[h.at(i) + x] += scale * logit * h.k[h.at(j) + x];
        g.key[h.at(j) + x] += scale * logit * h.q[h.at(i) + x];
        g.value[h.at(j) + x] += weights[n] * h.gradient[h.at(i) + x];
      }
    }
  }
  return g;
}

DenseHead dense_head(const Gradients& g, std::int64_t batch, std::int64_t head) {
  const ProblemOptions& o = g.problem.options;
  DenseHead h;
  h.length = o.length;
  h.dim = o.head_dim;
  h.window = o.window_size;
  for (std::int64_t i = 0; i < o.length; ++i) {
    const std::int64_t query = g.problem.query_at(batch, head, i);
    const std::int64_t key = g.problem.key_at(batch, head / (o.heads / o.key_heads), i);
    for (std::int64_t x = 0; x < o.head_dim; ++x) {
      h.q.push_back(g.problem.query[index_of(query + x)]);
      h.gradient.push_back(g.output_gradient[index_of(query + x)]);
      h.k.push_back(g.problem.key[index_of(key + x)]);
      h.v.push_back(g.problem.value[index_of(key + x)]);
    }
    const std::vector<double>& c = g.problem.cumulative_log_gate;
    h.cumulative.push_back(c.empty() ? 0.0 : c[index_of((batch * o.heads + head) * o.length + i)]);
  }
  return h;
}

/// Largest difference between a tensor and rows of `width` numbers of the twin, over the twin's largest entry.
class LargestError {
 public:
  void add(const float* found, const double* expected, std::int64_t width) {
    for (std::int64_t x = 0; x < width; ++x) {
      difference_ = test::largest_error(difference_, static_cast<double>(found[x]) - expected[x]);
      largest_ = std::max(largest_, std::abs(expected[x]));
    }
  }
  [[nodiscard]] double error(double least) const { return difference_ / std::max(largest_, least); }

 private:
  double difference_ = 0;
  double largest_ = 0;
};

void add_to(std::vector<double>& sums, const std::vector<double>& terms) {
  sums.resize(terms.size(), 0.0);
  for (std::size_t n = 0; n < terms.size(); ++n) sums[n] += terms[n];
}

void expect_dense(const Gradients& g, double largest_error = kLargestError) {
  const ProblemOptions& o = g.problem.options;
  LargestError query, key, value, log_gate, key_logit;
  const bool alone = o.gate == Gate::zero || o.length == 1 || o.window_size == 1;
  double least = 1e-30;  // where no row has a dO, all is 0
  for (std::int64_t b = 0; b < o.batch; ++b) {
    for (std::int64_t key_head = 0; key_head < o.key_heads; ++key_head) {
      DenseGradients sums;
      for (std::int64_t member = 0; member < o.heads / o.key_heads; ++member) {
        const std::int64_t head = key_head * (o.heads / o.key_heads) + member;
        const DenseGradients expected = gradients_of(dense_head(g, b, head));
        if (alone) least = std::max(least, expected.product_with_itself);
        add_to(sums.key, expected.key);
        add_to(sums.value, expected.value);
        const std::int64_t gates = (b * o.heads + head) * o.length;
        log_gate.add(&g.log_gate[index_of(gates)], expected.log_gate.data(), o.length);
        key_logit.add(&g.key_logit[index_of(gates)], expected.key_logit.data(), o.length);
        for (std::int64_t i = 0; i < o.length; ++i) {
          query.add(&g.query[index_of(g.problem.query_at(b, head, i))], &expected.query[index_of(i * o.head_dim)],
                    o.head_dim);
        }
      }
      for (std::int64_t j = 0; j < o.length; ++j) {
        const auto at = static_cast<std::size_t>(g.problem.key_at(b, key_head, j));
        key.add(&g.key[at], &sums.key[index_of(j * o.head_dim)], o.head_dim);
        value.add(&g.value[at], &sums.value[index_of(j * o.head_dim)], o.head_dim);
      }
    }
  }
  EXPECT_LE(query.error(least), largest_error) << g.problem.describe();
  EXPECT_LE(key.error(least), largest_error) << g.problem.describe();
  EXPECT_LE(value.error(least), largest_error) << g.problem.describe();
  EXPECT_LE(log_gate.error(least), largest_error) << g.problem.describe();
  EXPECT_LE(key_logit.error(least), largest_error) << g.problem.describe();
}

constexpr Gate kEveryGate[] = {Gate::none, Gate::near_one, Gate::mixed,     Gate::near_zero,
                               Gate::zero, Gate::cuts,     Gate::far_offset};

TEST(ForgettingAttentionBackward, EqualsFloat64AtEveryLengthHeadDimensionAndGate) {
  std::uint64_t seed = 1;
  for (const Gate gate : kEveryGate) {
    for (const std::int64_t head_dim : {8, 16, 40, 64, 128}) {
      for (const std::int64_t length : {1, 17, 81, 130}) {
        expect_dense(computed_gradients(
            {.heads = 2, .key_heads = 2, .length = length, .head_dim = head_dim, .gate = gate}, seed++));
      }
    }
    for (const std::int64_t head_dim : {40, 64}) {
      expect_dense(computed_gradients({.length = 987, .head_dim = head_dim, .gate = gate}, seed++));
    }
  }
}

TEST(ForgettingAttentionBackward, EqualsFloat64InEveryWindow) {
  std::uint64_t seed = 200;
  for (const std::int64_t window : {1, 2, 7, 64, 65, 100, 299, 300, 1000}) {
    for (const Gate gate : {Gate::none, Gate::mixed, Gate::near_zero, Gate::cuts}) {
      expect_dense(computed_gradients({.length = 500, .gate = gate, .window_size = window}, seed++));
    }
  }
}

TEST(ForgettingAttentionBackward, EqualsFloat64WithGroupedHeadsBatchesAndStrides) {
  std::uint64_t seed = 300;
  for (const Layout layout : {Layout::heads_first, Layout::positions_first, Layout::padded}) {
    for (const std::int64_t key_heads : {1, 2, 3, 6}) {
      expect_dense(computed_gradients(
          {.batch = 3, .heads = 6, .key_heads = key_heads, .length = 210, .head_dim = 24, .layout = layout}, seed++));
    }
  }
}

TEST(ForgettingAttentionBackward, EqualsFloat64WithLargeLogits) {
  for (const Gate gate : {Gate::none, Gate::mixed, Gate::cuts}) {
    expect_dense(computed_gradients({.length = 700, .head_dim = 64, .gate = gate, .logit_scale = 10}, 400), 1e-4);
  }
}

TEST(ForgettingAttentionBackward, ComputesManyHeadsInSeveralPasses) {
  // More than is packed at a time.
  expect_dense(computed_gradients({.batch = 3, .heads = 30, .key_heads = 15, .length = 400, .head_dim = 64}, 500));
}

TEST(ForgettingAttentionBackward, EveryInstructionSetEqualsFloat64) {
  for (const std::int64_t target : InstructionSet::available()) {
    const InstructionSet chosen(target);
    SCOPED_TRACE(hwy::TargetName(target));
    for (const Gate gate : {Gate::none, Gate::mixed, Gate::near_zero}) {
      for (const std::int64_t head_dim : {20, 64}) {
        expect_dense(computed_gradients({.heads = 2,
                                         .key_heads = 1,
                                         .length = 331,
                                         .head_dim = head_dim,
                                         .gate = gate,
                                         .window_size = 250,
                                         .pruning_tolerance = 0x1p-24},
                                        7));
      }
    }
  }
}

TEST(ForgettingAttentionBackward, TheDefinitionEqualsItsDifferences) {
  const Gradients g = poisoned_gradients({.length = 23, .head_dim = 8, .window_size = 20}, 600);
  DenseHead head = dense_head(g, 0, 0);
  const DenseGradients expected = gradients_of(head);
  constexpr double kStep = 1e-5;
  const auto slope = [&](auto move) {
    move(kStep);
    const double above = head.loss();
    move(-2 * kStep);
    const double below = head.loss();
    move(kStep);
    return (above - below) / (2 * kStep);
  };
  for (std::size_t n = 0; n < head.q.size(); n += 5) {
    EXPECT_NEAR(slope([&](double step) { head.q[n] += step; }), expected.query[n], 1e-8);
    EXPECT_NEAR(slope([&](double step) { head.k[n] += step; }), expected.key[n], 1e-8);
    EXPECT_NEAR(slope([&](double step) { head.v[n] += step; }), expected.value[n], 1e-8);
  }
  for (std::size_t t = 0; t < head.cumulative.size(); ++t) {
    const double found = slope([&](double step) {
      for (std::size_t i = t; i < head.cumulative.size(); ++i) head.cumulative[i] += step;
    });
    EXPECT_NEAR(found, expected.log_gate[t], 1e-8);
  }
}

TEST(ForgettingAttentionBackward, NoPairLiesAcrossTheFirstGateAndRowsOfLogitsSumToZero) {
  for (const Gate gate : kEveryGate) {
    const Gradients g = computed_gradients({.heads = 3, .key_heads = 3, .length = 1200, .gate = gate}, 700);
    for (std::size_t head = 0; head < 3; ++head) {
      const auto first = g.key_logit.begin() + static_cast<std::ptrdiff_t>(head * 1200);
      double sum = 0;
      double size = 1;
      for (auto at = first; at != first + 1200; ++at) {
        sum += static_cast<double>(*at);
        size += std::abs(static_cast<double>(*at));
      }
      EXPECT_LE(std::abs(g.log_gate[head * 1200]), 1e-6 * size);
      EXPECT_LE(std::abs(sum), (gate == Gate::zero ? 1e-4 : 1e-5) * size);  // the sum of nothing but rounding
    }
  }
}

TEST(ForgettingAttentionBackward, BothSumsTogetherForgiveARoundedOutput) {
  Gradients g = poisoned_gradients({.length = 512, .head_dim = 64, .gate = Gate::near_zero}, 800);
  run(g.problem.arguments());
  for (float& x : g.problem.output) x = std::ldexp(std::rint(std::ldexp(x, 8)), -8);
  backward(g);
  const DenseGradients expected = gradients_of(dense_head(g, 0, 0));
  double with_rows = 0;
  double columns_only = 0;
  double suffix = 0;
  for (std::size_t t = 511; t > 0; --t) {
    suffix -= static_cast<double>(g.key_logit[t]);
    with_rows += std::pow(static_cast<double>(g.log_gate[t]) - expected.log_gate[t], 2);
    columns_only += std::pow(suffix - expected.log_gate[t], 2);
  }
  EXPECT_LT(with_rows, 0.05 * columns_only);
}

TEST(ForgettingAttentionBackward, RowsWithoutGradientContributeNothing) {
  constexpr std::int64_t kLength = 700;
  for (const std::int64_t last : {0, 1, 50, 96, 300}) {
    Gradients g = poisoned_gradients({.length = kLength, .pruning_tolerance = 0x1p-24}, 900);
    run(g.problem.arguments());
    for (std::int64_t i = 0; i < kLength; ++i) {
      // Of the others every seventh row is left out too, which the twin has to agree with.
      if (i < last && i % 7 != 3) continue;
      std::fill_n(&g.output_gradient[index_of(i * 16)], 16, i % 2 == 0 ? 0.0F : -0.0F);
    }
    const cpu::AttentionBlocks blocks = backward(g);
    expect_dense(g);
    EXPECT_GE(blocks.skipped, blocks.total / 2);
    for (std::int64_t t = last; t < kLength; ++t) {
      EXPECT_EQ(g.log_gate[index_of(t)], 0) << t;
      EXPECT_EQ(g.key_logit[index_of(t)], 0) << t;
      for (const std::vector<float>* tensor : {&g.query, &g.key, &g.value}) {
        for (std::int64_t x = 0; x < 16; ++x) EXPECT_EQ((*tensor)[index_of(t * 16 + x)], 0) << t;
      }
    }
  }
}

TEST(ForgettingAttentionBackward, LeavesOutNoMoreThanTheTolerance) {
  constexpr std::int64_t kLength = 1500;
  constexpr std::int64_t kDim = 32;
  for (const Gate gate : {Gate::mixed, Gate::near_zero, Gate::cuts}) {
    Gradients full = computed_gradients({.length = kLength, .head_dim = kDim, .gate = gate}, 1000);
    const auto longest = [](const std::vector<float>& tensor) {
      double square = 0;
      for (std::size_t row = 0; row < tensor.size() / kDim; ++row) {
        double sum = 0;
        for (std::size_t x = 0; x < kDim; ++x) sum += std::pow(static_cast<double>(tensor[row * kDim + x]), 2);
        square = std::max(square, sum);
      }
      return std::sqrt(square);
    };
    // |dO_i (v_j - O_i)| of any pair: a share s of a row's weight that is left out holds no more than s times that.
    const double product = 2 * longest(full.output_gradient) * longest(full.problem.value);
    const double scale = 1 / std::sqrt(static_cast<double>(kDim));
    std::int64_t skipped_before = 1;
    for (const double tolerance : {0x1p-24, 1e-4, 1e-2}) {
      Gradients pruned = full;
      pruned.problem.options.pruning_tolerance = tolerance;
      for (std::vector<float>* written : {&pruned.query, &pruned.key, &pruned.value}) {
        std::ranges::fill(*written, std::numeric_limits<float>::quiet_NaN());
      }
      const cpu::AttentionBlocks blocks = backward(pruned);
      EXPECT_GE(blocks.skipped, skipped_before);
      skipped_before = blocks.skipped;
      double query = 0;
      double key = 0;
      for (std::size_t n = 0; n < full.query.size(); ++n) {
        query = test::largest_error(query, static_cast<double>(full.query[n]) - static_cast<double>(pruned.query[n]));
        key = test::largest_error(key, static_cast<double>(full.key[n]) - static_cast<double>(pruned.key[n]));
      }
      EXPECT_LE(query, scale * tolerance * product * longest(full.problem.key) + 1e-5);
      EXPECT_LE(key, scale * tolerance * product * longest(full.problem.query) * kLength + 1e-5);
    }
  }
}

TEST(ForgettingAttentionBackward, LeavesOutAllThatTheToleranceAllows) {
  // Equal keys along every query make the bound exact; of one row with dO = (1, 0, ...), dV shows its P.
  constexpr std::int64_t kLength = 700;
  Gradients g = poisoned_gradients({.length = kLength, .gate = Gate::none}, 1050);
  for (std::int64_t t = 0; t < kLength; ++t) {
    g.problem.cumulative_log_gate.push_back(-0.05 * static_cast<double>(t));
    std::fill_n(&g.problem.query[index_of(t * 16)], 16, 0.5F);
    std::fill_n(&g.problem.key[index_of(t * 16)], 16, 0.5F);
    std::fill_n(&g.output_gradient[index_of(t * 16)], 16, 0.0F);
  }
  g.output_gradient[(kLength - 1) * 16] = 1;
  run(g.problem.arguments());
  for (const double tolerance : {1e-2, 1e-4, 1e-6}) {
    g.problem.options.pruning_tolerance = tolerance;
    backward(g);
    std::int64_t first = 0;
    while (g.value[index_of(first * 16)] == 0) ++first;
    const auto share_before = [](std::int64_t key) {
      return (std::exp(-0.05 * static_cast<double>(kLength - key)) - std::exp(-0.05 * kLength)) /
             (1 - std::exp(-0.05 * kLength));
    };
    EXPECT_EQ(first % 64, 0);
    EXPECT_LE(share_before(first), tolerance);
    EXPECT_GT(share_before(first + 64), tolerance * 0.999);
  }
}

TEST(ForgettingAttentionBackward, PrunesWhatTheDefaultToleranceCannotShow) {
  Gradients g = computed_gradients({.length = 987, .head_dim = 64, .gate = Gate::near_zero}, 1100);
  g.problem.options.pruning_tolerance = 0x1p-24;
  const cpu::AttentionBlocks blocks = backward(g);
  EXPECT_GT(blocks.skipped, blocks.total / 2);
  expect_dense(g);
}

TEST(ForgettingAttentionBackward, ResultsDoNotDependOnThreads) {
  Gradients one = poisoned_gradients({.heads = 4, .key_heads = 2, .length = 1300, .pruning_tolerance = 0x1p-24}, 1200);
  run(one.problem.arguments());
  Gradients two = one;
  Gradients three = one;
  backward(one, 1);
  backward(two, 2);
  backward(three, 3);
  for (const Gradients* other : {&two, &three}) {
    EXPECT_EQ(one.query, other->query);
    EXPECT_EQ(one.key, other->key);
    EXPECT_EQ(one.value, other->value);
    EXPECT_EQ(one.log_gate, other->log_gate);
    EXPECT_EQ(one.key_logit, other->key_logit);
  }
}

TEST(ForgettingAttentionBackward, WritesNothingBetweenRowsAndNotWhatIsNotAskedFor) {
  Gradients g = poisoned_gradients({.batch = 2, .heads = 2, .key_heads = 1, .length = 50, .layout = Layout::padded}, 1);
  run(g.problem.arguments());
  cpu::ForgettingAttentionBackward arguments = g.arguments();
  arguments.log_gate_gradient = nullptr;
  arguments.key_logit_gradient = nullptr;
  ThreadPool pool(2);
  ASSERT_EQ(cpu::forgetting_attention_backward(arguments, pool, {}, nullptr), Status::ok);
  const auto written = [](const std::vector<float>& tensor) {
    return std::count_if(tensor.begin(), tensor.end(), [](float x) { return !std::isnan(x); });
  };
  EXPECT_EQ(written(g.query), 2 * 2 * 50 * 16);
  EXPECT_EQ(written(g.key), 2 * 50 * 16);
  EXPECT_EQ(written(g.value), 2 * 50 * 16);
  EXPECT_EQ(written(g.log_gate), 0);
  EXPECT_EQ(written(g.key_logit), 0);
}

/// Whether a gradient of position t is NaN when a tensor is at `position`.
struct NanRule {
  const char* name;
  std::vector<float> Problem::*tensor;  // null: dO
  bool (*query)(std::int64_t t, std::int64_t position);
  bool (*key)(std::int64_t t, std::int64_t position);
  bool (*value)(std::int64_t t, std::int64_t position);
  bool (*log_gate)(std::int64_t t, std::int64_t position);
};

constexpr bool never(std::int64_t, std::int64_t) { return false; }
constexpr bool always(std::int64_t, std::int64_t) { return true; }
constexpr bool there(std::int64_t t, std::int64_t position) { return t == position; }
constexpr bool from_there(std::int64_t t, std::int64_t position) { return t >= position; }
constexpr bool up_to_there(std::int64_t t, std::int64_t position) { return t <= position; }

class NanBackward : public ::testing::TestWithParam<std::tuple<NanRule, Gate, double>> {};

TEST_P(NanBackward, ReachesWhatReadsItAndNothingElse) {
  const auto& [rule, gate, tolerance] = GetParam();
  constexpr std::int64_t kLength = 300;
  for (const std::int64_t position : {0, 5, 130, 299}) {
    Gradients g = poisoned_gradients({.length = kLength, .gate = gate, .pruning_tolerance = tolerance}, 1300);
    const auto at = static_cast<std::size_t>(position * 16 + 3);
    (rule.tensor == nullptr ? g.output_gradient : g.problem.*rule.tensor)[at] = kNotANumber;
    run(g.problem.arguments());
    backward(g);
    for (std::int64_t t = 0; t < kLength; ++t) {
      const auto entry = static_cast<std::size_t>(t * 16 + 3);
      const std::string where = std::string(rule.name) + " " + std::to_string(position) + " at " + std::to_string(t);
      EXPECT_EQ(std::isnan(g.query[entry]), rule.query(t, position)) << where;
      EXPECT_EQ(std::isnan(g.key[entry]), rule.key(t, position)) << where;
      EXPECT_EQ(std::isnan(g.value[entry]), rule.value(t, position)) << where;
      EXPECT_EQ(std::isnan(g.log_gate[index_of(t)]), rule.log_gate(t, position)) << where;
    }
  }
}

// A key or a value reaches every later row's O_i, and through those rows every key.
INSTANTIATE_TEST_SUITE_P(
    ForgettingAttentionBackward, NanBackward,
    ::testing::Combine(::testing::Values(NanRule{"query", &Problem::query, there, up_to_there, up_to_there,
                                                 up_to_there},
                                         NanRule{"key", &Problem::key, from_there, always, always, always},
                                         NanRule{"value", &Problem::value, from_there, always, never, always},
                                         NanRule{"dO", nullptr, there, up_to_there, up_to_there, up_to_there}),
                       ::testing::Values(Gate::none, Gate::mixed, Gate::near_zero), ::testing::Values(0.0, 0x1p-24)));

TEST(ForgettingAttentionBackward, NanInARowWithoutGradientReachesNothing) {
  for (std::vector<float> Problem::*tensor : {&Problem::query, &Problem::key, &Problem::value}) {
    Gradients g = poisoned_gradients({.length = 300, .pruning_tolerance = 0x1p-24}, 1400);
    (g.problem.*tensor)[130 * 16 + 3] = kNotANumber;
    run(g.problem.arguments());
    // Of rows that read it, none has a gradient.
    const bool one_row = tensor == &Problem::query;
    std::fill(g.output_gradient.begin() + 130 * 16,
              one_row ? g.output_gradient.begin() + 131 * 16 : g.output_gradient.end(), 0.0F);
    backward(g);
    for (const std::vector<float>* gradient : {&g.query, &g.key, &g.value, &g.log_gate, &g.key_logit}) {
      EXPECT_TRUE(std::none_of(gradient->begin(), gradient->end(), [](float x) { return std::isnan(x); }));
    }
  }
}

TEST(ForgettingAttentionBackward, StopsBetweenTasks) {
  Gradients g = computed_gradients({.heads = 2, .key_heads = 2, .length = 500}, 1500);
  StoppingExecutor counting(std::numeric_limits<std::int64_t>::max());
  ASSERT_EQ(cpu::forgetting_attention_backward(g.arguments(), counting, counting.token(), nullptr), Status::ok);
  for (std::int64_t after = 0; after < counting.begun(); ++after) {
    StoppingExecutor executor(after);
    EXPECT_EQ(cpu::forgetting_attention_backward(g.arguments(), executor, executor.token(), nullptr),
              Status::cancelled);
  }
}

TEST(ForgettingAttentionBackward, RefusesInvalidArguments) {
  Gradients g = computed_gradients({.heads = 4, .key_heads = 2, .length = 10}, 1600);
  ThreadPool pool(1);
  using Arguments = cpu::ForgettingAttentionBackward;
  using Forward = cpu::ForgettingAttention;
  const auto status_after = [&](auto change) {
    Arguments changed = g.arguments();
    change(changed);
    return cpu::forgetting_attention_backward(changed, pool, {}, nullptr);
  };
  EXPECT_EQ(status_after([](Arguments&) {}), Status::ok);
  for (std::int64_t Forward::*size :
       {&Forward::batch, &Forward::heads, &Forward::key_heads, &Forward::length, &Forward::head_dim}) {
    EXPECT_EQ(status_after([size](Arguments& a) { a.forward.*size = 0; }), Status::invalid_argument);
  }
  EXPECT_EQ(status_after([](Arguments& a) { a.forward.key_heads = 3; }), Status::invalid_argument);
  EXPECT_EQ(status_after([](Arguments& a) { a.forward.window_size = -1; }), Status::invalid_argument);
  EXPECT_EQ(status_after([](Arguments& a) { a.forward.scale = kNotANumber; }), Status::invalid_argument);
  EXPECT_EQ(status_after([](Arguments& a) { a.forward.pruning_tolerance = 1; }), Status::invalid_argument);
  for (const float* Forward::*read : {&Forward::query, &Forward::key, &Forward::value}) {
    EXPECT_EQ(status_after([read](Arguments& a) { a.forward.*read = nullptr; }), Status::invalid_argument);
  }
  EXPECT_EQ(status_after([](Arguments& a) { a.forward.output = nullptr; }), Status::invalid_argument);
  EXPECT_EQ(status_after([](Arguments& a) { a.forward.log_normalizer = nullptr; }), Status::invalid_argument);
  EXPECT_EQ(status_after([](Arguments& a) { a.output_gradient = nullptr; }), Status::invalid_argument);
  for (float* Arguments::*written :
       {&Arguments::query_gradient, &Arguments::key_gradient, &Arguments::value_gradient}) {
    EXPECT_EQ(status_after([written](Arguments& a) { a.*written = nullptr; }), Status::invalid_argument);
  }
  for (cpu::AttentionStrides Arguments::*strides :
       {&Arguments::query_gradient_strides, &Arguments::key_gradient_strides, &Arguments::value_gradient_strides}) {
    EXPECT_EQ(status_after([strides](Arguments& a) { (a.*strides).row = a.forward.head_dim - 1; }),
              Status::invalid_argument);
  }
}

}  // namespace
}  // namespace foxscope::kernels::testing

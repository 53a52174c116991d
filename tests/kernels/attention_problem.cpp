#include "tests/kernels/attention_problem.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "kernels/executor.h"
#include "tests/largest_error.h"

namespace foxscope::kernels::testing {
namespace {

constexpr float kPoison = std::numeric_limits<float>::quiet_NaN();
constexpr std::int64_t kAllRowsUpTo = 100;
constexpr std::int64_t kSampledRows = 40;

cpu::AttentionStrides strides_of(const ProblemOptions& o, std::int64_t heads) {
  switch (o.layout) {
    case Layout::positions_first:
      return {o.length * heads * o.head_dim, o.head_dim, heads * o.head_dim};
    case Layout::padded: {
      const std::int64_t row = o.head_dim + 3;
      return {heads * (o.length * row + 5) + 1, o.length * row + 5, row};
    }
    case Layout::heads_first:
      break;
  }
  return {heads * o.length * o.head_dim, o.length * o.head_dim, o.head_dim};
}

std::int64_t at(const cpu::AttentionStrides& strides, std::int64_t batch, std::int64_t head, std::int64_t row) {
  return batch * strides.batch + head * strides.head + row * strides.row;
}

std::vector<float> poisoned(const ProblemOptions& o, std::int64_t heads, const cpu::AttentionStrides& strides) {
  const std::int64_t last = at(strides, o.batch - 1, heads - 1, o.length - 1) + o.head_dim;
  return std::vector<float>(static_cast<std::size_t>(last), kPoison);
}

std::vector<float> random_tensor(const ProblemOptions& o, std::int64_t heads, const cpu::AttentionStrides& strides,
                                 float deviation, std::mt19937_64& random) {
  std::normal_distribution<float> normal(0.0F, deviation);
  std::vector<float> tensor = poisoned(o, heads, strides);
  for (std::int64_t b = 0; b < o.batch; ++b) {
    for (std::int64_t h = 0; h < heads; ++h) {
      for (std::int64_t i = 0; i < o.length; ++i) {
        for (std::int64_t x = 0; x < o.head_dim; ++x) {
          tensor[index_of(at(strides, b, h, i) + x)] = normal(random);
        }
      }
    }
  }
  return tensor;
}

double log_sigmoid(double x) { return x < 0 ? x - std::log1p(std::exp(x)) : -std::log1p(std::exp(-x)); }

double draw_log_gate(const ProblemOptions& o, std::int64_t head, std::mt19937_64& random) {
  std::normal_distribution<double> normal;
  const double jitter = normal(random);
  switch (o.gate) {
    case Gate::near_zero:
      return -5.0;
    case Gate::zero:
      return -1000.0;
    case Gate::cuts:
      if (random() % 50 == 0) return -1000.0;
      [[fallthrough]];
    case Gate::near_one:
      return log_sigmoid(9.0 + jitter);
    default: {
      const double share = o.heads > 1 ? static_cast<double>(head) / static_cast<double>(o.heads - 1) : 0.3;
      return log_sigmoid(std::log(8.0 * std::pow(1024.0, share)) + jitter);
    }
  }
}

std::vector<double> draw_gates(const ProblemOptions& o, std::mt19937_64& random) {
  std::vector<double> cumulative;
  if (o.gate == Gate::none) return cumulative;
  for (std::int64_t b = 0; b < o.batch; ++b) {
    for (std::int64_t h = 0; h < o.heads; ++h) {
      double sum = o.gate == Gate::far_offset ? -1e8 : 0.0;
      for (std::int64_t i = 0; i < o.length; ++i) cumulative.push_back(sum += draw_log_gate(o, h, random));
    }
  }
  return cumulative;
}

}  // namespace

std::int64_t Problem::query_at(std::int64_t batch, std::int64_t head, std::int64_t row) const {
  return at(query_strides, batch, head, row);
}

std::int64_t Problem::key_at(std::int64_t batch, std::int64_t key_head, std::int64_t row) const {
  return at(key_strides, batch, key_head, row);
}

std::string Problem::describe() const {
  const ProblemOptions& o = options;
  return "B " + std::to_string(o.batch) + " H " + std::to_string(o.heads) + "/" + std::to_string(o.key_heads) + " L " +
         std::to_string(o.length) + " d " + std::to_string(o.head_dim) + " gate " +
         std::to_string(static_cast<int>(o.gate)) + " window " + std::to_string(o.window_size) + " layout " +
         std::to_string(static_cast<int>(o.layout)) + " tolerance " + std::to_string(o.pruning_tolerance) + " cap " +
         std::to_string(o.logit_cap) + " sink " + std::to_string(o.sink);
}

cpu::ForgettingAttention Problem::arguments() {
  cpu::ForgettingAttention a;
  a.batch = options.batch;
  a.heads = options.heads;
  a.key_heads = options.key_heads;
  a.length = options.length;
  a.head_dim = options.head_dim;
  a.query = query.data();
  a.query_strides = query_strides;
  a.key = key.data();
  a.key_strides = key_strides;
  a.value = value.data();
  a.value_strides = key_strides;
  a.cumulative_log_gate = cumulative_log_gate.empty() ? nullptr : cumulative_log_gate.data();
  a.output = output.data();
  a.output_strides = query_strides;
  a.log_normalizer = log_normalizer.data();
  a.log_normalizer_without_gate = log_normalizer_without_gate.data();
  a.scale = 1.0F / std::sqrt(static_cast<float>(options.head_dim));
  a.window_size = options.window_size;
  a.logit_cap = options.logit_cap;
  a.sink = sinks.empty() ? nullptr : sinks.data();
  a.pruning_tolerance = options.pruning_tolerance;
  return a;
}

Problem make_problem(const ProblemOptions& options, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  Problem p;
  p.options = options;
  p.query_strides = strides_of(options, options.heads);
  p.key_strides = strides_of(options, options.key_heads);
  p.query = random_tensor(options, options.heads, p.query_strides, options.logit_scale, random);
  p.key = random_tensor(options, options.key_heads, p.key_strides, 1.0F, random);
  p.value = random_tensor(options, options.key_heads, p.key_strides, 1.0F, random);
  p.output = poisoned(options, options.heads, p.query_strides);
  p.cumulative_log_gate = draw_gates(options, random);
  const auto rows = static_cast<std::size_t>(options.batch * options.heads * options.length);
  for (std::int64_t head = 0; head < options.heads && options.sink != 0; ++head) {
    p.sinks.push_back(options.sink + static_cast<float>(head));
  }
  p.log_normalizer.assign(rows, kPoison);
  p.log_normalizer_without_gate.assign(rows, kPoison);
  return p;
}

ReferenceRow reference_row(const Problem& p, std::int64_t batch, std::int64_t head, std::int64_t row) {
  const ProblemOptions& o = p.options;
  const std::int64_t key_head = head / (o.heads / o.key_heads);
  const std::int64_t first = o.window_size > 0 ? std::max<std::int64_t>(0, row - o.window_size + 1) : 0;
  const double scale = 1.0 / std::sqrt(static_cast<double>(o.head_dim));
  const float* q = p.query.data() + p.query_at(batch, head, row);
  const double* c =
      p.cumulative_log_gate.empty() ? nullptr : p.cumulative_log_gate.data() + (batch * o.heads + head) * o.length;
  std::vector<double> logits;
  std::vector<double> gated;
  for (std::int64_t j = first; j <= row; ++j) {
    const float* k = p.key.data() + p.key_at(batch, key_head, j);
    double dot = 0;
    for (std::int64_t x = 0; x < o.head_dim; ++x) dot += static_cast<double>(q[x]) * static_cast<double>(k[x]);
    const auto cap = static_cast<double>(o.logit_cap);
    const double logit = cap > 0 ? cap * std::tanh(dot * scale / cap) : dot * scale;
    logits.push_back(logit);
    gated.push_back(logit + (c == nullptr ? 0.0 : c[row] - c[j]));
  }
  const auto log_sum = [&](std::vector<double> terms) {
    if (!p.sinks.empty()) terms.push_back(static_cast<double>(p.sinks[index_of(head)]));
    const double largest = *std::max_element(terms.begin(), terms.end());
    double sum = 0;
    for (const double term : terms) sum += std::exp(term - largest);
    return largest + std::log(sum);
  };
  ReferenceRow result;
  result.log_normalizer = log_sum(gated);
  result.log_normalizer_without_gate = log_sum(logits);
  result.output.assign(static_cast<std::size_t>(o.head_dim), 0.0);
  for (std::int64_t j = first; j <= row; ++j) {
    const double weight = std::exp(gated[index_of(j - first)] - result.log_normalizer);
    const float* v = p.value.data() + p.key_at(batch, key_head, j);
    for (std::size_t x = 0; x < result.output.size(); ++x) result.output[x] += weight * static_cast<double>(v[x]);
  }
  return result;
}

Differences compare_with_reference(const Problem& p, std::uint64_t seed) {
  const ProblemOptions& o = p.options;
  std::mt19937_64 random(seed);
  Differences differences;
  for (std::int64_t b = 0; b < o.batch; ++b) {
    for (std::int64_t h = 0; h < o.heads; ++h) {
      for (std::int64_t i = 0; i < o.length; ++i) {
        const float* output = p.output.data() + p.query_at(b, h, i);
        for (std::int64_t x = 0; x < o.head_dim; ++x) {
          if (!std::isfinite(output[x])) differences.output = std::numeric_limits<double>::infinity();
        }
        const bool edge = i < 3 || i + 3 >= o.length;
        const auto dice = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(o.length));
        if (o.length > kAllRowsUpTo && !edge && dice >= kSampledRows) continue;
        const ReferenceRow expected = reference_row(p, b, h, i);
        for (std::int64_t x = 0; x < o.head_dim; ++x) {
          differences.output =
              test::largest_error(differences.output, static_cast<double>(output[x]) - expected.output[index_of(x)]);
        }
        const auto row = static_cast<std::size_t>((b * o.heads + h) * o.length + i);
        differences.log_normalizer = test::largest_error(
            differences.log_normalizer, static_cast<double>(p.log_normalizer[row]) - expected.log_normalizer);
        differences.log_normalizer_without_gate = test::largest_error(
            differences.log_normalizer_without_gate,
            static_cast<double>(p.log_normalizer_without_gate[row]) - expected.log_normalizer_without_gate);
      }
    }
  }
  return differences;
}

cpu::AttentionBlocks run(const cpu::ForgettingAttention& arguments, int threads) {
  ThreadPool pool(threads);
  cpu::AttentionBlocks blocks;
  EXPECT_EQ(cpu::forgetting_attention(arguments, pool, {}, &blocks), Status::ok);
  return blocks;
}

}  // namespace foxscope::kernels::testing

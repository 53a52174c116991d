// Gradients of forgetting attention on the GPU against dense float64. Skipped by name where there is none.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/attention/forgetting_attention_backward.h"
#include "tests/kernels/cuda_support.h"
#include "tests/kernels/cuda_test.h"

namespace foxscope::kernels::testing {
namespace {

using cuda::AttentionKernel;
using cuda::ElementType;

/// Log f of a step.
enum class StepGate { none, one, mixed, near_one, near_zero, zero, cuts, far_offset };

struct BackwardOptions {
  std::int64_t batch = 1;
  std::int64_t heads = 2;
  std::int64_t key_heads = 2;
  std::int64_t length = 1;
  std::int64_t head_dim = 64;
  StepGate gate = StepGate::mixed;
  std::int64_t window_size = 0;
  double pruning_tolerance = 0;
  std::int64_t padding = 0;        ///< elements after each row; not a multiple of 8: rows are not aligned
  std::int64_t rows_in_loss = -1;  ///< dO of later rows is 0; -1: none are later
  ElementType type = ElementType::bfloat16;
};

std::string describe_backward(const BackwardOptions& o) {
  std::ostringstream text;
  text << "batch " << o.batch << " heads " << o.heads << '/' << o.key_heads << " length " << o.length << " d "
       << o.head_dim << " gate " << static_cast<int>(o.gate) << " window " << o.window_size << " padding " << o.padding
       << " type " << static_cast<int>(o.type);
  return text.str();
}

/// All that the backward gives, contiguous: [B, L, heads, d] and [B, H, L].
struct Gradients {
  std::vector<double> query, key, value, log_gate, key_logit;
};

double norm_of(const std::vector<double>& x) {
  double squares = 0;
  for (const double a : x) squares += a * a;
  return std::sqrt(squares);
}

/// NaN where a number of either is.
double distance_of(const std::vector<double>& x, const std::vector<double>& y) {
  double squares = 0;
  for (std::size_t i = 0; i < x.size(); ++i) squares += (x[i] - y[i]) * (x[i] - y[i]);
  return std::sqrt(squares);
}

/// A number as bfloat16 operations leave it between them, or as it is.
double stored(double x, bool composed) { return composed ? widen(narrow(static_cast<float>(x))) : x; }

/// Eight sums, so that none waits for the one before it.
/// @param count  a multiple of 8
template <class A, class B>
double product_of(const A* a, const B* b, std::int64_t count) {
  double sums[8] = {};
  for (std::int64_t x = 0; x < count; x += 8) {
    for (std::int64_t i = 0; i < 8; ++i) sums[i] += static_cast<double>(a[x + i]) * static_cast<double>(b[x + i]);
  }
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

/// Random rows, and gradients in float64 by the definition, over pairs.
class BackwardProblem {
 public:
  BackwardProblem(const BackwardOptions& options, std::uint64_t seed) : o(options) {
    query = numbers(o.heads, seed * 8);
    key = numbers(o.key_heads, seed * 8 + 1);
    value = numbers(o.key_heads, seed * 8 + 2);
    output_gradient = numbers(o.heads, seed * 8 + 3);
    for (std::int64_t r = 0; r < o.batch * o.length * o.heads; ++r) {
      if (o.rows_in_loss < 0 || r / o.heads % o.length < o.rows_in_loss) continue;
      std::fill_n(output_gradient.begin() + r * o.head_dim, o.head_dim, 0.0F);
    }
    make_gates(seed);
    attend();
  }

  BackwardOptions o;
  std::vector<float> query, key, value, output_gradient;  // [B, L, heads, d]
  std::vector<double> gate;                               // [B, H, L], or empty
  std::vector<double> output;                             // [B, L, H, d]
  std::vector<double> log_normalizer;                     // [B, H, L]

  [[nodiscard]] double scale() const { return 1 / std::sqrt(static_cast<double>(o.head_dim)); }
  [[nodiscard]] std::int64_t at(std::int64_t heads, std::int64_t b, std::int64_t h, std::int64_t i) const {
    return ((b * o.length + i) * heads + h) * o.head_dim;
  }
  [[nodiscard]] std::int64_t first_key(std::int64_t i) const {
    return o.window_size > 0 ? std::max<std::int64_t>(0, i - o.window_size + 1) : 0;
  }

  /// sum of dO_ij O_ij, of which the gradients are those.
  [[nodiscard]] double loss() const {
    double sum = 0;
    for (std::size_t i = 0; i < output.size(); ++i) sum += output[i] * static_cast<double>(output_gradient[i]);
    return sum;
  }

  void attend() {
    output.assign(query.size(), 0);
    log_normalizer.assign(index_of(o.batch * o.heads * o.length), 0);
    all_cores().run(o.batch * o.heads * o.length, [&](std::int64_t task, int) {
      const std::int64_t flat = task / o.length;
      const std::int64_t i = task % o.length;
      std::vector<double> weights(index_of(i + 1));
      double largest = -std::numeric_limits<double>::infinity();
      for (std::int64_t j = first_key(i); j <= i; ++j) {
        largest = std::max(largest, weights[index_of(j)] = logit(flat, i, j));
      }
      double sum = 0;
      for (std::int64_t j = first_key(i); j <= i; ++j) {
        sum += weights[index_of(j)] = std::exp(weights[index_of(j)] - largest);
      }
      double* out = output.data() + at(o.heads, flat / o.heads, flat % o.heads, i);
      for (std::int64_t j = first_key(i); j <= i; ++j) {
        const float* v = value.data() + at(o.key_heads, flat / o.heads, key_head(flat), j);
        for (std::int64_t x = 0; x < o.head_dim; ++x) {
          out[x] += weights[index_of(j)] / sum * static_cast<double>(v[x]);
        }
      }
      log_normalizer[index_of(task)] = largest + std::log(sum);
    });
  }

  /// @param composed   with bfloat16 between the operations, and an output that was rounded
  /// @param magnitude  in place of the sums, those of their terms' absolute values
  [[nodiscard]] Gradients gradients(bool composed, bool magnitude = false) const {
    Gradients g;
    g.query.assign(query.size(), 0);
    g.key.assign(key.size(), 0);
    g.value.assign(value.size(), 0);
    g.log_gate.assign(log_normalizer.size(), 0);
    g.key_logit.assign(log_normalizer.size(), 0);
    const auto kept = [&](double x) { return magnitude ? std::abs(x) : x; };
    const auto pair = [&](std::int64_t i, std::int64_t j) { return index_of(i * o.length + j); };
    std::vector<double> weights(index_of(o.length * o.length));
    std::vector<double> of_logits(weights.size());
    std::vector<double> rows(index_of(o.length));  // sums of of_logits
    for (std::int64_t flat = 0; flat < o.batch * o.heads; ++flat) {
      const std::int64_t b = flat / o.heads;
      all_cores().run(o.length, [&](std::int64_t i, int) {
        const std::int64_t row = at(o.heads, b, flat % o.heads, i);
        double delta = 0;
        for (std::int64_t x = 0; x < o.head_dim; ++x) {
          delta +=
              static_cast<double>(output_gradient[index_of(row + x)]) * stored(output[index_of(row + x)], composed);
        }
        double* dq = g.query.data() + row;
        rows[index_of(i)] = 0;
        for (std::int64_t j = first_key(i); j <= i; ++j) {
          const std::int64_t column = at(o.key_heads, b, key_head(flat), j);
          const double dp =
              stored(product_of(output_gradient.data() + row, value.data() + column, o.head_dim), composed);
          const double p =
              stored(std::exp(logit(flat, i, j, composed) - log_normalizer[index_of(flat * o.length + i)]), composed);
          const double ds = magnitude ? p * (std::abs(dp) + std::abs(delta)) : stored(p * (dp - delta), composed);
          for (std::int64_t x = 0; x < o.head_dim; ++x) {
            dq[x] += scale() * ds * kept(static_cast<double>(key[index_of(column + x)]));
          }
          weights[pair(i, j)] = p;
          of_logits[pair(i, j)] = ds;
          rows[index_of(i)] += ds;
        }
      });
      // Keys that lie in one line of the cache together.
      all_cores().run((o.length + kKeysTogether - 1) / kKeysTogether, [&](std::int64_t task, int) {
        const std::int64_t first = task * kKeysTogether;
        for (std::int64_t i = first; i < o.length; ++i) {
          const std::int64_t row = at(o.heads, b, flat % o.heads, i);
          for (std::int64_t j = std::max(first, first_key(i)); j < std::min(first + kKeysTogether, i + 1); ++j) {
            const std::int64_t column = at(o.key_heads, b, key_head(flat), j);
            double* dk = g.key.data() + column;
            double* dv = g.value.data() + column;
            const double ds = of_logits[pair(i, j)];
            for (std::int64_t x = 0; x < o.head_dim; ++x) {
              dk[x] += scale() * ds * kept(static_cast<double>(query[index_of(row + x)]));
              dv[x] += weights[pair(i, j)] * kept(static_cast<double>(output_gradient[index_of(row + x)]));
            }
            g.key_logit[index_of(flat * o.length + j)] += ds;
          }
        }
      });
      // Of a pair's steps, j + 1 is the first and i the last.
      double crossing = 0;
      for (std::int64_t t = 1; t < o.length; ++t) {
        crossing += g.key_logit[index_of(flat * o.length + t - 1)] - rows[index_of(t - 1)];
        g.log_gate[index_of(flat * o.length + t)] = crossing;
      }
    }
    for (auto* tensor : {&g.query, &g.key, &g.value}) {
      for (double& x : *tensor) x = stored(x, composed);
    }
    return g;
  }

 private:
  static constexpr std::int64_t kKeysTogether = 8;
  [[nodiscard]] std::vector<float> numbers(std::int64_t heads, std::uint64_t seed) const {
    std::vector<float> x = normal_numbers(o.batch * o.length * heads * o.head_dim, seed);
    if (o.type == ElementType::bfloat16) {
      for (float& a : x) a = static_cast<float>(widen(narrow(a)));
    }
    return x;
  }
  [[nodiscard]] std::int64_t key_head(std::int64_t flat) const { return flat % o.heads / (o.heads / o.key_heads); }
  [[nodiscard]] double logit(std::int64_t flat, std::int64_t i, std::int64_t j, bool composed = false) const {
    const float* q = query.data() + at(o.heads, flat / o.heads, flat % o.heads, i);
    const float* k = key.data() + at(o.key_heads, flat / o.heads, key_head(flat), j);
    const double product = product_of(q, k, o.head_dim);
    const double gates = gate.empty() ? 0 : gate[index_of(flat * o.length + i)] - gate[index_of(flat * o.length + j)];
    return stored(product, composed) * scale() + gates;
  }
  void make_gates(std::uint64_t seed) {
    if (o.gate == StepGate::none) return;
    std::mt19937_64 engine(seed + 77);
    std::normal_distribution<double> normal;
    std::uniform_real_distribution<double> uniform;
    for (std::int64_t head = 0; head < o.batch * o.heads; ++head) {
      const double logit = head % 2 == 0 ? 1.0 : 5.0;  // decay times of 3 and of 150 tokens
      double c = o.gate == StepGate::far_offset ? -1e8 : 0;
      for (std::int64_t i = 0; i < o.length; ++i) {
        double step = 0;
        if (o.gate == StepGate::mixed || o.gate == StepGate::far_offset) {
          step = -std::log1p(std::exp(-logit - normal(engine)));
        }
        if (o.gate == StepGate::near_one) step = -1e-4;
        if (o.gate == StepGate::near_zero) step = -5;
        if (o.gate == StepGate::zero) step = -1000;
        if (o.gate == StepGate::cuts) step = uniform(engine) < 0.02 ? -1000 : -0.001;
        gate.push_back(c += step);
      }
    }
  }
};

/// A problem on the device, its outputs poisoned.
class BackwardRun {
 public:
  explicit BackwardRun(const BackwardProblem& problem)
      : p(problem),
        query_(inputs(problem.query)),
        key_(inputs(problem.key)),
        value_(inputs(problem.value)),
        output_(inputs(std::vector<float>(problem.output.begin(), problem.output.end()))),
        output_gradient_(inputs(problem.output_gradient)),
        query_gradient_(outputs(problem.query)),
        key_gradient_(outputs(problem.key)),
        value_gradient_(outputs(problem.value)),
        log_normalizer_(ElementType::float32,
                        std::vector<float>(problem.log_normalizer.begin(), problem.log_normalizer.end())),
        log_gate_gradient_(ElementType::float32, std::ssize(problem.log_normalizer)),
        key_logit_gradient_(ElementType::float32, std::ssize(problem.log_normalizer)) {
    if (!p.gate.empty()) gate_ = to_device(p.gate);
    cuda::ForgettingAttentionBackward sizes = arguments();
    sizes.deterministic = true;
    workspace_ = cuda::DeviceBuffer(cuda::backward_workspace_bytes(sizes));
    EXPECT_TRUE(workspace_.fill(0xff));
  }

  [[nodiscard]] cuda::ForgettingAttentionBackward arguments() const {
    cuda::ForgettingAttentionBackward a;
    a.forward.batch = p.o.batch;
    a.forward.heads = p.o.heads;
    a.forward.key_heads = p.o.key_heads;
    a.forward.length = p.o.length;
    a.forward.head_dim = p.o.head_dim;
    a.forward.query = query_.data();
    a.forward.key = key_.data();
    a.forward.value = value_.data();
    a.forward.output = output_.data();
    a.forward.query_strides = a.forward.output_strides = strides(p.o.heads);
    a.forward.key_strides = a.forward.value_strides = strides(p.o.key_heads);
    a.forward.cumulative_log_gate = static_cast<const double*>(gate_.data());
    a.forward.log_normalizer = log_normalizer_.floats();
    a.forward.scale = static_cast<float>(p.scale());
    a.forward.window_size = p.o.window_size;
    a.forward.pruning_tolerance = p.o.pruning_tolerance;
    a.output_gradient = output_gradient_.data();
    a.query_gradient = query_gradient_.data();
    a.key_gradient = key_gradient_.data();
    a.value_gradient = value_gradient_.data();
    a.output_gradient_strides = a.query_gradient_strides = strides(p.o.heads);
    a.key_gradient_strides = a.value_gradient_strides = strides(p.o.key_heads);
    a.log_gate_gradient = log_gate_gradient_.floats();
    a.key_logit_gradient = key_logit_gradient_.floats();
    a.workspace = workspace_.data();
    return a;
  }

  [[nodiscard]] Status start(AttentionKernel kernel, bool deterministic = false) const {
    cuda::ForgettingAttentionBackward a = arguments();
    a.deterministic = deterministic;
    const Status status = p.o.type == ElementType::float32 ? forgetting_attention_backward_float32(a, nullptr)
                                                           : forgetting_attention_backward(a, nullptr, kernel);
    return cuda::synchronize() ? status : Status::failed;
  }

  /// Throws where something was written beside the rows.
  [[nodiscard]] Gradients results() const {
    return {rows_of(query_gradient_), rows_of(key_gradient_), rows_of(value_gradient_), log_gate_gradient_.values(),
            key_logit_gradient_.values()};
  }

 private:
  [[nodiscard]] std::int64_t row_stride() const { return p.o.head_dim + p.o.padding; }
  [[nodiscard]] cuda::AttentionStrides strides(std::int64_t heads) const {
    return {p.o.length * heads * row_stride(), row_stride(), heads * row_stride()};
  }
  [[nodiscard]] DeviceNumbers inputs(const std::vector<float>& rows) const {
    std::vector<float> padded(rows.size() / index_of(p.o.head_dim) * index_of(row_stride()), std::nanf(""));
    for (std::size_t i = 0; i < rows.size(); ++i) {
      padded[i / index_of(p.o.head_dim) * index_of(row_stride()) + i % index_of(p.o.head_dim)] = rows[i];
    }
    return {p.o.type, padded};
  }
  [[nodiscard]] DeviceNumbers outputs(const std::vector<float>& like) const {
    return {p.o.type, std::ssize(like) / p.o.head_dim * row_stride()};
  }
  [[nodiscard]] std::vector<double> rows_of(const DeviceNumbers& tensor) const {
    const std::vector<double> all = tensor.values();
    std::vector<double> rows;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i % index_of(row_stride()) < index_of(p.o.head_dim)) {
        rows.push_back(all[i]);
      } else if (!std::isnan(all[i])) {
        throw std::runtime_error("written between the rows");
      }
    }
    return rows;
  }

  const BackwardProblem& p;
  DeviceNumbers query_, key_, value_, output_, output_gradient_, query_gradient_, key_gradient_, value_gradient_,
      log_normalizer_, log_gate_gradient_, key_logit_gradient_;
  cuda::DeviceBuffer gate_, workspace_;
};

/// What float32 arithmetic, and weights that are off by 2^-22 through their log-normaliser, leave of sums of terms.
constexpr double kFloat32Terms = 1e-6;
constexpr double kFloat32Sum = 1e-5;

/// Half a unit in the last place of bfloat16. Of a few numbers, composed operations can be nearer than that by chance.
constexpr double kHalfUnit = 1.0 / 512;

class CudaAttentionBackward : public CudaTest {
 protected:
  /// @param floor  share of the terms' absolute values by which a sum may be off beside what rounding explains
  static void expect_near(const Gradients& results, const Gradients& exact, const Gradients& composed,
                          const Gradients& magnitude, bool low, double floor = 0) {
    const auto check_one = [&](const char* name, std::vector<double> Gradients::*part) {
      const double rounding = low ? 2 * distance_of(composed.*part, exact.*part) + kHalfUnit * norm_of(exact.*part)
                                  : kFloat32Sum * norm_of(exact.*part);
      EXPECT_LE(distance_of(results.*part, exact.*part), rounding + (kFloat32Terms + floor) * norm_of(magnitude.*part))
          << name << ", of " << norm_of(exact.*part);
    };
    check_one("query", &Gradients::query);
    check_one("key", &Gradients::key);
    check_one("value", &Gradients::value);
    check_one("log gate", &Gradients::log_gate);
    check_one("key logit", &Gradients::key_logit);
  }

  static void check(const BackwardOptions& options, std::uint64_t seed) {
    SCOPED_TRACE(describe_backward(options));
    const BackwardProblem problem(options, seed);
    const bool low = options.type == ElementType::bfloat16;
    const Gradients exact = problem.gradients(false);
    const Gradients composed = low ? problem.gradients(true) : exact;
    const Gradients magnitude = problem.gradients(false, true);
    for (const AttentionKernel kernel : low ? kernels(options) : std::vector{AttentionKernel::automatic}) {
      SCOPED_TRACE(kernel == AttentionKernel::hopper     ? "hopper"
                   : kernel == AttentionKernel::portable ? "portable"
                                                         : "portable, small");
      const BackwardRun run(problem);
      ASSERT_EQ(run.start(kernel), Status::ok);
      expect_near(run.results(), exact, composed, magnitude, low, options.pruning_tolerance);
    }
  }

  /// Those for bfloat16 that compute a problem on this device.
  static std::vector<AttentionKernel> kernels(const BackwardOptions& options) {
    const BackwardProblem problem({.head_dim = options.head_dim, .padding = options.padding}, 1);
    std::vector<AttentionKernel> all = {AttentionKernel::portable};
    if (options.head_dim == 128) all.push_back(AttentionKernel::portable_small);  // differs from portable there
    if (BackwardRun(problem).start(AttentionKernel::hopper) == Status::ok) all.push_back(AttentionKernel::hopper);
    return all;
  }

  static BackwardOptions in_float32(BackwardOptions options) {
    options.type = ElementType::float32;
    return options;
  }
};

constexpr StepGate kStepGates[] = {StepGate::none,      StepGate::one,  StepGate::mixed, StepGate::near_one,
                                   StepGate::near_zero, StepGate::zero, StepGate::cuts,  StepGate::far_offset};

// Needs no GPU: what the others compare with.
TEST(CudaAttentionBackwardReference, AgreesWithFiniteDifferences) {
  BackwardProblem problem({.heads = 2, .key_heads = 1, .length = 23, .head_dim = 16, .window_size = 9}, 5);
  const Gradients exact = problem.gradients(false);
  constexpr double kStep = 1e-5;
  for (std::int64_t t = 0; t < 23; ++t) {
    double losses[2];
    for (const int side : {0, 1}) {
      for (std::int64_t i = t; i < 23; ++i) problem.gate[index_of(23 + i)] += side == 0 ? kStep : -2 * kStep;
      problem.attend();
      losses[side] = problem.loss();
    }
    for (std::int64_t i = t; i < 23; ++i) problem.gate[index_of(23 + i)] += kStep;
    EXPECT_NEAR((losses[0] - losses[1]) / (2 * kStep), exact.log_gate[index_of(23 + t)], 1e-7) << t;
  }
  constexpr float kWide = 0x1p-10F;  // a change of a float32 that is exact
  for (auto [input, gradient] : {std::pair(&problem.query, &exact.query), std::pair(&problem.key, &exact.key),
                                 std::pair(&problem.value, &exact.value)}) {
    for (const std::size_t i : {std::size_t{3}, std::size_t{100}, input->size() - 1}) {
      const float before = (*input)[i];
      double losses[2];
      for (const int side : {0, 1}) {
        (*input)[i] = side == 0 ? before + kWide : before - kWide;
        problem.attend();
        losses[side] = problem.loss();
      }
      (*input)[i] = before;
      EXPECT_NEAR((losses[0] - losses[1]) / (2 * static_cast<double>(kWide)), (*gradient)[i], 1e-5) << i;
    }
  }
}

TEST_F(CudaAttentionBackward, AgreesWithFloat64AtEveryLengthAndGate) {
  std::uint64_t seed = 100;
  for (const std::int64_t head_dim : {16, 32, 64, 96, 128}) {
    for (const std::int64_t length : {1, 17, 81}) {
      for (const StepGate gate : kStepGates) check({.length = length, .head_dim = head_dim, .gate = gate}, ++seed);
    }
    for (const StepGate gate : {StepGate::mixed, StepGate::near_one, StepGate::cuts, StepGate::zero}) {
      check({.length = 987, .head_dim = head_dim, .gate = gate}, ++seed);
    }
    check({.heads = 1, .key_heads = 1, .length = 2048, .head_dim = head_dim}, ++seed);
  }
}

TEST_F(CudaAttentionBackward, AgreesWithFloat64InFloat32) {
  std::uint64_t seed = 300;
  for (const std::int64_t head_dim : {8, 16, 32, 40, 64, 96, 120, 128}) {
    for (const std::int64_t length : {1, 17, 81}) {
      for (const StepGate gate : kStepGates) {
        check(in_float32({.length = length, .head_dim = head_dim, .gate = gate}), ++seed);
      }
    }
    check(in_float32({.length = 987, .head_dim = head_dim}), ++seed);
    check(in_float32({.length = 500, .head_dim = head_dim, .gate = StepGate::cuts}), ++seed);
  }
}

TEST_F(CudaAttentionBackward, SumsOverTheHeadsThatShareKeys) {
  for (const ElementType type : {ElementType::bfloat16, ElementType::float32}) {
    for (const std::int64_t head_dim : {32, 64, 128}) {
      BackwardOptions options = {
          .batch = 2, .heads = 6, .key_heads = 2, .length = 300, .head_dim = head_dim, .type = type};
      check(options, 1);
      options.pruning_tolerance = 1e-6;
      check(options, 2);
    }
  }
}

TEST_F(CudaAttentionBackward, SeesNoFurtherThanTheWindow) {
  for (const ElementType type : {ElementType::bfloat16, ElementType::float32}) {
    for (const std::int64_t head_dim : {64, 96, 128}) {
      for (const std::int64_t window : {1, 5, 64, 130, 299, 300, 5000}) {
        check({.length = 300, .head_dim = head_dim, .window_size = window, .type = type}, 3);
      }
    }
  }
}

TEST_F(CudaAttentionBackward, TakesRowsWithGaps) {
  for (const ElementType type : {ElementType::bfloat16, ElementType::float32}) {
    for (const std::int64_t padding : {1, 2, 8}) {
      check({.batch = 2, .length = 200, .head_dim = 64, .padding = padding, .type = type}, 4);
      check({.length = 100, .head_dim = 96, .pruning_tolerance = 1e-6, .padding = padding, .type = type}, 5);
    }
  }
}

TEST_F(CudaAttentionBackward, SkipsWhatTheToleranceAllows) {
  const double tolerance = std::exp(-10.0);
  for (const ElementType type : {ElementType::bfloat16, ElementType::float32}) {
    for (const std::int64_t head_dim : {32, 64, 128}) {
      for (const StepGate gate : {StepGate::mixed, StepGate::cuts, StepGate::zero, StepGate::one}) {
        check({.heads = 2,
               .key_heads = 1,
               .length = 1100,
               .head_dim = head_dim,
               .gate = gate,
               .pruning_tolerance = tolerance,
               .type = type},
              6);
      }
    }
  }
}

// A row that forgets all before it is not even looked at from there: its dO may be NaN.
TEST_F(CudaAttentionBackward, DoesNotReadWhatItSkips) {
  for (const ElementType type : {ElementType::bfloat16, ElementType::float32}) {
    for (const std::int64_t head_dim : {64, 128}) {
      const BackwardOptions options = {.heads = 1,
                                       .key_heads = 1,
                                       .length = 512,
                                       .head_dim = head_dim,
                                       .gate = StepGate::one,
                                       .pruning_tolerance = 1e-6,
                                       .rows_in_loss = 256,
                                       .type = type};
      BackwardProblem problem(options, 7);
      for (std::int64_t i = 256; i < 512; ++i) problem.gate[index_of(i)] = -1000;
      problem.attend();
      const Gradients exact = problem.gradients(false);
      const Gradients composed = type == ElementType::bfloat16 ? problem.gradients(true) : exact;
      const Gradients magnitude = problem.gradients(false, true);
      std::fill(problem.output_gradient.begin() + 256 * head_dim, problem.output_gradient.end(), std::nanf(""));
      for (const AttentionKernel kernel : kernels(options)) {
        const BackwardRun run(problem);
        ASSERT_EQ(run.start(kernel), Status::ok);
        Gradients results = run.results();
        const auto early = [&](Gradients g) {
          g.log_gate.clear();  // made of later rows too
          for (auto* part : {&g.query, &g.key, &g.value, &g.key_logit}) part->resize(part->size() / 2);
          return g;
        };
        EXPECT_TRUE(std::isnan(results.query.back()));
        expect_near(early(results), early(exact), early(composed), early(magnitude), type == ElementType::bfloat16);
      }
    }
  }
}

// No pair of the loss reaches later steps.
TEST_F(CudaAttentionBackward, IsZeroBehindTheLoss) {
  for (const ElementType type : {ElementType::bfloat16, ElementType::float32}) {
    const BackwardOptions options = {.length = 400, .head_dim = 64, .rows_in_loss = 150, .type = type};
    const BackwardProblem problem(options, 8);
    for (const AttentionKernel kernel : kernels(options)) {
      const BackwardRun run(problem);
      ASSERT_EQ(run.start(kernel), Status::ok);
      const Gradients results = run.results();
      double largest = 0;
      for (std::int64_t i = 0; i < 800; ++i) {
        const double x = std::abs(results.log_gate[index_of(i)]);
        if (i % 400 >= 150) {
          EXPECT_EQ(x, 0) << i;
        }
        largest = std::max(largest, x);
      }
      EXPECT_GT(largest, 0.01);
      // No pair crosses the first step either, but rows and columns are summed by themselves.
      EXPECT_LE(std::abs(results.log_gate[0]), 1e-4 * largest);
      EXPECT_LE(std::abs(results.log_gate[400]), 1e-4 * largest);
    }
  }
}

// A constant added to a row's logits changes nothing, so that each row of dS sums to 0, and with them all columns.
TEST_F(CudaAttentionBackward, SumsOfAllColumnsVanish) {
  const BackwardOptions options = in_float32({.batch = 2, .length = 333, .head_dim = 64});
  const BackwardProblem problem(options, 13);
  const BackwardRun run(problem);
  ASSERT_EQ(run.start(AttentionKernel::automatic), Status::ok);
  const std::vector<double> columns = run.results().key_logit;
  for (std::int64_t head = 0; head < 4; ++head) {
    double sum = 0;
    double largest = 0;
    for (std::int64_t j = 0; j < 333; ++j) {
      sum += columns[index_of(head * 333 + j)];
      largest = std::max(largest, std::abs(columns[index_of(head * 333 + j)]));
    }
    EXPECT_GT(largest, 0.1);
    EXPECT_LE(std::abs(sum), 1e-4 * largest);
  }
}

TEST_F(CudaAttentionBackward, IsTheSameInEveryBitWhereThatIsAsked) {
  for (const std::int64_t head_dim : {32, 64, 128}) {
    for (const double tolerance : {0.0, 1e-4}) {
      for (const std::int64_t window : {0, 133}) {
        const BackwardOptions options = {.batch = 2,
                                         .heads = 2,
                                         .key_heads = 1,
                                         .length = 450,
                                         .head_dim = head_dim,
                                         .window_size = window,
                                         .pruning_tolerance = tolerance};
        SCOPED_TRACE(describe_backward(options));
        const BackwardProblem problem(options, 9);
        const Gradients exact = problem.gradients(false);
        const Gradients composed = problem.gradients(true);
        const Gradients magnitude = problem.gradients(false, true);
        for (const AttentionKernel kernel : kernels(options)) {
          Gradients runs[2];
          for (Gradients& results : runs) {
            const BackwardRun run(problem);
            ASSERT_EQ(run.start(kernel, true), Status::ok);
            results = run.results();
          }
          expect_near(runs[0], exact, composed, magnitude, true, tolerance);
          EXPECT_EQ(runs[0].query, runs[1].query);
          EXPECT_EQ(runs[0].key, runs[1].key);
          EXPECT_EQ(runs[0].value, runs[1].value);
          EXPECT_EQ(runs[0].log_gate, runs[1].log_gate);
          EXPECT_EQ(runs[0].key_logit, runs[1].key_logit);
        }
      }
    }
  }
}

// Behind the forward pass of the same device, whose output and log-normaliser it reads.
TEST_F(CudaAttentionBackward, FollowsTheForwardPass) {
  for (const ElementType type : {ElementType::bfloat16, ElementType::float32}) {
    for (const std::int64_t head_dim : {64, 128}) {
      const bool low = type == ElementType::bfloat16;
      const BackwardProblem problem({.length = 700, .head_dim = head_dim, .pruning_tolerance = 1e-5, .type = type}, 10);
      const BackwardRun run(problem);
      cuda::ForgettingAttentionBackward a = run.arguments();
      const cuda::DeviceBuffer workspace(cuda::workspace_bytes(a.forward));
      a.forward.workspace = workspace.data();
      ASSERT_EQ(low ? forgetting_attention(a.forward, nullptr) : forgetting_attention_float32(a.forward, nullptr),
                Status::ok);
      ASSERT_EQ(run.start(AttentionKernel::automatic), Status::ok);
      const Gradients exact = problem.gradients(false);
      const Gradients composed = low ? problem.gradients(true) : exact;
      expect_near(run.results(), exact, composed, problem.gradients(false, true), low, 1e-5);
    }
  }
}

TEST_F(CudaAttentionBackward, LeavesOutWhatNobodyAsksFor) {
  const BackwardProblem problem({.length = 100}, 11);
  const BackwardRun run(problem);
  cuda::ForgettingAttentionBackward a = run.arguments();
  a.log_gate_gradient = a.key_logit_gradient = nullptr;
  EXPECT_EQ(cuda::forgetting_attention_backward(a, nullptr), Status::ok);
  EXPECT_TRUE(cuda::synchronize());
  const Gradients results = run.results();
  EXPECT_TRUE(std::all_of(results.log_gate.begin(), results.log_gate.end(), [](double x) { return std::isnan(x); }));
  EXPECT_TRUE(std::none_of(results.query.begin(), results.query.end(), [](double x) { return std::isnan(x); }));
}

TEST_F(CudaAttentionBackward, RefusesWhatItCannotTake) {
  const BackwardProblem problem({.length = 10}, 12);
  const BackwardRun run(problem);
  const cuda::ForgettingAttentionBackward good = run.arguments();
  std::vector<cuda::ForgettingAttentionBackward> bad(12, good);
  bad[0].forward.length = 0;
  bad[1].forward.head_dim = 20;
  bad[2].forward.key_heads = 3;
  bad[3].forward.value = nullptr;
  bad[4].forward.log_normalizer = nullptr;
  bad[5].forward.pruning_tolerance = 1;
  bad[6].forward.window_size = -1;
  bad[7].output_gradient = nullptr;
  bad[8].query_gradient = nullptr;
  bad[9].key_gradient = nullptr;
  bad[10].value_gradient = nullptr;
  bad[11].workspace = nullptr;
  for (std::size_t i = 0; i < bad.size(); ++i) {
    EXPECT_EQ(cuda::forgetting_attention_backward(bad[i], nullptr), Status::invalid_argument) << i;
    EXPECT_EQ(cuda::forgetting_attention_backward_float32(bad[i], nullptr), Status::invalid_argument) << i;
  }
  cuda::ForgettingAttentionBackward narrow_heads = good;
  narrow_heads.forward.head_dim = 24;
  EXPECT_EQ(cuda::forgetting_attention_backward(narrow_heads, nullptr), Status::invalid_argument);
  cuda::ForgettingAttentionBackward wide_heads = good;
  wide_heads.forward.head_dim = 256;
  EXPECT_EQ(cuda::forgetting_attention_backward(wide_heads, nullptr), Status::invalid_argument);
  EXPECT_EQ(cuda::forgetting_attention_backward_float32(wide_heads, nullptr), Status::invalid_argument);
  EXPECT_EQ(cuda::backward_workspace_bytes(wide_heads), 0U);
}

TEST(CudaAttentionBackwardWithoutDevice, SaysSo) {
  if (cuda::is_available()) GTEST_SKIP() << "there is a CUDA device";
  const cuda::ForgettingAttentionBackward arguments;
  EXPECT_NE(cuda::forgetting_attention_backward(arguments, nullptr), Status::ok);
  EXPECT_NE(cuda::forgetting_attention_backward_float32(arguments, nullptr), Status::ok);
}

}  // namespace
}  // namespace foxscope::kernels::testing

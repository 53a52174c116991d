#include "kernels/cpu/step_gradients.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/index.h"
#include "tests/kernels/instruction_set.h"
#include "tests/largest_error.h"

namespace foxscope::kernels::testing {
namespace {

using Doubles = std::vector<double>;

/// What gradients of weights are added to.
constexpr float kBegun = 0.5F;

/// Rows with gaps of NaN between them.
struct Rows {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t stride = 0;
  std::vector<float> data;

  Rows(std::int64_t row_count, std::int64_t row_width, std::int64_t gap = 3)
      : rows(row_count),
        width(row_width),
        stride(row_width + gap),
        data(static_cast<std::size_t>(row_count * stride), std::numeric_limits<float>::quiet_NaN()) {}
  Rows& draw(std::mt19937& random, float deviation = 1) {
    std::normal_distribution<float> normal(0, deviation);
    for_numbers([&](float& x) { x = normal(random); });
    return *this;
  }
  Rows& set(float value) {
    for_numbers([value](float& x) { x = value; });
    return *this;
  }
  Rows& add(float value) {
    for_numbers([value](float& x) { x += value; });
    return *this;
  }
  template <typename Change>
  void for_numbers(const Change& change) {
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t x = 0; x < width; ++x) change(data[index_of(row * stride + x)]);
    }
  }
  /// Without the gaps.
  [[nodiscard]] Doubles doubles() const {
    Doubles dense;
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto first = data.begin() + static_cast<std::ptrdiff_t>(row * stride);
      dense.insert(dense.end(), first, first + static_cast<std::ptrdiff_t>(width));
    }
    return dense;
  }
  [[nodiscard]] bool gaps_untouched() const {
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t x = width; x < stride; ++x) {
        if (!std::isnan(data[index_of(row * stride + x)])) return false;
      }
    }
    return true;
  }
};

/// The central differences of a loss by each of some numbers, in float64.
Doubles slopes(Doubles& numbers, const std::function<double()>& loss) {
  constexpr double kStep = 1e-4;
  Doubles result;
  for (double& number : numbers) {
    const double kept = number;
    number = kept + kStep;
    const double above = loss();
    number = kept - kStep;
    const double below = loss();
    number = kept;
    result.push_back((above - below) / (2 * kStep));
  }
  return result;
}

void expect_slopes(const Rows& found, const Doubles& expected, const std::string& what) {
  const Doubles numbers = found.doubles();
  ASSERT_EQ(numbers.size(), expected.size()) << what;
  double largest = 1;
  for (const double slope : expected) largest = std::max(largest, std::abs(slope));
  double error = 0;
  for (std::size_t n = 0; n < expected.size(); ++n) error = test::largest_error(error, numbers[n] - expected[n]);
  EXPECT_LE(error, 3e-6 * largest) << what;
  EXPECT_TRUE(found.gaps_untouched()) << what;
}

/// One sequence of tests for each instruction set.
void on_every_instruction_set(const std::function<void()>& test) {
  for (const std::int64_t target : InstructionSet::available()) {
    const InstructionSet chosen(target);
    SCOPED_TRACE(hwy::TargetName(target));
    test();
  }
}

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

/// RMSNorm of each head of a row.
Doubles normed(const Doubles& x, const Doubles& weight, std::size_t width, std::size_t row_width, double epsilon) {
  Doubles y(x.size());
  for (std::size_t first = 0; first < x.size(); first += width) {
    double squares = 0;
    for (std::size_t n = first; n < first + width; ++n) squares += x[n] * x[n];
    const double inverse = 1 / std::sqrt(squares / static_cast<double>(width) + epsilon);
    for (std::size_t n = first; n < first + width; ++n) y[n] = x[n] * inverse * weight[n % row_width % weight.size()];
  }
  return y;
}

double inner_product(const Doubles& a, const Doubles& b) {
  double sum = 0;
  for (std::size_t n = 0; n < a.size(); ++n) sum += a[n] * b[n];
  return sum;
}

void expect_norm(std::int64_t rows, std::int64_t heads, std::int64_t width, bool shared, bool residual, bool in_place) {
  const std::string what = std::to_string(rows) + " rows, " + std::to_string(heads) + " heads of " +
                           std::to_string(width) + (shared ? ", shared" : "") + (residual ? ", residual" : "") +
                           (in_place ? ", in place" : "");
  std::mt19937 random(1);
  const Rows x = Rows(rows, heads * width).draw(random, 0.5F);
  Rows dy = Rows(rows, heads * width, 5).draw(random);
  const Rows past = Rows(rows, heads * width, 1).draw(random);
  const Rows weight = Rows(1, shared ? width : heads * width, 0).draw(random);
  Rows dx(rows, heads * width, 7);
  Rows dw(1, weight.width, 2);
  Doubles input = x.doubles();
  Doubles weights = weight.doubles();
  const Doubles given = dy.doubles();
  const Doubles added = past.doubles();
  const auto loss = [&] {
    const double own = inner_product(
        normed(input, weights, static_cast<std::size_t>(width), static_cast<std::size_t>(heads * width), 1e-3), given);
    return residual ? own + inner_product(input, added) : own;
  };
  Rows& to = in_place ? dy : dx;
  cpu::RmsNormGradient a;
  a.rows = rows;
  a.heads = heads;
  a.width = width;
  a.weight_heads = shared ? 1 : heads;
  a.epsilon = 1e-3F;
  a.input = x.data.data();
  a.input_stride = x.stride;
  a.weight = weight.data.data();
  a.output_gradient = dy.data.data();
  a.output_gradient_stride = dy.stride;
  a.residual_gradient = residual ? past.data.data() : nullptr;
  a.residual_gradient_stride = past.stride;
  a.input_gradient = to.data.data();
  a.input_gradient_stride = to.stride;
  a.weight_gradient = dw.set(kBegun).data.data();
  ThreadPool pool(2);
  ASSERT_EQ(cpu::rms_norm_gradient(a, pool), Status::ok) << what;
  dw.add(-kBegun);
  expect_slopes(to, slopes(input, loss), what + ", input");
  expect_slopes(dw, slopes(weights, loss), what + ", weight");
}

TEST(StepGradients, OfTheNormAreItsDifferences) {
  on_every_instruction_set([] {
    for (const std::int64_t width : {1, 7, 16, 37, 64}) {
      for (const bool residual : {false, true}) {
        expect_norm(5, 1, width, false, residual, false);
        expect_norm(3, 3, width, false, residual, true);
        expect_norm(3, 3, width, true, residual, false);
      }
    }
    expect_norm(300, 1, 5, false, false, false);
  });
}

void expect_shift(std::int64_t sequences, std::int64_t length, std::int64_t heads, std::int64_t head_dim) {
  const std::int64_t rows = sequences * length;
  const std::string what = std::to_string(sequences) + " of " + std::to_string(length) + ", " + std::to_string(heads) +
                           " heads of " + std::to_string(head_dim);
  std::mt19937 random(2);
  const Rows x = Rows(rows, heads * head_dim).draw(random);
  const Rows z = Rows(rows, heads, 4).draw(random, 2);
  const Rows dy = Rows(rows, heads * head_dim, 1).draw(random);
  Rows dx(rows, heads * head_dim, 2);
  Rows dz(rows, heads, 1);
  cpu::ShiftGradient a;
  a.rows = rows;
  a.length = sequences == 1 ? 0 : length;
  a.heads = heads;
  a.head_dim = head_dim;
  a.input = x.data.data();
  a.input_stride = x.stride;
  a.logits = z.data.data();
  a.logits_stride = z.stride;
  a.output_gradient = dy.data.data();
  a.output_gradient_stride = dy.stride;
  a.input_gradient = dx.data.data();
  a.input_gradient_stride = dx.stride;
  a.logits_gradient = dz.data.data();
  a.logits_gradient_stride = dz.stride;
  ThreadPool pool(2);
  ASSERT_EQ(cpu::shift_gradient(a, pool), Status::ok) << what;
  Doubles input = x.doubles();
  Doubles logits = z.doubles();
  const Doubles given = dy.doubles();
  const auto width = static_cast<std::size_t>(heads * head_dim);
  const auto loss = [&] {
    double sum = 0;
    for (std::size_t n = 0; n < input.size(); ++n) {
      const std::size_t row = n / width;
      const double share =
          sigmoid_of(logits[row * static_cast<std::size_t>(heads) + n % width / static_cast<std::size_t>(head_dim)]);
      const bool starts = row % static_cast<std::size_t>(length) == 0;
      sum += given[n] * (share * (starts ? 0.0 : input[n - width]) + (1 - share) * input[n]);
    }
    return sum;
  };
  expect_slopes(dx, slopes(input, loss), what + ", input");
  expect_slopes(dz, slopes(logits, loss), what + ", logits");
}

TEST(StepGradients, OfTheShiftAreItsDifferences) {
  on_every_instruction_set([] {
    expect_shift(1, 1, 1, 8);
    expect_shift(1, 40, 2, 5);
    expect_shift(3, 17, 3, 16);
    expect_shift(5, 1, 2, 20);
  });
}

struct OutputGateCase {
  bool norm;
  bool gate;
  cpu::GateActivation activation;
  bool in_place;
};

void expect_gated(std::int64_t rows, std::int64_t heads, std::int64_t head_dim, const OutputGateCase& gate_case) {
  const std::string what =
      std::to_string(rows) + " rows, " + std::to_string(heads) + " heads of " + std::to_string(head_dim) +
      (gate_case.norm ? ", norm" : "") + (gate_case.gate ? ", gate" : "") +
      (gate_case.activation == cpu::GateActivation::silu ? ", silu" : "") + (gate_case.in_place ? ", in place" : "");
  const std::int64_t width = heads * head_dim;
  std::mt19937 random(3);
  const Rows x = Rows(rows, width).draw(random);
  const Rows weight = Rows(1, width, 0).draw(random);
  Rows z = Rows(rows, width, 4).draw(random, 3);
  Rows dy = Rows(rows, width, 1).draw(random);
  Rows dx(rows, width, 2);
  Rows dz(rows, width, 6);
  Rows dw(1, width, 1);
  Doubles input = x.doubles();
  Doubles weights = weight.doubles();
  Doubles logits = z.doubles();
  const Doubles given = dy.doubles();
  const auto loss = [&] {
    const Doubles m = gate_case.norm ? normed(input, weights, static_cast<std::size_t>(head_dim),
                                              static_cast<std::size_t>(width), 1e-5)
                                     : input;
    double sum = 0;
    for (std::size_t n = 0; n < m.size(); ++n) {
      double factor = 1;
      if (gate_case.gate) factor = sigmoid_of(logits[n]);
      if (gate_case.gate && gate_case.activation == cpu::GateActivation::silu) factor *= logits[n];
      sum += given[n] * m[n] * factor;
    }
    return sum;
  };
  Rows& to = gate_case.in_place ? dy : dx;
  Rows& gate_to = gate_case.in_place ? z : dz;
  cpu::GatedOutputGradient a;
  a.rows = rows;
  a.heads = heads;
  a.head_dim = head_dim;
  a.attended = x.data.data();
  a.attended_stride = x.stride;
  a.norm = gate_case.norm ? weight.data.data() : nullptr;
  a.norm_epsilon = 1e-5F;
  a.gate = gate_case.gate ? z.data.data() : nullptr;
  a.gate_stride = z.stride;
  a.activation = gate_case.activation;
  a.output_gradient = dy.data.data();
  a.output_gradient_stride = dy.stride;
  a.attended_gradient = to.data.data();
  a.attended_gradient_stride = to.stride;
  a.gate_gradient = gate_case.gate ? gate_to.data.data() : nullptr;
  a.gate_gradient_stride = gate_to.stride;
  a.norm_gradient = gate_case.norm ? dw.set(kBegun).data.data() : nullptr;
  ThreadPool pool(2);
  ASSERT_EQ(cpu::gated_output_gradient(a, pool), Status::ok) << what;
  dw.add(-kBegun);
  expect_slopes(to, slopes(input, loss), what + ", input");
  if (gate_case.gate) expect_slopes(gate_to, slopes(logits, loss), what + ", gate");
  if (gate_case.norm) expect_slopes(dw, slopes(weights, loss), what + ", norm");
}

TEST(StepGradients, OfTheGatedOutputAreItsDifferences) {
  on_every_instruction_set([] {
    for (const std::int64_t head_dim : {8, 16, 21}) {
      for (const cpu::GateActivation activation : {cpu::GateActivation::sigmoid, cpu::GateActivation::silu}) {
        for (const bool in_place : {false, true}) {
          expect_gated(5, 3, head_dim, {true, true, activation, in_place});
          expect_gated(5, 3, head_dim, {false, true, activation, in_place});
        }
      }
      expect_gated(5, 3, head_dim, {true, false, cpu::GateActivation::sigmoid, true});
    }
  });
}

void expect_swiglu(std::int64_t rows, std::int64_t inner, bool in_place) {
  const std::string what = std::to_string(rows) + " rows of " + std::to_string(inner) + (in_place ? ", in place" : "");
  std::mt19937 random(4);
  Rows wide = Rows(rows, 2 * inner).draw(random, 2);
  Rows dp = Rows(rows, inner, 1).draw(random);
  Rows wide_gradient(rows, 2 * inner, 2);
  Rows product(rows, inner, 5);
  Doubles input = wide.doubles();
  const Doubles given = dp.doubles();
  const auto width = static_cast<std::size_t>(inner);
  const auto product_of = [&](std::size_t n) {
    const std::size_t gate = n / width * 2 * width + n % width;
    return input[gate] * sigmoid_of(input[gate]) * input[gate + width];
  };
  const auto loss = [&] {
    double sum = 0;
    for (std::size_t n = 0; n < given.size(); ++n) sum += given[n] * product_of(n);
    return sum;
  };
  Rows& to = in_place ? wide : wide_gradient;
  Rows& product_to = in_place ? dp : product;
  cpu::SwiGluGradient a;
  a.rows = rows;
  a.inner = inner;
  a.wide = wide.data.data();
  a.wide_stride = wide.stride;
  a.product_gradient = dp.data.data();
  a.product_gradient_stride = dp.stride;
  a.wide_gradient = to.data.data();
  a.wide_gradient_stride = to.stride;
  a.product = product_to.data.data();
  a.product_stride = product_to.stride;
  ThreadPool pool(2);
  ASSERT_EQ(cpu::swiglu_gradient(a, pool), Status::ok) << what;
  expect_slopes(to, slopes(input, loss), what);
  Doubles products;
  for (std::size_t n = 0; n < given.size(); ++n) products.push_back(product_of(n));
  expect_slopes(product_to, products, what + ", product");
}

TEST(StepGradients, OfSwiGluAreItsDifferences) {
  on_every_instruction_set([] {
    for (const bool in_place : {false, true}) {
      expect_swiglu(1, 1, in_place);
      expect_swiglu(20, 16, in_place);
      expect_swiglu(5, 53, in_place);
    }
  });
}

void expect_cross_entropy(std::int64_t rows, std::int64_t vocabulary, float deviation) {
  const std::string what = std::to_string(rows) + " rows of " + std::to_string(vocabulary);
  std::mt19937 random(5);
  Rows logits = Rows(rows, vocabulary).draw(random, deviation);
  Doubles input = logits.doubles();
  std::vector<std::int64_t> labels;
  std::vector<float> weights;
  for (std::int64_t t = 0; t < rows; ++t) {
    labels.push_back(static_cast<std::int64_t>(random() % static_cast<unsigned>(vocabulary)));
    weights.push_back(t % 3 == 1 ? 0.0F : static_cast<float>(t + 1) * 0.25F);
  }
  // A row without weight is not looked at.
  if (rows > 1) {
    labels[1] = -100;
    logits.data[index_of(logits.stride)] = std::numeric_limits<float>::quiet_NaN();
  }
  std::vector<float> losses(static_cast<std::size_t>(rows), std::numeric_limits<float>::quiet_NaN());
  const auto loss_of = [&](std::size_t t) {
    const auto first = input.begin() + static_cast<std::ptrdiff_t>(t) * vocabulary;
    double sum = 0;
    for (std::int64_t v = 0; v < vocabulary; ++v) sum += std::exp(first[v]);
    return std::log(sum) - first[labels[t]];
  };
  const auto loss = [&] {
    double sum = 0;
    for (std::size_t t = 0; t < labels.size(); ++t) {
      if (weights[t] != 0) sum += static_cast<double>(weights[t]) * loss_of(t);
    }
    return sum;
  };
  cpu::CrossEntropyGradient a;
  a.rows = rows;
  a.vocabulary = vocabulary;
  a.logits = logits.data.data();
  a.logits_stride = logits.stride;
  a.labels = labels.data();
  a.weights = weights.data();
  a.losses = losses.data();
  ThreadPool pool(2);
  ASSERT_EQ(cpu::cross_entropy_gradient(a, pool), Status::ok) << what;
  expect_slopes(logits, slopes(input, loss), what);
  for (std::size_t t = 0; t < labels.size(); ++t) {
    EXPECT_NEAR(losses[t], weights[t] == 0 ? 0 : loss_of(t), 1e-5) << what << " row " << t;
  }
}

TEST(StepGradients, OfCrossEntropyAreItsDifferences) {
  on_every_instruction_set([] {
    for (const std::int64_t vocabulary : {1, 2, 16, 257}) expect_cross_entropy(4, vocabulary, 3);
    expect_cross_entropy(20, 33, 10);
  });
}

TEST(StepGradients, OfCrossEntropySumToZeroOverAWideVocabulary) {
  constexpr std::int64_t kVocabulary = 50257;
  std::mt19937 random(6);
  Rows logits = Rows(2, kVocabulary, 0).draw(random, 4);
  // Far beyond what e^x can hold in float32.
  for (std::int64_t v = 0; v < kVocabulary; ++v) logits.data[index_of(v)] += 500;
  const Doubles input = logits.doubles();
  const std::vector<std::int64_t> labels = {7, 50256};
  const std::vector<float> weights = {1, 1};
  std::vector<float> losses(2);
  cpu::CrossEntropyGradient a;
  a.rows = 2;
  a.vocabulary = kVocabulary;
  a.logits = logits.data.data();
  a.labels = labels.data();
  a.weights = weights.data();
  a.losses = losses.data();
  ThreadPool pool(2);
  ASSERT_EQ(cpu::cross_entropy_gradient(a, pool), Status::ok);
  for (std::size_t t = 0; t < 2; ++t) {
    const auto first = static_cast<std::ptrdiff_t>(t) * kVocabulary;
    const double largest = *std::max_element(input.begin() + first, input.begin() + first + kVocabulary);
    double powers = 0;
    double sum = 0;
    for (std::int64_t v = 0; v < kVocabulary; ++v) {
      powers += std::exp(input[index_of(first + v)] - largest);
      sum += static_cast<double>(logits.data[index_of(first + v)]);
    }
    EXPECT_NEAR(sum, 0, 1e-6);
    const double expected = std::log(powers) + largest - input[index_of(first + labels[t])];
    EXPECT_NEAR(losses[t], expected, 1e-6 * std::abs(expected));
  }
}

TEST(StepGradients, OfWeightsDoNotDependOnThreads) {
  std::mt19937 random(7);
  const Rows x = Rows(1000, 40, 0).draw(random);
  const Rows dy = Rows(1000, 40, 0).draw(random);
  const Rows weight = Rows(1, 40, 0).draw(random);
  Rows dx(1000, 40, 0);
  std::vector<std::vector<float>> found;
  for (const int threads : {1, 2, 3}) {
    ThreadPool pool(threads);
    for (const bool gated : {false, true}) {
      found.emplace_back(40);
      cpu::RmsNormGradient norm{.rows = 1000, .heads = 5, .width = 8, .weight_heads = 5, .epsilon = 1e-6F};
      norm.input = x.data.data();
      norm.weight = weight.data.data();
      norm.output_gradient = dy.data.data();
      norm.input_gradient = dx.data.data();
      norm.weight_gradient = found.back().data();
      cpu::GatedOutputGradient gate{.rows = 1000, .heads = 5, .head_dim = 8};
      gate.attended = x.data.data();
      gate.norm = weight.data.data();
      gate.norm_epsilon = 1e-6F;
      gate.output_gradient = dy.data.data();
      gate.attended_gradient = dx.data.data();
      gate.norm_gradient = found.back().data();
      ASSERT_EQ(gated ? cpu::gated_output_gradient(gate, pool) : cpu::rms_norm_gradient(norm, pool), Status::ok);
    }
  }
  for (const std::vector<float>& sums : found) EXPECT_EQ(sums, found.front());
}

TEST(StepGradients, RefuseWhatTheyCannotTake) {
  std::vector<float> numbers(64);
  const std::vector<std::int64_t> labels = {0, 3};
  ThreadPool pool(1);
  float* const p = numbers.data();
  const auto refused = [&](auto step, auto good, auto change) {
    EXPECT_EQ(step(good, pool), Status::ok);
    change(good);
    EXPECT_EQ(step(good, pool), Status::invalid_argument);
  };
  cpu::RmsNormGradient norm;
  norm.rows = 2;
  norm.width = 4;
  norm.heads = 2;
  norm.input = norm.weight = norm.output_gradient = p;
  norm.input_gradient = p + 32;
  using Norm = cpu::RmsNormGradient;
  refused(cpu::rms_norm_gradient, norm, [](Norm& a) { a.rows = 0; });
  refused(cpu::rms_norm_gradient, norm, [](Norm& a) { a.heads = 0; });
  refused(cpu::rms_norm_gradient, norm, [](Norm& a) { a.width = 0; });
  refused(cpu::rms_norm_gradient, norm, [](Norm& a) { a.weight_heads = 3; });
  refused(cpu::rms_norm_gradient, norm, [](Norm& a) { a.input_gradient_stride = 7; });
  refused(cpu::rms_norm_gradient, norm, [](Norm& a) { a.weight = nullptr; });
  refused(cpu::rms_norm_gradient, norm, [](Norm& a) { a.input_gradient = nullptr; });

  cpu::ShiftGradient shift;
  shift.rows = 2;
  shift.heads = 1;
  shift.head_dim = 4;
  shift.input = shift.logits = shift.output_gradient = p;
  shift.input_gradient = p + 16;
  shift.logits_gradient = p + 32;
  using Shift = cpu::ShiftGradient;
  refused(cpu::shift_gradient, shift, [](Shift& a) { a.rows = 0; });
  refused(cpu::shift_gradient, shift, [](Shift& a) { a.length = 3; });
  refused(cpu::shift_gradient, shift, [](Shift& a) { a.length = -1; });
  refused(cpu::shift_gradient, shift, [](Shift& a) { a.logits = nullptr; });
  refused(cpu::shift_gradient, shift, [](Shift& a) { a.input_stride = 3; });
  refused(cpu::shift_gradient, shift, [](Shift& a) { a.logits_gradient = nullptr; });

  cpu::GatedOutputGradient gated;
  gated.rows = 2;
  gated.heads = 1;
  gated.head_dim = 4;
  gated.attended = gated.norm = gated.gate = gated.output_gradient = p;
  gated.attended_gradient = p + 16;
  gated.gate_gradient = p + 32;
  using Gated = cpu::GatedOutputGradient;
  refused(cpu::gated_output_gradient, gated, [](Gated& a) { a.heads = 0; });
  refused(cpu::gated_output_gradient, gated, [](Gated& a) { a.gate_gradient = nullptr; });
  refused(cpu::gated_output_gradient, gated, [](Gated& a) { a.gate = nullptr; });
  refused(cpu::gated_output_gradient, gated, [](Gated& a) { a.attended = nullptr; });
  refused(cpu::gated_output_gradient, gated, [p](Gated& a) {
    a.norm = nullptr;
    a.norm_gradient = p;
  });
  refused(cpu::gated_output_gradient, gated, [](Gated& a) {
    a.norm = nullptr;
    a.gate = nullptr;
    a.gate_gradient = nullptr;
  });

  cpu::SwiGluGradient swiglu;
  swiglu.rows = 2;
  swiglu.inner = 4;
  swiglu.wide = swiglu.product_gradient = p;
  swiglu.wide_gradient = p + 32;
  using SwiGlu = cpu::SwiGluGradient;
  refused(cpu::swiglu_gradient, swiglu, [](SwiGlu& a) { a.inner = 0; });
  refused(cpu::swiglu_gradient, swiglu, [](SwiGlu& a) { a.wide = nullptr; });
  refused(cpu::swiglu_gradient, swiglu, [](SwiGlu& a) { a.wide_gradient_stride = 7; });

  const std::vector<float> weights = {1, 1};
  cpu::CrossEntropyGradient entropy;
  entropy.rows = 2;
  entropy.vocabulary = 4;
  entropy.logits = p;
  entropy.labels = labels.data();
  entropy.weights = weights.data();
  using Entropy = cpu::CrossEntropyGradient;
  const std::vector<std::int64_t> outside = {0, 4};
  const std::vector<std::int64_t> negative = {-1, 0};
  refused(cpu::cross_entropy_gradient, entropy, [](Entropy& a) { a.vocabulary = 0; });
  refused(cpu::cross_entropy_gradient, entropy, [&](Entropy& a) { a.labels = outside.data(); });
  refused(cpu::cross_entropy_gradient, entropy, [&](Entropy& a) { a.labels = negative.data(); });
  refused(cpu::cross_entropy_gradient, entropy, [](Entropy& a) { a.weights = nullptr; });
  refused(cpu::cross_entropy_gradient, entropy, [](Entropy& a) { a.logits_stride = 3; });
}

}  // namespace
}  // namespace foxscope::kernels::testing

// Losses and the gradients of their logits on the GPU against float64.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kernels/cuda_gradients_reference.h"
#include "tests/largest_error.h"

namespace foxscope::kernels::testing {
namespace {

struct LossGradientCase {
  std::int64_t rows = 1, vocabulary = 1;
  ElementType type = kBfloat16;
  bool in_place = false;
  std::int64_t padding = 0;           ///< of the logits' rows
  std::int64_t gradient_padding = 0;  ///< where not in place
  std::int64_t shift = 0;
  float deviation = 3, mean = 0;

  [[nodiscard]] std::int64_t stride() const { return vocabulary + padding; }
  [[nodiscard]] std::int64_t gradient_stride() const { return in_place ? stride() : vocabulary + gradient_padding; }
};

/// Loss, gradient.
Outputs run_loss_gradient(const LossGradientCase& c, const std::vector<float>& values,
                          const std::vector<std::int32_t>& labels, const std::vector<float>& weights) {
  const DeviceNumbers logits(c.type, values, c.shift);
  const DeviceNumbers to(kBfloat16, c.rows * c.gradient_stride(), c.shift);
  const DeviceNumbers loss(kFloat32, c.rows);
  const DeviceNumbers loss_gradient(kFloat32, weights);
  const cuda::DeviceBuffer on_device = to_device(labels);
  cuda::TokenLossGradient a;
  a.rows = c.rows;
  a.vocabulary = c.vocabulary;
  a.logits = logits.data();
  a.logits_type = c.type;
  a.logits_stride = c.stride();
  a.labels = static_cast<const std::int32_t*>(on_device.data());
  a.loss_gradient = loss_gradient.floats();
  a.loss = loss.floats();
  a.logits_gradient = c.in_place ? logits.data() : to.data();
  a.logits_gradient_stride = c.gradient_stride();
  EXPECT_EQ(token_loss_gradient(a, nullptr), Status::ok);
  return {loss.values(), (c.in_place ? logits : to).values()};
}

/// @param x  a row of logits
void check_loss_row(const LossGradientCase& c, const double* x, std::int32_t label, double weight, double loss,
                    const double* gradient) {
  const double largest = *std::max_element(x, x + c.vocabulary);
  double sum = 0;
  for (std::int64_t i = 0; i < c.vocabulary; ++i) sum += std::exp(x[i] - largest);
  EXPECT_NEAR(loss, largest - x[label] + std::log(sum), 2e-6 * (1 + std::abs(largest - x[label])));
  double worst = 0;
  for (std::int64_t i = 0; i < c.vocabulary; ++i) {
    const double expected = weight * (std::exp(x[i] - largest) / sum - (i == label ? 1 : 0));
    // Two numbers near 1 are subtracted at the label.
    const double floor = i == label ? 1e-2 * std::abs(weight) : 1e-30;
    worst = test::largest_error(worst, (gradient[i] - expected) / (std::abs(expected) + floor));
  }
  EXPECT_LE(worst, 1.0 / 256 + 1e-4);
  for (std::int64_t i = c.vocabulary; i < c.gradient_stride(); ++i) EXPECT_EQ(gradient[i], 0) << "past the vocabulary";
}

void check_loss_gradient(const LossGradientCase& c, std::uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << c.rows << " x " << c.vocabulary << ", type " << static_cast<int>(c.type)
                                    << ", in place " << c.in_place << ", padding " << c.padding << ' '
                                    << c.gradient_padding << ", shift " << c.shift);
  std::vector<float> values = normal_numbers(c.rows * c.stride(), seed, c.deviation, c.mean);
  for (std::int64_t i = 0; i < std::ssize(values); ++i) {
    if (i % c.stride() >= c.vocabulary) values[index_of(i)] = std::nanf("");
  }
  std::mt19937_64 engine(seed);
  std::vector<std::int32_t> labels;
  for (std::int64_t row = 0; row < c.rows; ++row) {
    labels.push_back(static_cast<std::int32_t>(engine() % static_cast<std::uint64_t>(c.vocabulary)));
  }
  labels.front() = 0;
  labels.back() = static_cast<std::int32_t>(c.vocabulary - 1);
  const std::vector<float> weights = normal_numbers(c.rows, seed + 1, 1e-3F);
  const Outputs outputs = run_loss_gradient(c, values, labels, weights);
  const Numbers in = DeviceNumbers(c.type, values).values();
  for (std::int64_t row = 0; row < c.rows; ++row) {
    SCOPED_TRACE(row);
    check_loss_row(c, &in[index_of(row * c.stride())], labels[index_of(row)],
                   static_cast<double>(weights[index_of(row)]), outputs[0][index_of(row)],
                   &outputs[1][index_of(row * c.gradient_stride())]);
  }
  EXPECT_EQ(outputs, run_loss_gradient(c, values, labels, weights)) << "two runs";
}

TEST_F(CudaStepGradients, AreSoftmaxMinusTheLabel) {
  std::uint64_t seed = 1;
  // The last are longer than shared memory.
  for (const std::int64_t vocabulary : {1, 2, 7, 8, 9, 15, 1000, 8193, 50304, 151936}) {
    const std::int64_t to_8 = (8 - vocabulary % 8) % 8;
    LossGradientCase c = {.rows = vocabulary > 9000 ? 2 : 5, .vocabulary = vocabulary};
    c.padding = c.gradient_padding = to_8;
    check_loss_gradient(c, ++seed);
    c.in_place = true;
    check_loss_gradient(c, ++seed);
    c.padding = to_8 + 3;
    check_loss_gradient(c, ++seed);
    c.in_place = false;
    c.type = kFloat32;
    c.padding = to_8;
    c.gradient_padding = to_8 + 16;
    check_loss_gradient(c, ++seed);
    c.shift = 1;
    c.deviation = 30;
    c.mean = -200;
    check_loss_gradient(c, ++seed);
    c.type = kBfloat16;
    check_loss_gradient(c, ++seed);
  }
}

TEST_F(CudaStepGradients, AreZeroWhereTheLossDoesNotCount) {
  const LossGradientCase c = {.rows = 5, .vocabulary = 3000, .in_place = true, .padding = 16};
  std::vector<float> values = normal_numbers(c.rows * c.stride(), 3);
  values[index_of(c.stride() + 7)] = std::numeric_limits<float>::infinity();
  for (std::int64_t i = 0; i < c.vocabulary; ++i) {
    if (i != 17) values[index_of(4 * c.stride() + i)] = -std::numeric_limits<float>::infinity();
  }
  const Outputs outputs = run_loss_gradient(c, values, {5, 6, -1, -1, 17}, {0, 0, 0, 1, 1});
  EXPECT_TRUE(std::isfinite(outputs[0][0]));
  EXPECT_TRUE(std::isnan(outputs[0][2])) << "a label outside the vocabulary";
  EXPECT_TRUE(std::isnan(outputs[0][3]));
  EXPECT_EQ(outputs[0][4], 0);
  for (std::int64_t i = 0; i < c.stride(); ++i) {
    for (const std::int64_t row : {0, 1, 2, 4}) ASSERT_EQ(outputs[1][index_of(row * c.stride() + i)], 0) << row;
    ASSERT_EQ(std::isnan(outputs[1][index_of(3 * c.stride() + i)]), i < c.vocabulary);
  }
}

TEST_F(CudaStepGradients, RefuseLossesThatTheyCannotTake) {
  const DeviceNumbers numbers(kFloat32, 1024);
  cuda::TokenLossGradient good;
  good.rows = 1;
  good.vocabulary = good.logits_stride = good.logits_gradient_stride = 8;
  good.logits = good.logits_gradient = numbers.data();
  good.labels = static_cast<const std::int32_t*>(numbers.data());
  good.loss_gradient = numbers.floats();
  std::vector<cuda::TokenLossGradient> bad(10, good);
  bad[0].rows = 0;
  bad[1].vocabulary = 0;
  bad[2].logits_stride = 7;
  bad[3].logits_gradient_stride = 7;
  bad[4].logits = nullptr;
  bad[5].labels = nullptr;
  bad[6].loss_gradient = nullptr;
  bad[7].logits_gradient = nullptr;
  bad[8].logits_type = kFloat32;       // in place
  bad[9].logits_gradient_stride = 16;  // likewise
  for (const auto& arguments : bad) EXPECT_EQ(token_loss_gradient(arguments, nullptr), Status::invalid_argument);
  EXPECT_TRUE(cuda::synchronize());
}

}  // namespace
}  // namespace foxscope::kernels::testing

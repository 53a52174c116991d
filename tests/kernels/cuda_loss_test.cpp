// Token losses on the GPU against float64.
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/steps/token_loss.h"
#include "tests/kernels/cuda_support.h"
#include "tests/kernels/cuda_test.h"

namespace foxscope::kernels::testing {
namespace {

using cuda::ElementType;

struct LossCase {
  std::int64_t rows = 1;
  std::int64_t vocabulary = 1;
  ElementType type = ElementType::bfloat16;
  std::int64_t padding = 0;
  std::int64_t shift = 0;
};

class CudaTokenLoss : public CudaTest {
 protected:
  static std::vector<double> run(const LossCase& c, const DeviceNumbers& logits,
                                 const std::vector<std::int32_t>& labels) {
    const cuda::DeviceBuffer on_device = to_device(labels);
    const DeviceNumbers loss(ElementType::float32, c.rows);
    cuda::TokenLoss a;
    a.rows = c.rows;
    a.vocabulary = c.vocabulary;
    a.logits = logits.data();
    a.logits_type = c.type;
    a.logits_stride = c.vocabulary + c.padding;
    a.labels = static_cast<const std::int32_t*>(on_device.data());
    a.loss = loss.floats();
    EXPECT_EQ(token_loss(a, nullptr), Status::ok);
    return loss.values();
  }

  static std::vector<double> expected(const LossCase& c, const std::vector<double>& logits,
                                      const std::vector<std::int32_t>& labels) {
    std::vector<double> losses;
    for (std::int64_t row = 0; row < c.rows; ++row) {
      const double* x = logits.data() + row * (c.vocabulary + c.padding);
      double largest = -std::numeric_limits<double>::infinity();
      for (std::int64_t i = 0; i < c.vocabulary; ++i) largest = std::max(largest, x[i]);
      double sum = 0;
      for (std::int64_t i = 0; i < c.vocabulary; ++i) sum += std::exp(x[i] - largest);
      losses.push_back(largest - x[labels[index_of(row)]] + std::log(sum));
    }
    return losses;
  }

  static void check(const LossCase& c, float deviation, float mean, std::uint64_t seed) {
    SCOPED_TRACE(::testing::Message() << c.rows << " x " << c.vocabulary << ", type " << static_cast<int>(c.type)
                                      << ", padding " << c.padding << ", shift " << c.shift);
    const DeviceNumbers logits(c.type, normal_numbers(c.rows * (c.vocabulary + c.padding), seed, deviation, mean),
                               c.shift);
    std::mt19937_64 engine(seed);
    std::vector<std::int32_t> labels;
    for (std::int64_t row = 0; row < c.rows; ++row) {
      labels.push_back(static_cast<std::int32_t>(engine() % static_cast<std::uint64_t>(c.vocabulary)));
    }
    labels.front() = 0;
    labels.back() = static_cast<std::int32_t>(c.vocabulary - 1);
    EXPECT_LE(largest_error(run(c, logits, labels), expected(c, logits.values(), labels), 1), 2e-6);
  }
};

TEST_F(CudaTokenLoss, IsLogSumExpMinusTheLabel) {
  std::uint64_t seed = 1;
  for (const ElementType type : {ElementType::bfloat16, ElementType::float32}) {
    for (const std::int64_t vocabulary : {1, 2, 7, 8, 9, 15, 1000, 8191, 8192, 8193, 50257}) {
      for (const std::int64_t rows : {1, 2, 9}) {
        check({.rows = rows, .vocabulary = vocabulary, .type = type}, 3, 0, ++seed);
      }
      check({.rows = 5, .vocabulary = vocabulary, .type = type, .padding = 3, .shift = 1}, 30, -200, ++seed);
    }
  }
}

TEST_F(CudaTokenLoss, TakesInfinityAndKeepsNanToItsRow) {
  const LossCase c = {.rows = 4, .vocabulary = 3001, .type = ElementType::float32};
  std::vector<float> values = normal_numbers(c.rows * c.vocabulary, 3);
  for (std::int64_t i = 0; i < c.vocabulary; ++i) {
    if (i != 17) values[index_of(i)] = -std::numeric_limits<float>::infinity();
  }
  values[index_of(2 * c.vocabulary + 1234)] = std::nanf("");
  const DeviceNumbers logits(c.type, values);
  const std::vector<double> loss = run(c, logits, {17, 5, 6, 3001});
  EXPECT_EQ(loss[0], 0);
  EXPECT_TRUE(std::isfinite(loss[1]));
  EXPECT_TRUE(std::isnan(loss[2]));
  EXPECT_TRUE(std::isnan(loss[3])) << "a label outside the vocabulary";
}

TEST_F(CudaTokenLoss, RefusesWhatItCannotTake) {
  const DeviceNumbers numbers(ElementType::float32, 64);
  cuda::TokenLoss good;
  good.rows = 1;
  good.vocabulary = good.logits_stride = 8;
  good.logits = numbers.data();
  good.labels = static_cast<const std::int32_t*>(numbers.data());
  good.loss = numbers.floats() + 32;
  std::vector<cuda::TokenLoss> bad(6, good);
  bad[0].rows = 0;
  bad[1].vocabulary = 0;
  bad[2].logits_stride = 7;
  bad[3].logits = nullptr;
  bad[4].labels = nullptr;
  bad[5].loss = nullptr;
  for (const auto& arguments : bad) EXPECT_EQ(token_loss(arguments, nullptr), Status::invalid_argument);
}

}  // namespace
}  // namespace foxscope::kernels::testing

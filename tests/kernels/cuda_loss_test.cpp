// Token losses on the GPU against float64.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/steps/loss_product.h"
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

void check_product(std::int64_t rows, std::int64_t width, std::int64_t vocabulary, float deviation) {
  SCOPED_TRACE(::testing::Message() << rows << " rows of " << width << ", " << vocabulary << " tokens");
  const auto seed = static_cast<std::uint64_t>(rows * 31 + vocabulary);
  const std::int64_t stride = width + 8;
  const DeviceNumbers in(ElementType::bfloat16, normal_numbers(rows * stride, seed));
  const DeviceNumbers head(ElementType::bfloat16, normal_numbers(vocabulary * width, seed + 1, deviation));
  std::vector<std::int32_t> labels;
  for (std::int64_t row = 0; row < rows; ++row) {
    labels.push_back(static_cast<std::int32_t>(row * 7919 % vocabulary));
  }
  labels.back() = static_cast<std::int32_t>(vocabulary - 1);
  const cuda::DeviceBuffer on_device = to_device(labels);
  const DeviceNumbers loss(ElementType::float32, rows);
  cuda::LossProduct a;
  a.rows = rows;
  a.width = width;
  a.vocabulary = vocabulary;
  a.in = in.data();
  a.in_stride = stride;
  a.head = head.data();
  a.labels = static_cast<const std::int32_t*>(on_device.data());
  a.loss = loss.floats();
  constexpr std::size_t kBehind = std::size_t{1} << 20U;
  const std::size_t bytes = loss_product_bytes(a);
  const cuda::DeviceBuffer workspace(bytes + kBehind);
  ASSERT_TRUE(workspace.fill(0xff));
  a.workspace = workspace.data();
  const Status status = loss_product(a, nullptr);
  if (status == Status::unavailable) GTEST_SKIP() << "the device has no compute capability 9.0";
  ASSERT_EQ(status, Status::ok);
  std::vector<std::byte> behind(kBehind);
  ASSERT_TRUE(cuda::copy_to_host(behind, static_cast<const std::byte*>(workspace.data()) + bytes, nullptr));
  EXPECT_TRUE(std::ranges::all_of(behind, [](std::byte byte) { return byte == std::byte{0xff}; }))
      << "something was written behind the workspace";
  const std::vector<double> x = in.values();
  const std::vector<double> w = head.values();
  std::vector<double> expected;
  for (std::int64_t row = 0; row < rows; ++row) {
    std::vector<double> logits(index_of(vocabulary));
    for (std::int64_t v = 0; v < vocabulary; ++v) {
      for (std::int64_t i = 0; i < width; ++i) {
        logits[index_of(v)] += x[index_of(row * stride + i)] * w[index_of(v * width + i)];
      }
    }
    const double largest = *std::max_element(logits.begin(), logits.end());
    double sum = 0;
    for (const double logit : logits) sum += std::exp(logit - largest);
    expected.push_back(largest + std::log(sum) - logits[index_of(labels[index_of(row)])]);
  }
  EXPECT_LE(largest_error(loss.values(), expected, 1), 5e-6);
}

TEST_F(CudaTokenLoss, OfAProductIsThatOfItsLogits) {
  for (const std::int64_t vocabulary : {1, 8, 255, 256, 257, 1000, 5003}) {
    for (const std::int64_t rows : {1, 77, 300}) check_product(rows, 64, vocabulary, 0.3F);
  }
  check_product(130, 136, 700, 4);
  check_product(140, 1536, 300, 0.02F);
  // Tiles of 256 columns that are filled up to go two, four and eight side by side.
  check_product(512, 8, 64 * 256 + 1, 0.3F);
  check_product(1024, 8, 99 * 256 - 3, 0.3F);
  check_product(2048, 8, 197 * 256 - 155, 0.3F);
}

TEST_F(CudaTokenLoss, OfAProductIsNanWhereTheLabelIsNoToken) {
  const DeviceNumbers numbers(ElementType::bfloat16, normal_numbers(64 * 8, 5));
  const cuda::DeviceBuffer labels = to_device(std::vector<std::int32_t>{0, -1, 8, 7});
  const DeviceNumbers loss(ElementType::float32, 4);
  cuda::LossProduct a = {4, 8, 8, numbers.data(), 8, numbers.data()};
  a.labels = static_cast<const std::int32_t*>(labels.data());
  a.loss = loss.floats();
  const cuda::DeviceBuffer workspace(loss_product_bytes(a));
  a.workspace = workspace.data();
  const Status status = loss_product(a, nullptr);
  if (status == Status::unavailable) GTEST_SKIP() << "the device has no compute capability 9.0";
  ASSERT_EQ(status, Status::ok);
  const std::vector<double> losses = loss.values();
  EXPECT_TRUE(std::isfinite(losses[0]) && std::isnan(losses[1]) && std::isnan(losses[2]) && std::isfinite(losses[3]));
}

TEST_F(CudaTokenLoss, OfAProductRefusesWhatItCannotTake) {
  const DeviceNumbers numbers(ElementType::float32, 4096);
  float* data = numbers.floats();
  const auto* labels = reinterpret_cast<const std::int32_t*>(data);
  const cuda::LossProduct good = {1, 8, 8, data, 8, data, labels, data, data};
  std::vector<cuda::LossProduct> bad(8, good);
  bad[0].rows = 0;
  bad[1].width = 12;
  bad[2].vocabulary = 0;
  bad[3].in_stride = 0;
  bad[4].head = data + 1;
  bad[5].labels = nullptr;
  bad[6].loss = nullptr;
  bad[7].workspace = nullptr;
  for (const auto& a : bad) EXPECT_EQ(loss_product(a, nullptr), Status::invalid_argument);
}

}  // namespace
}  // namespace foxscope::kernels::testing

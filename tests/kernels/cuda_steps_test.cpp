// The fused steps on the GPU against float64, on random inputs with poison around inputs and outputs.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/steps/swiglu_product.h"
#include "tests/kernels/cuda_steps_reference.h"

namespace foxscope::kernels::testing {
namespace {

enum class Increment { none, bfloat16, float32 };

void check_residual_norm(std::int64_t rows, std::int64_t width, Increment more, std::int64_t shift) {
  SCOPED_TRACE(::testing::Message() << rows << " rows of " << width << ", increment " << static_cast<int>(more)
                                    << ", shift " << shift);
  const auto seed = static_cast<std::uint64_t>(rows * 100003 + width);
  const ElementType type = more == Increment::float32 ? kFloat32 : kBfloat16;
  const DeviceNumbers residual(kFloat32, normal_numbers(rows * width, seed, 3), shift);
  const DeviceNumbers increment(type, normal_numbers(rows * width, seed + 1), shift);
  const DeviceNumbers weight(kFloat32, normal_numbers(width, seed + 2, 0.2F, 1), shift);
  const DeviceNumbers normed(kBfloat16, rows * width, shift);
  const DeviceNumbers normed_float32(kFloat32, rows * width, shift);
  Numbers expected = residual.values();
  if (more != Increment::none) {
    const Numbers added = increment.values();
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += added[i];
  }
  cuda::ResidualNorm a;
  a.rows = rows;
  a.width = width;
  a.residual = residual.floats();
  a.increment = more == Increment::none ? nullptr : increment.data();
  a.increment_type = type;
  a.weight = weight.floats();
  a.epsilon = kEpsilon;
  a.normed = normed.data();
  a.normed_float32 = normed_float32.floats();
  ASSERT_EQ(residual_norm(a, nullptr), Status::ok);
  EXPECT_LE(largest_error(residual.values(), expected, 1), kFloat32Error);
  const Numbers weights = weight.values();
  for (std::int64_t row = 0; row < rows; ++row) normalise(&expected[index_of(row * width)], weights.data(), width);
  EXPECT_LE(largest_error(normed.values(), expected, 1e-3), kBfloat16Error);
  EXPECT_LE(largest_error(normed_float32.values(), expected, 1e-1), kFloat32Error);
}

TEST_F(CudaSteps, AddAndNormaliseTheResidual) {
  for (const std::int64_t width : {1, 7, 8, 31, 64, 1536, 2048, 2049, 2056, 4099, 16384}) {
    for (const std::int64_t rows : {1, 3, 37}) {
      for (const Increment more : {Increment::none, Increment::bfloat16, Increment::float32}) {
        check_residual_norm(rows, width, more, 0);
      }
    }
    check_residual_norm(9, width, Increment::bfloat16, 1);
  }
}

TEST_F(CudaSteps, AddToTheResidualAlone) {
  const DeviceNumbers residual(kFloat32, normal_numbers(300, 1));
  const DeviceNumbers increment(kBfloat16, normal_numbers(300, 2));
  Numbers expected = residual.values();
  const Numbers added = increment.values();
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += added[i];
  cuda::ResidualNorm a;
  a.rows = 3;
  a.width = 100;
  a.residual = residual.floats();
  a.increment = increment.data();
  ASSERT_EQ(residual_norm(a, nullptr), Status::ok);
  EXPECT_LE(largest_error(residual.values(), expected, 1), kFloat32Error);
}

TEST_F(CudaSteps, LeaveWhatRoundingTookFromTheNorm) {
  for (const std::int64_t width : {8, 100, 1536, 4096}) {
    constexpr std::int64_t kRows = 5;
    const DeviceNumbers residual(kFloat32, normal_numbers(kRows * width, 3));
    const DeviceNumbers weight(kFloat32, normal_numbers(width, 4, 0.2F, 1));
    const DeviceNumbers normed(kBfloat16, std::vector<float>(index_of(kRows * 2 * width), 0.0F));
    Numbers expected = residual.values();
    const Numbers weights = weight.values();
    cuda::ResidualNorm a;
    a.rows = kRows;
    a.width = width;
    a.residual = residual.floats();
    a.weight = weight.floats();
    a.epsilon = kEpsilon;
    a.normed = normed.data();
    a.normed_rest = static_cast<std::uint16_t*>(normed.data()) + width;
    a.normed_stride = 2 * width;
    ASSERT_EQ(residual_norm(a, nullptr), Status::ok);
    const Numbers both = normed.values();
    for (std::int64_t row = 0; row < kRows; ++row) {
      normalise(&expected[index_of(row * width)], weights.data(), width);
      for (std::int64_t i = 0; i < width; ++i) {
        const double high = both[index_of(2 * row * width + i)];
        const double wanted = expected[index_of(row * width + i)];
        EXPECT_NEAR(high, wanted, std::abs(wanted) * 0x1p-8);
        EXPECT_NEAR(high + both[index_of((2 * row + 1) * width + i)], wanted, std::abs(wanted) * 0x1p-15 + 1e-7);
      }
    }
  }
}

TEST_F(CudaSteps, MultiplyByTheSiluOfTheOtherHalf) {
  for (const ElementType type : {kBfloat16, kFloat32}) {
    for (const auto& [rows, inner] :
         {std::pair<std::int64_t, std::int64_t>{1, 1}, {1, 8}, {3, 7}, {5, 3584}, {1000, 24}, {257, 136}}) {
      for (const std::int64_t shift : {0, 1}) {
        SCOPED_TRACE(::testing::Message() << rows << " rows of " << inner << ", shift " << shift);
        const DeviceNumbers wide(type, normal_numbers(rows * 2 * inner, static_cast<std::uint64_t>(inner), 2), shift);
        const DeviceNumbers product(kBfloat16, rows * inner, shift);
        ASSERT_EQ(cuda::swiglu({rows, inner, wide.data(), type, product.data()}, nullptr), Status::ok);
        const Numbers in = wide.values();
        Numbers expected;
        for (std::int64_t row = 0; row < rows; ++row) {
          for (std::int64_t i = 0; i < inner; ++i) {
            const double g = in[index_of(row * 2 * inner + i)];
            expected.push_back(g * sigmoid(g) * in[index_of(row * 2 * inner + inner + i)]);
          }
        }
        EXPECT_LE(largest_error(product.values(), expected, 1e-3), kBfloat16Error);
      }
    }
  }
}

void check_swiglu_product(std::int64_t rows, std::int64_t width, std::int64_t inner, std::int64_t gap) {
  SCOPED_TRACE(::testing::Message() << rows << " rows of " << width << ", inner " << inner << ", gap " << gap);
  const auto seed = static_cast<std::uint64_t>(rows * 1009 + width + inner);
  const std::int64_t stride = width + gap;
  const DeviceNumbers in(kBfloat16, normal_numbers(rows * stride, seed));
  const float deviation = 1 / std::sqrt(static_cast<float>(width));
  const DeviceNumbers weight(kBfloat16, normal_numbers(2 * inner * width, seed + 1, deviation));
  const DeviceNumbers product(kBfloat16, rows * inner, 0);
  const cuda::SwiGluProduct step = {rows, width, inner, in.data(), stride, weight.data(), product.data()};
  const Status status = swiglu_product(step, nullptr);
  if (status == Status::unavailable) GTEST_SKIP() << "the device has no compute capability 9.0";
  ASSERT_EQ(status, Status::ok);
  const Numbers x = in.values();
  const Numbers w = weight.values();
  const auto dot = [&](std::int64_t row, std::int64_t column) {
    double sum = 0;
    for (std::int64_t i = 0; i < width; ++i) sum += x[index_of(row * stride + i)] * w[index_of(column * width + i)];
    return sum;
  };
  Numbers expected;
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t i = 0; i < inner; ++i) {
      const double g = dot(row, i);
      expected.push_back(g * sigmoid(g) * dot(row, inner + i));
    }
  }
  EXPECT_LE(largest_error(product.values(), expected, 1e-2), kBfloat16Error);
}

TEST_F(CudaSteps, MakeTheProductThatSwiGluTakes) {
  for (const std::int64_t rows : {1, 77, 128, 300}) {
    for (const std::int64_t width : {8, 64, 136}) {
      for (const std::int64_t inner : {8, 128, 136, 1024}) check_swiglu_product(rows, width, inner, 8);
    }
  }
  check_swiglu_product(260, 1536, 392, 1536);
}

TEST_F(CudaSteps, RefuseWhatTheyCannotTake) {
  const DeviceNumbers numbers(kFloat32, 4096);
  float* data = numbers.floats();
  cuda::ResidualNorm norm;
  norm.rows = norm.width = 8;
  norm.residual = data;
  norm.weight = data;
  norm.normed_float32 = data;
  std::vector<cuda::ResidualNorm> norms(8, norm);
  norms[0].rows = 0;
  norms[1].width = 0;
  norms[2].width = 16385;
  norms[3].residual = nullptr;
  norms[4].weight = nullptr;
  norms[5].epsilon = -1;
  norms[6].normed_stride = 7;
  norms[7].normed_rest = data;
  for (const auto& bad : norms) EXPECT_EQ(residual_norm(bad, nullptr), Status::invalid_argument);

  cuda::ProjectedHeads heads;
  heads.rows = 1;
  heads.heads = heads.key_heads = 2;
  heads.head_dim = 8;
  heads.projected = heads.query = heads.key = heads.value = data;
  heads.projected_stride = 48;
  std::vector<cuda::ProjectedHeads> all(9, heads);
  all[0].rows = 0;
  all[1].key_heads = 3;
  all[2].head_dim = 12;
  all[3].head_dim = 264;
  all[4].projected_stride = 47;
  all[5].projected = nullptr;
  all[6].value = nullptr;
  all[7].rotation = data;
  all[8].key_shift_logits = data;
  for (const auto& bad : all) EXPECT_EQ(project_heads(bad, nullptr), Status::invalid_argument);
  const double frequency = 1;  // no pointer is looked at
  EXPECT_EQ(cuda::rotary_table(-1, 1, 4, &frequency, data, nullptr), Status::invalid_argument);
  EXPECT_EQ(cuda::rotary_table(0, 1, 0, &frequency, data, nullptr), Status::invalid_argument);
  EXPECT_EQ(cuda::rotary_table(0, 1, 4, nullptr, data, nullptr), Status::invalid_argument);
  EXPECT_EQ(cuda::rotary_table(0, 1, 4, &frequency, nullptr, nullptr), Status::invalid_argument);

  cuda::GatedOutput output;
  output.rows = 1;
  output.heads = 2;
  output.head_dim = 8;
  output.attended = output.output = data;
  std::vector<cuda::GatedOutput> outputs(4, output);
  outputs[0].heads = 0;
  outputs[1].attended = nullptr;
  outputs[2].output = nullptr;
  outputs[3].gate = data;
  for (const auto& bad : outputs) EXPECT_EQ(gate_output(bad, nullptr), Status::invalid_argument);

  EXPECT_EQ(cuda::swiglu({0, 8, data, kFloat32, data}, nullptr), Status::invalid_argument);
  EXPECT_EQ(cuda::swiglu({1, 8, nullptr, kFloat32, data}, nullptr), Status::invalid_argument);
  EXPECT_EQ(cuda::swiglu({1, 8, data, kFloat32, nullptr}, nullptr), Status::invalid_argument);

  const cuda::SwiGluProduct product = {1, 8, 8, data, 8, data, data};
  std::vector<cuda::SwiGluProduct> products(8, product);
  products[0].rows = 0;
  products[1].width = 4;
  products[2].inner = 12;
  products[3].in_stride = 0;
  products[4].in = nullptr;
  products[5].weight = data + 1;
  products[6].product = nullptr;
  products[7].in_stride = 12;
  for (const auto& bad : products) EXPECT_EQ(swiglu_product(bad, nullptr), Status::invalid_argument);
  EXPECT_TRUE(cuda::synchronize());
}

}  // namespace
}  // namespace foxscope::kernels::testing

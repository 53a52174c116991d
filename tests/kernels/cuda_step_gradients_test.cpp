// Gradients of the fused steps on the GPU against differences of the steps in float64, on random inputs with poison
// around inputs, outputs and workspaces.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kernels/cuda_gradients_reference.h"

namespace foxscope::kernels::testing {
namespace {

struct NormGradientCase {
  std::int64_t rows = 1, width = 8;
  ElementType type = kBfloat16;
  bool weight = true, increment = true;
  std::int64_t shift = 0;
};

/// Derivatives of sum_i dy_i w_i x_i / rms(x), which by x_i changes with the two sums alone.
Numbers norm_input_gradient(const double* x, const double* dy, const double* weight, std::int64_t width) {
  double squares = 0;
  double products = 0;
  for (std::int64_t i = 0; i < width; ++i) {
    squares += x[i] * x[i];
    products += dy[i] * weight[i] * x[i];
  }
  Numbers gradient;
  for (std::int64_t i = 0; i < width; ++i) {
    double change = 0;
    gradient.push_back(slope_at(change, [&] {
      const double mean = (squares + 2 * x[i] * change + change * change) / static_cast<double>(width);
      return (products + dy[i] * weight[i] * change) / std::sqrt(mean + static_cast<double>(kEpsilon));
    }));
  }
  return gradient;
}

/// Residual gradient, increment's gradient, weight's gradient.
Outputs run_norm_gradient(const NormGradientCase& c, bool check) {
  const auto seed = static_cast<std::uint64_t>(c.rows * 100003 + c.width);
  const DeviceNumbers residual(kFloat32, normal_numbers(c.rows * c.width, seed, 3), c.shift);
  const DeviceNumbers weight(kFloat32, normal_numbers(c.width, seed + 1, 0.2F, 1), c.shift);
  const DeviceNumbers normed_gradient(c.type, normal_numbers(c.rows * c.width, seed + 2), c.shift);
  const DeviceNumbers residual_gradient(kFloat32, normal_numbers(c.rows * c.width, seed + 3), c.shift);
  const DeviceNumbers increment_gradient(kBfloat16, c.rows * c.width, c.shift);
  const DeviceNumbers weight_gradient(kFloat32, normal_numbers(c.width, seed + 4), c.shift);
  Numbers expected = residual_gradient.values();
  Numbers expected_weight = weight_gradient.values();
  cuda::ResidualNormGradient a;
  a.rows = c.rows;
  a.width = c.width;
  a.residual = residual.floats();
  a.weight = weight.floats();
  a.epsilon = kEpsilon;
  a.normed_gradient = normed_gradient.data();
  a.normed_gradient_type = c.type;
  a.residual_gradient = residual_gradient.floats();
  a.increment_gradient = c.increment ? increment_gradient.data() : nullptr;
  a.weight_gradient = c.weight ? weight_gradient.floats() : nullptr;
  const GradientWorkspace workspace(workspace_bytes(a));
  a.workspace = workspace.data();
  EXPECT_EQ(residual_norm_gradient(a, nullptr), Status::ok);
  workspace.check();
  Outputs outputs = {residual_gradient.values()};
  if (c.increment) outputs.push_back(increment_gradient.values());
  if (c.weight) outputs.push_back(weight_gradient.values());
  if (!check) return outputs;

  Numbers x = residual.values();
  const Numbers dy = normed_gradient.values();
  const Numbers weights = weight.values();
  for (std::int64_t row = 0; row < c.rows; ++row) {
    const std::int64_t at = row * c.width;
    const Numbers more = norm_input_gradient(&x[index_of(at)], &dy[index_of(at)], weights.data(), c.width);
    const Numbers ones(index_of(c.width), 1.0);
    normalise(&x[index_of(at)], ones.data(), c.width);
    for (std::int64_t i = 0; i < c.width; ++i) {
      expected[index_of(at + i)] += more[index_of(i)];
      expected_weight[index_of(i)] += dy[index_of(at + i)] * x[index_of(at + i)];
    }
  }
  EXPECT_LE(largest_error(outputs[0], expected, 1), kFloat32Error);
  if (c.increment) {
    EXPECT_LE(largest_error(outputs[1], expected, 1e-2), kBfloat16Error);
  }
  const double size = 1 + std::sqrt(static_cast<double>(c.rows));
  if (c.weight) {
    EXPECT_LE(largest_error(outputs.back(), expected_weight, size), kFloat32Error);
  }
  return outputs;
}

void check_norm_gradient(const NormGradientCase& c) {
  SCOPED_TRACE(::testing::Message() << c.rows << " rows of " << c.width << ", type " << static_cast<int>(c.type)
                                    << ", weight " << c.weight << ", increment " << c.increment << ", shift "
                                    << c.shift);
  EXPECT_EQ(run_norm_gradient(c, true), run_norm_gradient(c, false)) << "two runs";
}

TEST_F(CudaStepGradients, AddTheNormsToTheResiduals) {
  for (const std::int64_t width : {1, 7, 8, 31, 64, 1536, 2048, 2049, 2056, 4099, 8192, 8200, 16384}) {
    for (const std::int64_t rows : {1, 3, 37}) check_norm_gradient({.rows = rows, .width = width});
    check_norm_gradient({.rows = 9, .width = width, .type = kFloat32});
    check_norm_gradient({.rows = 9, .width = width, .weight = false, .increment = false});
    check_norm_gradient({.rows = 9, .width = width, .shift = 1});
  }
  // Blocks of several steps, of rows and of sums.
  check_norm_gradient({.rows = 4101, .width = 24});
  check_norm_gradient({.rows = 4101, .width = 13, .type = kFloat32});
  check_norm_gradient({.rows = 601, .width = 2056});
}

struct ProductGradientCase {
  std::int64_t rows = 1, inner = 8;
  bool in_place = false, product = false;
  std::int64_t shift = 0;
};

Outputs run_product_gradient(const ProductGradientCase& c, bool check) {
  const auto seed = static_cast<std::uint64_t>(c.inner * 1009 + c.rows);
  const DeviceNumbers wide(kBfloat16, normal_numbers(c.rows * 2 * c.inner, seed, 2), c.shift);
  const DeviceNumbers product_gradient(kBfloat16, normal_numbers(c.rows * c.inner, seed + 1), c.shift);
  const DeviceNumbers wide_gradient(kBfloat16, c.rows * 2 * c.inner, c.shift);
  const DeviceNumbers product(kBfloat16, c.rows * c.inner, c.shift);
  const Numbers in = wide.values();
  const Numbers dp = product_gradient.values();
  const DeviceNumbers& to = c.in_place ? wide : wide_gradient;
  const DeviceNumbers& product_to = c.in_place ? product_gradient : product;
  cuda::SwiGluGradient a;
  a.rows = c.rows;
  a.inner = c.inner;
  a.wide = wide.data();
  a.product_gradient = product_gradient.data();
  a.wide_gradient = to.data();
  a.product = c.product ? product_to.data() : nullptr;
  EXPECT_EQ(swiglu_gradient(a, nullptr), Status::ok);
  Outputs outputs = {to.values()};
  if (c.product) outputs.push_back(product_to.values());
  if (!check) return outputs;

  Numbers expected(index_of(c.rows * 2 * c.inner));
  Numbers expected_product;
  for (std::int64_t row = 0; row < c.rows; ++row) {
    for (std::int64_t i = 0; i < c.inner; ++i) {
      const std::int64_t at = row * 2 * c.inner + i;
      double gate = in[index_of(at)];
      double value = in[index_of(at + c.inner)];
      const auto forward = [&] { return gate * sigmoid(gate) * value; };
      expected_product.push_back(forward());
      const double factor = dp[index_of(row * c.inner + i)];
      expected[index_of(at)] = factor * slope_at(gate, forward);
      expected[index_of(at + c.inner)] = factor * slope_at(value, forward);
    }
  }
  EXPECT_LE(largest_error(outputs[0], expected, 1e-3), kBfloat16Error);
  if (c.product) {
    EXPECT_LE(largest_error(outputs[1], expected_product, 1e-3), kBfloat16Error);
  }
  return outputs;
}

TEST_F(CudaStepGradients, SplitTheProductsBetweenItsHalves) {
  for (const auto& [rows, inner] :
       {std::pair<std::int64_t, std::int64_t>{1, 1}, {1, 8}, {3, 7}, {5, 3584}, {1000, 24}, {257, 136}}) {
    for (int options = 0; options < 8; ++options) {
      const ProductGradientCase c = {.rows = rows,
                                     .inner = inner,
                                     .in_place = options % 2 == 1,
                                     .product = options / 2 % 2 == 1,
                                     .shift = options / 4};
      SCOPED_TRACE(::testing::Message() << rows << " rows of " << inner << ", options " << options);
      EXPECT_EQ(run_product_gradient(c, true), run_product_gradient(c, false)) << "two runs";
    }
  }
}

struct GateGradientCase {
  std::int64_t batch = 1, heads = 1, length = 1;
  std::int64_t padding = 0;
};

/// max(logsigmoid(z), -1000).
double held_log_gate(double z) {
  return std::max(z < 0 ? z - std::log1p(std::exp(z)) : -std::log1p(std::exp(-z)), -1000.0);
}

Numbers run_gate_gradient(const GateGradientCase& c, bool check) {
  const std::int64_t rows = c.batch * c.length;
  const std::int64_t stride = c.heads + c.padding;
  std::vector<float> logits = normal_numbers(rows * stride, 5, 5);
  const float extremes[] = {-1000.5F, -999.5F, -100, 100, -2000, 40};
  for (std::size_t i = 0; i < std::size(extremes); ++i) {
    if (7 * i < logits.size()) logits[7 * i] = extremes[i];
  }
  const DeviceNumbers z(kFloat32, logits);
  const DeviceNumbers log_gate_gradient(kFloat32, normal_numbers(rows * c.heads, 6));
  const DeviceNumbers out(kFloat32, normal_numbers(rows * (stride + 1), 7));
  Numbers expected = out.values();
  cuda::ForgetGateGradient a;
  a.batch = c.batch;
  a.heads = c.heads;
  a.length = c.length;
  a.log_gate_gradient = log_gate_gradient.floats();
  a.logits = z.floats();
  a.logits_stride = stride;
  a.logits_gradient = out.floats();
  a.logits_gradient_stride = stride + 1;
  EXPECT_EQ(forget_gate_gradient(a, nullptr), Status::ok);
  Numbers output = out.values();
  if (!check) return output;
  const Numbers upper = log_gate_gradient.values();
  Numbers in = z.values();
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t head = 0; head < c.heads; ++head) {
      double& logit = in[index_of(row * stride + head)];
      const std::int64_t at = (row / c.length * c.heads + head) * c.length + row % c.length;
      expected[index_of(row * (stride + 1) + head)] =
          upper[index_of(at)] * slope_at(logit, [&] { return held_log_gate(logit); });
    }
  }
  // A difference of numbers near 1000 has 8 digits.
  EXPECT_LE(largest_error(output, expected, 1e-1), kFloat32Error);
  return output;
}

TEST_F(CudaStepGradients, GoThroughTheForgetGate) {
  for (const std::int64_t heads : {1, 3, 24, 33, 70}) {
    for (const std::int64_t length : {1, 31, 32, 100}) {
      for (const std::int64_t batch : {1, 3}) {
        SCOPED_TRACE(::testing::Message() << batch << " sequences, " << heads << " heads, length " << length);
        const GateGradientCase c = {.batch = batch, .heads = heads, .length = length, .padding = heads % 2};
        EXPECT_EQ(run_gate_gradient(c, true), run_gate_gradient(c, false)) << "two runs";
      }
    }
  }
}

TEST_F(CudaStepGradients, SumConstantForgetGates) {
  for (const std::int64_t length : {1, 17, 5000}) {
    constexpr std::int64_t kBatch = 3;
    const std::vector<float> logits = {-1.5F, 4, 0, -1500, 30};
    const auto heads = std::ssize(logits);
    const DeviceNumbers z(kFloat32, logits);
    const DeviceNumbers log_gate_gradient(kFloat32, normal_numbers(kBatch * heads * length, 8));
    const Numbers upper = log_gate_gradient.values();
    const auto run = [&] {
      const DeviceNumbers out(kFloat32, std::vector<float>(logits.size(), 2.0F));
      cuda::ForgetGateGradient a;
      a.batch = kBatch;
      a.heads = heads;
      a.length = length;
      a.log_gate_gradient = log_gate_gradient.floats();
      a.constant_logits = z.floats();
      a.logits_gradient = out.floats();
      EXPECT_EQ(forget_gate_gradient(a, nullptr), Status::ok);
      return out.values();
    };
    Numbers in = z.values();
    Numbers expected;
    for (std::int64_t head = 0; head < heads; ++head) {
      double sum = 0;
      for (std::int64_t i = 0; i < kBatch * length; ++i) {
        sum += upper[index_of((i / length * heads + head) * length + i % length)];
      }
      double& logit = in[index_of(head)];
      expected.push_back(2 + sum * slope_at(logit, [&] { return held_log_gate(logit); }));
    }
    const Numbers output = run();
    EXPECT_LE(largest_error(output, expected, 1), kFloat32Error);
    EXPECT_EQ(output, run()) << "two runs";
  }
}

struct EmbeddingCase {
  std::int64_t width = 8, vocabulary = 100;
  std::vector<std::int32_t> ids;
  std::int64_t shift = 0;
};

Numbers run_embedding_gradient(const EmbeddingCase& c, bool check) {
  const auto rows = std::ssize(c.ids);
  const cuda::DeviceBuffer ids = to_device(c.ids);
  const DeviceNumbers gradient(kFloat32, normal_numbers(rows * c.width, 11), c.shift);
  const DeviceNumbers table(kFloat32, normal_numbers(c.vocabulary * c.width, 12), c.shift);
  Numbers expected = table.values();
  cuda::EmbeddingGradient a;
  a.rows = rows;
  a.width = c.width;
  a.vocabulary = c.vocabulary;
  a.ids = static_cast<const std::int32_t*>(ids.data());
  a.residual_gradient = gradient.floats();
  a.table_gradient = table.floats();
  const GradientWorkspace workspace(workspace_bytes(a));
  a.workspace = workspace.data();
  EXPECT_EQ(embedding_gradient(a, nullptr), Status::ok);
  workspace.check();
  Numbers output = table.values();
  if (!check) return output;
  const Numbers more = gradient.values();
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int32_t id = c.ids[index_of(row)];
    if (id < 0 || id >= c.vocabulary) continue;
    for (std::int64_t i = 0; i < c.width; ++i)
      expected[index_of(id * c.width + i)] += more[index_of(row * c.width + i)];
  }
  EXPECT_LE(largest_error(output, expected, 1 + std::sqrt(static_cast<double>(rows))), kFloat32Error);
  return output;
}

TEST_F(CudaStepGradients, SumTheRowsOfAnId) {
  const auto check = [](const EmbeddingCase& c) {
    SCOPED_TRACE(::testing::Message() << c.ids.size() << " rows of " << c.width << ", vocabulary " << c.vocabulary
                                      << ", shift " << c.shift);
    EXPECT_EQ(run_embedding_gradient(c, true), run_embedding_gradient(c, false)) << "two runs";
  };
  std::mt19937_64 engine(13);
  for (const std::int64_t width : {1, 7, 64, 516, 1536}) {
    for (const std::int64_t rows : {1, 15, 16, 17, 33, 500}) {
      for (const std::int64_t vocabulary : {1, 2, 40, 1000}) {
        EmbeddingCase c;
        c.width = width;
        c.vocabulary = vocabulary;
        for (std::int64_t row = 0; row < rows; ++row) {
          // Some ids are frequent, and some are outside.
          const auto draw = static_cast<std::int32_t>(engine() % static_cast<std::uint64_t>(vocabulary));
          c.ids.push_back(draw % 3 == 0 ? 0 : row % 50 == 49 ? static_cast<std::int32_t>(vocabulary) : draw);
        }
        if (rows > 30) c.ids[20] = -1;
        c.shift = rows == 33 ? 1 : 0;
        check(c);
      }
    }
  }
  check({.width = 24, .vocabulary = 50304, .ids = std::vector<std::int32_t>(5003, 50303)});
  check({.width = 24, .vocabulary = 5, .ids = std::vector<std::int32_t>(100, 5)});
}

TEST_F(CudaStepGradients, RefuseWhatTheyCannotTake) {
  const DeviceNumbers numbers(kFloat32, 4096);
  float* data = numbers.floats();
  const auto* ids = static_cast<const std::int32_t*>(numbers.data());

  cuda::ResidualNormGradient norm;
  norm.rows = norm.width = 8;
  norm.residual = norm.weight = norm.residual_gradient = data;
  norm.normed_gradient = data;
  std::vector<cuda::ResidualNormGradient> norms(9, norm);
  norms[0].rows = 0;
  norms[1].width = 0;
  norms[2].width = 16385;
  norms[3].residual = nullptr;
  norms[4].weight = nullptr;
  norms[5].normed_gradient = nullptr;
  norms[6].residual_gradient = nullptr;
  norms[7].weight_gradient = data;
  norms[8].epsilon = -1;
  for (const auto& bad : norms) EXPECT_EQ(residual_norm_gradient(bad, nullptr), Status::invalid_argument);
  EXPECT_EQ(workspace_bytes(norm), 0U);
  norm.weight_gradient = data;
  EXPECT_GE(workspace_bytes(norm), 8 * sizeof(float));

  EXPECT_EQ(cuda::swiglu_gradient({0, 8, data, data, data, data}, nullptr), Status::invalid_argument);
  EXPECT_EQ(cuda::swiglu_gradient({1, 0, data, data, data, data}, nullptr), Status::invalid_argument);
  EXPECT_EQ(cuda::swiglu_gradient({1, 8, nullptr, data, data, data}, nullptr), Status::invalid_argument);
  EXPECT_EQ(cuda::swiglu_gradient({1, 8, data, nullptr, data, data}, nullptr), Status::invalid_argument);
  EXPECT_EQ(cuda::swiglu_gradient({1, 8, data, data, nullptr, data}, nullptr), Status::invalid_argument);

  cuda::ForgetGateGradient gate;
  gate.heads = gate.length = gate.logits_stride = gate.logits_gradient_stride = 8;
  gate.log_gate_gradient = gate.logits = gate.logits_gradient = data;
  std::vector<cuda::ForgetGateGradient> gates(9, gate);
  gates[0].batch = 0;
  gates[1].heads = 0;
  gates[2].length = 0;
  gates[3].log_gate_gradient = nullptr;
  gates[4].logits = nullptr;
  gates[5].constant_logits = data;
  gates[6].logits_gradient = nullptr;
  gates[7].logits_stride = 7;
  gates[8].logits_gradient_stride = 7;
  for (const auto& bad : gates) EXPECT_EQ(forget_gate_gradient(bad, nullptr), Status::invalid_argument);

  cuda::EmbeddingGradient embedding;
  embedding.rows = embedding.width = embedding.vocabulary = 8;
  embedding.ids = ids;
  embedding.residual_gradient = embedding.table_gradient = data;
  embedding.workspace = data;
  std::vector<cuda::EmbeddingGradient> embeddings(7, embedding);
  embeddings[0].rows = 0;
  embeddings[1].width = 0;
  embeddings[2].vocabulary = 0;
  embeddings[3].ids = nullptr;
  embeddings[4].residual_gradient = nullptr;
  embeddings[5].table_gradient = nullptr;
  embeddings[6].workspace = nullptr;
  for (const auto& bad : embeddings) EXPECT_EQ(embedding_gradient(bad, nullptr), Status::invalid_argument);
  EXPECT_TRUE(cuda::synchronize());
}

}  // namespace
}  // namespace foxscope::kernels::testing

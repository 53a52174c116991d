// Gradients of what enters attention and of what leaves it, on the GPU against differences of the steps in float64,
// with poison around inputs, outputs and workspaces.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kernels/cuda_gradients_reference.h"

namespace foxscope::kernels::testing {
namespace {

/// How the gradients of query, key and value lie.
enum class GradientLayout { rows_first, heads_first, padded };

struct HeadGradientCase {
  std::int64_t rows = 1, length = 0, heads = 1, key_heads = 1, head_dim = 64;
  bool key_shift = false, value_shift = false, norm = false, norm_gradient = true, rotation = false;
  GradientLayout layout = GradientLayout::rows_first;
  std::int64_t padding = 0;  ///< of projected rows
  std::int64_t shift = 0;    ///< of all pointers

  [[nodiscard]] std::int64_t sequence() const { return length > 0 ? length : rows; }
  [[nodiscard]] std::int64_t stride() const { return (heads + 2 * key_heads) * head_dim + padding; }
  [[nodiscard]] std::int64_t logit_stride() const { return 2 * key_heads + 3; }
};

cuda::AttentionStrides strides_of(const HeadGradientCase& c, std::int64_t heads) {
  const std::int64_t d = c.head_dim;
  switch (c.layout) {
    case GradientLayout::rows_first:
      return {c.sequence() * heads * d, d, heads * d};
    case GradientLayout::heads_first:
      return {heads * c.sequence() * d, c.sequence() * d, d};
    case GradientLayout::padded:
      return {c.sequence() * (heads * (d + 3) + 5), d + 3, heads * (d + 3) + 5};
  }
  return {};
}

/// One head's way into attention in float64: shift, norm, rotation.
struct HeadForward {
  std::int64_t head_dim = 0;
  bool shifts = false;
  bool normed = false;
  bool rotates = false;
  Numbers input;     ///< [n, d]
  Numbers logits;    ///< [n]
  Numbers weight;    ///< [d]
  Numbers angles;    ///< [L, d/2, 2]
  Numbers gradient;  ///< [n, d] of what leaves
  std::int64_t sequence = 0;

  /// What row n adds to the loss, sum_i gradient[n, i] out[n, i]; 0 past the last row.
  [[nodiscard]] double row_value(std::int64_t row) const {
    if (row >= std::ssize(logits)) return 0;
    const std::int64_t within = row % sequence;
    const double share = shifts ? sigmoid(logits[index_of(row)]) : 0.0;
    std::array<double, 256> x;
    for (std::int64_t i = 0; i < head_dim; ++i) {
      const double previous = within > 0 ? input[index_of((row - 1) * head_dim + i)] : 0.0;
      x[index_of(i)] = share * previous + (1 - share) * input[index_of(row * head_dim + i)];
    }
    if (normed) normalise(x.data(), weight.data(), head_dim);
    double sum = 0;
    const double* dy = &gradient[index_of(row * head_dim)];
    const std::int64_t half = head_dim / 2;
    for (std::int64_t i = 0; i < head_dim; ++i) {
      if (!rotates) {
        sum += dy[i] * x[index_of(i)];
        continue;
      }
      const double* angle = &angles[index_of(within * head_dim + 2 * (i % half))];
      const double other = i < half ? -x[index_of(i + half)] : x[index_of(i - half)];
      sum += dy[i] * (x[index_of(i)] * angle[0] + other * angle[1]);
    }
    return sum;
  }
};

struct HeadGradientResult {
  Numbers projected, logits, query_norm, key_norm;
};

/// Everything that a case needs on the device.
struct HeadGradientProblem {
  explicit HeadGradientProblem(const HeadGradientCase& of, std::uint64_t seed)
      : c(of),
        projected(kBfloat16, normal_numbers(c.rows * c.stride(), seed), c.shift),
        logits(kFloat32, normal_numbers(c.rows * c.logit_stride(), seed + 1, 2)),
        norms{DeviceNumbers(kFloat32, normal_numbers(c.heads * c.head_dim, seed + 2, 0.2F, 1), c.shift),
              DeviceNumbers(kFloat32, normal_numbers(c.key_heads * c.head_dim, seed + 3, 0.2F, 1), c.shift)},
        angles(kFloat32, normal_numbers(c.sequence() * c.head_dim, seed + 4), c.shift),
        gradients{gradient(0, seed + 5), gradient(1, seed + 6), gradient(2, seed + 7)} {}

  [[nodiscard]] std::int64_t heads(int part) const { return part == 0 ? c.heads : c.key_heads; }
  [[nodiscard]] DeviceNumbers gradient(int part, std::uint64_t seed) const {
    const cuda::AttentionStrides strides = strides_of(c, heads(part));
    return {kBfloat16, normal_numbers(c.rows / c.sequence() * strides.batch, seed), c.shift};
  }

  [[nodiscard]] HeadGradientResult run() const {
    const std::int64_t d = c.head_dim;
    // Zeros, so that what is written between the rows shows.
    const DeviceNumbers to(kBfloat16, std::vector<float>(index_of(c.rows * c.stride()), 0.0F), c.shift);
    const DeviceNumbers logits_to(kFloat32, std::vector<float>(index_of(c.rows * c.logit_stride()), 0.0F));
    const DeviceNumbers query_norm(kFloat32, std::vector<float>(index_of(c.heads * d), 1.0F), c.shift);
    const DeviceNumbers key_norm(kFloat32, std::vector<float>(index_of(c.key_heads * d), 1.0F), c.shift);
    cuda::ProjectedHeadsGradient a;
    a.rows = c.rows;
    a.length = c.length;
    a.heads = c.heads;
    a.key_heads = c.key_heads;
    a.head_dim = d;
    a.projected = projected.data();
    a.projected_stride = c.stride();
    a.key_shift_logits = c.key_shift ? logits.floats() : nullptr;
    a.value_shift_logits = c.value_shift ? logits.floats() + c.key_heads : nullptr;
    a.shift_stride = c.logit_stride();
    a.query_norm = c.norm ? norms[0].floats() : nullptr;
    a.key_norm = c.norm ? norms[1].floats() : nullptr;
    a.norm_epsilon = kEpsilon;
    a.rotation = c.rotation ? angles.floats() : nullptr;
    a.query_gradient = gradients[0].data();
    a.query_strides = strides_of(c, c.heads);
    a.key_gradient = gradients[1].data();
    a.key_strides = strides_of(c, c.key_heads);
    a.value_gradient = gradients[2].data();
    a.value_strides = strides_of(c, c.key_heads);
    a.projected_gradient = to.data();
    a.projected_gradient_stride = c.stride();
    a.key_shift_gradient = c.key_shift ? logits_to.floats() : nullptr;
    a.value_shift_gradient = c.value_shift ? logits_to.floats() + c.key_heads : nullptr;
    a.shift_gradient_stride = c.logit_stride();
    a.query_norm_gradient = c.norm_gradient ? query_norm.floats() : nullptr;
    a.key_norm_gradient = c.norm_gradient ? key_norm.floats() : nullptr;
    const GradientWorkspace workspace(workspace_bytes(a));
    a.workspace = workspace.data();
    EXPECT_EQ(project_heads_gradient(a, nullptr), Status::ok);
    workspace.check();
    return {to.values(), logits_to.values(), query_norm.values(), key_norm.values()};
  }

  /// By differences, a head at a time.
  [[nodiscard]] HeadGradientResult expected() const {
    HeadGradientResult result = {Numbers(index_of(c.rows * c.stride())), Numbers(index_of(c.rows * c.logit_stride())),
                                 Numbers(index_of(c.heads * c.head_dim), 1.0),
                                 Numbers(index_of(c.key_heads * c.head_dim), 1.0)};
    for (const int part : {0, 1, 2}) {
      for (std::int64_t head = 0; head < heads(part); ++head) {
        HeadForward forward = head_forward(part, head);
        const std::int64_t first = (part == 0 ? 0 : c.heads + (part - 1) * c.key_heads) + head;
        for (std::int64_t row = 0; row < c.rows; ++row) {
          const bool passes = forward.shifts && (row + 1) % c.sequence() != 0;
          for (std::int64_t i = 0; i < c.head_dim; ++i) {
            result.projected[index_of(row * c.stride() + first * c.head_dim + i)] =
                slope_at(forward.input[index_of(row * c.head_dim + i)],
                         [&] { return forward.row_value(row) + (passes ? forward.row_value(row + 1) : 0.0); });
          }
          if (!forward.shifts) continue;
          result.logits[index_of(row * c.logit_stride() + (part - 1) * c.key_heads + head)] =
              slope_at(forward.logits[index_of(row)], [&] { return forward.row_value(row); });
        }
        if (!forward.normed || !c.norm_gradient) continue;
        Numbers& weights = part == 0 ? result.query_norm : result.key_norm;
        for (std::int64_t i = 0; i < c.head_dim; ++i) {
          for (std::int64_t row = 0; row < c.rows; ++row) {
            weights[index_of(head * c.head_dim + i)] +=
                slope_at(forward.weight[index_of(i)], [&] { return forward.row_value(row); });
          }
        }
      }
    }
    return result;
  }

  [[nodiscard]] HeadForward head_forward(int part, std::int64_t head) const {
    const std::int64_t d = c.head_dim;
    HeadForward forward;
    forward.head_dim = d;
    forward.sequence = c.sequence();
    forward.shifts = (part == 1 && c.key_shift) || (part == 2 && c.value_shift);
    forward.normed = c.norm && part < 2;
    forward.rotates = c.rotation && part < 2;
    forward.angles = angles.values();
    const Numbers in = projected.values();
    const Numbers gates = logits.values();
    const Numbers upper = gradients[index_of(part)].values();
    const cuda::AttentionStrides strides = strides_of(c, heads(part));
    const std::int64_t first = (part == 0 ? 0 : c.heads + (part - 1) * c.key_heads) + head;
    for (std::int64_t row = 0; row < c.rows; ++row) {
      forward.logits.push_back(part == 0 ? 0.0
                                         : gates[index_of(row * c.logit_stride() + (part - 1) * c.key_heads + head)]);
      for (std::int64_t i = 0; i < d; ++i) {
        forward.input.push_back(in[index_of(row * c.stride() + first * d + i)]);
        forward.gradient.push_back(upper[index_of(row / c.sequence() * strides.batch + head * strides.head +
                                                  row % c.sequence() * strides.row + i)]);
      }
    }
    if (part == 2) return forward;
    const Numbers weights = norms[index_of(part)].values();
    forward.weight.assign(weights.begin() + head * d, weights.begin() + (head + 1) * d);
    return forward;
  }

  HeadGradientCase c;
  DeviceNumbers projected;
  DeviceNumbers logits;
  std::array<DeviceNumbers, 2> norms;
  DeviceNumbers angles;
  std::array<DeviceNumbers, 3> gradients;
};

void check_head_gradients(const HeadGradientCase& c, std::uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << c.rows << " rows, sequences of " << c.length << ", heads " << c.heads << '/'
                                    << c.key_heads << ", d " << c.head_dim << ", shifts " << c.key_shift
                                    << c.value_shift << ", norm " << c.norm << c.norm_gradient << ", rotation "
                                    << c.rotation << ", layout " << static_cast<int>(c.layout) << ", padding "
                                    << c.padding << ", shift " << c.shift);
  const HeadGradientProblem problem(c, seed);
  const HeadGradientResult result = problem.run();
  const HeadGradientResult expected = problem.expected();
  EXPECT_LE(largest_error(result.projected, expected.projected, 1e-2), kBfloat16Error);
  // A sum over d of products of up to 3.
  const double of_sum = 3 + std::sqrt(static_cast<double>(c.head_dim));
  EXPECT_LE(largest_error(result.logits, expected.logits, of_sum), kFloat32Error);
  const double size = 3 + std::sqrt(static_cast<double>(c.rows));
  EXPECT_LE(largest_error(result.query_norm, expected.query_norm, size), kFloat32Error);
  EXPECT_LE(largest_error(result.key_norm, expected.key_norm, size), kFloat32Error);
  const HeadGradientResult again = problem.run();
  EXPECT_EQ(result.projected, again.projected);
  EXPECT_EQ(result.logits, again.logits);
  EXPECT_EQ(result.query_norm, again.query_norm);
  EXPECT_EQ(result.key_norm, again.key_norm);
}

TEST_F(CudaStepGradients, GoBackThroughRotationNormAndShift) {
  const HeadGradientCase shapes[] = {
      {.heads = 1, .key_heads = 1, .head_dim = 8},   {.heads = 3, .key_heads = 1, .head_dim = 16},
      {.heads = 4, .key_heads = 2, .head_dim = 64},  {.heads = 24, .key_heads = 24, .head_dim = 16},
      {.heads = 2, .key_heads = 2, .head_dim = 128}, {.heads = 2, .key_heads = 2, .head_dim = 96},
      {.heads = 2, .key_heads = 1, .head_dim = 40},  {.heads = 1, .key_heads = 1, .head_dim = 256}};
  std::uint64_t seed = 1;
  for (HeadGradientCase c : shapes) {
    const bool can_rotate = c.head_dim % 16 == 0;
    c.rows = 5;
    for (int options = 0; options < 32; ++options) {
      c.key_shift = options % 2 == 1;
      c.value_shift = options / 2 % 2 == 1;
      c.norm = options / 4 % 2 == 1;
      c.norm_gradient = options / 8 % 2 == 0;
      c.rotation = options / 16 % 2 == 1 && can_rotate;
      check_head_gradients(c, seed += 10);
    }
    c.key_shift = c.value_shift = c.norm = c.norm_gradient = true;
    c.rotation = can_rotate;
    for (const std::int64_t rows : {1, 4, 19}) {
      c.rows = rows;
      check_head_gradients(c, seed += 10);
    }
    c.rows = 12;
    for (const std::int64_t length : {1, 3, 6, 12}) {
      c.length = length;
      c.layout = length == 3 ? GradientLayout::heads_first : GradientLayout::rows_first;
      check_head_gradients(c, seed += 10);
    }
    c.length = 6;
    c.layout = GradientLayout::heads_first;
    c.padding = 8;
    check_head_gradients(c, seed += 10);
    c.layout = GradientLayout::padded;
    c.padding = 3;
    check_head_gradients(c, seed += 10);
    c.shift = 1;
    check_head_gradients(c, seed += 10);
  }
}

/// Rows enough for blocks of several steps, which pass what the shift carries from one to the other.
TEST_F(CudaStepGradients, GoBackThroughManyRows) {
  HeadGradientCase c = {.rows = 4200, .heads = 2, .key_heads = 1, .head_dim = 16};
  c.key_shift = c.value_shift = c.norm = c.rotation = true;
  check_head_gradients(c, 77);
  for (const std::int64_t length : {7, 8, 2100}) {
    c.length = length;
    check_head_gradients(c, 78);
  }
}

struct GateOutputGradientCase {
  std::int64_t rows = 1, heads = 1, head_dim = 64;
  bool norm = false, norm_gradient = true, gate = false, silu = false, in_place = false;
  std::int64_t padding = 0, shift = 0;
};

/// A head of a row in float64, sum_i dy_i out_i.
double gated_value(const Numbers& x, const Numbers& z, const double* weight, const double* dy,
                   const GateOutputGradientCase& c) {
  Numbers out = x;
  if (c.norm) normalise(out.data(), weight, c.head_dim);
  double sum = 0;
  for (std::int64_t i = 0; i < c.head_dim; ++i) {
    const double activation = c.gate ? (c.silu ? z[index_of(i)] : 1) * sigmoid(z[index_of(i)]) : 1.0;
    sum += dy[i] * activation * out[index_of(i)];
  }
  return sum;
}

/// d attended, d gate, d norm.
Outputs run_gate_output_gradient(const GateOutputGradientCase& c, std::uint64_t seed, bool check) {
  const std::int64_t width = c.heads * c.head_dim;
  const std::int64_t stride = width + c.padding;
  const DeviceNumbers attended(kBfloat16, normal_numbers(c.rows * width, seed), c.shift);
  const DeviceNumbers norm(kFloat32, normal_numbers(width, seed + 1, 0.2F, 1), c.shift);
  const DeviceNumbers gate(kBfloat16, normal_numbers(c.rows * stride, seed + 2, 3), c.shift);
  const DeviceNumbers output_gradient(kBfloat16, normal_numbers(c.rows * width, seed + 3), c.shift);
  const DeviceNumbers attended_gradient(kBfloat16, c.rows * width, c.shift);
  const DeviceNumbers gate_gradient(kBfloat16, std::vector<float>(index_of(c.rows * stride), 0.0F), c.shift);
  const DeviceNumbers norm_gradient(kFloat32, std::vector<float>(index_of(width), 1.0F), c.shift);
  const Numbers in = attended.values();
  const Numbers logits = gate.values();
  const Numbers upper = output_gradient.values();
  const DeviceNumbers& to = c.in_place ? output_gradient : attended_gradient;
  const DeviceNumbers& gate_to = c.in_place ? gate : gate_gradient;
  Numbers expected_gate = gate_to.values();
  cuda::GatedOutputGradient a;
  a.rows = c.rows;
  a.heads = c.heads;
  a.head_dim = c.head_dim;
  a.attended = attended.data();
  a.norm = c.norm ? norm.floats() : nullptr;
  a.norm_epsilon = kEpsilon;
  a.gate = c.gate ? gate.data() : nullptr;
  a.gate_stride = stride;
  a.activation = c.silu ? cuda::OutputGateActivation::silu : cuda::OutputGateActivation::sigmoid;
  a.output_gradient = output_gradient.data();
  a.attended_gradient = to.data();
  a.gate_gradient = c.gate ? gate_to.data() : nullptr;
  a.gate_gradient_stride = stride;
  a.norm_gradient = c.norm_gradient ? norm_gradient.floats() : nullptr;
  const GradientWorkspace workspace(workspace_bytes(a));
  a.workspace = workspace.data();
  EXPECT_EQ(gate_output_gradient(a, nullptr), Status::ok);
  workspace.check();
  Outputs outputs = {to.values(), gate_to.values(), norm_gradient.values()};
  if (!check) return outputs;

  Numbers expected(index_of(c.rows * width));
  Numbers expected_norm(index_of(width), 1.0);
  Numbers weights = norm.values();
  for (std::int64_t row = 0; row < c.rows; ++row) {
    for (std::int64_t head = 0; head < c.heads; ++head) {
      const std::int64_t at = row * width + head * c.head_dim;
      const std::int64_t gate_at = row * stride + head * c.head_dim;
      Numbers x(in.begin() + at, in.begin() + at + c.head_dim);
      Numbers z(logits.begin() + gate_at, logits.begin() + gate_at + c.head_dim);
      double* weight = &weights[index_of(head * c.head_dim)];
      const auto value = [&] { return gated_value(x, z, weight, &upper[index_of(at)], c); };
      for (std::int64_t i = 0; i < c.head_dim; ++i) {
        expected[index_of(at + i)] = slope_at(x[index_of(i)], value);
        if (c.gate) expected_gate[index_of(gate_at + i)] = slope_at(z[index_of(i)], value);
        if (c.norm && c.norm_gradient) expected_norm[index_of(head * c.head_dim + i)] += slope_at(weight[i], value);
      }
    }
  }
  EXPECT_LE(largest_error(outputs[0], expected, 1e-2), kBfloat16Error);
  EXPECT_LE(largest_error(outputs[1], expected_gate, 1e-3), kBfloat16Error);
  EXPECT_LE(largest_error(outputs[2], expected_norm, 3 + std::sqrt(static_cast<double>(c.rows))), kFloat32Error);
  return outputs;
}

TEST_F(CudaStepGradients, GoBackThroughTheOutputsGateAndNorm) {
  const auto check = [](const GateOutputGradientCase& c, std::uint64_t seed) {
    SCOPED_TRACE(::testing::Message() << c.rows << " rows, " << c.heads << " heads, d " << c.head_dim << ", norm "
                                      << c.norm << c.norm_gradient << ", gate " << c.gate << ", silu " << c.silu
                                      << ", in place " << c.in_place << ", padding " << c.padding << ", shift "
                                      << c.shift);
    EXPECT_EQ(run_gate_output_gradient(c, seed, true), run_gate_output_gradient(c, seed, false)) << "two runs";
  };
  std::uint64_t seed = 5000;
  for (const std::int64_t head_dim : {8, 16, 40, 64, 96, 128, 256}) {
    for (int options = 0; options < 32; ++options) {
      GateOutputGradientCase c = {.rows = 5, .heads = head_dim < 64 ? 24 : 3, .head_dim = head_dim};
      c.norm = options % 2 == 1;
      c.gate = options / 2 % 2 == 1;
      c.silu = options / 4 % 2 == 1;
      c.in_place = options / 8 % 2 == 1;
      c.norm_gradient = options / 16 == 0;
      if (head_dim > 64 && options % 3 != 0) continue;
      check(c, seed += 10);
    }
    const GateOutputGradientCase full = {.heads = 3, .head_dim = head_dim, .norm = true, .gate = true};
    for (const auto& [rows, padding, shift] : {std::array<std::int64_t, 3>{1, 0, 0}, {7, 8, 0}, {7, 5, 0}, {7, 0, 1}}) {
      GateOutputGradientCase c = full;
      c.rows = rows;
      c.padding = padding;
      c.shift = shift;
      check(c, seed += 10);
    }
  }
  check({.rows = 4101, .heads = 3, .head_dim = 8, .norm = true, .gate = true}, seed);
}

TEST_F(CudaStepGradients, RefuseHeadsThatTheyCannotTake) {
  const DeviceNumbers numbers(kFloat32, 4096);
  float* data = numbers.floats();
  cuda::ProjectedHeadsGradient heads;
  heads.rows = 2;
  heads.heads = heads.key_heads = 2;
  heads.head_dim = 8;
  heads.projected = heads.query_gradient = heads.key_gradient = heads.value_gradient = data;
  heads.projected_gradient = data;
  heads.projected_stride = heads.projected_gradient_stride = 48;
  heads.query_strides = heads.key_strides = heads.value_strides = {32, 8, 16};
  std::vector<cuda::ProjectedHeadsGradient> all(20, heads);
  all[0].rows = 0;
  all[1].key_heads = 3;
  all[2].head_dim = 12;
  all[3].head_dim = 264;
  all[4].projected_stride = 47;
  all[5].projected_gradient_stride = 47;
  all[6].projected = nullptr;
  all[7].query_gradient = nullptr;
  all[8].key_gradient = nullptr;
  all[9].value_gradient = nullptr;
  all[10].projected_gradient = nullptr;
  all[11].rotation = data;
  all[12].length = 3;
  all[13].key_strides.row = 7;
  all[14].value_strides.head = -8;
  all[15].norm_epsilon = -1;
  all[16].query_norm = all[16].query_norm_gradient = data;  // no workspace
  for (std::size_t i = 17; i < all.size(); ++i) {
    all[i].key_shift_logits = all[i].key_shift_gradient = data;
    all[i].shift_stride = all[i].shift_gradient_stride = 2;
  }
  all[17].key_shift_gradient = nullptr;
  all[18].shift_stride = 1;
  all[19].shift_gradient_stride = 1;
  for (const auto& bad : all) EXPECT_EQ(project_heads_gradient(bad, nullptr), Status::invalid_argument);
  EXPECT_EQ(workspace_bytes(heads), 0U);

  cuda::GatedOutputGradient output;
  output.rows = 1;
  output.heads = 2;
  output.head_dim = 8;
  output.attended = output.output_gradient = output.attended_gradient = data;
  std::vector<cuda::GatedOutputGradient> outputs(10, output);
  outputs[0].heads = 0;
  outputs[1].attended = nullptr;
  outputs[2].output_gradient = nullptr;
  outputs[3].attended_gradient = nullptr;
  outputs[4].norm = outputs[4].norm_gradient = data;  // no workspace
  for (std::size_t i = 5; i < 9; ++i) {
    outputs[i].gate = data;
    outputs[i].gate_gradient = data + 1024;
    outputs[i].gate_stride = outputs[i].gate_gradient_stride = 16;
  }
  outputs[5].gate_gradient = nullptr;
  outputs[6].gate_stride = 15;
  outputs[7].gate_gradient_stride = 15;
  outputs[8].gate_gradient = data, outputs[8].gate_gradient_stride = 24;
  outputs[9].norm_epsilon = -1;
  for (const auto& bad : outputs) EXPECT_EQ(gate_output_gradient(bad, nullptr), Status::invalid_argument);
  EXPECT_TRUE(cuda::synchronize());
}

}  // namespace
}  // namespace foxscope::kernels::testing

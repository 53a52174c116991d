// What enters attention and what leaves it, on the GPU against float64, with poison around inputs and outputs.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "tests/kernels/cuda_steps_reference.h"

namespace foxscope::kernels::testing {
namespace {

struct HeadsCase {
  std::int64_t length = 0;  ///< of a sequence; 0: all rows are one
  std::int64_t rows = 1, heads = 1, key_heads = 1, head_dim = 64;
  ElementType type = kBfloat16;
  bool key_shift = false, value_shift = false, norm = false, rotation = false;
  std::int64_t padding = 0;  ///< of projected rows
  std::int64_t shift = 0;    ///< of all pointers
};

/// First half with second half, the angle from the table.
void rotate(double* x, const double* table, std::int64_t head_dim) {
  for (std::int64_t i = 0; i < head_dim / 2; ++i) {
    const double first = x[i];
    const double second = x[i + head_dim / 2];
    x[i] = first * table[2 * i] - second * table[2 * i + 1];
    x[i + head_dim / 2] = second * table[2 * i] + first * table[2 * i + 1];
  }
}

void check_project_heads(const HeadsCase& c, std::uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << c.rows << " rows, sequences of " << c.length << ", heads " << c.heads << '/'
                                    << c.key_heads << ", d " << c.head_dim << ", shifts " << c.key_shift
                                    << c.value_shift << ", norm " << c.norm << ", rotation " << c.rotation
                                    << ", padding " << c.padding << ", shift " << c.shift);
  const std::int64_t d = c.head_dim;
  const std::int64_t stride = (c.heads + 2 * c.key_heads) * d + c.padding;
  const std::int64_t logit_stride = 2 * c.key_heads + 3;
  const DeviceNumbers projected(c.type, normal_numbers(c.rows * stride, seed), c.shift);
  const DeviceNumbers logits(kFloat32, normal_numbers(c.rows * logit_stride, seed + 1, 2));
  const DeviceNumbers query_norm(kFloat32, normal_numbers(c.heads * d, seed + 3, 0.2F, 1), c.shift);
  const DeviceNumbers key_norm(kFloat32, normal_numbers(c.key_heads * d, seed + 4, 0.2F, 1), c.shift);
  const DeviceNumbers table(kFloat32, normal_numbers(c.rows * d, seed + 5), c.shift);
  const DeviceNumbers outputs[3] = {{kBfloat16, c.rows * c.heads * d, c.shift},
                                    {kBfloat16, c.rows * c.key_heads * d, c.shift},
                                    {kBfloat16, c.rows * c.key_heads * d, c.shift}};
  cuda::ProjectedHeads a;
  a.rows = c.rows;
  a.length = c.length;
  a.heads = c.heads;
  a.key_heads = c.key_heads;
  a.head_dim = d;
  a.projected = projected.data();
  a.projected_type = c.type;
  a.projected_stride = stride;
  a.key_shift_logits = c.key_shift ? logits.floats() : nullptr;
  a.value_shift_logits = c.value_shift ? logits.floats() + c.key_heads : nullptr;
  a.shift_stride = logit_stride;
  a.query_norm = c.norm ? query_norm.floats() : nullptr;
  a.key_norm = c.norm ? key_norm.floats() : nullptr;
  a.norm_epsilon = kEpsilon;
  a.rotation = c.rotation ? table.floats() : nullptr;
  a.query = outputs[0].data();
  a.key = outputs[1].data();
  a.value = outputs[2].data();
  ASSERT_EQ(project_heads(a, nullptr), Status::ok);

  const Numbers in = projected.values();
  const Numbers gates = logits.values();
  const Numbers weights[2] = {query_norm.values(), key_norm.values()};
  const Numbers angles = table.values();
  for (const int part : {0, 1, 2}) {
    const std::int64_t heads = part == 0 ? c.heads : c.key_heads;
    const std::int64_t first = part == 0 ? 0 : c.heads + (part - 1) * c.key_heads;
    const bool shifts = (part == 1 && c.key_shift) || (part == 2 && c.value_shift);
    Numbers expected;
    for (std::int64_t row = 0; row < c.rows; ++row) {
      for (std::int64_t head = 0; head < heads; ++head) {
        Numbers x(index_of(d));
        const double share =
            shifts ? sigmoid(gates[index_of(row * logit_stride + (part - 1) * c.key_heads + head)]) : 0.0;
        for (std::int64_t i = 0; i < d; ++i) {
          const std::int64_t at = row * stride + (first + head) * d + i;
          const bool begins = row == 0 || (c.length > 0 && row % c.length == 0);
          const double previous = begins ? 0.0 : in[index_of(at - stride)];
          x[index_of(i)] = share * previous + (1 - share) * in[index_of(at)];
        }
        if (c.norm && part < 2) normalise(x.data(), &weights[part][index_of(head * d)], d);
        if (c.rotation && part < 2) {
          rotate(x.data(), &angles[index_of((c.length > 0 ? row % c.length : row) * d)], d);
        }
        expected.insert(expected.end(), x.begin(), x.end());
      }
    }
    SCOPED_TRACE(part);
    EXPECT_LE(largest_error(outputs[part].values(), expected, 1e-2), kBfloat16Error);
  }
}

TEST_F(CudaSteps, SplitShiftNormaliseAndTurnHeads) {
  const HeadsCase shapes[] = {
      {.heads = 1, .key_heads = 1, .head_dim = 8},     {.heads = 3, .key_heads = 1, .head_dim = 16},
      {.heads = 4, .key_heads = 2, .head_dim = 64},    {.heads = 24, .key_heads = 24},
      {.heads = 12, .key_heads = 12, .head_dim = 128}, {.heads = 2, .key_heads = 2, .head_dim = 96},
      {.heads = 2, .key_heads = 1, .head_dim = 40},    {.heads = 1, .key_heads = 1, .head_dim = 256}};
  std::uint64_t seed = 1;
  for (HeadsCase c : shapes) {
    for (const std::int64_t rows : {1, 4, 5, 37}) {
      c.rows = rows;
      for (int options = 0; options < 16; options += rows == 5 ? 1 : 7) {
        c.key_shift = options % 2 == 1;
        c.value_shift = options / 2 % 2 == 1;
        c.norm = options / 4 % 2 == 1;
        c.rotation = options / 8 % 2 == 1 && c.head_dim % 16 == 0;
        c.type = options % 3 == 0 ? kFloat32 : kBfloat16;
        check_project_heads(c, seed += 10);
      }
    }
    for (const std::int64_t length : {1, 3, 6, 18}) {
      c.length = length;
      c.rows = 36;
      c.key_shift = c.value_shift = c.norm = true;
      c.rotation = c.head_dim % 16 == 0;
      check_project_heads(c, seed += 10);
    }
    c.length = 0;
    c.rows = 37;
    c.padding = 8;
    c.key_shift = c.value_shift = c.norm = true;
    check_project_heads(c, seed += 10);
    c.padding = 3;
    check_project_heads(c, seed += 10);
    c.shift = 1;
    c.rotation = c.head_dim % 16 == 0;
    check_project_heads(c, seed += 10);
  }
}

TEST_F(CudaSteps, WriteHeadsInEitherLayout) {
  constexpr std::int64_t kRows = 37;
  constexpr std::int64_t kHeads = 4;
  constexpr std::int64_t kKeyHeads = 2;
  constexpr std::int64_t kDim = 32;
  const DeviceNumbers projected(kBfloat16, normal_numbers(kRows * (kHeads + 2 * kKeyHeads) * kDim, 9));
  const DeviceNumbers norm(kFloat32, normal_numbers(kHeads * kDim, 10, 0.2F, 1));
  const auto run = [&](cuda::HeadLayout layout) {
    const DeviceNumbers query(kBfloat16, kRows * kHeads * kDim);
    const DeviceNumbers key(kBfloat16, kRows * kKeyHeads * kDim);
    const DeviceNumbers value(kBfloat16, kRows * kKeyHeads * kDim);
    cuda::ProjectedHeads a;
    a.rows = kRows;
    a.heads = kHeads;
    a.key_heads = kKeyHeads;
    a.head_dim = kDim;
    a.projected = projected.data();
    a.projected_stride = (kHeads + 2 * kKeyHeads) * kDim;
    a.query_norm = a.key_norm = norm.floats();
    a.norm_epsilon = kEpsilon;
    a.layout = layout;
    a.query = query.data();
    a.key = key.data();
    a.value = value.data();
    EXPECT_EQ(project_heads(a, nullptr), Status::ok);
    return std::array{query.values(), key.values(), value.values()};
  };
  const auto rows_first = run(cuda::HeadLayout::rows_first);
  const auto heads_first = run(cuda::HeadLayout::heads_first);
  EXPECT_EQ(rows_first[2], heads_first[2]);
  for (const auto& [part, heads] : {std::pair(0, kHeads), std::pair(1, kKeyHeads)}) {
    for (std::int64_t n = 0; n < kRows * heads * kDim; ++n) {
      const std::int64_t row = n / (heads * kDim);
      const std::int64_t head = n / kDim % heads;
      ASSERT_EQ(rows_first[index_of(part)][index_of(n)],
                heads_first[index_of(part)][index_of((head * kRows + row) * kDim + n % kDim)]);
    }
  }
}

TEST_F(CudaSteps, TurnByPosition) {
  constexpr std::int64_t kRows = 33;
  constexpr std::int64_t kDim = 64;
  std::vector<double> frequencies;
  for (std::int64_t i = 0; i < kDim / 2; ++i) {
    frequencies.push_back(std::pow(500000.0, -2 * static_cast<double>(i) / static_cast<double>(kDim)));
  }
  const cuda::DeviceBuffer on_device = to_device(frequencies);
  for (const std::int64_t first : {0, 1000000}) {
    const DeviceNumbers table(kFloat32, kRows * kDim);
    ASSERT_EQ(cuda::rotary_table(first, kRows, kDim / 2, static_cast<const double*>(on_device.data()), table.floats(),
                                 nullptr),
              Status::ok);
    const Numbers values = table.values();
    for (std::int64_t row = 0; row < kRows; ++row) {
      for (std::int64_t i = 0; i < kDim / 2; ++i) {
        const double angle = static_cast<double>(first + row) * frequencies[index_of(i)];
        EXPECT_NEAR(values[index_of(row * kDim + 2 * i)], std::cos(angle), 1e-7);
        EXPECT_NEAR(values[index_of(row * kDim + 2 * i + 1)], std::sin(angle), 1e-7);
      }
    }
  }
}

struct GateCase {
  std::int64_t rows = 1, heads = 1, head_dim = 64;
  bool norm = false, gate = false, silu = false, in_place = false;
  ElementType type = kBfloat16;
  std::int64_t padding = 0, shift = 0;
};

void check_gate_output(const GateCase& c, std::uint64_t seed) {
  SCOPED_TRACE(::testing::Message() << c.rows << " rows, " << c.heads << " heads, d " << c.head_dim << ", norm "
                                    << c.norm << ", gate " << c.gate << ", silu " << c.silu << ", in place "
                                    << c.in_place << ", padding " << c.padding << ", shift " << c.shift);
  const std::int64_t width = c.heads * c.head_dim;
  const std::int64_t stride = width + c.padding;
  const DeviceNumbers attended(kBfloat16, normal_numbers(c.rows * width, seed), c.shift);
  const DeviceNumbers norm(kFloat32, normal_numbers(width, seed + 1, 0.2F, 1), c.shift);
  const DeviceNumbers gate(c.type, normal_numbers(c.rows * stride, seed + 2, 3), c.shift);
  const DeviceNumbers output(kBfloat16, c.rows * width, c.shift);
  Numbers expected = attended.values();
  cuda::GatedOutput a;
  a.rows = c.rows;
  a.heads = c.heads;
  a.head_dim = c.head_dim;
  a.attended = attended.data();
  a.norm = c.norm ? norm.floats() : nullptr;
  a.norm_epsilon = kEpsilon;
  a.gate = c.gate ? gate.data() : nullptr;
  a.gate_type = c.type;
  a.gate_stride = stride;
  a.activation = c.silu ? cuda::OutputGateActivation::silu : cuda::OutputGateActivation::sigmoid;
  a.output = c.in_place ? attended.data() : output.data();
  ASSERT_EQ(gate_output(a, nullptr), Status::ok);
  const Numbers weights = norm.values();
  const Numbers logits = gate.values();
  for (std::int64_t row = 0; row < c.rows; ++row) {
    for (std::int64_t head = 0; head < c.heads; ++head) {
      double* x = &expected[index_of(row * width + head * c.head_dim)];
      if (c.norm) normalise(x, &weights[index_of(head * c.head_dim)], c.head_dim);
      for (std::int64_t i = 0; c.gate && i < c.head_dim; ++i) {
        const double logit = logits[index_of(row * stride + head * c.head_dim + i)];
        x[i] *= (c.silu ? logit : 1) * sigmoid(logit);
      }
    }
  }
  EXPECT_LE(largest_error((c.in_place ? attended : output).values(), expected, 1e-3), kBfloat16Error);
}

TEST_F(CudaSteps, NormaliseAndGateTheOutput) {
  std::uint64_t seed = 5000;
  for (const std::int64_t head_dim : {8, 16, 40, 64, 96, 128, 256}) {
    for (const std::int64_t rows : {1, 5, 33}) {
      for (int options = 0; options < 16; ++options) {
        GateCase c = {.rows = rows, .heads = rows == 5 ? 24 : 3, .head_dim = head_dim};
        c.norm = options % 2 == 1;
        c.gate = options / 2 % 2 == 1;
        c.silu = options / 4 % 2 == 1;
        c.in_place = options / 8 == 1;
        c.type = options % 3 == 0 ? kFloat32 : kBfloat16;
        check_gate_output(c, seed += 10);
      }
    }
    check_gate_output({.rows = 7, .heads = 3, .head_dim = head_dim, .norm = true, .gate = true, .padding = 5},
                      seed += 10);
    check_gate_output({.rows = 7, .heads = 3, .head_dim = head_dim, .norm = true, .gate = true, .shift = 1},
                      seed += 10);
  }
}

}  // namespace
}  // namespace foxscope::kernels::testing

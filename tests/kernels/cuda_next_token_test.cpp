// The newest position of sequences that are continued together, on the GPU against float64.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "kernels/cuda/attention/next/next_token.h"
#include "tests/kernels/cuda_steps_reference.h"

namespace foxscope::kernels::testing {
namespace {

using cuda::HeldSequence;

struct Sizes {
  std::int64_t heads = 1, key_heads = 1, head_dim = 64;
};

/// Sequences of some numbers of held rows, each in memory of its own with room behind it.
class Held {
 public:
  /// @param rows  of each, with the newest; 0: no sequence
  Held(const Sizes& sizes, const std::vector<std::int64_t>& rows, bool gated, std::uint64_t seed) {
    constexpr std::int64_t kRoom = 5;
    std::mt19937_64 engine(seed);
    std::uniform_real_distribution<double> step(-0.2, 0.0);
    for (const std::int64_t count : rows) {
      const std::int64_t room = std::max<std::int64_t>(count, 1) + kRoom;
      const auto numbers = [&](std::int64_t heads) {
        return DeviceNumbers(kBfloat16, normal_numbers(heads * room * sizes.head_dim, engine()));
      };
      keys.push_back(numbers(sizes.key_heads));
      values.push_back(numbers(sizes.key_heads));
      before.emplace_back(kBfloat16, normal_numbers(2 * sizes.key_heads * sizes.head_dim, engine()));
      std::vector<double>& sums = cumulative.emplace_back();
      for (std::int64_t head = 0; head < sizes.heads; ++head) {
        double sum = -100;
        for (std::int64_t r = 0; r < room; ++r) sums.push_back(sum += step(engine));
      }
      gates.push_back(to_device(sums));
      HeldSequence& sequence = sequences.emplace_back();
      if (count == 0) continue;
      sequence.key = keys.back().data();
      sequence.value = values.back().data();
      if (gated) sequence.cumulative = static_cast<double*>(gates.back().data());
      sequence.key_before = before.back().data();
      sequence.value_before = static_cast<std::uint16_t*>(before.back().data()) + sizes.key_heads * sizes.head_dim;
      sequence.key_stride = sequence.value_stride = room * sizes.head_dim;
      sequence.gate_stride = room;
      sequence.rows = count;
      sequence.position = count + 17;
    }
  }
  void put() { table = to_device(sequences); }
  [[nodiscard]] const HeldSequence* on_device() const { return static_cast<const HeldSequence*>(table.data()); }

  std::vector<DeviceNumbers> keys, values, before;
  std::vector<std::vector<double>> cumulative;
  std::vector<cuda::DeviceBuffer> gates;
  std::vector<HeldSequence> sequences;
  cuda::DeviceBuffer table;
};

class CudaNextToken : public CudaTest {};

/// o, and c of the newest position.
void check_attention(const Sizes& sizes, const std::vector<std::int64_t>& rows, std::int64_t hidden, int gates) {
  SCOPED_TRACE(::testing::Message() << "heads " << sizes.heads << '/' << sizes.key_heads << ", d " << sizes.head_dim
                                    << ", hidden " << hidden << ", gates " << gates);
  const bool gated = gates > 0;
  Held held(sizes, rows, gated, 7);
  for (HeldSequence& sequence : held.sequences)
    sequence.hidden_rows = std::min(hidden, std::max<std::int64_t>(sequence.rows - 1, 0));
  held.put();
  const auto batch = std::ssize(rows);
  const std::int64_t d = sizes.head_dim;
  const std::int64_t stride = sizes.heads + 3;
  const DeviceNumbers query(kBfloat16, normal_numbers(batch * sizes.heads * d, 8));
  const DeviceNumbers logits(kFloat32, normal_numbers(batch * stride, 9, 3));
  const DeviceNumbers output(kBfloat16, batch * sizes.heads * d);
  const cuda::DeviceBuffer workspace(cuda::next_attention_workspace_bytes(batch, sizes.heads, d));
  ASSERT_TRUE(workspace.fill(0));
  cuda::NextAttention a;
  a.batch = batch;
  a.heads = sizes.heads;
  a.key_heads = sizes.key_heads;
  a.head_dim = d;
  a.sequences = held.on_device();
  a.query = query.data();
  if (gates == 1) {
    a.gate_logits = logits.floats();
    a.gate_stride = stride;
  } else if (gates == 2) {
    a.constant_logits = logits.floats();
  }
  a.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(d)));
  a.output = output.data();
  a.workspace = workspace.data();
  for (int turn = 0; turn < 2; ++turn) ASSERT_EQ(next_attention(a, nullptr), Status::ok);  // the second as the first

  const Numbers q = query.values();
  const Numbers gate = logits.values();
  Numbers expected;
  for (std::int64_t b = 0; b < batch; ++b) {
    const HeldSequence& sequence = held.sequences[index_of(b)];
    const Numbers k = held.keys[index_of(b)].values();
    const Numbers v = held.values[index_of(b)].values();
    std::vector<double> c = held.cumulative[index_of(b)];
    for (std::int64_t head = 0; head < sizes.heads; ++head) {
      const std::int64_t key_head = head / (sizes.heads / sizes.key_heads);
      const std::int64_t newest = head * sequence.gate_stride + sequence.rows - 1;
      if (sequence.rows > 0 && (gates == 1 || gates == 2)) {
        const double x = gate[index_of((gates == 1 ? b * stride : 0) + head)];
        const double before = sequence.rows > 1 ? c[index_of(newest - 1)] : 0.0;
        c[index_of(newest)] = before + std::min(x, 0.0) - std::log1p(std::exp(-std::abs(x)));
      }
      Numbers sum(index_of(d));
      double mass = 0;
      for (std::int64_t j = sequence.hidden_rows; j < sequence.rows; ++j) {
        double logit = gated ? c[index_of(newest)] - c[index_of(newest - sequence.rows + 1 + j)] : 0.0;
        for (std::int64_t i = 0; i < d; ++i) {
          logit += q[index_of((b * sizes.heads + head) * d + i)] *
                   k[index_of(key_head * sequence.key_stride + j * d + i)] * static_cast<double>(a.scale);
        }
        const double weight = std::exp(logit);
        mass += weight;
        for (std::int64_t i = 0; i < d; ++i)
          sum[index_of(i)] += weight * v[index_of(key_head * sequence.value_stride + j * d + i)];
      }
      for (const double x : sum) expected.push_back(sequence.rows > 0 ? x / mass : 0.0);
    }
    if (gated) {
      const std::vector<double> found = to_host<double>(held.gates[index_of(b)]);
      for (std::size_t n = 0; n < c.size(); ++n) ASSERT_NEAR(found[n], c[n], 1e-12) << b << ", " << n;
    }
  }
  EXPECT_LE(largest_error(output.values(), expected, 1e-2), kBfloat16Error);
}

TEST_F(CudaNextToken, AttendsToWhatEachSequenceHolds) {
  const std::vector<std::int64_t> rows = {1, 2, 0, 63, 64, 65, 700, 5000};
  for (const Sizes& sizes : {Sizes{1, 1, 8}, Sizes{3, 1, 16}, Sizes{4, 2, 64}, Sizes{2, 2, 40}, Sizes{4, 4, 80},
                             Sizes{2, 1, 128}, Sizes{2, 2, 192}, Sizes{2, 1, 256}}) {
    for (const int gates : {0, 1, 2, 3}) check_attention(sizes, rows, 0, gates);
    check_attention(sizes, rows, 60, 1);
  }
}

/// Whoever is beside it, and however often.
TEST_F(CudaNextToken, ASequenceHasTheSameDigitsAlone) {
  const Sizes sizes{4, 4, 64};
  Held held(sizes, {3000, 17, 900}, true, 3);
  held.put();
  const DeviceNumbers query(kBfloat16, normal_numbers(3 * 4 * 64, 8));
  const DeviceNumbers logits(kFloat32, normal_numbers(3 * 4, 9, 3));
  const auto attend = [&](std::int64_t first, std::int64_t batch) {
    const cuda::DeviceBuffer workspace(cuda::next_attention_workspace_bytes(batch, 4, 64));
    EXPECT_TRUE(workspace.fill(0));
    const DeviceNumbers output(kBfloat16, batch * 4 * 64);
    cuda::NextAttention a{batch, 4, 4, 64, held.on_device() + first};
    a.query = static_cast<const std::uint16_t*>(query.data()) + first * 4 * 64;
    a.gate_logits = logits.floats() + first * 4;
    a.gate_stride = 4;
    a.scale = 0.125F;
    a.output = output.data();
    a.workspace = workspace.data();
    EXPECT_EQ(next_attention(a, nullptr), Status::ok);
    return output.values();
  };
  const Numbers together = attend(0, 3);
  for (const std::int64_t b : {0, 1, 2}) {
    const Numbers alone = attend(b, 1);
    EXPECT_EQ(alone, Numbers(together.begin() + b * 4 * 64, together.begin() + (b + 1) * 4 * 64)) << b;
  }
}

TEST_F(CudaNextToken, NotANumberIsNotANumber) {
  const Sizes sizes{2, 2, 64};
  Held held(sizes, {300}, true, 3);
  held.put();
  const DeviceNumbers query(kBfloat16, std::vector<float>(2 * 64, std::numeric_limits<float>::quiet_NaN()));
  const DeviceNumbers output(kBfloat16, std::vector<float>(2 * 64, 1));
  const cuda::DeviceBuffer workspace(cuda::next_attention_workspace_bytes(1, 2, 64));
  ASSERT_TRUE(workspace.fill(0));
  cuda::NextAttention a{1, 2, 2, 64, held.on_device()};
  a.query = query.data();
  a.scale = 0.125F;
  a.output = output.data();
  a.workspace = workspace.data();
  ASSERT_EQ(next_attention(a, nullptr), Status::ok);
  for (const double x : output.values()) EXPECT_TRUE(std::isnan(x));
}

void rotate(double* x, std::int64_t position, const std::vector<double>& frequencies) {
  const auto half = std::ssize(frequencies);
  for (std::int64_t i = 0; i < half; ++i) {
    const double angle = static_cast<double>(position) * frequencies[index_of(i)];
    const double first = x[i];
    const double second = x[i + half];
    x[i] = first * std::cos(angle) - second * std::sin(angle);
    x[i + half] = second * std::cos(angle) + first * std::sin(angle);
  }
}

TEST_F(CudaNextToken, PutsKeysAndValuesBehindThoseThatAreHeld) {
  for (const Sizes& sizes : {Sizes{1, 1, 16}, Sizes{4, 2, 64}, Sizes{3, 3, 96}, Sizes{2, 1, 256}}) {
    for (int options = 0; options < 16; ++options) {
      SCOPED_TRACE(::testing::Message() << "d " << sizes.head_dim << ", options " << options);
      const bool key_shift = options % 2 == 1;
      const bool value_shift = options / 2 % 2 == 1;
      const bool norm = options / 4 % 2 == 1;
      const bool turns = options / 8 % 2 == 1;
      Held held(sizes, {40, 0, 1, 7}, false, 5);
      held.put();
      const std::int64_t batch = 4;
      const std::int64_t d = sizes.head_dim;
      const std::int64_t stride = (sizes.heads + 2 * sizes.key_heads) * d + 8;
      const DeviceNumbers projected(kBfloat16, normal_numbers(batch * stride, 1));
      const DeviceNumbers logits(kFloat32, normal_numbers(batch * 2 * sizes.key_heads, 2, 2));
      const DeviceNumbers norms(kFloat32, normal_numbers((sizes.heads + sizes.key_heads) * d, 3, 0.2F, 1));
      const DeviceNumbers query(kBfloat16, std::vector<float>(index_of(batch * sizes.heads * d), 0));
      std::vector<double> frequencies;
      for (std::int64_t i = 0; i < d / 2; ++i)
        frequencies.push_back(std::pow(0.01, static_cast<double>(i) / static_cast<double>(d)));
      const cuda::DeviceBuffer on_device = to_device(frequencies);
      const DeviceNumbers table(kFloat32, batch * d);
      ASSERT_EQ(cuda::next_rotations(held.on_device(), batch, d / 2, static_cast<const double*>(on_device.data()),
                                     table.floats(), nullptr),
                Status::ok);
      cuda::ProjectedHeads a;
      a.rows = batch;
      a.heads = sizes.heads;
      a.key_heads = sizes.key_heads;
      a.head_dim = d;
      a.projected = projected.data();
      a.projected_stride = stride;
      a.key_shift_logits = key_shift ? logits.floats() : nullptr;
      a.value_shift_logits = value_shift ? logits.floats() + sizes.key_heads : nullptr;
      a.shift_stride = 2 * sizes.key_heads;
      a.query_norm = norm ? norms.floats() : nullptr;
      a.key_norm = norm ? norms.floats() + sizes.heads * d : nullptr;
      a.norm_epsilon = kEpsilon;
      a.rotation = turns ? table.floats() : nullptr;
      a.query = query.data();
      std::vector<Numbers> befores;
      for (const DeviceNumbers& before : held.before) befores.push_back(before.values());
      ASSERT_EQ(cuda::project_next_heads(a, held.on_device(), nullptr), Status::ok);

      const Numbers in = projected.values();
      const Numbers gate = logits.values();
      const Numbers weights = norms.values();
      const Numbers queries = query.values();
      for (std::int64_t b = 0; b < batch; ++b) {
        const HeldSequence& sequence = held.sequences[index_of(b)];
        if (sequence.rows == 0) continue;
        const Numbers after = held.before[index_of(b)].values();
        for (std::int64_t head = 0; head < sizes.heads + 2 * sizes.key_heads; ++head) {
          const int part = head < sizes.heads ? 0 : head < sizes.heads + sizes.key_heads ? 1 : 2;
          const std::int64_t of_part = part == 0 ? head : head - sizes.heads - (part - 1) * sizes.key_heads;
          const bool shifts = (part == 1 && key_shift) || (part == 2 && value_shift);
          const std::int64_t last = ((part - 1) * sizes.key_heads + of_part) * d;
          Numbers x;
          for (std::int64_t i = 0; i < d; ++i) {
            const double now = in[index_of(b * stride + head * d + i)];
            const double share = shifts ? sigmoid(gate[index_of((2 * b + part - 1) * sizes.key_heads + of_part)]) : 0.0;
            x.push_back(shifts ? share * befores[index_of(b)][index_of(last + i)] + (1 - share) * now : now);
            if (shifts) {
              ASSERT_EQ(after[index_of(last + i)], now);
            }
          }
          if (norm && part < 2) normalise(x.data(), &weights[index_of(head * d)], d);
          if (turns && part < 2) rotate(x.data(), sequence.position, frequencies);
          Numbers found;
          const Numbers all = part == 0 ? queries : (part == 1 ? held.keys : held.values)[index_of(b)].values();
          const std::int64_t first =
              part == 0 ? (b * sizes.heads + head) * d : of_part * sequence.key_stride + (sequence.rows - 1) * d;
          found.assign(all.begin() + first, all.begin() + first + d);
          ASSERT_LE(largest_error(found, x, 1e-2), kBfloat16Error) << b << ", " << head;
        }
      }
    }
  }
}

TEST_F(CudaNextToken, RefusesWhatItCannotTake) {
  Held held({2, 2, 64}, {3}, false, 3);
  held.put();
  const DeviceNumbers numbers(kBfloat16, std::vector<float>(1024, 0));
  const cuda::DeviceBuffer workspace(cuda::next_attention_workspace_bytes(1, 2, 64));
  cuda::NextAttention good{1, 2, 2, 64, held.on_device()};
  good.query = good.output = numbers.data();
  good.scale = 1;
  good.workspace = workspace.data();
  const auto refused = [&](const auto& change) {
    cuda::NextAttention bad = good;
    change(bad);
    return next_attention(bad, nullptr) == Status::invalid_argument;
  };
  EXPECT_TRUE(refused([](auto& a) { a.batch = 0; }));
  EXPECT_TRUE(refused([](auto& a) { a.head_dim = 20; }));
  EXPECT_TRUE(refused([](auto& a) { a.head_dim = 264; }));
  EXPECT_TRUE(refused([](auto& a) { a.key_heads = 3; }));
  EXPECT_TRUE(refused([](auto& a) { a.sequences = nullptr; }));
  EXPECT_TRUE(refused([](auto& a) { a.workspace = nullptr; }));
  EXPECT_EQ(cuda::next_attention_workspace_bytes(0, 2, 64), 0U);
  EXPECT_EQ(cuda::next_attention_workspace_bytes(1, 2, 12), 0U);
}

/// What is recorded once reads what lies there each time.
TEST_F(CudaNextToken, IsRecordedAndGivenAgain) {
  const cuda::DeviceStream stream;
  const DeviceNumbers wide(kFloat32, std::vector<float>(16, 1));
  const DeviceNumbers product(kBfloat16, std::vector<float>(8, 0));
  cuda::SwiGlu step;
  step.rows = 1;
  step.inner = 8;
  step.wide = wide.data();
  step.wide_type = kFloat32;
  step.product = product.data();
  const auto graph = cuda::DeviceGraph::record(stream.get(), [&] { swiglu(step, stream.get()); });
  ASSERT_NE(graph, nullptr);
  EXPECT_EQ(product.values(), Numbers(8, 0.0));
  const std::vector<float> twos(16, 2);
  for (const bool changed : {false, true}) {
    if (changed) {
      ASSERT_TRUE(cuda::copy_to_device(wide.data(), std::as_bytes(std::span(twos)), stream.get()));
    }
    ASSERT_EQ(graph->launch(stream.get()), Status::ok);
    ASSERT_TRUE(stream.wait());
    EXPECT_NEAR(product.values()[0], changed ? 4 * sigmoid(2) : sigmoid(1), 0.01);
  }
}

TEST(CudaGraph, IsNotMadeOfNothing) {
  EXPECT_EQ(cuda::DeviceGraph::record(nullptr, [] {}), nullptr);
}

}  // namespace
}  // namespace foxscope::kernels::testing

// Sums of gates by the kernels of a GPU, and by their twin on the host, against those of the processors: in every bit.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "backend/base/error.h"
#include "backend/eval/atlas/atlas_window.h"
#include "backend/map/statistics/distance_bins.h"
#include "backend/model/session/query_key_place.h"
#include "backend/trace/recorder.h"

namespace foxscope {
namespace {

constexpr int kGateLayers = 3;
constexpr int kGateHeads = 6;
constexpr std::int64_t kGateVocabulary = kErrorTokens + 500;

TraceInfo gate_info(std::int64_t length, int layers) {
  TraceInfo info;
  info.layers = layers;
  info.heads = info.key_heads = kGateHeads;
  info.head_dim = 4;
  info.length = length;
  info.forgetting.assign(static_cast<std::size_t>(layers), true);
  if (layers > 1) info.forgetting[1] = false;
  return info;
}

/// Log f of one position of heads that forget each in its own way.
double gate_at(int head, std::mt19937_64& random) {
  std::normal_distribution<double> logit(0, 3);
  switch (head) {
    case 0:
      return -std::log1p(std::exp(logit(random)));
    case 1:
      return -0.125;  // all alike
    case 2:
      return -2 - std::exp2(logit(random));  // resets everywhere
    case 3:
      return random() % 50 == 0 ? -1000.0 : -1e-9 * static_cast<double>(random() % 5);
    case 4:
      return 0;
    default:
      return random() % 300 == 0 ? -3.0 : -1e-3 * std::exp2(logit(random));
  }
}

struct GateCase {
  std::int64_t length = 0;
  int count = 5;
  bool with_first = false;
  bool rises = false;                ///< c does, in one head
  std::int64_t rows = 0;             ///< of attention
  std::optional<int> rows_gpu = {};  ///< that measures them
};

/// Queries, keys, normalisers and losses of a run, of no particular model.
void record_rows(Recorder& recorder, int layer, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  for (const TraceArray array : {TraceArray::query, TraceArray::key}) {
    const std::span<std::byte> bytes = recorder.stored(array, layer);
    const std::span values(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
    for (float& value : values) value = normal(random);
  }
  std::ranges::fill(recorder.log_normalizer(layer), 3.0F);
  for (float& loss : recorder.per_token_loss()) loss = 2 + normal(random);
}

std::shared_ptr<const Trace> gate_run(const GateCase& of, int layers, std::uint64_t seed) {
  const std::int64_t length = of.length;
  std::mt19937_64 random(seed);
  TraceInfo info = gate_info(length, layers);
  KeepSet keep = {Keep::gates};
  std::shared_ptr<RunQueryKeyStore> store;
  if (of.rows > 0) {
    keep = {Keep::gates, Keep::rows, Keep::query_key, Keep::loss};
    info.softmax_scale = 0.5F;
    store = std::make_shared<HostQueryKeyStore>(info, info.dtype, std::size_t{1} << 30U,
                                                std::filesystem::temp_directory_path());
  }
  Recorder recorder(info, keep, store);
  for (int layer = 0; layer < layers; ++layer) {
    const auto c = recorder.cumulative_log_gate(layer);
    std::ranges::fill(c, 0.0);
    if (of.rows > 0) record_rows(recorder, layer, random);
    if (!info.forgetting[static_cast<std::size_t>(layer)]) continue;
    for (int head = 0; head < kGateHeads; ++head) {
      const auto of_head = c.subspan(static_cast<std::size_t>(head * length), static_cast<std::size_t>(length));
      double sum = 0;
      for (double& value : of_head) value = sum += gate_at(head, random);
      if (of.rises && head == 0) of_head.back() += 1e3;
    }
  }
  auto tokens = std::make_shared<TokenTable>();
  for (std::int64_t p = 0; p < length; ++p) {
    // A few tokens often, and many seldom.
    const std::uint64_t range = random() % 2 == 0 ? 7 : static_cast<std::uint64_t>(kGateVocabulary);
    tokens->input_id.push_back(static_cast<std::int32_t>(random() % range));
    tokens->id.push_back(tokens->input_id.back());
  }
  return recorder.finish(nullptr, tokens);
}

/// Windows of one length in two documents; the last has no text.
std::vector<AtlasWindow> gate_windows(const GateCase& of) {
  const std::int64_t length = of.length;
  const int count = of.count;
  std::mt19937_64 random(static_cast<std::uint64_t>(length));
  std::vector<AtlasWindow> windows;
  for (int n = 0; n < count; ++n) {
    AtlasWindow& window = windows.emplace_back();
    window.number = n;
    window.document = n % 2;
    window.key = random();
    for (std::int64_t p = 0; n + 1 < count && p < length; ++p) {
      const std::uint64_t classes = random() & random();
      window.classes.push_back(static_cast<BoundaryClassSet>(classes & ((1U << kBoundaryClasses) - 1)));
    }
    window.run = RunOnDevice(gate_run(of, kGateLayers, random()), of.rows_gpu);
    if (of.with_first) window.first = RunOnDevice(gate_run(of, 1, random()), of.rows_gpu);
  }
  return windows;
}

AtlasShape gate_shape(const std::vector<AtlasWindow>& windows, const AtlasNumbers& numbers, std::int64_t rows = 0) {
  const TraceInfo& info = windows.front().run->info();
  AtlasShape shape{info.layers, info.heads, kGateVocabulary, 2, rows};
  shape.numbers = std::ssize(numbers.numbers);
  shape.profiles = std::ssize(numbers.profiles);
  shape.bins = std::ssize(distance_bins(info.length));
  if (windows.front().first.trace != nullptr) shape.first_heads = kGateHeads;
  return shape;
}

/// The sums as words, made by the processors.
std::vector<std::int64_t> processor_sums(const std::vector<AtlasWindow>& windows, std::int64_t rows = 0) {
  const AtlasNumbers numbers(windows.front().run->info(), rows);
  AtlasSums sums(gate_shape(windows, numbers, rows));
  WindowMemory memory;
  for (const AtlasWindow& window : windows) {
    EXPECT_TRUE(add_windows({&window, 1}, numbers, Job{}, nullptr, memory, sums));
  }
  return sums.packed();
}

/// The same by the kernels, the first window by itself, three of the others together.
std::vector<std::int64_t> kernel_sums(const std::vector<AtlasWindow>& windows, std::optional<int> gpu,
                                      std::int64_t rows = 0) {
  const TraceInfo& info = windows.front().run->info();
  const AtlasNumbers numbers(info, rows);
  const AtlasShape shape = gate_shape(windows, numbers, rows);
  AtlasSums sums(shape);
  WindowMemory memory;
  const Trace* const first = windows.front().first.trace.get();
  DeviceGates gates(shape, info, first == nullptr ? nullptr : &first->info(), gpu);
  gates.reserve(3, info.length);
  const std::span<const AtlasWindow> all(windows);
  EXPECT_TRUE(add_windows(all.first(1), numbers, Job{}, &gates, memory, sums));
  gates.take(sums);
  EXPECT_EQ(gates.positions(), 0);
  EXPECT_TRUE(add_windows(all.subspan(1), numbers, Job{}, &gates, memory, sums));
  gates.take(sums);
  gates.take(sums);  // of nothing
  return sums.packed();
}

void expect_equal_sums(std::optional<int> gpu) {
  for (const std::int64_t length : {2, 3, 33, 64, 65, 700}) {
    for (const bool with_first : {false, true}) {
      const auto windows = gate_windows({.length = length, .with_first = with_first});
      EXPECT_EQ(kernel_sums(windows, gpu), processor_sums(windows))
          << length << (with_first ? " with a first model" : "");
    }
  }
  // Order statistics are then the host's.
  const auto rising = gate_windows({.length = 40, .rises = true});
  EXPECT_EQ(kernel_sums(rising, gpu), processor_sums(rising));
  // Rows are measured by one device in either case.
  const auto rows = gate_windows({.length = 90, .with_first = true, .rows = 8, .rows_gpu = gpu});
  EXPECT_EQ(kernel_sums(rows, gpu, 8), processor_sums(rows, 8));
}

/// Products are summed by fused multiply-add, as GPUs do, where a processor has it.
bool has_fused_products() { return __builtin_cpu_supports("fma") != 0; }

TEST(DeviceGates, OfTheHostAreThoseOfTheProcessors) {
  if (!has_fused_products()) GTEST_SKIP() << "no fused multiply-add";
  expect_equal_sums({});
}

TEST(DeviceGates, ChangeWithEveryGate) {
  auto windows = gate_windows({.length = 33, .count = 2});
  const auto before = kernel_sums(windows, {});
  windows[1].run = RunOnDevice(gate_run({.length = 33}, kGateLayers, 99));
  EXPECT_NE(kernel_sums(windows, {}), before);
}

TEST(DeviceGates, SayWhichGateIsNoNumber) {
  TraceInfo info = gate_info(20, 1);
  Recorder recorder(info, {Keep::gates}, nullptr);
  const auto c = recorder.cumulative_log_gate(0);
  std::ranges::fill(c, 0.0);
  c[2 * 20 + 7] = std::numeric_limits<double>::quiet_NaN();
  auto tokens = std::make_shared<TokenTable>();
  tokens->id.assign(20, 1);
  tokens->input_id.assign(20, 1);
  AtlasWindow window;
  window.number = 4;
  window.run = RunOnDevice(recorder.finish(nullptr, tokens));
  const AtlasNumbers numbers(info, 0);
  const AtlasShape shape = gate_shape({window}, numbers);
  AtlasSums sums(shape);
  WindowMemory memory;
  DeviceGates gates(shape, info, nullptr, {});
  try {
    add_windows({&window, 1}, numbers, Job{}, &gates, memory, sums);
    FAIL() << "a gate that is not a number was added";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the gate of layer 0, head 2 in window 4 is not a number: check the weights and --dtype");
  }
}

TEST(DeviceGates, TakeAsManyWindowsAsFit) {
  const auto windows = gate_windows({.length = 33, .count = 1});
  const AtlasNumbers numbers(windows.front().run->info(), 0);
  const AtlasShape shape = gate_shape(windows, numbers);
  const DeviceGates gates(shape, windows.front().run->info(), nullptr, {});
  EXPECT_GT(gates.most_windows(1000), 2 * gates.most_windows(4000));
  EXPECT_EQ(gates.most_windows(std::int64_t{1} << 30), 1U);
  EXPECT_GT(DeviceGates::bytes(shape, 1 << 24), DeviceGates::bytes(shape, 1 << 10));
}

TEST(CudaDeviceGates, AreThoseOfTheProcessorsInEveryBit) {
  const std::optional<int> gpu = kernel_gpu(Device::of(DeviceChoice::parse("auto")));
  if (!gpu) GTEST_SKIP() << "no CUDA device, or a build without CUDA";
  if (!has_fused_products()) GTEST_SKIP() << "no fused multiply-add";
  expect_equal_sums(gpu);
  const auto long_windows = gate_windows({.length = 16384, .count = 3, .with_first = true});
  EXPECT_EQ(kernel_sums(long_windows, gpu), processor_sums(long_windows));
}

}  // namespace
}  // namespace foxscope

// Maps and statistics of attention and of linear mixers of one head of 65,536 tokens on the GPU, and F of all heads of
// a 760M model.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <new>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "kernels/cuda/device.h"
#include "kernels/cuda/linear/lagged_products.h"
#include "kernels/cuda/maps/attention_statistics.h"
#include "kernels/cuda/maps/forget_map.h"
#include "kernels/cuda/maps/mixing_map.h"
#include "kernels/cuda/maps/mixing_statistics.h"
#include "kernels/cuda/maps/pooled_map.h"
#include "kernels/cuda/maps/sampled_rows.h"
#include "kernels/cuda/maps/strip_map.h"
#include "tests/bench/kernels_bench.h"

namespace foxscope::bench {
namespace {

namespace cuda = kernels::cuda;

constexpr std::int64_t kLength = 65536;
constexpr std::int64_t kPixels = 1024;
constexpr int kHeads = 576;

std::uint16_t bfloat16(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  return static_cast<std::uint16_t>((bits + 0x8000U) >> 16U);
}

template <typename T>
cuda::DeviceBuffer uploaded(const std::vector<T>& values) {
  cuda::DeviceBuffer buffer(values.size() * sizeof(T));
  if (!buffer.upload(std::as_bytes(std::span(values)))) throw std::bad_alloc();
  return buffer;
}

/// Cumulative log gates of a head whose decay time is T, with N(0, 1) jitter on the gate's logit.
std::vector<double> gates(double decay_time, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  std::vector<double> c(kLength);
  double sum = 0;
  for (double& value : c) {
    const double logit = -std::log(std::expm1(1 / decay_time)) + normal(generator);
    value = sum += -std::log1p(std::exp(-logit));
  }
  return c;
}

/// q and k of unit root mean square, as after QK-norm.
struct MapBenchHead {
  cuda::DeviceBuffer query, key, gate, normalizer, tables;
  cuda::MapHead head;

  MapBenchHead(cuda::ElementType element, std::int64_t head_dim, double decay_time) {
    std::mt19937_64 generator(7);
    std::normal_distribution<float> normal;
    const auto fill = [&] {
      std::vector<float> values(static_cast<std::size_t>(kLength * head_dim));
      for (float& value : values) value = normal(generator);
      if (element == cuda::ElementType::float32) return uploaded(values);
      std::vector<std::uint16_t> half(values.size());
      std::transform(values.begin(), values.end(), half.begin(), bfloat16);
      return uploaded(half);
    };
    query = fill();
    key = fill();
    normalizer = cuda::DeviceBuffer(kLength * sizeof(float));
    head.query = query.data();
    head.key = key.data();
    head.element = element;
    head.length = kLength;
    head.head_dim = head_dim;
    head.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(head_dim)));
    if (decay_time > 0) {
      gate = uploaded(gates(decay_time, 3));
      head.cumulative_log_gate = static_cast<const double*>(gate.data());
      tables = cuda::DeviceBuffer(cuda::head_table_bytes(kLength));
      (void)cuda::prepare_map_head(head, tables.data(), nullptr);
      head.tables = tables.data();
      // About what keys within the decay time sum to.
      std::vector<float> rows(kLength, static_cast<float>(std::log(decay_time) + 0.5));
      (void)normalizer.upload(std::as_bytes(std::span(rows)));
    } else {
      (void)cuda::log_normalizer_without_gate(head, 0, kLength, static_cast<float*>(normalizer.data()), nullptr);
    }
    head.log_normalizer = static_cast<const float*>(normalizer.data());
  }
  [[nodiscard]] double operations() const {
    return static_cast<double>(kLength) * static_cast<double>(kLength) * static_cast<double>(head.head_dim);
  }
};

std::string megabytes(std::size_t bytes) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.1f MB beside q, k, c, lse", static_cast<double>(bytes) * 1e-6);
  return text;
}

struct MapCase {
  const char* name;
  cuda::ElementType element = cuda::ElementType::bfloat16;
  std::int64_t head_dim = 64;
  double decay_time = 0;  ///< 0: no gate
  cuda::MapReduction reduction = cuda::MapReduction::max;
  double skip_below = -126;
  bool gate_effect = false;
  std::int64_t pixels = kPixels;
};

void run_map(benchmark::State& state, const MapCase& one) {
  const MapBenchHead made(one.element, one.head_dim, one.decay_time);
  cuda::PooledMap map;
  map.head = made.head;
  cuda::MapHead content = made.head;
  content.cumulative_log_gate = nullptr;
  if (one.gate_effect) map.minus = &content;
  map.reduction = one.reduction;
  map.row_end = map.column_end = kLength;
  map.pixel_rows = map.pixel_columns = one.pixels;
  map.skip_below = one.skip_below;
  const auto pixels = static_cast<std::size_t>(one.pixels * one.pixels) * sizeof(float);
  const std::size_t workspace = cuda::pooled_map_workspace_bytes(map);
  const cuda::DeviceBuffer out(pixels);
  const cuda::DeviceBuffer work(workspace);
  map.pixels = static_cast<float*>(out.data());
  map.workspace = work.data();
  const double seconds = time_calls(state, [&] { return cuda::pooled_map(map, nullptr); });
  const Limit limit = one.element == cuda::ElementType::float32 ? Limit::float32 : Limit::bfloat16;
  report({.kernel = one.name,
          .shape = "65536 to " + std::to_string(one.pixels) + ", d " + std::to_string(one.head_dim),
          .seconds = seconds,
          .work = made.operations() * (one.gate_effect ? 2 : 1),
          .limit = limit,
          .note = megabytes(pixels + workspace + made.tables.bytes())});
}

/// Tokens of a vocabulary of 50,000, the n-th as frequent as 1 / n.
std::vector<std::int32_t> random_tokens() {
  std::mt19937_64 generator(11);
  std::uniform_real_distribution<double> uniform(0, std::log(50000.0));
  std::vector<std::int32_t> tokens(kLength);
  for (std::int32_t& token : tokens) token = static_cast<std::int32_t>(std::exp(uniform(generator)));
  return tokens;
}

/// Rows to sample of so many heads, and where their numbers go.
struct SampledBench {
  cuda::DeviceBuffer positions, weights, tokens, numbers, sums, work;
  cuda::SampledRows sampled;

  SampledBench(int rows, std::size_t count, bool mixing)
      : weights(uploaded(std::vector<double>(static_cast<std::size_t>(rows), 2.0 * kLength / rows))),
        tokens(uploaded(random_tokens())),
        numbers(count * static_cast<std::size_t>(rows) * sizeof(cuda::SampledRow)),
        sums(3 * count * kLength * sizeof(double)),
        work(cuda::sampled_rows_workspace_bytes(kLength, rows, static_cast<int>(count), mixing)) {
    std::vector<std::int32_t> at;
    for (int row = 0; row < rows; ++row) at.push_back(static_cast<std::int32_t>((row + 1) * kLength / rows - 1));
    positions = uploaded(at);
    sampled.count = static_cast<int>(count);
    sampled.token = static_cast<const std::int32_t*>(tokens.data());
    sampled.positions = static_cast<const std::int32_t*>(positions.data());
    sampled.stands_for = static_cast<const double*>(weights.data());
    sampled.rows = rows;
    sampled.numbers = static_cast<cuda::SampledRow*>(numbers.data());
    sampled.mass = static_cast<double*>(sums.data());
    sampled.half = sampled.mass + count * kLength;
    sampled.workspace = work.data();
  }

  [[nodiscard]] std::size_t bytes() const { return sums.bytes() + work.bytes() + numbers.bytes(); }
};

enum class MixingWork {
  map,
  tables,
  statistics,
  sampled,     ///< statistics of 64 rows
  difference,  ///< a map of the head less itself, from strips of entries
};

/// A linear mixer's head with keys of length 1 in the delta rule; each channel, or the head, forgets about 1/T a token.
struct MixingCase {
  const char* name;
  cuda::MixingKind kind = cuda::MixingKind::head_decay;
  std::int64_t head_dim = 64;
  double decay_time = 0;  ///< 0: no decay
  cuda::MixingValue value = cuda::MixingValue::mixing;
  MixingWork work = MixingWork::map;
};

std::vector<std::uint16_t> mixing_rows(const MixingCase& one, std::mt19937_64& generator) {
  std::normal_distribution<float> normal;
  const auto width = static_cast<std::size_t>(one.head_dim);
  std::vector<float> values(static_cast<std::size_t>(kLength) * width);
  for (float& value : values) value = normal(generator);
  for (std::size_t row = 0; row < values.size() && one.kind == cuda::MixingKind::delta_rule; row += width) {
    float square = 0;
    for (std::size_t n = 0; n < width; ++n) square += values[row + n] * values[row + n];
    for (std::size_t n = 0; n < width; ++n) values[row + n] /= std::sqrt(square);
  }
  std::vector<std::uint16_t> half(values.size());
  std::transform(values.begin(), values.end(), half.begin(), bfloat16);
  return half;
}

void run_mixing(benchmark::State& state, const MixingCase& one) {
  std::mt19937_64 generator(7);
  const cuda::DeviceBuffer query = uploaded(mixing_rows(one, generator));
  const cuda::DeviceBuffer key = uploaded(mixing_rows(one, generator));
  const bool by_channel = one.kind == cuda::MixingKind::channel_decay;
  const auto channels = static_cast<std::size_t>(by_channel ? one.head_dim : 1);
  const double rate = one.decay_time > 0 ? 1 / one.decay_time : 0;
  std::uniform_real_distribution<double> uniform(0, 2 * rate);
  std::vector<double> sums(static_cast<std::size_t>(kLength) * channels);
  for (std::size_t n = channels; n < sums.size(); ++n) sums[n] = sums[n - channels] - uniform(generator);
  const cuda::DeviceBuffer decay = uploaded(sums);
  const cuda::DeviceBuffer beta = uploaded(std::vector<float>(kLength, 0.5F));
  const cuda::DeviceBuffer sizes = uploaded(std::vector<float>(kLength, 100.0F));
  cuda::MixingMap map;
  map.head.kind = one.kind;
  map.head.query = query.data();
  map.head.key = key.data();
  map.head.length = kLength;
  map.head.head_dim = one.head_dim;
  map.head.cumulative_log_decay = static_cast<const double*>(decay.data());
  map.head.beta = static_cast<const float*>(beta.data());
  const cuda::DeviceBuffer tables(cuda::mixing_table_bytes(map.head));
  (void)cuda::prepare_mixing_head(map.head, tables.data(), nullptr);
  map.tables = tables.data();
  map.value = one.value;
  map.row_sizes = static_cast<const float*>(sizes.data());
  const bool rows = one.value == cuda::MixingValue::size;
  if (rows) map.reduction = cuda::MapReduction::mean;
  map.row_end = map.column_end = kLength;
  map.pixel_rows = rows ? kLength : kPixels;
  map.pixel_columns = rows ? 1 : kPixels;
  const std::size_t workspace = cuda::mixing_map_workspace_bytes(map);
  const cuda::DeviceBuffer out(static_cast<std::size_t>(map.pixel_rows * map.pixel_columns) * sizeof(float));
  const cuda::DeviceBuffer work(workspace);
  map.pixels = static_cast<float*>(out.data());
  map.workspace = work.data();
  cuda::MixingStatistics statistics;
  cuda::StripMap difference;
  cuda::DeviceBuffer extra;
  SampledBench sampled(64, 1, true);
  const cuda::PreparedMixer mixer{map.head, map.tables};
  cuda::MapHead head;
  head.length = kLength;
  sampled.sampled.heads = &head;
  sampled.sampled.mixers = &mixer;
  if (one.work == MixingWork::statistics) {
    statistics.mixer = {map.head, map.tables};
    if (!by_channel) statistics.gate = map.head.cumulative_log_decay;
    const std::size_t results = 256 + 2 * static_cast<std::size_t>(kLength) * sizeof(double);
    extra = cuda::DeviceBuffer(results + cuda::mixing_statistics_workspace_bytes(map.head));
    auto* const memory = static_cast<std::byte*>(extra.data());
    statistics.sums = reinterpret_cast<cuda::AttentionSums*>(memory);
    statistics.mass = reinterpret_cast<double*>(memory + 256);
    statistics.mass_without_first = statistics.mass + kLength;
    statistics.workspace = memory + results;
  } else if (one.work == MixingWork::difference) {
    difference.mixer = difference.minus = {map.head, map.tables};
    difference.map.head.length = kLength;
    difference.map.minus = &difference.map.head;
    difference.map.reduction = map.reduction;
    difference.map.row_end = difference.map.column_end = kLength;
    difference.map.pixel_rows = difference.map.pixel_columns = kPixels;
    extra = cuda::DeviceBuffer(cuda::strip_map_workspace_bytes(difference));
    difference.map.pixels = map.pixels;
    difference.map.workspace = extra.data();
  }
  const double seconds = time_calls(state, [&] {
    switch (one.work) {
      case MixingWork::tables:
        return cuda::prepare_mixing_head(map.head, tables.data(), nullptr);
      case MixingWork::statistics:
        return cuda::mixing_statistics(statistics, nullptr);
      case MixingWork::sampled:
        return cuda::sampled_rows(sampled.sampled, nullptr);
      case MixingWork::difference:
        return cuda::strip_map(difference, nullptr);
      case MixingWork::map:
        break;
    }
    return cuda::mixing_map(map, nullptr);
  });
  const double operations =
      static_cast<double>(kLength) * static_cast<double>(kLength) * static_cast<double>(one.head_dim);
  // Products of bfloat16 that a pair of positions takes: of whole numbers, of numbers in two parts, twice these.
  double products = one.kind == cuda::MixingKind::head_decay ? 1 : by_channel ? 3 : 6;
  if (one.work == MixingWork::difference) products *= 2;
  const bool prepares = one.work == MixingWork::tables;
  const char* const size = rows                                 ? "rows"
                           : one.work == MixingWork::statistics ? "sums"
                           : one.work == MixingWork::sampled    ? "64 rows"
                                                                : "1024";
  report({.kernel = one.name,
          .shape = std::string("65536 to ") + size + ", d " + std::to_string(one.head_dim),
          .seconds = seconds,
          .work = prepares ? static_cast<double>(tables.bytes()) : operations * products,
          .limit = prepares ? Limit::memory : Limit::bfloat16,
          .note = megabytes(out.bytes() + workspace + tables.bytes() + extra.bytes())});
}

void run_forget(benchmark::State& state, cuda::MapReduction reduction, const char* name) {
  std::vector<double> c;
  for (int head = 0; head < kHeads; ++head) {
    const std::vector<double> one = gates(8 * std::exp2(10.0 * head / (kHeads - 1)), static_cast<std::uint64_t>(head));
    c.insert(c.end(), one.begin(), one.end());
  }
  const cuda::DeviceBuffer gate = uploaded(c);
  cuda::ForgetMap map;
  map.heads = kHeads;
  map.length = kLength;
  map.cumulative_log_gate = static_cast<const double*>(gate.data());
  map.reduction = reduction;
  map.row_end = map.column_end = kLength;
  map.pixel_rows = map.pixel_columns = 256;
  const cuda::DeviceBuffer out(static_cast<std::size_t>(kHeads) * 256 * 256 * sizeof(float));
  const cuda::DeviceBuffer work(std::max<std::size_t>(16, cuda::forget_map_workspace_bytes(map)));
  map.pixels = static_cast<float*>(out.data());
  map.workspace = work.data();
  const double seconds = time_calls(state, [&] { return cuda::forget_map(map, nullptr); });
  report({.kernel = name,
          .shape = "576 heads to 256",
          .seconds = seconds,
          .work = static_cast<double>(out.bytes()),
          .note = "pixels written; " + megabytes(out.bytes() + work.bytes())});
}

/// Heads of a layer whose statistics are measured at once.
struct LayerBench {
  std::vector<MapBenchHead> made;
  std::vector<cuda::MapHead> heads;
  double operations = 0;

  /// @param decay_times  of each head; 0: it has no gate
  LayerBench(std::int64_t head_dim, const std::vector<double>& decay_times) {
    for (const double decay_time : decay_times) {
      heads.push_back(made.emplace_back(cuda::ElementType::bfloat16, head_dim, decay_time).head);
      operations += made.back().operations();
    }
  }
};

/// Decay times from 8 to 8192 tokens, log-spaced over the heads of a layer of 760M.
std::vector<double> spread_times() {
  std::vector<double> times;
  for (int head = 0; head < 24; ++head) times.push_back(8 * std::pow(1024.0, head / 23.0));
  return times;
}

void run_statistics(benchmark::State& state, std::int64_t head_dim, const std::vector<double>& times,
                    const char* name) {
  const LayerBench layer(head_dim, times);
  const std::size_t count = layer.heads.size();
  const cuda::DeviceBuffer sums(4096 + 2 * count * kLength * sizeof(double));
  const cuda::DeviceBuffer work(cuda::attention_statistics_workspace_bytes(kLength, static_cast<int>(count)));
  const cuda::DeviceBuffer tokens = uploaded(random_tokens());
  cuda::AttentionStatistics statistics;
  statistics.heads = layer.heads.data();
  statistics.count = static_cast<int>(count);
  statistics.token = static_cast<const std::int32_t*>(tokens.data());
  auto* memory = static_cast<std::byte*>(sums.data());
  statistics.sums = reinterpret_cast<cuda::AttentionSums*>(memory);
  statistics.mass = reinterpret_cast<double*>(memory + 4096);
  statistics.mass_without_first = statistics.mass + count * kLength;
  statistics.workspace = work.data();
  const double seconds = time_calls(state, [&] { return cuda::attention_statistics(statistics, nullptr); });
  report({.kernel = name,
          .shape = "65536, d " + std::to_string(head_dim),
          .seconds = seconds,
          .work = layer.operations,
          .limit = Limit::bfloat16,
          .note = megabytes(sums.bytes() + work.bytes())});
}

void run_sampled_rows(benchmark::State& state, int rows, const char* name) {
  const LayerBench layer(64, spread_times());
  SampledBench made(rows, layer.heads.size(), false);
  made.sampled.heads = layer.heads.data();
  const double seconds = time_calls(state, [&] { return cuda::sampled_rows(made.sampled, nullptr); });
  report({.kernel = name,
          .shape = "65536, d 64",
          .seconds = seconds,
          .work = 4.0 * static_cast<double>(made.work.bytes()),
          .note = megabytes(made.bytes())});
}

void run_normalizer(benchmark::State& state) {
  const MapBenchHead made(cuda::ElementType::bfloat16, 64, 0);
  auto* rows = static_cast<float*>(made.normalizer.data());
  const double seconds =
      time_calls(state, [&] { return cuda::log_normalizer_without_gate(made.head, 0, kLength, rows, nullptr); });
  report({.kernel = "row normaliser without gate",
          .shape = "65536, d 64",
          .seconds = seconds,
          .work = made.operations(),
          .limit = Limit::bfloat16,
          .note = "beside q, k"});
}

void run_products(benchmark::State& state) {
  const MapBenchHead made(cuda::ElementType::bfloat16, 64, 0);
  cuda::LaggedProducts products;
  products.head = made.head;
  products.count = 1;
  for (std::int64_t lag = 1; lag <= kLength; lag *= 2) products.lags[products.count++] = lag;
  const cuda::DeviceBuffer sums(sizeof(double) * cuda::LaggedProducts::kMostLags);
  const cuda::DeviceBuffer work(cuda::lagged_products_workspace_bytes(products));
  products.sums = static_cast<double*>(sums.data());
  products.workspace = work.data();
  const double seconds = time_calls(state, [&] { return cuda::lagged_products(products, nullptr); });
  report({.kernel = "mean logits by distance",
          .shape = "65536, d 64",
          .seconds = seconds,
          .work = static_cast<double>(products.count) * kLength * 64 * sizeof(double),
          .note = "sums of keys read; " + megabytes(work.bytes())});
}

}  // namespace

void register_map_benchmarks() {
  using cuda::ElementType;
  using cuda::MapReduction;
  static const MapCase kCases[] = {
      {.name = "attention map, ungated, max"},
      {.name = "attention map, ungated, mean", .reduction = MapReduction::mean},
      {.name = "attention map, ungated, 1000 pixels", .pixels = 1000},
      {.name = "attention map, ungated, d 128", .head_dim = 128},
      {.name = "attention map, T 8192, max", .decay_time = 8192},
      {.name = "attention map, T 256, max", .decay_time = 256},
      {.name = "attention map, T 256, linear", .decay_time = 256, .skip_below = -24},
      {.name = "attention map, T 8, max", .decay_time = 8},
      {.name = "gate effect, T 8192, absmax",
       .decay_time = 8192,
       .reduction = MapReduction::absmax,
       .gate_effect = true},
      {.name = "attention map, ungated, float32", .element = ElementType::float32},
  };
  for (const MapCase& one : kCases) {
    add_benchmark(std::string("maps/") + one.name, [&one](benchmark::State& state) { run_map(state, one); });
  }
  using cuda::MixingKind;
  using cuda::MixingValue;
  static const MixingCase kMixing[] = {
      {.name = "Mamba-2 map, no decay"},
      {.name = "Mamba-2 map, no decay", .head_dim = 128},
      {.name = "Mamba-2 map, T 256", .head_dim = 128, .decay_time = 256},
      {.name = "Mamba-2 row sums, no decay", .value = MixingValue::size},
      {.name = "GLA map, no decay", .kind = MixingKind::channel_decay},
      {.name = "GLA map, no decay", .kind = MixingKind::channel_decay, .head_dim = 128},
      {.name = "GLA map, T 256", .kind = MixingKind::channel_decay, .head_dim = 128, .decay_time = 256},
      {.name = "GLA attention, T 8192",
       .kind = MixingKind::channel_decay,
       .decay_time = 8192,
       .value = MixingValue::share},
      {.name = "GLA tables",
       .kind = MixingKind::channel_decay,
       .head_dim = 128,
       .decay_time = 256,
       .work = MixingWork::tables},
      {.name = "delta rule map, no decay", .kind = MixingKind::delta_rule},
      {.name = "delta rule map, no decay", .kind = MixingKind::delta_rule, .head_dim = 128},
      {.name = "delta rule map, T 256", .kind = MixingKind::delta_rule, .head_dim = 128, .decay_time = 256},
      {.name = "delta rule tables", .kind = MixingKind::delta_rule, .head_dim = 128, .work = MixingWork::tables},
      {.name = "Mamba-2 statistics, no decay", .work = MixingWork::statistics},
      {.name = "GLA statistics, no decay", .kind = MixingKind::channel_decay, .work = MixingWork::statistics},
      {.name = "GLA statistics, T 256",
       .kind = MixingKind::channel_decay,
       .head_dim = 128,
       .decay_time = 256,
       .work = MixingWork::statistics},
      {.name = "delta rule statistics, no decay", .kind = MixingKind::delta_rule, .work = MixingWork::statistics},
      {.name = "delta rule statistics, no decay",
       .kind = MixingKind::delta_rule,
       .head_dim = 128,
       .work = MixingWork::statistics},
      {.name = "Mamba-2 sampled rows, no decay", .work = MixingWork::sampled},
      {.name = "delta rule sampled rows, no decay", .kind = MixingKind::delta_rule, .work = MixingWork::sampled},
      {.name = "delta rule statistics, no decay",
       .kind = MixingKind::delta_rule,
       .head_dim = 256,
       .work = MixingWork::statistics},
      {.name = "difference of Mamba-2 maps", .work = MixingWork::difference},
      {.name = "difference of delta rule maps", .kind = MixingKind::delta_rule, .work = MixingWork::difference},
  };
  for (const MixingCase& one : kMixing) {
    add_benchmark(std::string("maps/") + one.name + " d " + std::to_string(one.head_dim),
                  [&one](benchmark::State& state) { run_mixing(state, one); });
  }
  const auto forget = [](MapReduction reduction, const char* name) {
    add_benchmark(std::string("maps/") + name,
                  [reduction, name](benchmark::State& state) { run_forget(state, reduction, name); });
  };
  forget(MapReduction::max, "all F maps, max");
  forget(MapReduction::mean, "all F maps, mean");
  add_benchmark("maps/row normaliser", run_normalizer);
  add_benchmark("maps/mean logits by distance", run_products);
  const auto statistics = [](std::int64_t head_dim, const std::vector<double>& times, const char* name) {
    add_benchmark(std::string("maps/") + name + " d " + std::to_string(head_dim),
                  [=](benchmark::State& state) { run_statistics(state, head_dim, times, name); });
  };
  statistics(64, {0}, "head statistics, ungated");
  statistics(64, {8192}, "head statistics, T 8192");
  statistics(128, {0}, "head statistics, ungated");
  statistics(192, {0}, "head statistics, ungated");
  statistics(64, std::vector<double>(24, 0), "statistics of 24 heads, ungated");
  statistics(64, spread_times(), "statistics of 24 heads, T 8 to 8192");
  add_benchmark("maps/64 rows of 24 heads",
                [](benchmark::State& state) { run_sampled_rows(state, 64, "64 rows of 24 heads"); });
}

}  // namespace foxscope::bench

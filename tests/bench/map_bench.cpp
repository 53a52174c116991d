#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "backend/map/device/map_device.h"
#include "backend/map/distance_axis.h"
#include "backend/map/map.h"
#include "backend/map/map_stages.h"
#include "backend/map/statistics/head_statistics.h"
#include "backend/trace/recorder.h"
#include "kernels/executor.h"

namespace {

using namespace foxscope;

/// Random heads: queries and keys of unit root mean square, as after QK-norm; gates that fall by a rate of nats a token
/// on average in each, or none.
std::shared_ptr<const Trace> random_heads(std::int64_t length, int head_dim, const std::vector<double>& rates,
                                          DType dtype) {
  TraceInfo info;
  info.name = "random";
  info.layers = 1;
  info.heads = info.key_heads = static_cast<int>(rates.size());
  info.head_dim = head_dim;
  info.length = length;
  info.softmax_scale = 1.0F / std::sqrt(static_cast<float>(head_dim));
  auto store = std::make_shared<HostQueryKeyStore>(QueryKeyStore::Shape{1, info.heads, info.heads, length, head_dim},
                                                   dtype, std::size_t{1} << 40U, ".");
  Recorder recorder(info, {Keep::gates, Keep::rows}, store);
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal;
  for (const auto part : {QueryKeyStore::Part::query, QueryKeyStore::Part::key}) {
    const std::span<std::byte> bytes = store->layer(part, 0);
    for (std::size_t at = 0; at < bytes.size(); at += size_of(dtype)) {
      const float value = normal(random);
      const std::uint16_t half = to_bfloat16(value);
      std::memcpy(bytes.data() + at, dtype == DType::float32 ? static_cast<const void*>(&value) : &half,
                  size_of(dtype));
    }
  }
  std::exponential_distribution<double> step(1.0);
  const std::span<double> gates = recorder.cumulative_log_gate(0);
  const std::span<float> rows = recorder.log_normalizer(0);
  std::size_t at = 0;
  for (const double rate : rates) {
    double c = 0;
    for (std::int64_t row = 0; row < length; ++row, ++at) {
      gates[at] = c -= rate > 0 ? rate * step(random) : 0.0;
      // The value of a normaliser changes nothing in the work: that of equal logits is near enough.
      const double keys = static_cast<double>(row + 1);
      rows[at] = static_cast<float>(std::log(rate > 0 ? std::min(keys, 1 / rate) : keys)) + 0.5F;
    }
  }
  return recorder.finish(nullptr, nullptr);
}

std::shared_ptr<const Trace> random_head(std::int64_t length, int head_dim, double rate, DType dtype = DType::float32) {
  return random_heads(length, head_dim, {rate}, dtype);
}

/// One random head of a linear mixer: keys of the delta rule have length 1, heads and channels forget at `rate` nats a
/// token on average.
std::shared_ptr<const Trace> random_linear_head(const LayerMixer& mixer, std::int64_t length, double rate) {
  TraceInfo info;
  info.name = "random";
  info.length = length;
  info.set_mixers({mixer});
  auto store = std::make_shared<HostQueryKeyStore>(info, DType::float32, std::size_t{1} << 40U, ".");
  Recorder recorder(info, {Keep::gates, Keep::query_key}, store);
  std::mt19937_64 random(7);
  std::normal_distribution<float> normal;
  const float size = mixer.mixer == Mixer::delta_rule ? 1.0F / std::sqrt(static_cast<float>(mixer.head_dim)) : 1.0F;
  for (const auto part : {QueryKeyStore::Part::query, QueryKeyStore::Part::key}) {
    const std::span<std::byte> bytes = store->layer(part, 0);
    const std::span<float> numbers(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
    for (float& number : numbers) number = size * normal(random);
  }
  std::exponential_distribution<double> step(1.0 / rate);
  double c = 0;
  for (double& value : recorder.cumulative_log_gate(0)) value = c -= step(random);
  const std::span<double> sums = recorder.cumulative_log_decay(0);
  const auto channels = static_cast<std::size_t>(mixer.head_dim);
  for (std::size_t n = 0; n < sums.size(); ++n) sums[n] = (n < channels ? 0.0 : sums[n - channels]) - step(random);
  for (float& beta : recorder.beta(0)) beta = 0.5F;
  return recorder.finish(nullptr, nullptr);
}

struct Case {
  std::string name;
  RunOnDevice trace;
  Quantity quantity = Quantity::attention;
  Reduction reduction = Reduction::max;
  Range rows;
  std::int64_t pixel_rows = 1024;
  std::int64_t pixel_columns = 1024;
  double skip_tolerance = 0;
  int threads = 2;
  double target_milliseconds = 0;  ///< 0: none is set
  bool first_stage = false;        ///< up to the first lines that are shown, and no further
  bool by_distance = false;        ///< pixel_columns of a logarithmic axis
  bool statistics = false;         ///< of all heads, instead of a map
  std::int64_t sampled_rows = 0;   ///< of these; 0: all
};

void run_case(benchmark::State& state, const Case& test) {
  kernels::ThreadPool pool(std::min(test.threads, kernels::available_cores()));
  MapRequest request;
  request.head = {test.trace, 0, 0};
  request.quantity = test.quantity;
  request.reduction = test.reduction;
  request.rows = test.rows;
  request.columns = {0, test.trace->info().length};
  request.pixel_rows = test.pixel_rows;
  request.pixel_columns = test.pixel_columns;
  if (test.by_distance) {
    request.set_distances(DistanceAxis{{1, test.trace->info().length + 1}, test.pixel_columns}.edges());
  }
  request.skip_tolerance = test.skip_tolerance;
  Job job;
  job.executor = &pool;
  for (auto _ : state) {
    if (!test.first_stage) {
      benchmark::DoNotOptimize(compute_map(request, job));
      continue;
    }
    std::stop_source stop;
    job.stop = stop.get_token();
    const MapStages stages{[&](const MapStage& /*stage*/) { stop.request_stop(); }, std::chrono::milliseconds(0)};
    benchmark::DoNotOptimize(compute_map_in_stages(request, job, stages));
  }
}

void run_statistics(benchmark::State& state, const Case& test) {
  kernels::ThreadPool pool(std::min(test.threads, kernels::available_cores()));
  Job job;
  job.executor = &pool;
  std::vector<int> heads(static_cast<std::size_t>(test.trace->info().heads));
  std::iota(heads.begin(), heads.end(), 0);
  StatisticsOptions options;
  options.rows = test.sampled_rows;
  for (auto _ : state) benchmark::DoNotOptimize(layer_statistics(test.trace, 0, heads, options, job));
}

/// One line per case: the best of all repetitions, which is what the machine can do when it is left alone, and the time
/// of all threads together, which tells how far from alone it was.
class Table : public benchmark::BenchmarkReporter {
 public:
  explicit Table(const std::vector<Case>& cases) : cases_(cases) {}

  bool ReportContext(const Context& /*context*/) override {
    std::printf("%-72s %7s %10s %10s %10s\n", "map of one head", "threads", "best ms", "CPU ms", "target ms");
    return true;
  }

  void ReportRuns(const std::vector<Run>& runs) override {
    if (runs.front().run_type == Run::RT_Aggregate) return;
    double best = 0;
    double cpu = 0;
    for (const Run& run : runs) {
      const auto least = [&](double seconds, double before) {
        const double milliseconds = seconds / static_cast<double>(run.iterations) * 1e3;
        return before == 0 ? milliseconds : std::min(before, milliseconds);
      };
      best = least(run.real_accumulated_time, best);
      cpu = least(run.cpu_accumulated_time, cpu);
    }
    const std::string name = runs.front().run_name.function_name;
    for (const Case& test : cases_) {
      if (test.name != name) continue;
      std::printf("%-72s %7d %10.2f %10.2f ", name.c_str(), test.threads, best, cpu);
      if (test.target_milliseconds > 0) {
        std::printf("%10.0f %s\n", test.target_milliseconds, best <= test.target_milliseconds ? "met" : "MISSED");
      } else {
        std::printf("%10s\n", "-");
      }
    }
    std::fflush(stdout);
  }

 private:
  const std::vector<Case>& cases_;
};

std::vector<Case> cases() {
  const auto transformer = random_head(8192, 64, 0);
  const auto forgetting = random_head(8192, 64, 1.0 / 50);
  const auto remembering = random_head(8192, 64, 1.0 / 3000);
  const auto stripe_head = random_head(16384, 64, 0);
  const auto long_head = random_head(65536, 16, 1.0 / 500);
  const Range half{0, 8192};
  const Range whole{0, 65536};
  std::vector<Case> list{
      {"A, Transformer head, 8192 tokens to 1024x1024, max", transformer, Quantity::attention, Reduction::max, half,
       1024, 1024, 0, 2, 50},
      {"A, Transformer head, 8192 tokens to 1024x1024, mean", transformer, Quantity::attention, Reduction::mean, half},
      {"A, decay time 3000, 8192 tokens to 1024x1024, max", remembering, Quantity::attention, Reduction::max, half},
      {"A, decay time 50, 8192 tokens to 1024x1024, max", forgetting, Quantity::attention, Reduction::max, half},
      {"A, decay time 50, the same with tolerance 2^-24", forgetting, Quantity::attention, Reduction::max, half, 1024,
       1024, 0x1p-24},
      {"gate effect, decay time 3000, 8192 tokens to 1024x1024, absmax", remembering, Quantity::gate_effect,
       Reduction::absmax, half},
      {"A, Transformer head, exact rows 16128:16384 of 16384",
       stripe_head,
       Quantity::attention,
       Reduction::max,
       {16128, 16384},
       256,
       16384},
  };
  for (const Reduction reduction : {Reduction::max, Reduction::mean, Reduction::min}) {
    Case test{std::string("F, 65536 tokens to 1024x1024, ") + to_string(reduction), long_head, Quantity::forget,
              reduction, whole};
    test.threads = 1;
    test.target_milliseconds = reduction == Reduction::max ? 5 : 0;
    list.push_back(test);
  }
  list.push_back(
      {"F, exact rows 65280:65536 of 65536", long_head, Quantity::forget, Reduction::max, {65280, 65536}, 256, 65536});
  const auto by_distance = [&](const char* name, const RunOnDevice& head, Quantity quantity, Reduction reduction) {
    Case test{name, head, quantity, reduction, {0, head->info().length}, 1024, 512};
    test.by_distance = true;
    list.push_back(test);
  };
  by_distance("A by distance, Transformer head, 8192 tokens to 1024x512, max", transformer, Quantity::attention,
              Reduction::max);
  by_distance("A by distance, decay time 50, 8192 tokens to 1024x512, max", forgetting, Quantity::attention,
              Reduction::max);
  by_distance("F by distance, 65536 tokens to 1024x512, max", long_head, Quantity::forget, Reduction::max);
  by_distance("F by distance, 65536 tokens to 1024x512, mean", long_head, Quantity::forget, Reduction::mean);
  // Decay times of some thousand tokens: nothing can be left out.
  const LayerMixer mixers[] = {{Mixer::mamba2, Decay::head, 1, 1, 1, 1, 128, 64},
                               {Mixer::gated_linear_attention, Decay::channel, 1, 1, 1, 1, 128, 128},
                               {Mixer::delta_rule, Decay::head, 1, 1, 1, 1, 128, 128}};
  for (const LayerMixer& mixer : mixers) {
    const auto head = random_linear_head(mixer, 8192, 1.0 / 3000);
    const double target = mixer.mixer == Mixer::delta_rule ? 600 : 60;
    const std::string name = std::string("M, ") + to_string(mixer.mixer) + ", 8192 tokens to 1024x1024, absmax";
    list.push_back({name, head, Quantity::mixing, Reduction::absmax, half, 1024, 1024, 0, 2, target});
    list.push_back(
        {name + ", first lines", head, Quantity::mixing, Reduction::absmax, half, 1024, 1024, 0, 2, 50, true});
  }
  if (const auto gpu = gpu_chosen({})) {
    // Queries, keys and gates are there after the first map; pixels are downloaded.
    const auto on_gpu = [&](const char* name, double rate, Quantity quantity) {
      Case test{name, random_head(65536, 64, rate, DType::bfloat16), quantity, Reduction::max, whole};
      test.trace.gpu = gpu;
      list.push_back(test);
    };
    on_gpu("on the GPU: A, Transformer head, 65536 tokens to 1024x1024, max", 0, Quantity::attention);
    on_gpu("on the GPU: A, decay time 3000, 65536 tokens to 1024x1024, max", 1.0 / 3000, Quantity::attention);
    on_gpu("on the GPU: F, 65536 tokens to 1024x1024, max", 1.0 / 3000, Quantity::forget);
    std::vector<double> rates;
    for (int head = 0; head < 24; ++head) rates.push_back(1 / (8 * std::pow(1024.0, head / 23.0)));
    const auto layer = random_heads(65536, 64, rates, DType::bfloat16);
    for (const std::int64_t rows : {0, 64}) {
      Case test;
      test.name = rows == 0 ? "on the GPU: statistics of 24 heads, decay times 8 to 8192, 65536 tokens"
                            : "on the GPU: the same from 64 sampled rows";
      test.trace = {layer, gpu};
      test.threads = kernels::available_cores();
      test.statistics = true;
      test.sampled_rows = rows;
      list.push_back(test);
    }
  }
  return list;
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  const std::vector<Case> list = cases();
  std::vector<Case> all = list;
  Case statistics;
  statistics.name = "head statistics, decay time 3000, 8192 tokens";
  statistics.trace = list[2].trace;
  statistics.statistics = true;
  all.push_back(statistics);
  for (const Case& test : all) {
    benchmark::RegisterBenchmark(
        test.name.c_str(),
        [&test](benchmark::State& state) { test.statistics ? run_statistics(state, test) : run_case(state, test); })
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime()
        ->MeasureProcessCPUTime()
        ->MinTime(0.2)
        ->Repetitions(5);
  }
  Table table(all);
  benchmark::RunSpecifiedBenchmarks(&table);
  benchmark::Shutdown();
  return 0;
}

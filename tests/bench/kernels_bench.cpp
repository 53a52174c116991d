// The kernels on the GPU: `foxscope bench kernels`. Google Benchmark's own lines first, then a table with shares of
// what LibTorch's matrix product and copy reach in the same run.
#include "tests/bench/kernels_bench.h"

#include <algorithm>
#include <cstdio>
#include <vector>

#include "kernels/cuda/attention/forgetting_attention.h"
#include "kernels/cuda/device.h"
#include "tests/bench/torch_peer.h"

namespace foxscope::bench {
namespace {

namespace cuda = kernels::cuda;

constexpr int kIterations = 11;
constexpr double kIterationSeconds = 0.01;
constexpr int kMostCalls = 50;

std::vector<KernelLine>& lines() {
  static std::vector<KernelLine> all;
  return all;
}

/// "0.97", or "-" where there is nothing to compare with.
std::string ratio(double a, double b) {
  if (a <= 0 || b <= 0) return "-";
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f", a / b);
  return text;
}

void print_table(const Limits& limits) {
  std::printf(
      "\nMeasured limits: bfloat16 %.0f TFLOP/s, float32 %.1f TFLOP/s (LibTorch's matrix product of 8192), memory "
      "%.2f TB/s (copy, read and written); 0: no LibTorch with CUDA\n",
      limits.bfloat16 * 1e-12, limits.float32 * 1e-12, limits.memory * 1e-12);
  std::puts(
      "Median of a call; attention counts the causal half, skipped work included; cuDNN and flash: speed against "
      "LibTorch's ungated attention");
  std::printf("%-35s %-20s %10s %15s %9s %6s %6s  %s\n", "kernel", "shape", "ms", "rate", "of limit", "cuDNN", "flash",
              "");
  for (const KernelLine& line : lines()) {
    const bool bytes = line.limit == Limit::memory;
    const double limit = bytes ? limits.memory : line.limit == Limit::float32 ? limits.float32 : limits.bfloat16;
    const double rate = line.work / line.seconds;
    std::printf("%-35s %-20s %10.4f %7.*f %s %9s %6s %6s  %s\n", line.kernel.c_str(), line.shape.c_str(),
                line.seconds * 1e3, bytes ? 2 : 1, rate * 1e-12, bytes ? "TB/s   " : "TFLOP/s",
                ratio(rate, limit).c_str(), ratio(line.cudnn_seconds, line.seconds).c_str(),
                ratio(line.flash_seconds, line.seconds).c_str(), line.note.c_str());
  }
}

}  // namespace

void report(const KernelLine& line) {
  const auto same = [&](const KernelLine& other) { return other.kernel == line.kernel && other.shape == line.shape; };
  const auto old = std::find_if(lines().begin(), lines().end(), same);
  if (old != lines().end()) {
    *old = line;
  } else {
    lines().push_back(line);
  }
}

double time_calls(benchmark::State& state, const std::function<kernels::Status()>& call) {
  cuda::DeviceTimer timer;
  if (call() != kernels::Status::ok || !cuda::synchronize()) {
    state.SkipWithError("refused by this device");
    return 0;
  }
  timer.start(nullptr);
  (void)call();
  const double once = std::max(timer.stop(nullptr), 1e-6);
  const int calls = std::clamp(static_cast<int>(kIterationSeconds / once), 1, kMostCalls);
  for (int warm = 0; warm < calls; ++warm) (void)call();
  std::vector<double> seconds;
  for (auto _ : state) {
    timer.start(nullptr);
    for (int i = 0; i < calls; ++i) (void)call();
    seconds.push_back(timer.stop(nullptr) / calls);
    state.SetIterationTime(seconds.back());
  }
  if (seconds.empty() || !cuda::synchronize()) return 0;
  std::nth_element(seconds.begin(), seconds.begin() + std::ssize(seconds) / 2, seconds.end());
  return seconds[seconds.size() / 2];
}

void add_benchmark(const std::string& name, const std::function<void(benchmark::State&)>& run) {
  benchmark::RegisterBenchmark(name.c_str(), run)
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond)
      ->Iterations(kIterations);
}

}  // namespace foxscope::bench

int main(int argc, char** argv) {
  using namespace foxscope::bench;
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  if (!foxscope::kernels::cuda::is_available()) {
    std::puts("no CUDA device, or a build without CUDA");
    return 0;
  }
  register_attention_benchmarks();
  register_map_benchmarks();
  register_steps_benchmarks();
  const Limits limits = measure_limits();
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  print_table(limits);
  return 0;
}

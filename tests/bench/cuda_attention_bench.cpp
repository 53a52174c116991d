// Forgetting attention on the GPU: `foxscope-bench-cuda-attention`. Inputs as in the baselines: q and k of unit root
// mean square per row, decay times from 8 to 8192 tokens over the heads. TFLOP/s count the causal half, skipped work
// included.
#include <cmath>
#include <cstdio>
#include <sstream>
#include <string>

#include <benchmark/benchmark.h>

#include "tests/kernels/cuda_attention_problem.h"

namespace foxscope::kernels {
namespace {

using testing::CudaProblem;
using testing::CudaProblemOptions;

void attention(benchmark::State& state, const CudaProblemOptions& options, cuda::AttentionKernel kernel) {
  CudaProblem problem(options, 1);
  if (problem.run(kernel) != Status::ok) {
    state.SkipWithError("this device cannot run it");
    return;
  }
  const cuda::ForgettingAttention arguments = problem.arguments();
  cuda::DeviceTimer timer;
  for (int warm = 0; warm < 5; ++warm) (void)cuda::forgetting_attention(arguments, nullptr, kernel);
  // Calls follow each other without a gap, as in a model.
  constexpr int kCalls = 20;
  for (auto _ : state) {
    timer.start(nullptr);
    for (int call = 0; call < kCalls; ++call) (void)cuda::forgetting_attention(arguments, nullptr, kernel);
    state.SetIterationTime(timer.stop(nullptr) / kCalls);
  }
  const double length = static_cast<double>(options.length);
  const double work = 2.0 * static_cast<double>(options.batch * options.heads * options.head_dim) * length * length;
  state.counters["TFLOP/s"] = benchmark::Counter(work * 1e-12, benchmark::Counter::kIsIterationInvariantRate);
  if (options.pruning_tolerance > 0) {
    const cuda::AttentionBlocks blocks = problem.blocks();
    state.counters["skipped"] = static_cast<double>(blocks.skipped) / static_cast<double>(blocks.total);
  }
}

void add(const std::string& name, const CudaProblemOptions& options, cuda::AttentionKernel kernel) {
  benchmark::RegisterBenchmark(name.c_str(), [=](benchmark::State& state) { attention(state, options, kernel); })
      ->UseManualTime()
      ->Unit(benchmark::kMillisecond);
}

}  // namespace
}  // namespace foxscope::kernels

int main(int argc, char** argv) {
  using foxscope::kernels::testing::CudaProblemOptions;
  namespace cuda = foxscope::kernels::cuda;
  if (!cuda::is_available()) {
    std::puts("no CUDA device, or a build without CUDA");
    return 0;
  }
  const CudaProblemOptions shapes[] = {
      {.batch = 8, .heads = 24, .key_heads = 24, .length = 2048, .head_dim = 64},
      {.batch = 1, .heads = 24, .key_heads = 24, .length = 16384, .head_dim = 64},
      {.batch = 1, .heads = 12, .key_heads = 12, .length = 16384, .head_dim = 128},
      {.batch = 1, .heads = 24, .key_heads = 24, .length = 65536, .head_dim = 64},
  };
  for (const bool portable : {false, true}) {
    for (const double tolerance : {0.0, std::exp(-10.0)}) {
      for (CudaProblemOptions options : shapes) {
        options.pruning_tolerance = tolerance;
        std::ostringstream name;
        name << (portable ? "portable/" : "automatic/") << (tolerance > 0 ? "pruned/" : "all/") << options.batch << 'x'
             << options.heads << 'x' << options.length << 'x' << options.head_dim;
        foxscope::kernels::add(name.str(), options,
                               portable ? cuda::AttentionKernel::portable : cuda::AttentionKernel::automatic);
      }
    }
  }
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

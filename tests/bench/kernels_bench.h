#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <benchmark/benchmark.h>

#include "kernels/status.h"

namespace foxscope::bench {

/// What bounds a kernel: measured by LibTorch in the same run.
enum class Limit {
  bfloat16,  ///< operations a second of a large matrix product
  float32,   ///< likewise
  memory,    ///< bytes a second, read and written, of a copy
};

/// A line of the table that foxscope-bench-kernels prints at its end.
struct KernelLine {
  std::string kernel;
  std::string shape;
  double seconds = 0;  ///< median of a call
  double work = 0;     ///< operations or bytes of a call
  Limit limit = Limit::memory;
  /// What LibTorch's ungated attention takes at the same shape, seconds; 0: not measured.
  double cudnn_seconds = 0;
  double flash_seconds = 0;
  std::string note;
};

/// Keeps a line for the table; one of the same kernel and shape is replaced.
void report(const KernelLine& line);

/// Runs the iterations of a benchmark, each some calls on the null stream that follow each other without a gap, as in
/// a model. @returns the median of a call in seconds; 0 where a call was refused, which is said
double time_calls(benchmark::State& state, const std::function<kernels::Status()>& call);

/// Adds a benchmark of some iterations that times itself.
void add_benchmark(const std::string& name, const std::function<void(benchmark::State&)>& run);

// One a file.
void register_attention_benchmarks();
void register_map_benchmarks();
void register_steps_benchmarks();

}  // namespace foxscope::bench

// Forgetting attention on the GPU. Inputs as in the baselines: q and k of unit root mean square per row, decay times
// from 8 to 8192 tokens over the heads.
#include <cmath>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <tuple>

#include "tests/bench/kernels_bench.h"
#include "tests/bench/torch_peer.h"
#include "tests/kernels/cuda_attention_problem.h"

namespace foxscope::bench {
namespace {

namespace cuda = kernels::cuda;
using cuda::AttentionKernel;
using kernels::testing::CudaProblem;
using kernels::testing::CudaProblemOptions;

/// Each shape once.
double peer_seconds(const CudaProblemOptions& o, Peer peer) {
  static std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, Peer>, double> known;
  const auto key = std::tuple(o.batch, o.heads, o.length, o.head_dim, peer);
  if (!known.contains(key)) known[key] = peer_attention_seconds({o.batch, o.heads, o.length, o.head_dim}, peer);
  return known[key];
}

std::string shape_of(const CudaProblemOptions& o) {
  std::ostringstream text;
  text << o.batch << 'x' << o.heads << 'x' << o.length << 'x' << o.head_dim;
  return text.str();
}

void attention(benchmark::State& state, const std::string& name, const CudaProblemOptions& options,
               AttentionKernel kernel) {
  const CudaProblem problem(options, 1);
  KernelLine line;
  line.kernel = name;
  line.shape = shape_of(options);
  line.seconds = time_calls(state, [&] { return problem.start(kernel); });
  if (line.seconds <= 0) return;
  const auto length = static_cast<double>(options.length);
  line.work = 2.0 * static_cast<double>(options.batch * options.heads * options.head_dim) * length * length;
  const bool low = options.type == cuda::ElementType::bfloat16;
  line.limit = low ? Limit::bfloat16 : Limit::float32;
  if (low) {
    line.cudnn_seconds = peer_seconds(options, Peer::cudnn);
    line.flash_seconds = peer_seconds(options, Peer::flash);
  }
  if (options.pruning_tolerance > 0) {
    const cuda::AttentionBlocks blocks = problem.blocks();
    const double skipped = static_cast<double>(blocks.skipped) / static_cast<double>(blocks.total);
    state.counters["skipped"] = skipped;
    char text[48];
    std::snprintf(text, sizeof(text), "%.1f %% of blocks skipped", skipped * 100);
    line.note = text;
  }
  state.counters["TFLOP/s"] = line.work * 1e-12 / line.seconds;
  report(line);
}

void add(const std::string& kernel_name, CudaProblemOptions options, AttentionKernel kernel) {
  for (const double tolerance : {0.0, std::exp(-10.0)}) {
    options.pruning_tolerance = tolerance;
    const std::string name = "attention " + kernel_name + (tolerance > 0 ? ", pruned e^-10" : "");
    add_benchmark(name + "/" + shape_of(options),
                  [=](benchmark::State& state) { attention(state, name, options, kernel); });
  }
}

}  // namespace

void register_attention_benchmarks() {
  CudaProblemOptions shapes[] = {
      {.batch = 1, .heads = 24, .key_heads = 24, .length = 2048, .head_dim = 64},
      {.batch = 8, .heads = 24, .key_heads = 24, .length = 2048, .head_dim = 64},
      {.batch = 1, .heads = 24, .key_heads = 24, .length = 16384, .head_dim = 64},
      {.batch = 1, .heads = 12, .key_heads = 12, .length = 16384, .head_dim = 128},
      {.batch = 1, .heads = 24, .key_heads = 24, .length = 65536, .head_dim = 64},
  };
  for (const CudaProblemOptions& options : shapes) add("automatic", options, AttentionKernel::automatic);
  for (const CudaProblemOptions& options : shapes) add("portable", options, AttentionKernel::portable);
  for (CudaProblemOptions& options : shapes) {
    if (options.length > 16384) continue;
    options.type = cuda::ElementType::float32;
    add("float32", options, AttentionKernel::automatic);
  }
}

}  // namespace foxscope::bench

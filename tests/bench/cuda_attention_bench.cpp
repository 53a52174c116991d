// Forgetting attention on the GPU. Inputs as in the baselines: q and k of unit root mean square per row, decay times
// from 8 to 8192 tokens over the heads.
#include <cmath>
#include <cstdio>
#include <map>
#include <sstream>
#include <string>
#include <tuple>

#include "kernels/cuda/attention/forgetting_attention_backward.h"
#include "tests/bench/kernels_bench.h"
#include "tests/bench/torch_peer.h"
#include "tests/kernels/cuda_attention_problem.h"

namespace foxscope::bench {
namespace {

namespace cuda = kernels::cuda;
using cuda::AttentionKernel;
using kernels::testing::CudaProblem;
using kernels::testing::CudaProblemOptions;

using PeerSeconds = double (*)(const AttentionShape& shape, Peer peer);

/// Each shape once.
double peer_seconds(const CudaProblemOptions& o, Peer peer, PeerSeconds measure) {
  static std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, Peer, PeerSeconds>, double> known;
  const auto key = std::tuple(o.batch, o.heads, o.length, o.head_dim, peer, measure);
  if (!known.contains(key)) known[key] = measure({o.batch, o.heads, o.length, o.head_dim}, peer);
  return known[key];
}

/// Measures LibTorch's ungated attention at the line's shape.
void add_peers(KernelLine& line, const CudaProblemOptions& options, PeerSeconds measure) {
  line.cudnn_seconds = peer_seconds(options, Peer::cudnn, measure);
  line.flash_seconds = peer_seconds(options, Peer::flash, measure);
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
  if (low) add_peers(line, options, peer_attention_seconds);
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

/// The problem's gradients, of an output that the forward pass has left. dO is v, which has its sizes.
struct BackwardProblem {
  BackwardProblem(const CudaProblemOptions& options, bool deterministic)
      : problem(options, 1),
        query_gradient(bytes(options)),
        key_gradient(bytes(options)),
        value_gradient(bytes(options)),
        log_gate_gradient(static_cast<std::size_t>(options.batch * options.heads * options.length) * sizeof(float)) {
    arguments.forward = problem.arguments();
    arguments.output_gradient = arguments.forward.value;
    arguments.query_gradient = query_gradient.data();
    arguments.key_gradient = key_gradient.data();
    arguments.value_gradient = value_gradient.data();
    arguments.output_gradient_strides = arguments.query_gradient_strides = arguments.key_gradient_strides =
        arguments.value_gradient_strides = arguments.forward.query_strides;
    arguments.log_gate_gradient = static_cast<float*>(log_gate_gradient.data());
    arguments.deterministic = deterministic;
    workspace = cuda::DeviceBuffer(cuda::backward_workspace_bytes(arguments));
    arguments.workspace = workspace.data();
  }

  static std::size_t bytes(const CudaProblemOptions& o) {
    const std::int64_t size = o.type == cuda::ElementType::float32 ? 4 : 2;
    return static_cast<std::size_t>(o.batch * o.heads * o.length * o.head_dim * size);
  }

  CudaProblem problem;
  cuda::DeviceBuffer query_gradient, key_gradient, value_gradient, log_gate_gradient, workspace;
  cuda::ForgettingAttentionBackward arguments;
};

void attention_backward(benchmark::State& state, const std::string& name, const CudaProblemOptions& options,
                        AttentionKernel kernel, bool deterministic) {
  const BackwardProblem backward(options, deterministic);
  const bool low = options.type == cuda::ElementType::bfloat16;
  if (backward.problem.start(kernel) != kernels::Status::ok) {
    state.SkipWithError("refused by this device");
    return;
  }
  KernelLine line;
  line.kernel = name;
  line.shape = shape_of(options);
  line.seconds = time_calls(state, [&] {
    return low ? forgetting_attention_backward(backward.arguments, nullptr, kernel)
               : forgetting_attention_backward_float32(backward.arguments, nullptr);
  });
  if (line.seconds <= 0) return;
  const auto length = static_cast<double>(options.length);
  // Five products, where the forward pass has two.
  line.work = 5.0 * static_cast<double>(options.batch * options.heads * options.head_dim) * length * length;
  line.limit = low ? Limit::bfloat16 : Limit::float32;
  if (low) add_peers(line, options, peer_attention_backward_seconds);
  state.counters["TFLOP/s"] = line.work * 1e-12 / line.seconds;
  report(line);
}

void add_backward(const std::string& kernel_name, CudaProblemOptions options, AttentionKernel kernel,
                  bool deterministic) {
  for (const double tolerance : {0.0, std::exp(-10.0)}) {
    options.pruning_tolerance = tolerance;
    const std::string name = "backward " + kernel_name + (tolerance > 0 ? ", pruned e^-10" : "");
    add_benchmark(name + "/" + shape_of(options),
                  [=](benchmark::State& state) { attention_backward(state, name, options, kernel, deterministic); });
  }
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
  for (const CudaProblemOptions& options : shapes) {
    if (options.head_dim == 128) add("portable, small", options, AttentionKernel::portable_small);
  }
  for (CudaProblemOptions& options : shapes) {
    if (options.length > 16384) continue;
    options.type = cuda::ElementType::float32;
    add("float32", options, AttentionKernel::automatic);
  }
  for (CudaProblemOptions options : shapes) {
    options.type = cuda::ElementType::bfloat16;
    add_backward("automatic", options, AttentionKernel::automatic, false);
    add_backward("in order", options, AttentionKernel::automatic, true);
    add_backward("portable", options, AttentionKernel::portable, false);
    if (options.head_dim == 128) add_backward("portable, small", options, AttentionKernel::portable_small, false);
    if (options.length > 16384) continue;
    options.type = cuda::ElementType::float32;
    add_backward("float32", options, AttentionKernel::automatic, false);
  }
}

}  // namespace foxscope::bench

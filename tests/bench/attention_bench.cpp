// Forgetting attention on the CPU against LibTorch's causal scaled_dot_product_attention (float32, no gate), in one run
// and on LibTorch's own threads; its gradients against LibTorch's; then heads that forget at different rates, with what
// pruning skips.
// Both sides take turns, and of each the fastest run counts: other work on the machine only ever makes a run slower.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include "kernels/cpu/forgetting_attention.h"
#include "kernels/cpu/forgetting_attention_backward.h"
#include "kernels/cpu/gate_scan.h"

namespace {

namespace kernels = foxscope::kernels;

// at::parallel_for makes its team in the caller's own code: without -fopenmp it would run on one thread, LibTorch's
// kernels on all.
#ifdef _OPENMP
constexpr bool kSharesThreads = true;
#else
constexpr bool kSharesThreads = false;
#endif

constexpr double kTargetRatio = 0.8;
// Five products for the forward's two.
constexpr double kTargetBackwardRatio = 3.0;
constexpr int kRuns = 15;

/// LibTorch's team of threads, so that no second team spins beside it.
class LibTorchExecutor final : public kernels::Executor {
 public:
  [[nodiscard]] int threads() const override { return at::get_num_threads(); }
  void run(std::int64_t tasks, const std::function<void(std::int64_t, int)>& body) override {
    std::atomic<std::int64_t> next = 0;
    at::parallel_for(0, threads(), 1, [&](std::int64_t first, std::int64_t last) {
      for (std::int64_t thread = first; thread < last; ++thread) {
        for (std::int64_t task = next++; task < tasks; task = next++) body(task, static_cast<int>(thread));
      }
    });
  }
};

struct Shape {
  std::int64_t heads = 4;
  std::int64_t length = 4096;
  std::int64_t head_dim = 64;

  [[nodiscard]] double gigaflops(double seconds) const {
    const auto entries = static_cast<double>(heads) * static_cast<double>(length) * static_cast<double>(length) / 2;
    return 4.0 * entries * static_cast<double>(head_dim) / seconds * 1e-9;
  }
};

struct Inputs {
  at::Tensor query, key, value, output, log_normalizer;
  at::Tensor output_gradient, query_gradient, key_gradient, value_gradient, log_gate_gradient;
  std::vector<double> cumulative_log_gate;
};

Inputs random_inputs(const Shape& shape) {
  at::manual_seed(1);
  const std::vector<std::int64_t> sizes = {1, shape.heads, shape.length, shape.head_dim};
  Inputs inputs;
  for (at::Tensor* tensor : {&inputs.query, &inputs.key, &inputs.value, &inputs.output_gradient}) {
    *tensor = at::randn(sizes);
  }
  for (at::Tensor* tensor : {&inputs.output, &inputs.query_gradient, &inputs.key_gradient, &inputs.value_gradient}) {
    *tensor = at::empty(sizes);
  }
  for (at::Tensor* tensor : {&inputs.log_normalizer, &inputs.log_gate_gradient}) {
    *tensor = at::empty({1, shape.heads, shape.length});
  }
  return inputs;
}

/// Gates of all heads with one decay time T in tokens: f = sigmoid(-log(expm1(1/T)) + N(0, 1)).
std::vector<double> random_gates(const Shape& shape, double decay_time) {
  std::mt19937_64 random(2);
  std::normal_distribution<double> normal;
  std::vector<double> log_gate;
  for (std::int64_t i = 0; i < shape.heads * shape.length; ++i) {
    log_gate.push_back(-std::log1p(std::exp(std::log(std::expm1(1.0 / decay_time)) - normal(random))));
  }
  std::vector<double> cumulative(log_gate.size());
  kernels::cpu::cumulative_log_gate(log_gate.data(), shape.heads, shape.length, cumulative.data());
  return cumulative;
}

kernels::cpu::ForgettingAttention arguments(const Shape& shape, const Inputs& inputs) {
  kernels::cpu::ForgettingAttention a;
  a.batch = 1;
  a.heads = a.key_heads = shape.heads;
  a.length = shape.length;
  a.head_dim = shape.head_dim;
  a.query = inputs.query.const_data_ptr<float>();
  a.key = inputs.key.const_data_ptr<float>();
  a.value = inputs.value.const_data_ptr<float>();
  a.output = inputs.output.mutable_data_ptr<float>();
  a.log_normalizer = inputs.log_normalizer.mutable_data_ptr<float>();
  a.query_strides = a.key_strides = a.value_strides =
      a.output_strides = {shape.heads * shape.length * shape.head_dim, shape.length * shape.head_dim, shape.head_dim};
  if (!inputs.cumulative_log_gate.empty()) a.cumulative_log_gate = inputs.cumulative_log_gate.data();
  a.scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
  a.pruning_tolerance = std::exp2(-24);
  return a;
}

kernels::cpu::ForgettingAttentionBackward backward_arguments(const Shape& shape, const Inputs& inputs) {
  kernels::cpu::ForgettingAttentionBackward b;
  b.forward = arguments(shape, inputs);
  b.output_gradient = inputs.output_gradient.const_data_ptr<float>();
  b.query_gradient = inputs.query_gradient.mutable_data_ptr<float>();
  b.key_gradient = inputs.key_gradient.mutable_data_ptr<float>();
  b.value_gradient = inputs.value_gradient.mutable_data_ptr<float>();
  b.log_gate_gradient = inputs.log_gate_gradient.mutable_data_ptr<float>();
  b.output_gradient_strides = b.query_gradient_strides = b.key_gradient_strides = b.value_gradient_strides =
      b.forward.query_strides;
  return b;
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Fastest run of each, in seconds; they take turns.
std::vector<double> fastest(const std::vector<std::function<void()>>& works) {
  std::vector<double> best(works.size(), std::numeric_limits<double>::infinity());
  for (int run = 0; run < kRuns; ++run) {
    for (std::size_t i = 0; i < works.size(); ++i) best[i] = std::min(best[i], seconds_of(works[i]));
  }
  return best;
}

void compare_ungated(const Shape& shape) {
  const Inputs inputs = random_inputs(shape);
  LibTorchExecutor executor;
  at::Tensor reference;
  const std::vector<double> seconds =
      fastest({[&] { kernels::cpu::forgetting_attention(arguments(shape, inputs), executor, {}, nullptr); },
               [&] {
                 reference = at::scaled_dot_product_attention(inputs.query, inputs.key, inputs.value, {}, 0.0,
                                                              /*is_causal=*/true);
               }});
  const double ratio = seconds[1] / seconds[0];
  std::printf("%8lld %4lld %12.2f %9.0f %13.2f %9.0f %7.2f %8.2f %12.1e  %s\n", static_cast<long long>(shape.length),
              static_cast<long long>(shape.head_dim), seconds[0] * 1e3, shape.gigaflops(seconds[0]), seconds[1] * 1e3,
              shape.gigaflops(seconds[1]), ratio, kTargetRatio, (reference - inputs.output).abs().max().item<double>(),
              ratio >= kTargetRatio ? "reached" : "missed");
}

void compare_backward(const Shape& shape) {
  const Inputs inputs = random_inputs(shape);
  LibTorchExecutor executor;
  const auto [output, normalizer] =
      at::_scaled_dot_product_flash_attention_for_cpu(inputs.query, inputs.key, inputs.value, 0.0, /*is_causal=*/true);
  at::Tensor reference;
  const std::vector<double> seconds = fastest(
      {[&] { kernels::cpu::forgetting_attention(arguments(shape, inputs), executor, {}, nullptr); },
       [&] { kernels::cpu::forgetting_attention_backward(backward_arguments(shape, inputs), executor, {}, nullptr); },
       [&] {
         reference = std::get<0>(at::_scaled_dot_product_flash_attention_for_cpu_backward(
             inputs.output_gradient, inputs.query, inputs.key, inputs.value, output, normalizer, 0.0,
             /*is_causal=*/true));
       }});
  const double ratio = seconds[1] / seconds[0];
  std::printf("%8lld %4lld %12.2f %9.0f %12.2f %7.2f %13.2f %7.2f %12.1e  %s\n", static_cast<long long>(shape.length),
              static_cast<long long>(shape.head_dim), seconds[1] * 1e3, 2.5 * shape.gigaflops(seconds[1]),
              seconds[0] * 1e3, ratio, seconds[2] * 1e3, seconds[2] / seconds[1],
              (reference - inputs.query_gradient).abs().max().item<double>(),
              ratio <= kTargetBackwardRatio ? "reached" : "missed");
}

void time_forgetting(const Shape& shape) {
  std::printf("\nWith gates, %lld heads of %lld, %lld tokens, tolerance 2^-24\n", static_cast<long long>(shape.heads),
              static_cast<long long>(shape.head_dim), static_cast<long long>(shape.length));
  std::printf("decay time    time/ms  of ungated  gradients/ms  of ungated  blocks skipped\n");
  LibTorchExecutor executor;
  std::vector<Inputs> inputs = {random_inputs(shape)};
  const std::vector<double> decay_times = {8, 32, 128, 512, 2048, 8192};
  for (const double decay_time : decay_times) {
    inputs.push_back(random_inputs(shape));
    inputs.back().cumulative_log_gate = random_gates(shape, decay_time);
  }
  std::vector<kernels::cpu::AttentionBlocks> blocks(inputs.size());
  std::vector<std::function<void()>> works;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    works.emplace_back(
        [&, i] { kernels::cpu::forgetting_attention(arguments(shape, inputs[i]), executor, {}, &blocks[i]); });
    works.emplace_back([&, i] {
      kernels::cpu::forgetting_attention_backward(backward_arguments(shape, inputs[i]), executor, {}, nullptr);
    });
  }
  const std::vector<double> seconds = fastest(works);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::string name = i == 0 ? "no gate" : std::to_string(static_cast<int>(decay_times[i - 1]));
    const double forward = seconds[2 * i];
    const double backward = seconds[2 * i + 1];
    std::printf("%10s %10.2f %10.1f%% %13.2f %10.1f%% %7lld of %lld\n", name.c_str(), forward * 1e3,
                100 * forward / seconds[0], backward * 1e3, 100 * backward / seconds[1],
                static_cast<long long>(blocks[i].skipped), static_cast<long long>(blocks[i].total));
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    const bool help = std::string(argv[1]) == "--help";
    std::fprintf(help ? stdout : stderr, "usage: foxscope-bench-attention (takes no options)\n");
    return help ? 0 : 2;
  }
  if (!kSharesThreads) {
    std::fprintf(stderr, "foxscope-bench-attention: compiled without OpenMP; link it to OpenMP::OpenMP_CXX\n");
    return 1;
  }
  std::printf("Causal attention without gate, 4 heads, float32, %d threads\n", at::get_num_threads());
  std::printf("  tokens    d  Foxscope/ms   GFLOP/s  LibTorch/ms   GFLOP/s   ratio   target   difference\n");
  compare_ungated({4, 4096, 64});
  compare_ungated({4, 4096, 128});
  std::printf("\nIts gradients, target at most %.1f times the forward pass\n", kTargetBackwardRatio);
  std::printf("  tokens    d Gradients/ms   GFLOP/s   Forward/ms   ratio   LibTorch/ms   ratio   difference\n");
  compare_backward({4, 4096, 64});
  compare_backward({4, 8192, 64});
  compare_backward({4, 4096, 128});
  time_forgetting({4, 4096, 64});
  time_forgetting({1, 16384, 64});
  return 0;
}

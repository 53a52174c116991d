// The gate scan, the fused steps and the token loss on the GPU, at the sizes of the 760M models. Bytes count each input
// and each output once.
#include <cmath>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/cuda/gate_scan.h"
#include "kernels/cuda/steps.h"
#include "kernels/cuda/token_loss.h"
#include "tests/bench/kernels_bench.h"
#include "tests/kernels/cuda_support.h"

namespace foxscope::bench {
namespace {

namespace cuda = kernels::cuda;
using cuda::ElementType;
using kernels::testing::DeviceNumbers;
using kernels::testing::normal_numbers;

constexpr std::int64_t kStepHeads = 24;
constexpr std::int64_t kHeadDim = 64;
constexpr std::int64_t kWidth = kStepHeads * kHeadDim;
constexpr std::int64_t kInner = 3584;
constexpr std::int64_t kVocabulary = 50257;
constexpr std::int64_t kLossRows = 2048;

/// Repeats a few random numbers: what the kernels do depends on none of them.
DeviceNumbers numbers(ElementType type, std::int64_t count) {
  static const std::vector<float> few = normal_numbers(1 << 20, 1);
  std::vector<float> all(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = few[i % few.size()];
  return {type, all};
}

const char* name_of(ElementType type) { return type == ElementType::float32 ? "float32" : "bf16"; }

void run(benchmark::State& state, const std::string& kernel, std::int64_t rows, double bytes,
         const std::function<kernels::Status()>& call) {
  KernelLine line;
  line.kernel = kernel;
  line.shape = std::to_string(rows);
  line.seconds = time_calls(state, call);
  if (line.seconds <= 0) return;
  line.work = bytes;
  state.counters["TB/s"] = bytes * 1e-12 / line.seconds;
  report(line);
}

void gate_scan(benchmark::State& state, std::int64_t length) {
  constexpr std::int64_t kStride = 3 * kStepHeads;
  const DeviceNumbers logits = numbers(ElementType::float32, length * kStride);
  const cuda::DeviceBuffer cumulative(static_cast<std::size_t>(kStepHeads * length) * sizeof(double));
  const cuda::DeviceBuffer workspace(cuda::gate_scan_workspace_bytes(kStepHeads, length));
  cuda::GateScan a;
  a.heads = kStepHeads;
  a.length = length;
  a.logits = logits.floats();
  a.logits_stride = kStride;
  a.cumulative = static_cast<double*>(cumulative.data());
  a.workspace = workspace.data();
  run(state, "gate scan", length, 12.0 * static_cast<double>(kStepHeads * length),
      [&] { return cuda::gate_scan(a, nullptr); });
}

void residual_norm(benchmark::State& state, std::int64_t rows, bool also_float32) {
  const DeviceNumbers residual = numbers(ElementType::float32, rows * kWidth);
  const DeviceNumbers increment = numbers(ElementType::bfloat16, rows * kWidth);
  const DeviceNumbers weight = numbers(ElementType::float32, kWidth);
  const DeviceNumbers normed(ElementType::bfloat16, rows * kWidth);
  const DeviceNumbers normed_float32(ElementType::float32, also_float32 ? rows * kWidth : 1);
  cuda::ResidualNorm a;
  a.rows = rows;
  a.width = kWidth;
  a.residual = residual.floats();
  a.increment = increment.data();
  a.weight = weight.floats();
  a.epsilon = 1e-6F;
  a.normed = normed.data();
  a.normed_float32 = also_float32 ? normed_float32.floats() : nullptr;
  run(state, also_float32 ? "add, norm to bf16 and float32" : "add, norm to bf16", rows,
      (also_float32 ? 16.0 : 12.0) * static_cast<double>(rows * kWidth),
      [&] { return cuda::residual_norm(a, nullptr); });
}

void project_heads(benchmark::State& state, std::int64_t rows, ElementType type, bool pro) {
  const DeviceNumbers projected = numbers(type, rows * 3 * kWidth);
  const DeviceNumbers logits = numbers(ElementType::float32, rows * 3 * kStepHeads);
  const DeviceNumbers norm = numbers(ElementType::float32, kWidth);
  const DeviceNumbers rotation = numbers(ElementType::float32, pro ? 1 : rows * kHeadDim);
  const DeviceNumbers query(ElementType::bfloat16, rows * kWidth);
  const DeviceNumbers key(ElementType::bfloat16, rows * kWidth);
  const DeviceNumbers value(ElementType::bfloat16, rows * kWidth);
  cuda::ProjectedHeads a;
  a.rows = rows;
  a.heads = a.key_heads = kStepHeads;
  a.head_dim = kHeadDim;
  a.projected = projected.data();
  a.projected_type = type;
  a.projected_stride = 3 * kWidth;
  if (pro) {
    a.key_shift_logits = logits.floats();
    a.value_shift_logits = logits.floats() + kStepHeads;
    a.shift_stride = 3 * kStepHeads;
  } else {
    a.rotation = rotation.floats();
  }
  a.query_norm = a.key_norm = norm.floats();
  a.norm_epsilon = 1e-5F;
  a.query = query.data();
  a.key = key.data();
  a.value = value.data();
  const double element = type == ElementType::float32 ? 4 : 2;
  const double extra = pro ? 8.0 * kStepHeads : 4.0 * kHeadDim;
  run(state, std::string("heads, ") + name_of(type) + (pro ? ", shift and norm" : ", norm and rotation"), rows,
      static_cast<double>(rows) * (3 * kWidth * (element + 2) + extra),
      [&] { return cuda::project_heads(a, nullptr); });
}

void gate_output(benchmark::State& state, std::int64_t rows) {
  const DeviceNumbers attended = numbers(ElementType::bfloat16, rows * kWidth);
  const DeviceNumbers gate = numbers(ElementType::bfloat16, rows * kWidth);
  const DeviceNumbers norm = numbers(ElementType::float32, kWidth);
  const DeviceNumbers output(ElementType::bfloat16, rows * kWidth);
  cuda::GatedOutput a;
  a.rows = rows;
  a.heads = kStepHeads;
  a.head_dim = kHeadDim;
  a.attended = attended.data();
  a.norm = norm.floats();
  a.norm_epsilon = 1e-6F;
  a.gate = gate.data();
  a.gate_stride = kWidth;
  a.output = output.data();
  run(state, "output norm and gate", rows, 6.0 * static_cast<double>(rows * kWidth),
      [&] { return cuda::gate_output(a, nullptr); });
}

void swiglu(benchmark::State& state, std::int64_t rows) {
  const DeviceNumbers wide = numbers(ElementType::bfloat16, rows * 2 * kInner);
  const DeviceNumbers product(ElementType::bfloat16, rows * kInner);
  run(state, "SwiGLU", rows, 6.0 * static_cast<double>(rows * kInner), [&] {
    return cuda::swiglu({rows, kInner, wide.data(), ElementType::bfloat16, product.data()}, nullptr);
  });
}

void token_loss(benchmark::State& state, ElementType type) {
  const DeviceNumbers logits = numbers(type, kLossRows * kVocabulary);
  const cuda::DeviceBuffer labels = kernels::testing::to_device(std::vector<std::int32_t>(kLossRows, 17));
  const DeviceNumbers loss(ElementType::float32, kLossRows);
  cuda::TokenLoss a;
  a.rows = kLossRows;
  a.vocabulary = a.logits_stride = kVocabulary;
  a.logits = logits.data();
  a.logits_type = type;
  a.labels = static_cast<const std::int32_t*>(labels.data());
  a.loss = loss.floats();
  const double element = type == ElementType::float32 ? 4 : 2;
  run(state, std::string("token loss, ") + name_of(type), kLossRows,
      element * static_cast<double>(kLossRows * kVocabulary), [&] { return cuda::token_loss(a, nullptr); });
}

}  // namespace

void register_steps_benchmarks() {
  for (const std::int64_t rows : {2048, 16384, 65536}) {
    const std::string tail = std::string("/").append(std::to_string(rows));
    add_benchmark("gate_scan" + tail, [=](benchmark::State& state) { gate_scan(state, rows); });
    for (const bool also_float32 : {false, true}) {
      add_benchmark((also_float32 ? "residual_norm_both" : "residual_norm") + tail,
                    [=](benchmark::State& state) { residual_norm(state, rows, also_float32); });
    }
    for (const ElementType type : {ElementType::bfloat16, ElementType::float32}) {
      add_benchmark(std::string("project_heads_") + name_of(type) + tail,
                    [=](benchmark::State& state) { project_heads(state, rows, type, true); });
    }
    add_benchmark("project_heads_rotation" + tail,
                  [=](benchmark::State& state) { project_heads(state, rows, ElementType::bfloat16, false); });
    add_benchmark("gate_output" + tail, [=](benchmark::State& state) { gate_output(state, rows); });
    add_benchmark("swiglu" + tail, [=](benchmark::State& state) { swiglu(state, rows); });
  }
  for (const ElementType type : {ElementType::bfloat16, ElementType::float32}) {
    add_benchmark(std::string("token_loss_") + name_of(type),
                  [=](benchmark::State& state) { token_loss(state, type); });
  }
}

}  // namespace foxscope::bench

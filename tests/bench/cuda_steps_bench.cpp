// The gate scan, the fused steps, the token loss and the gradients of these on the GPU, at the sizes of the 760M
// models. Bytes count each input and each output once.
#include <cmath>
#include <memory>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/cuda/steps/gate_scan.h"
#include "kernels/cuda/steps/step_gradients.h"
#include "kernels/cuda/steps/steps.h"
#include "kernels/cuda/steps/token_loss.h"
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
// Of a training step.
constexpr std::int64_t kTrainedRows = 16384;
constexpr std::int64_t kTrainedInner = 5376;
constexpr std::int64_t kPaddedVocabulary = 50304;

/// Repeats a few random numbers: what the kernels do depends on none of them.
DeviceNumbers numbers(ElementType type, std::int64_t count) {
  static const std::vector<float> few = normal_numbers(1 << 20, 1);
  std::vector<float> all(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = few[i % few.size()];
  return {type, all};
}

const char* name_of(ElementType type) { return type == ElementType::float32 ? "float32" : "bf16"; }

void run(benchmark::State& state, const std::string& kernel, const std::string& shape, double bytes,
         const std::function<kernels::Status()>& call) {
  KernelLine line;
  line.kernel = kernel;
  line.shape = shape;
  line.seconds = time_calls(state, call);
  if (line.seconds <= 0) return;
  line.work = bytes;
  state.counters["TB/s"] = bytes * 1e-12 / line.seconds;
  report(line);
}

void run(benchmark::State& state, const std::string& kernel, std::int64_t rows, double bytes,
         const std::function<kernels::Status()>& call) {
  run(state, kernel, std::to_string(rows), bytes, call);
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

DeviceNumbers poison(std::int64_t bytes) { return {ElementType::float32, bytes / 4 + 1}; }

void residual_norm_gradient(benchmark::State& state, bool with_weight) {
  const DeviceNumbers residual = numbers(ElementType::float32, kTrainedRows * kWidth);
  const DeviceNumbers weight = numbers(ElementType::float32, kWidth);
  const DeviceNumbers normed = numbers(ElementType::bfloat16, kTrainedRows * kWidth);
  const DeviceNumbers gradient = numbers(ElementType::float32, kTrainedRows * kWidth);
  const DeviceNumbers increment(ElementType::bfloat16, kTrainedRows * kWidth);
  const DeviceNumbers weight_gradient = numbers(ElementType::float32, kWidth);
  cuda::ResidualNormGradient a;
  a.rows = kTrainedRows;
  a.width = kWidth;
  a.residual = residual.floats();
  a.weight = weight.floats();
  a.epsilon = 1e-6F;
  a.normed_gradient = normed.data();
  a.residual_gradient = gradient.floats();
  a.increment_gradient = increment.data();
  a.weight_gradient = with_weight ? weight_gradient.floats() : nullptr;
  const DeviceNumbers workspace = poison(static_cast<std::int64_t>(workspace_bytes(a)));
  a.workspace = workspace.data();
  run(state, with_weight ? "norm backward" : "norm backward, no weight", kTrainedRows,
      16.0 * static_cast<double>(kTrainedRows * kWidth), [&] { return cuda::residual_norm_gradient(a, nullptr); });
}

void project_heads_gradient(benchmark::State& state, bool pro) {
  const DeviceNumbers projected = numbers(ElementType::bfloat16, kTrainedRows * 4 * kWidth);
  const DeviceNumbers logits = numbers(ElementType::float32, kTrainedRows * 3 * kStepHeads);
  const DeviceNumbers norm = numbers(ElementType::float32, kWidth);
  const DeviceNumbers rotation = numbers(ElementType::float32, pro ? 1 : kTrainedRows * kHeadDim);
  const DeviceNumbers attended = numbers(ElementType::bfloat16, 3 * kTrainedRows * kWidth);
  const DeviceNumbers gradient(ElementType::bfloat16, kTrainedRows * 4 * kWidth);
  const DeviceNumbers logits_gradient(ElementType::float32, kTrainedRows * 3 * kStepHeads);
  const DeviceNumbers norm_gradient = numbers(ElementType::float32, 2 * kWidth);
  cuda::ProjectedHeadsGradient a;
  a.rows = kTrainedRows;
  a.heads = a.key_heads = kStepHeads;
  a.head_dim = kHeadDim;
  a.projected = projected.data();
  a.projected_stride = a.projected_gradient_stride = 4 * kWidth;
  if (pro) {
    a.key_shift_logits = logits.floats();
    a.value_shift_logits = logits.floats() + kStepHeads;
    a.key_shift_gradient = logits_gradient.floats();
    a.value_shift_gradient = logits_gradient.floats() + kStepHeads;
    a.shift_stride = a.shift_gradient_stride = 3 * kStepHeads;
    a.query_norm = a.key_norm = norm.floats();
    a.query_norm_gradient = norm_gradient.floats();
    a.key_norm_gradient = norm_gradient.floats() + kWidth;
  } else {
    a.rotation = rotation.floats();
  }
  a.norm_epsilon = 1e-5F;
  const auto* gradients = static_cast<const std::uint16_t*>(attended.data());
  a.query_gradient = gradients;
  a.key_gradient = gradients + kTrainedRows * kWidth;
  a.value_gradient = gradients + 2 * kTrainedRows * kWidth;
  a.query_strides = a.key_strides = a.value_strides = {kTrainedRows * kWidth, kHeadDim, kWidth};
  a.projected_gradient = gradient.data();
  const DeviceNumbers workspace = poison(static_cast<std::int64_t>(workspace_bytes(a)));
  a.workspace = workspace.data();
  const double row_bytes = pro ? 18.0 * kWidth + 16.0 * kStepHeads : 12.0 * kWidth + 4.0 * kHeadDim;
  run(state, pro ? "heads backward, shift and norm" : "heads backward, rotation", kTrainedRows,
      row_bytes * static_cast<double>(kTrainedRows), [&] { return cuda::project_heads_gradient(a, nullptr); });
}

void gate_output_gradient(benchmark::State& state) {
  const DeviceNumbers attended = numbers(ElementType::bfloat16, kTrainedRows * kWidth);
  const DeviceNumbers norm = numbers(ElementType::float32, kWidth);
  const DeviceNumbers gate = numbers(ElementType::bfloat16, kTrainedRows * 4 * kWidth);
  const DeviceNumbers output = numbers(ElementType::bfloat16, kTrainedRows * kWidth);
  const DeviceNumbers gradient(ElementType::bfloat16, kTrainedRows * kWidth);
  const DeviceNumbers norm_gradient = numbers(ElementType::float32, kWidth);
  cuda::GatedOutputGradient a;
  a.rows = kTrainedRows;
  a.heads = kStepHeads;
  a.head_dim = kHeadDim;
  a.attended = attended.data();
  a.norm = norm.floats();
  a.norm_epsilon = 1e-6F;
  a.gate = a.gate_gradient = gate.data();
  a.gate_stride = a.gate_gradient_stride = 4 * kWidth;
  a.output_gradient = output.data();
  a.attended_gradient = gradient.data();
  a.norm_gradient = norm_gradient.floats();
  const DeviceNumbers workspace = poison(static_cast<std::int64_t>(workspace_bytes(a)));
  a.workspace = workspace.data();
  run(state, "output norm and gate backward", kTrainedRows, 10.0 * static_cast<double>(kTrainedRows * kWidth),
      [&] { return cuda::gate_output_gradient(a, nullptr); });
}

void swiglu_gradient(benchmark::State& state, bool with_product) {
  const DeviceNumbers wide = numbers(ElementType::bfloat16, kTrainedRows * 2 * kTrainedInner);
  const DeviceNumbers gradient = numbers(ElementType::bfloat16, kTrainedRows * kTrainedInner);
  const DeviceNumbers product(ElementType::bfloat16, kTrainedRows * kTrainedInner);
  run(state, with_product ? "SwiGLU backward and product" : "SwiGLU backward", kTrainedRows,
      (with_product ? 12.0 : 10.0) * static_cast<double>(kTrainedRows * kTrainedInner), [&] {
        return cuda::swiglu_gradient({kTrainedRows, kTrainedInner, wide.data(), gradient.data(), wide.data(),
                                      with_product ? product.data() : nullptr},
                                     nullptr);
      });
}

void token_loss_gradient(benchmark::State& state, ElementType type, std::int64_t vocabulary) {
  const bool in_place = type == ElementType::bfloat16;
  const DeviceNumbers logits = numbers(type, kLossRows * vocabulary);
  const DeviceNumbers gradient(ElementType::bfloat16, in_place ? 1 : kLossRows * vocabulary);
  const cuda::DeviceBuffer labels = kernels::testing::to_device(std::vector<std::int32_t>(kLossRows, 17));
  const DeviceNumbers weights = numbers(ElementType::float32, kLossRows);
  const DeviceNumbers loss(ElementType::float32, kLossRows);
  cuda::TokenLossGradient a;
  a.rows = kLossRows;
  a.vocabulary = a.logits_stride = a.logits_gradient_stride = vocabulary;
  a.logits = logits.data();
  a.logits_type = type;
  a.labels = static_cast<const std::int32_t*>(labels.data());
  a.loss_gradient = weights.floats();
  a.loss = loss.floats();
  a.logits_gradient = in_place ? logits.data() : gradient.data();
  run(state, std::string("token loss backward, ") + name_of(type),
      std::to_string(kLossRows) + " of " + std::to_string(vocabulary),
      (in_place ? 4.0 : 6.0) * static_cast<double>(kLossRows * vocabulary),
      [&] { return cuda::token_loss_gradient(a, nullptr); });
}

void forget_gate_gradient(benchmark::State& state) {
  const DeviceNumbers gradient = numbers(ElementType::float32, kTrainedRows * kStepHeads);
  const DeviceNumbers logits = numbers(ElementType::float32, kTrainedRows * 3 * kStepHeads);
  const DeviceNumbers to(ElementType::float32, kTrainedRows * 3 * kStepHeads);
  cuda::ForgetGateGradient a;
  a.heads = kStepHeads;
  a.length = kTrainedRows;
  a.log_gate_gradient = gradient.floats();
  a.logits = logits.floats();
  a.logits_gradient = to.floats();
  a.logits_stride = a.logits_gradient_stride = 3 * kStepHeads;
  run(state, "forget gate backward", kTrainedRows, 12.0 * static_cast<double>(kTrainedRows * kStepHeads),
      [&] { return cuda::forget_gate_gradient(a, nullptr); });
}

/// Ids as frequent as words are: the k-th of some 1 / (k + 2.7).
void embedding_gradient(benchmark::State& state) {
  std::vector<double> frequencies;
  for (std::int64_t id = 0; id < kPaddedVocabulary; ++id) {
    frequencies.push_back(1 / (static_cast<double>(id) + 2.7));
  }
  std::mt19937_64 engine(1);
  std::discrete_distribution<std::int32_t> draw(frequencies.begin(), frequencies.end());
  std::vector<std::int32_t> ids(static_cast<std::size_t>(kTrainedRows));
  for (std::int32_t& id : ids) id = draw(engine);
  const auto different = std::ssize(std::set<std::int32_t>(ids.begin(), ids.end()));
  const cuda::DeviceBuffer on_device = kernels::testing::to_device(ids);
  const DeviceNumbers gradient = numbers(ElementType::float32, kTrainedRows * kWidth);
  const DeviceNumbers table = numbers(ElementType::float32, kPaddedVocabulary * kWidth);
  cuda::EmbeddingGradient a;
  a.rows = kTrainedRows;
  a.width = kWidth;
  a.vocabulary = kPaddedVocabulary;
  a.ids = static_cast<const std::int32_t*>(on_device.data());
  a.residual_gradient = gradient.floats();
  a.table_gradient = table.floats();
  const DeviceNumbers workspace = poison(static_cast<std::int64_t>(workspace_bytes(a)));
  a.workspace = workspace.data();
  run(state, "embedding backward", kTrainedRows, 4.0 * static_cast<double>((kTrainedRows + 2 * different) * kWidth),
      [&] { return cuda::embedding_gradient(a, nullptr); });
}

void register_gradients() {
  add_benchmark("residual_norm_gradient", [](benchmark::State& state) { residual_norm_gradient(state, true); });
  add_benchmark("residual_norm_gradient_no_weight",
                [](benchmark::State& state) { residual_norm_gradient(state, false); });
  add_benchmark("project_heads_gradient", [](benchmark::State& state) { project_heads_gradient(state, true); });
  add_benchmark("project_heads_gradient_rotation",
                [](benchmark::State& state) { project_heads_gradient(state, false); });
  add_benchmark("gate_output_gradient", gate_output_gradient);
  add_benchmark("swiglu_gradient", [](benchmark::State& state) { swiglu_gradient(state, false); });
  add_benchmark("swiglu_gradient_product", [](benchmark::State& state) { swiglu_gradient(state, true); });
  for (const ElementType type : {ElementType::bfloat16, ElementType::float32}) {
    for (const std::int64_t vocabulary : {kPaddedVocabulary, std::int64_t{151936}}) {
      add_benchmark(std::string("token_loss_gradient_") + name_of(type) + "/" + std::to_string(vocabulary),
                    [=](benchmark::State& state) { token_loss_gradient(state, type, vocabulary); });
    }
  }
  add_benchmark("forget_gate_gradient", forget_gate_gradient);
  add_benchmark("embedding_gradient", embedding_gradient);
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
  register_gradients();
}

}  // namespace foxscope::bench

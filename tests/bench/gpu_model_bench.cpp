// `foxscope bench gpu-model [NAME...] [LENGTH...]`: forward passes of models of 760M shape on a GPU, bfloat16, random
// weights: of a FoX (Pro), gate biases 0 (f near 0.5), that keep losses alone or what `foxscope run` keeps by default,
// queries and keys in GPU memory, with statistics of all heads, and scores of many prompts; and of linear mixers, with
// losses. Seconds are those of the caller: from ids in host memory to losses, gates and normalisers there. Names are
// FoX and those of kLinearShapes; all where none is given.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <iostream>
#include <iterator>
#include <memory>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/DeviceAccelerator.h>
#include <fmt/format.h>

#include "backend/map/statistics/head_statistics.h"
#include "backend/model/backward/gradient_forward_torch.h"
#include "backend/model/session/causal_lm.h"
#include "backend/model/session/run_memory.h"
#include "backend/model/session/torch_model.h"
#include "backend/model/spec/trace_sizes.h"
#include "backend/model/weights/checkpoint.h"
#include "backend/trace/device_query_key_store.h"
#include "kernels/executor.h"
#include "tests/bench/linear_models.h"
#include "tests/bench/random_checkpoint.h"

namespace foxscope::bench {
namespace {

constexpr int kWarmUp = 3;
constexpr int kTimes = 7;

/// FoX (Pro), 760M: 24 layers, D 1536, 24 heads of 64.
constexpr const char* kConfig = R"({"model_type": "forgetting_transformer-project_fox", "vocab_size": 50257,
  "hidden_size": 1536, "num_heads": 24, "num_hidden_layers": 24, "hidden_ratio": 3.5, "norm_eps": 1e-6,
  "bos_token_id": 50256, "fgate_type": "full", "use_k_shift": true, "use_v_shift": true, "qk_norm": true,
  "qk_norm_share_param_across_head": false, "use_output_gate": true, "use_output_norm": true, "use_rope": false,
  "tie_word_embeddings": false})";

struct Target {
  std::int64_t length;
  double baseline;  ///< tokens/s of the authors' code
  double goal;
};
constexpr Target kTargets[] = {{2048, 58e3, 170e3}, {16384, 195e3, 290e3}, {65536, 208e3, 310e3}};

constexpr std::int64_t kLinearLengths[] = {16384, 65536};
constexpr double kLinearGoalGib = 8;

/// Tokens/s of a linear mixer to reach at kLinearLengths.
struct LinearGoal {
  std::string_view name;
  double rates[2];
};
constexpr LinearGoal kLinearGoals[] = {{"Mamba-2", {150e3, 150e3}},
                                       {"HGRN2", {163e3, 171e3}},
                                       {"DeltaNet", {150e3, 150e3}},
                                       {"Gated-DeltaNet", {150e3, 150e3}}};

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Measured {
  double seconds = 0;  ///< median
  double peak_gib = 0;
  double mean_loss = 0;
  ForwardReport report;
  std::shared_ptr<const Trace> trace;  ///< of the last pass
};

Measured measure(CausalLM& model, std::int64_t length, double tolerance, const KeepSet& keep) {
  const ModelConfig& config = model.config();
  std::mt19937 generator(7);
  std::uniform_int_distribution<std::int32_t> draw(0, static_cast<std::int32_t>(config.vocabulary_size) - 1);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(length) + 1);
  for (std::int32_t& id : ids) id = draw(generator);
  TraceInfo info;
  static_cast<TraceSizes&>(info) = sizes_of(config, length);
  describe_attention(config, info);
  ForwardRequest request;
  request.batch = 1;
  request.length = length;
  request.input_ids = std::span(ids).first(static_cast<std::size_t>(length));
  request.labels = std::span(ids).last(static_cast<std::size_t>(length));
  request.pruning_tolerance = tolerance;

  Measured measured;
  std::shared_ptr<RunQueryKeyStore> store;
  if (keep.contains(Keep::query_key)) {
    const QueryKeyStore::Shape shape{info.layers, info.heads, info.key_heads, length, info.head_dim};
    store = std::make_shared<DeviceQueryKeyStore>(shape, DType::bfloat16, 0);
  }
  std::vector<double> seconds;
  at::accelerator::emptyCache();
  at::accelerator::resetPeakStats(0);
  for (int time = 0; time < kWarmUp + kTimes; ++time) {
    const auto start = Clock::now();
    Recorder recorder(info, keep, store);
    Recorder* const recorders[] = {&recorder};
    measured.report = model.forward(request, recorders, Job{}).value();
    if (time >= kWarmUp) seconds.push_back(seconds_since(start));
    measured.mean_loss = 0;
    for (const float loss : recorder.per_token_loss()) measured.mean_loss += loss / static_cast<double>(length);
    if (time + 1 < kWarmUp + kTimes) continue;
    auto tokens = std::make_shared<TokenTable>();
    tokens->input_id.assign(request.input_ids.begin(), request.input_ids.end());
    measured.trace = recorder.finish(nullptr, tokens, 0);
  }
  std::sort(seconds.begin(), seconds.end());
  measured.seconds = seconds[seconds.size() / 2];
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  measured.peak_gib = static_cast<double>(at::accelerator::getDeviceStats(0).allocated_bytes[kAll].peak) / 0x1p30;
  return measured;
}

void print(std::int64_t length, double tolerance, const char* kept, const Measured& m) {
  const double rate = static_cast<double>(length) / m.seconds;
  std::string goal;
  for (const Target& target : kTargets) {
    if (target.length != length) continue;
    goal = fmt::format("{:>5.2f} x of {:>3.0f}k  {:>5.2f} x of {:>3.0f}k", rate / target.baseline,
                       target.baseline / 1000, rate / target.goal, target.goal / 1000);
  }
  const auto blocks = static_cast<double>(std::max<std::int64_t>(1, m.report.attention_blocks));
  fmt::print("{:>6}  {:.1e}  {:<7}  {:>8.2f} ms  {:>6.1f}k  {:>31}  {:>5.2f} GiB  {:>5.1f} %  {:.4f}  {}\n", length,
             tolerance, kept, m.seconds * 1e3, rate / 1000, goal, m.peak_gib,
             100 * static_cast<double>(m.report.skipped_blocks) / blocks, m.mean_loss, m.report.attention_kernel);
}

/// Statistics of all heads of a trace whose queries and keys are in GPU memory, of every row and of 64 sampled ones,
/// against a pass that computes the loss alone. Their gates are measured on the CPU meanwhile.
void run_statistics(const std::shared_ptr<const Trace>& trace, double loss_seconds) {
  const TraceInfo& info = trace->info();
  std::vector<int> heads(static_cast<std::size_t>(info.heads));
  std::iota(heads.begin(), heads.end(), 0);
  kernels::ThreadPool pool;
  Job job;
  job.executor = &pool;
  for (const std::int64_t rows : {0, 64}) {
    StatisticsOptions options;
    options.rows = rows;
    std::vector<double> seconds;
    for (int time = 0; time < 3; ++time) {
      const auto start = Clock::now();
      for (int layer = 0; layer < info.layers; ++layer) {
        if (!layer_statistics({trace, 0}, layer, heads, options, job)) return;
      }
      seconds.push_back(seconds_since(start));
    }
    std::ranges::sort(seconds);
    fmt::print("statistics of all {} heads at {} tokens, {}: {:.3f} s, {:.2f} x the loss\n", info.layers * info.heads,
               info.length, rows == 0 ? "every row" : "64 rows of each", seconds[1], seconds[1] / loss_seconds);
  }
}

/// Scores of prompts of 100 to 600 tokens, every token's and the likeliest next one's, as an endpoint makes them.
void run_scores(CausalLM& model) {
  constexpr std::size_t kPrompts = 2000;
  std::mt19937 generator(7);
  std::uniform_int_distribution<std::int32_t> draw(0, static_cast<std::int32_t>(model.config().vocabulary_size) - 1);
  std::uniform_int_distribution<std::size_t> draw_length(100, 600);
  std::vector<std::vector<std::int32_t>> prompts(kPrompts);
  ScoreRequest request;
  request.top = 1;
  std::size_t tokens = 0;
  for (std::vector<std::int32_t>& ids : prompts) {
    ids.resize(draw_length(generator));
    for (std::int32_t& id : ids) id = draw(generator);
    request.texts.push_back({ids, 0, std::ssize(ids), std::span(ids).subspan(1)});
    tokens += ids.size();
  }
  std::vector<double> seconds;
  for (int time = 0; time < 3; ++time) {
    const auto start = Clock::now();
    if (!model.score(request, Job{})) return;
    seconds.push_back(seconds_since(start));
  }
  std::ranges::sort(seconds);
  fmt::print("scores of {} prompts of 100 to 600 tokens: {:.2f} s, {:.1f}k tokens/s\n", kPrompts, seconds[1],
             static_cast<double>(tokens) / seconds[1] / 1000);
}

/// Biases of gates that forget over 8 to 8192 tokens, log-spaced over the heads: log f = -1/T where the rest of z is 0.
void spread_gates(TorchWeights& weights) {
  const std::int64_t heads = weights.config.heads;
  const at::Tensor times = at::exp(at::linspace(std::log(8.0), std::log(8192.0), heads, at::kDouble));
  const at::Tensor bias = -at::log(at::expm1(1 / times));
  for (TorchLayer& layer : weights.layers) {
    const std::int64_t first = layer.gates_bias.size(0) - heads;
    layer.gates_bias.slice(0, first).copy_(bias.to(at::kFloat));
  }
}

/// Forward and back, with the gradient of the mean loss by every weight.
void run_forward_and_backward(const Checkpoint& checkpoint, std::int64_t length) {
  TorchWeights weights(checkpoint.config(), Device{true, 0}, DType::bfloat16);
  weights.load(checkpoint, {});
  spread_gates(weights);
  weights.require_gradients();
  const WeightTensors gradients = weights.zero_gradients();
  std::mt19937 generator(7);
  std::uniform_int_distribution<std::int32_t> draw(0, static_cast<std::int32_t>(weights.config.vocabulary_size) - 1);
  std::vector<std::int32_t> ids(static_cast<std::size_t>(length) + 1);
  for (std::int32_t& id : ids) id = draw(generator);
  const at::Tensor loss_weights = at::full({length}, 1.0 / static_cast<double>(length), at::kFloat);
  for (const double tolerance : {0.0, std::exp(-10.0)}) {
    at::accelerator::emptyCache();
    at::accelerator::resetPeakStats(0);
    std::vector<double> seconds;
    std::vector<double> forward_seconds;
    double loss = 0;
    for (int time = 0; time < kWarmUp + kTimes; ++time) {
      const auto start = Clock::now();
      const auto forward = make_gradient_forward(weights, 1, length, loss_weights, {.weights = &gradients});
      Forward::Input input;
      input.ids = std::span(ids).first(static_cast<std::size_t>(length));
      input.labels = std::span(ids).last(static_cast<std::size_t>(length));
      input.pruning_tolerance = tolerance;
      const Probe probe;
      ForwardReport report;
      forward->run_forward(input, {&probe, 1}, {}, report);
      loss = forward->loss().item<double>();
      const double there = seconds_since(start);
      forward->backward({});
      at::accelerator::synchronizeDevice(0);
      if (time < kWarmUp) continue;
      forward_seconds.push_back(there);
      seconds.push_back(seconds_since(start));
    }
    std::ranges::sort(seconds);
    std::ranges::sort(forward_seconds);
    constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const double peak = static_cast<double>(at::accelerator::getDeviceStats(0).allocated_bytes[kAll].peak) / 0x1p30;
    fmt::print(
        "{:>6}  {:.1e}  forward and back  {:>8.2f} ms, of which forward {:.2f}  {:>6.1f}k tokens/s (goal {}k)  "
        "{:>5.2f} GiB (goal 30)  {:.4f}\n",
        length, tolerance, seconds[kTimes / 2] * 1e3, forward_seconds[kTimes / 2] * 1e3,
        static_cast<double>(length) / seconds[kTimes / 2] / 1000, tolerance > 0 ? 60 : 46, peak, loss);
  }
}

void run_fox(std::vector<std::int64_t> lengths) {
  if (lengths.empty()) {
    for (const Target& target : kTargets) lengths.push_back(target.length);
  }
  const RandomCheckpoint random(kConfig);
  run_forward_and_backward(Checkpoint::open(random.folder().string()), 16384);
  const auto start = Clock::now();
  const auto model = CausalLM::load(Checkpoint::open(random.folder().string()), Device{true, 0}, DType::bfloat16);
  fmt::print("FoX (Pro) of 760M shape, random weights, bfloat16, loaded in {:.1f} s; medians of {}\n",
             seconds_since(start), kTimes);
  fmt::print(
      "tokens  pruning  kept             pass  tokens/s     the authors' code         goal   peak memory  skipped  "
      "loss\n");
  std::vector<double> loss_seconds;  // of each length, at the last tolerance
  for (const double tolerance : {std::exp(-10.0), 0x1p-24}) {
    loss_seconds.clear();
    for (const std::int64_t length : lengths) {
      const Measured measured = measure(*model, length, tolerance, {Keep::loss});
      print(length, tolerance, "loss", measured);
      loss_seconds.push_back(measured.seconds);
    }
  }
  const KeepSet usual = {Keep::loss, Keep::gates, Keep::rows, Keep::query_key};
  for (std::size_t n = 0; n < lengths.size(); ++n) {
    const Measured measured = measure(*model, lengths[n], 0x1p-24, usual);
    print(lengths[n], 0x1p-24, "a trace", measured);
    run_statistics(measured.trace, loss_seconds[n]);
  }
  run_scores(*model);
}

void run_linear(const LinearShape& shape, std::vector<std::int64_t> lengths) {
  if (lengths.empty()) lengths.assign(std::begin(kLinearLengths), std::end(kLinearLengths));
  const RandomCheckpoint random(shape.config);
  const auto model = CausalLM::load(Checkpoint::open(random.folder().string()), Device{true, 0}, DType::bfloat16);
  for (const std::int64_t length : lengths) {
    const Measured m = measure(*model, length, 0, {Keep::loss});
    const double rate = static_cast<double>(length) / m.seconds;
    std::string goal;
    for (const LinearGoal& of : kLinearGoals) {
      for (std::size_t n = 0; n < std::size(kLinearLengths); ++n) {
        if (of.name != shape.name || kLinearLengths[n] != length) continue;
        goal = fmt::format(" ({:.2f} x of {:.0f}k)", rate / of.rates[n], of.rates[n] / 1000);
      }
    }
    fmt::print("{:<14}  {:>6}  loss  {:>8.2f} ms  {:>6.1f}k tokens/s{}  {:>5.2f} GiB (goal {})  {:.4f}\n", shape.name,
               length, m.seconds * 1e3, rate / 1000, goal, m.peak_gib, kLinearGoalGib, m.mean_loss);
    std::cout.flush();
  }
}

constexpr std::string_view kFoxName = "FoX";

bool is_name(std::string_view name) {
  return name == kFoxName || std::ranges::any_of(kLinearShapes, [&](const LinearShape& m) { return name == m.name; });
}

/// @returns the exit status
int run(std::span<const char* const> arguments) {
  std::vector<std::int64_t> lengths;
  std::vector<std::string_view> names;
  for (const std::string_view argument : arguments) {
    if (argument.find_first_not_of("0123456789") == std::string_view::npos) {
      lengths.push_back(std::stoll(std::string(argument)));
    } else if (is_name(argument)) {
      names.push_back(argument);
    } else {
      std::cerr << fmt::format("foxscope-bench-gpu-model: {}: there is no such model: use {}", argument, kFoxName);
      for (const LinearShape& shape : kLinearShapes) std::cerr << ", " << shape.name;
      std::cerr << '\n';
      return 2;
    }
  }
  if (cuda_device_count() == 0) {
    fmt::print("no CUDA device, or a build without CUDA\n");
    return 0;
  }
  const auto chosen = [&](std::string_view name) { return names.empty() || std::ranges::count(names, name) > 0; };
  if (chosen(kFoxName)) run_fox(lengths);
  for (const LinearShape& shape : kLinearShapes) {
    if (chosen(shape.name)) run_linear(shape, lengths);
  }
  return 0;
}

}  // namespace
}  // namespace foxscope::bench

int main(int argc, char** argv) {
  try {
    return foxscope::bench::run(std::span<const char* const>(argv, static_cast<std::size_t>(argc)).subspan(1));
  } catch (const std::exception& error) {
    std::cerr << "foxscope-bench-gpu-model: " << error.what() << '\n';
    return 1;
  }
}

// `foxscope bench model`: a forward pass with loss of the FoX (Pro) demo model against the plain dense program in eager
// LibTorch operations, in one run, measured in turn; and both demo models against the kept losses of held-out books and
// their attention against float64. And GPT-2 of the 125M shape against eager LibTorch operations.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/model/session/causal_lm.h"
#include "tests/bench/dense_transformer.h"
#include "tests/bench/eager_gpt2.h"
#include "tests/bench/model_measures.h"
#include "tests/bench/random_checkpoint.h"
#include "tests/largest_error.h"
#include "tests/model/attention_errors.h"

namespace foxscope::bench {
namespace {

const std::string kModels = FOXSCOPE_SOURCE_DIR "/resources/models/";
const std::string kHeldout = FOXSCOPE_SOURCE_DIR "/tests/data/heldout/";

const KeepSet kUsual = {Keep::loss, Keep::gates, Keep::rows, Keep::query_key};

/// A forward pass that keeps what `foxscope run` keeps by default, or less.
std::shared_ptr<const Trace> run(CausalLM& model, const Sequence& sequence, ForwardReport* report = nullptr,
                                 const KeepSet& keep = kUsual) {
  const ModelConfig& config = model.config();
  TraceInfo info;
  info.layers = config.layers;
  info.heads = config.heads;
  info.key_heads = config.key_heads;
  info.head_dim = config.head_dim;
  info.length = static_cast<std::int64_t>(sequence.labels.size());
  info.softmax_scale = 1.0F / std::sqrt(static_cast<float>(config.head_dim));
  info.forgetting.assign(static_cast<std::size_t>(config.layers), config.gated());
  std::shared_ptr<HostQueryKeyStore> store;
  if (keep.contains(Keep::query_key)) {
    const QueryKeyStore::Shape shape{info.layers, info.heads, info.key_heads, info.length, info.head_dim};
    store = std::make_shared<HostQueryKeyStore>(shape, DType::float32, ~std::size_t{0}, "/tmp");
  }
  Recorder recorder(info, keep, store);
  ForwardRequest request;
  request.batch = 1;
  request.length = info.length;
  request.input_ids = sequence.input_ids;
  request.labels = sequence.labels;
  Recorder* recorders[] = {&recorder};
  const std::optional<ForwardReport> done = model.forward(request, recorders, Job{});
  if (report != nullptr && done) *report = *done;
  return recorder.finish(nullptr, std::make_shared<const TokenTable>());
}

at::Tensor to_tensor(const std::vector<std::int32_t>& ids) { return at::tensor(ids, at::kLong); }

struct Target {
  std::int64_t length;
  double ratio;
};

void compare(CausalLM& model, const DenseTransformer& dense, const SafetensorsFile& tokens, const Target& target) {
  const Sequence sequence = heldout_window(tokens, *model.config().bos_token_id, 0, target.length);
  const at::Tensor input = to_tensor(sequence.input_ids);
  const at::Tensor labels = to_tensor(sequence.labels);
  std::vector<double> ours;
  std::vector<double> matrices;
  std::vector<double> ungated;
  std::shared_ptr<const Trace> trace;
  at::Tensor loss;
  at::Tensor loss_without_gate;
  for (int turn = 0; turn < 3; ++turn) {
    ours.push_back(seconds_of([&] { trace = run(model, sequence); }));
    matrices.push_back(seconds_of([&] { loss = dense.per_token_loss(input, labels, DenseAttention::matrices); }));
    ungated.push_back(seconds_of(
        [&] { loss_without_gate = dense.per_token_loss(input, labels, DenseAttention::scaled_dot_product); }));
  }
  double difference = 0;
  for (std::int64_t p = 0; p < target.length; ++p) {
    const double error = trace->per_token_loss()[index_of(p)] - loss[p].item<double>();
    difference = test::largest_error(difference, error);
  }
  const double ratio = median(matrices) / median(ours);
  fmt::print("{:>6}  {:>9.3f} s {:>7.0f}  {:>9.3f} s  {:>5.1f} x (goal {:>4.1f})  {:>9.3f} s  {:>5.1f} x  {:.1e}\n",
             target.length, median(ours), static_cast<double>(target.length) / median(ours), median(matrices), ratio,
             target.ratio, median(ungated), median(ungated) / median(ours), difference);
}

void agree_with_kept_losses(const std::string& name, const std::string& reference_name) {
  const SafetensorsFile tokens(kHeldout + "reference.safetensors");
  const SafetensorsFile kept(kHeldout + "reference_float32.safetensors");
  const TensorView& reference = kept.tensors().at(reference_name + ".per_token_loss_float32");
  const auto* expected = reinterpret_cast<const float*>(reference.bytes.data());
  const auto model = CausalLM::load(Checkpoint::open(kModels + name), Device{}, DType::float32);
  for (int window = 0; window < 3; ++window) {
    const std::int64_t length = reference.shape[1];
    const auto trace = run(*model, heldout_window(tokens, *model->config().bos_token_id, window, length));
    double largest = 0;
    double mean = 0;
    for (std::int64_t p = 0; p < length; ++p) {
      const double error = trace->per_token_loss()[index_of(p)] - expected[window * length + p];
      largest = test::largest_error(largest, error);
      mean += error / static_cast<double>(length);
    }
    fmt::print("{:<20} window {}  largest difference {:.1e} nats (bound 1e-3), of the mean {:.1e} (bound 1e-5)\n", name,
               window, largest, std::abs(mean));
    if (window > 0) continue;
    test::AttentionErrors errors = test::attention_errors(trace);
    for (auto& [what, values] : {std::pair{"entries of A, relative", &errors.entries},
                                 std::pair{"row normalisers, nats", &errors.normalizers}}) {
      fmt::print("{:<20} window {}  {} against float64: median {:.1e}, 99 % {:.1e}, largest {:.1e}\n", name, window,
                 what, test::quantile_of(*values, 0.5), test::quantile_of(*values, 0.99),
                 test::quantile_of(*values, 1));
    }
  }
}

void compare_gpt2() {
  constexpr std::int64_t kLength = 1024;
  const RandomCheckpoint folder(R"({"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12,
    "n_positions": 1024, "vocab_size": 50257, "bos_token_id": 50256})");
  const Checkpoint checkpoint = Checkpoint::open(folder.folder().string());
  const auto model = CausalLM::load(checkpoint, Device{}, DType::float32);
  const EagerGpt2 eager(checkpoint);
  Sequence sequence;
  for (std::int64_t p = 0; p < kLength; ++p) {
    sequence.input_ids.push_back(static_cast<std::int32_t>(p * p * 31 % 50257));
    sequence.labels.push_back(static_cast<std::int32_t>((p + 1) * (p + 1) * 31 % 50257));
  }
  const at::Tensor input = to_tensor(sequence.input_ids);
  const at::Tensor labels = to_tensor(sequence.labels);
  std::vector<double> ours;
  std::vector<double> eagerly;
  std::shared_ptr<const Trace> trace;
  at::Tensor loss;
  for (int turn = 0; turn < 5; ++turn) {
    ours.push_back(seconds_of([&] { trace = run(*model, sequence, nullptr, {Keep::loss}); }));
    eagerly.push_back(seconds_of([&] { loss = eager.per_token_loss(input, labels); }));
  }
  double difference = 0;
  for (std::int64_t p = 0; p < kLength; ++p) {
    const double error = trace->per_token_loss()[index_of(p)] - loss[p].item<double>();
    difference = test::largest_error(difference, error);
  }
  fmt::print(
      "GPT-2 of 125M shape, loss of {} tokens: {:.3f} s, eager LibTorch {:.3f} s: {:.2f} x (goal 2 x); losses "
      "differ by {:.1e}\n",
      kLength, median(ours), median(eagerly), median(eagerly) / median(ours), difference);
}

void run_all() {
  const SafetensorsFile tokens(kHeldout + "reference.safetensors");
  const Checkpoint checkpoint = Checkpoint::open(kModels + "fox-pro-12m");
  const auto model = CausalLM::load(checkpoint, Device{}, DType::float32);
  fmt::print("FoX (Pro) demo model, forward with loss, float32, {} threads; medians of 3 in turn\n",
             at::get_num_threads());
  ForwardReport report;
  run(*model, heldout_window(tokens, *model->config().bos_token_id, 0, 8192), &report);
  fmt::print("peak memory of one pass at 8192 tokens: {:.2f} GiB (goal < 0.7); {}: {} of {} blocks skipped\n",
             peak_memory(), report.attention_kernel, report.skipped_blocks, report.attention_blocks);
  fmt::print("tokens     Foxscope  tokens/s    dense eager              ratio  eager ungated    ratio  difference\n");
  const DenseTransformer dense(checkpoint);
  for (const Target& target : {Target{4096, 8}, Target{8192, 18}}) compare(*model, dense, tokens, target);
  agree_with_kept_losses("fox-pro-12m", "fox-pro");
  agree_with_kept_losses("transformer-pro-12m", "transformer-pro");
  compare_gpt2();
}

}  // namespace
}  // namespace foxscope::bench

int main() {
  try {
    const c10::InferenceMode guard;
    foxscope::bench::run_all();
  } catch (const std::exception& error) {
    std::cerr << "foxscope-bench-model: " << error.what() << '\n';
    return 1;
  }
  return 0;
}

// `foxscope bench gradients`: forward and back through the FoX (Pro) demo model, with the gradients of a mean loss by
// all weights, against the plain dense program differentiated by eager LibTorch's autograd, in one run and in turn; and
// the gradient by every log f alone.
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "backend/model/backward/gradient_forward_torch.h"
#include "backend/model/weights/checkpoint.h"
#include "tests/bench/dense_transformer.h"
#include "tests/bench/model_measures.h"

namespace foxscope::bench {
namespace {

constexpr std::int64_t kComparedLength = 4096;
constexpr std::int64_t kSaliencyLength = 8192;

struct Pass {
  double loss = 0;
  double forward_seconds = 0;
};

Pass pass(const TorchWeights& weights, const Sequence& sequence, const GradientOptions& options) {
  const auto length = static_cast<std::int64_t>(sequence.labels.size());
  const at::Tensor loss_weights = at::full({length}, 1.0 / static_cast<double>(length), at::kFloat);
  const auto forward = make_gradient_forward(weights, 1, length, loss_weights, options);
  Forward::Input input;
  input.ids = sequence.input_ids;
  input.labels = sequence.labels;
  input.pruning_tolerance = 0x1p-24;
  const Probe probe;
  ForwardReport report;
  Pass result;
  result.forward_seconds = seconds_of([&] { forward->run_forward(input, {&probe, 1}, {}, report); });
  result.loss = forward->loss().item<double>();
  forward->backward({});
  return result;
}

double relative(const at::Tensor& ours, const at::Tensor& wanted) {
  return ((ours - wanted).abs().max() / wanted.abs().max()).item<double>();
}

void run_all() {
  const Checkpoint checkpoint = Checkpoint::open(FOXSCOPE_SOURCE_DIR "/resources/models/fox-pro-12m");
  TorchWeights weights(checkpoint.config(), Device{}, DType::float32);
  weights.load(checkpoint, {});
  const SafetensorsFile tokens(FOXSCOPE_SOURCE_DIR "/tests/data/heldout/reference.safetensors");
  const std::int32_t bos = *checkpoint.config().bos_token_id;
  fmt::print("FoX (Pro) demo model, forward and back, float32, {} threads\n", at::get_num_threads());
  const Sequence sequence = heldout_window(tokens, bos, 0, kComparedLength);
  weights.require_gradients();
  Pass ours;
  WeightTensors gradients;
  const auto pass_by_weights = [&] {
    gradients = weights.zero_gradients();
    ours = pass(weights, sequence, {.weights = &gradients});
  };
  std::vector<double> our_seconds = {seconds_of(pass_by_weights)};
  fmt::print("gradient by every weight, {} tokens: forward {:.2f} s of {:.2f} s; peak {:.2f} GiB (goal 1)\n",
             kComparedLength, ours.forward_seconds, our_seconds[0], peak_memory());
  {
    const Sequence longer = heldout_window(tokens, bos, 0, kSaliencyLength);
    std::vector<double> seconds;
    double forward = 0;
    for (int turn = 0; turn < 3; ++turn) {
      seconds.push_back(seconds_of([&] { forward = pass(weights, longer, {.log_gates = true}).forward_seconds; }));
    }
    fmt::print("gradient by every log f, {} tokens: {:.2f} s, of which forward {:.2f} s (goal 8 s); peak {:.2f} GiB\n",
               kSaliencyLength, median(seconds), forward, peak_memory());
  }
  DenseTransformer dense(checkpoint);
  dense.require_gradients();
  const at::Tensor input = at::tensor(sequence.input_ids, at::kLong);
  const at::Tensor labels = at::tensor(sequence.labels, at::kLong);
  std::vector<double> eager_seconds;
  std::map<std::string, at::Tensor> wanted;
  for (int turn = 0; turn < 3; ++turn) {
    eager_seconds.push_back(seconds_of(
        [&] { wanted = dense.gradients(dense.per_token_loss(input, labels, DenseAttention::matrices).mean()); }));
    our_seconds.push_back(seconds_of(pass_by_weights));
  }
  fmt::print("                                 forward and back  tokens/s\n");
  const auto compared = static_cast<double>(kComparedLength);
  fmt::print("Foxscope                         {:>14.2f} s  {:>8.0f}\n", median(our_seconds),
             compared / median(our_seconds));
  fmt::print(
      "eager autograd                   {:>14.2f} s  {:>8.0f}: {:.1f} x (must 8 x, goal 12 x); peak with it {:.2f} "
      "GiB\n",
      median(eager_seconds), compared / median(eager_seconds), median(eager_seconds) / median(our_seconds),
      peak_memory());
  const TorchLayer& first = gradients.layers[0];
  fmt::print("largest difference of their gradients, relative: o_proj of layer 0 {:.1e}, embedding {:.1e}\n",
             relative(first.output, wanted.at("model.layers.0.attn.o_proj.weight")),
             relative(gradients.embedding, wanted.at("model.embeddings.weight")));
}

}  // namespace
}  // namespace foxscope::bench

int main() {
  try {
    foxscope::bench::run_all();
  } catch (const std::exception& error) {
    std::cerr << "foxscope-bench-gradients: " << error.what() << '\n';
    return 1;
  }
  return 0;
}

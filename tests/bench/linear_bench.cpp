// `foxscope bench linear`: models of linear mixers at the shapes of the 12M demo models, float32 on the CPU: a forward
// pass with loss against the same layers in eager LibTorch operations, chunked alike, measured in turn in one run; how
// time grows with the length; and tokens a second of a text that goes on. A row is written as soon as it is known. The
// processor time beside it is that of all threads: with OMP_NUM_THREADS=1, when none waits for another, it compares the
// two on a machine that others use as well.
// Arguments are names of the models to measure, all of them where there are none.
#include <algorithm>
#include <iostream>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "backend/model/session/causal_lm.h"
#include "backend/model/session/decode_state.h"
#include "backend/model/session/run_memory.h"
#include "backend/model/session/torch_model.h"
#include "backend/model/spec/trace_sizes.h"
#include "backend/model/weights/checkpoint.h"
#include "tests/bench/model_measures.h"
#include "tests/bench/random_checkpoint.h"

namespace foxscope::bench {
namespace {

struct Shape {
  const char* name;
  const char* config;
};

constexpr Shape kShapes[] = {
    {"Mamba-2",
     R"({"model_type": "mamba2-project_fox", "vocab_size": 8192, "hidden_size": 256, "num_hidden_layers": 16,
         "num_heads": 8, "head_dim": 64, "state_size": 128, "n_groups": 1, "bos_token_id": 0})"},
    {"HGRN2",
     R"({"model_type": "hgrn2-project_fox", "vocab_size": 8192, "hidden_size": 256, "num_hidden_layers": 8,
         "expand_ratio": 128, "bos_token_id": 0})"},
    {"GLA",
     R"({"model_type": "gla", "vocab_size": 8192, "hidden_size": 256, "num_hidden_layers": 8, "num_heads": 4,
         "bos_token_id": 0})"},
    {"DeltaNet",
     R"({"model_type": "delta_net-project_fox", "vocab_size": 8192, "hidden_size": 256, "num_hidden_layers": 8,
         "num_heads": 2, "bos_token_id": 0})"},
    {"Gated DeltaNet",
     R"({"model_type": "gated_deltanet", "vocab_size": 8192, "hidden_size": 256, "num_hidden_layers": 8,
         "num_heads": 2, "head_dim": 128, "expand_v": 1.0, "bos_token_id": 0})"},
    {"Samba",
     R"({"model_type": "samba-project_fox", "vocab_size": 8192, "hidden_size": 256, "num_hidden_layers": 10,
         "attn": {"layers": null, "num_heads": 4, "window_size": 256}, "bos_token_id": 0})"},
    {"Mamba",
     R"({"model_type": "mamba", "vocab_size": 8192, "hidden_size": 256, "num_hidden_layers": 16, "norm_eps": 1e-5,
         "bos_token_id": 0})"},
};

Spent forward_time(CausalLM& model, std::int64_t length) {
  std::vector<std::int32_t> ids(static_cast<std::size_t>(length));
  for (std::size_t n = 0; n < ids.size(); ++n) ids[n] = static_cast<std::int32_t>(n * 7919 % 8192);
  TraceInfo info;
  static_cast<TraceSizes&>(info) = sizes_of(model.config(), length);
  Recorder recorder(info, {Keep::loss}, nullptr);
  ForwardRequest request;
  request.batch = 1;
  request.length = length;
  request.input_ids = ids;
  request.labels = ids;
  Recorder* recorders[] = {&recorder};
  return time_of([&] { static_cast<void>(model.forward(request, recorders, Job{})); });
}

double tokens_a_second(CausalLM& model) {
  constexpr int kTokens = 512;
  const std::vector<std::int32_t> prompt(64, 1);
  PromptRequest request;
  request.input_ids = prompt;
  const auto decode_state = model.begin(request, {});
  const double seconds = seconds_of([&] {
    for (int n = 0; n < kTokens; ++n) decode_state->read(n % 8192);
  });
  return kTokens / seconds;
}

void measure(const Shape& shape) {
  constexpr std::int64_t kLength = 8192;
  const RandomCheckpoint files(shape.config);
  const Checkpoint checkpoint = Checkpoint::open(files.folder().string());
  const auto ours = CausalLM::load(checkpoint, Device{}, DType::float32);
  const auto eager = load_torch_model(checkpoint, Device{}, DType::float32);
  std::vector<Spent> fast;
  std::vector<Spent> slow;
  std::vector<Spent> twice;
  // Three turns, or as many as are over within a minute.
  constexpr double kMostSeconds = 60;
  double spent = 0;
  for (int turn = 0; turn < 3 && spent < kMostSeconds; ++turn) {
    fast.push_back(forward_time(*ours, kLength));
    slow.push_back(forward_time(*eager, kLength));
    twice.push_back(forward_time(*ours, 2 * kLength));
    spent += fast.back().wall + slow.back().wall + twice.back().wall;
  }
  const auto middle = [](const std::vector<Spent>& times, double Spent::*kind) {
    std::vector<double> values;
    for (const Spent& time : times) values.push_back(time.*kind);
    return median(values);
  };
  const double seconds = middle(fast, &Spent::wall);
  const double processor = middle(fast, &Spent::processor);
  std::cout << fmt::format(
                   "{}: {} tokens with loss in {:.2f} s ({:.0f} tokens/s), eager LibTorch in chunks {:.2f} s: {:.1f} x "
                   "(processor time {:.2f} s and {:.2f} s: {:.1f} x); {} tokens {:.2f} x (processor time {:.2f} x); "
                   "continued "
                   "at {:.0f} tokens/s; median of {}",
                   shape.name, kLength, seconds, kLength / seconds, middle(slow, &Spent::wall),
                   middle(slow, &Spent::wall) / seconds, processor, middle(slow, &Spent::processor),
                   middle(slow, &Spent::processor) / processor, 2 * kLength, middle(twice, &Spent::wall) / seconds,
                   middle(twice, &Spent::processor) / processor, tokens_a_second(*ours), fast.size())
            << std::endl;
}

/// Whether a model is to be measured. @param names  of the command line
bool is_chosen(const Shape& shape, std::span<const char* const> names) {
  return names.empty() || std::ranges::any_of(names, [&](std::string_view name) { return name == shape.name; });
}

int measure_all(std::span<const char* const> names) {
  for (const std::string_view name : names) {
    if (std::ranges::any_of(kShapes, [&](const Shape& shape) { return name == shape.name; })) continue;
    std::cerr << fmt::format("foxscope-bench-linear: {}: there is no such model: use", name);
    for (const Shape& shape : kShapes) std::cerr << fmt::format(" '{}'", shape.name);
    std::cerr << std::endl;
    return 2;
  }
  for (const Shape& shape : kShapes) {
    if (is_chosen(shape, names)) measure(shape);
  }
  return 0;
}

}  // namespace
}  // namespace foxscope::bench

int main(int count, char** arguments) {
  return foxscope::bench::measure_all(
      std::span<const char* const>(arguments, static_cast<std::size_t>(count)).subspan(1));
}

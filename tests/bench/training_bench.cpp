// `foxscope bench training [RECIPE|MODEL...]`: whole steps of training, from rows of ids to updated weights. On a CPU
// the recipe fox-pro-1m beside the plain dense program under eager autograd with LibTorch's AdamW; on a GPU FoX (Pro)
// of 125M, 360M and 760M shape, one sequence of 16,384 tokens a step, nothing skipped and pruned with gates that forget
// over 8 to 8192 tokens, the recipe fox-pro-12m with 65,536 tokens a step, the linear mixers of linear_models.h, and
// `saliency`: gradients by all log decays of small ones over 65,536 tokens.
#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include "backend/base/measures.h"
#include "backend/model/session/causal_lm.h"
#include "backend/model/session/torch_model.h"
#include "backend/model/spec/trace_sizes.h"
#include "backend/model/training/trainable_model.h"
#include "backend/model/weights/checkpoint.h"
#include "backend/model/weights/initial_weights.h"
#include "backend/train/recipe.h"
#include "tests/bench/dense_transformer.h"
#include "tests/bench/linear_models.h"
#include "tests/bench/model_measures.h"
#include "tests/bench/random_checkpoint.h"

namespace foxscope::bench {
namespace {

constexpr int kWarmUpSteps = 3;
constexpr int kTimedSteps = 9;

/// Weights whose forget gates have biases such that heads forget over 8 to 8192 tokens where the rest of z is 0.
class SpreadGates final : public ParameterSource {
 public:
  explicit SpreadGates(const ModelConfig& config) : heads_(config.heads), weights_(config, 0) {}
  [[nodiscard]] std::int64_t bytes(const Parameter& parameter) const override { return weights_.bytes(parameter); }
  void read(const Parameter& parameter, const std::function<bool(std::span<const float> piece)>& take) const override {
    if (!parameter.name.ends_with("fgate_proj.bias")) {
      weights_.read(parameter, take);
      return;
    }
    std::vector<float> bias;
    for (int head = 0; head < heads_; ++head) {
      const double time = 8 * std::pow(1024.0, static_cast<double>(head) / std::max(1, heads_ - 1));
      bias.push_back(static_cast<float>(-std::log(std::expm1(1 / time))));
    }
    take(bias);
  }

 private:
  int heads_;
  InitialWeights weights_;
};

Recipe recipe_of(const std::string& name) {
  const std::vector<RecipeSetting> data = {{"data", {"none"}}};
  return read_recipe(FOXSCOPE_SOURCE_DIR "/resources/recipes/" + name + ".json", data);
}

struct Ids {
  std::vector<std::int32_t> input;
  std::vector<std::int32_t> labels;

  Ids(std::int64_t vocabulary, std::int64_t count) {
    std::mt19937 generator(7);
    std::uniform_int_distribution<std::int32_t> draw(0, static_cast<std::int32_t>(vocabulary) - 1);
    for (std::int64_t n = 0; n < count; ++n) {
      input.push_back(draw(generator));
      labels.push_back(draw(generator));
    }
  }
};

struct Rate {
  double seconds = 0;  ///< of a step, median
  double tokens_per_second = 0;
  double skipped = 0;
  double peak_gib = 0;
};

Rate rate_of(TrainableModel& model, std::int64_t rows, std::int64_t length, std::int64_t micro_rows) {
  const Ids ids(model.config().vocabulary_size, rows * length);
  std::vector<double> seconds;
  Rate rate;
  for (int step = 0; step < kWarmUpSteps + kTimedSteps; ++step) {
    const double taken = seconds_of([&] {
      for (std::int64_t row = 0; row < rows; row += micro_rows) {
        const auto part = [&](const std::vector<std::int32_t>& all) {
          return std::span(all).subspan(static_cast<std::size_t>(row * length),
                                        static_cast<std::size_t>(micro_rows * length));
        };
        model.add_gradients(
            {micro_rows, length, part(ids.input), part(ids.labels), 1.0 / static_cast<double>(rows * length)}, {});
      }
      const TrainableModel::StepReport report = model.step(1e-4, {});
      rate.skipped = static_cast<double>(report.skipped_blocks) /
                     static_cast<double>(std::max<std::int64_t>(1, report.attention_blocks));
    });
    if (step >= kWarmUpSteps) seconds.push_back(taken);
  }
  rate.seconds = median(seconds);
  rate.tokens_per_second = static_cast<double>(rows * length) / rate.seconds;
  rate.peak_gib = gibibytes(model.peak_device_memory());
  return rate;
}

std::unique_ptr<TrainableModel> on_gpu(const ModelConfig& config, const ParameterSource& weights, double pruning,
                                       Recompute recompute = Recompute::none) {
  TrainableOptions options;
  options.recompute = recompute;
  options.device = {true, 0};
  options.dtype = DType::bfloat16;
  options.pruning_tolerance = pruning;
  return TrainableModel::make(config, weights, options, {});
}

constexpr double kLinearRate = 45e3;  // tokens/s to reach
constexpr double kLinearGib = 32;

void run_linear(const LinearShape& shape) {
  const ModelConfig config = ModelConfig::from_json(shape.config, std::string(shape.name));
  const auto model = on_gpu(config, InitialWeights(config, 0), 0, Recompute::mlp);
  const Rate rate = rate_of(*model, 1, 16384, 1);
  fmt::print(
      "{:<14}  {:.0f}M parameters, 16,384 tokens: {:>7.1f} ms, {:>6.1f}k tokens/s ({:.2f} x of {:.0f}k), {:.1f} "
      "GiB (must {:.0f})\n",
      shape.name, static_cast<double>(model->trained_parameters()) / 1e6, rate.seconds * 1e3,
      rate.tokens_per_second / 1e3, rate.tokens_per_second / kLinearRate, kLinearRate / 1e3, rate.peak_gib, kLinearGib);
  std::cout.flush();
}

/// Models of 12M parameters whose decays are a head's.
constexpr LinearShape kSalientShapes[] = {
    {"Mamba-2",
     R"({"model_type": "mamba2-project_fox", "vocab_size": 8192, "hidden_size": 256, "num_hidden_layers": 16,
         "num_heads": 8, "head_dim": 64, "state_size": 128, "n_groups": 1, "bos_token_id": 0})"},
    {"Gated-DeltaNet",
     R"({"model_type": "gated_deltanet", "vocab_size": 8192, "hidden_size": 256, "num_hidden_layers": 8,
         "num_heads": 2, "head_dim": 96, "expand_v": 2.0, "hidden_ratio": 4, "bos_token_id": 0})"},
};

void run_saliency(const LinearShape& shape) {
  constexpr std::int64_t kLength = 65536;
  const RandomCheckpoint random(shape.config);
  const auto model = CausalLM::load(Checkpoint::open(random.folder().string()), Device{true, 0}, DType::bfloat16);
  const Ids ids(model->config().vocabulary_size, kLength);
  TraceInfo info;
  static_cast<TraceSizes&>(info) = sizes_of(model->config(), kLength);
  ForwardRequest request;
  request.batch = 1;
  request.length = kLength;
  request.input_ids = ids.input;
  request.labels = ids.labels;
  std::vector<double> seconds;
  for (int time = 0; time < 5; ++time) {
    seconds.push_back(seconds_of([&] {
      Recorder recorder(info, {Keep::loss, Keep::gates, Keep::saliency}, nullptr);
      Recorder* const recorders[] = {&recorder};
      model->forward(request, recorders, Job{});
    }));
  }
  fmt::print("{:<14}  saliency of every log decay, 12M, 65,536 tokens: {:.2f} s (must 1)\n", shape.name,
             median(seconds));
  std::cout.flush();
}

/// @param wanted  recipes, names of linear mixers, or "saliency"; empty: all
void run_gpu(std::span<const std::string> wanted) {
  const auto chosen = [wanted](std::string_view name) {
    return wanted.empty() || std::ranges::find(wanted, name) != wanted.end();
  };
  for (const LinearShape& shape : kLinearShapes) {
    if (chosen(shape.name)) run_linear(shape);
  }
  for (const LinearShape& shape : kSalientShapes) {
    if (chosen("saliency")) run_saliency(shape);
  }
  struct Shape {
    const char* recipe;
    double dense;
    double pruned;  // thousands of tokens/s to reach
  };
  fmt::print("FoX (Pro), a step of one sequence of 16,384 tokens with AdamW, bfloat16, medians of {}\n", kTimedSteps);
  fmt::print("recipe              pruning   ms/step  tokens/s   must   skipped  peak memory\n");
  for (const Shape& shape :
       {Shape{"fox-pro-125m-2.7b", 160, 210}, Shape{"fox-pro-360m-7.5b", 66, 88}, Shape{"fox-pro-760m-48b", 44, 58}}) {
    if (!chosen(shape.recipe)) continue;
    for (const double pruning : {0.0, std::exp(-10.0)}) {
      const ModelConfig config = ModelConfig::from_json(recipe_of(shape.recipe).config, shape.recipe);
      const auto model = on_gpu(config, SpreadGates(config), pruning);
      const Rate rate = rate_of(*model, 1, 16384, 1);
      fmt::print("{:<18}  {:.1e}  {:>7.1f}  {:>7.1f}k  {:>4.0f}k  {:>6.1f} %  {:.1f} GiB\n", shape.recipe, pruning,
                 rate.seconds * 1e3, rate.tokens_per_second / 1e3, pruning > 0 ? shape.pruned : shape.dense,
                 100 * rate.skipped, rate.peak_gib);
    }
  }
  const ModelConfig config = ModelConfig::from_json(recipe_of("fox-pro-12m").config, "fox-pro-12m");
  for (const std::int64_t micro_rows : {32, 16, 8}) {
    if (!chosen("fox-pro-12m")) break;
    const auto model = on_gpu(config, InitialWeights(config, 0), 0x1p-24);
    const Rate rate = rate_of(*model, 32, 2048, micro_rows);
    fmt::print(
        "fox-pro-12m         65,536 tokens of 2048, {:>2} rows at a time: {:.1f} ms, {:.2f}M tokens/s (must 2.0M), "
        "{:.1f} GiB\n",
        micro_rows, rate.seconds * 1e3, rate.tokens_per_second / 1e6, rate.peak_gib);
  }
}

/// A step of the plain program: eager autograd over the same rows, one after the other as it has no batch axis, and
/// LibTorch's AdamW for each parameter.
double eager_seconds(const std::string& config, std::int64_t rows, std::int64_t length) {
  const RandomCheckpoint folder(config);
  const Checkpoint checkpoint = Checkpoint::open(folder.folder().string());
  DenseTransformer dense(checkpoint);
  dense.require_gradients();
  const Ids ids(checkpoint.config().vocabulary_size, rows * length);
  std::map<std::string, std::array<at::Tensor, 2>> moments;
  const at::Tensor step_count = at::zeros({});
  std::vector<double> seconds;
  for (int step = 0; step < 4; ++step) {
    const double taken = seconds_of([&] {
      at::Tensor loss = at::zeros({});
      for (std::int64_t row = 0; row < rows; ++row) {
        const auto part = [&](const std::vector<std::int32_t>& all) {
          return at::tensor(at::ArrayRef<std::int32_t>(all.data() + row * length, static_cast<std::size_t>(length)),
                            at::kLong);
        };
        loss = loss + dense.per_token_loss(part(ids.input), part(ids.labels), DenseAttention::matrices).mean() /
                          static_cast<double>(rows);
      }
      step_count.add_(1);
      for (const auto& [name, gradient] : dense.gradients(loss)) {
        auto& state = moments[name];
        if (!state[0].defined()) state = {at::zeros_like(gradient), at::zeros_like(gradient)};
        at::Tensor weight = at::zeros_like(gradient);
        at::_fused_adamw_({weight}, {gradient}, {state[0]}, {state[1]}, {}, {step_count}, 1e-4, 0.9, 0.95, 0.1, 1e-8,
                          false, false);
      }
    });
    if (step > 0) seconds.push_back(taken);
  }
  return median(seconds);
}

void run_cpu() {
  const Recipe recipe = recipe_of("fox-pro-1m");
  const ModelConfig config = ModelConfig::from_json(recipe.config, "fox-pro-1m");
  const auto model = TrainableModel::make(config, InitialWeights(config, 0), {}, {});
  fmt::print("{} threads; recipe fox-pro-1m, {} parameters, steps of {} tokens in rows of {}\n", at::get_num_threads(),
             model->trained_parameters(), recipe.batch_tokens, recipe.length);
  const std::int64_t rows = recipe.rows_per_step();
  const Rate rate = rate_of(*model, rows, recipe.length, rows);
  const double eager = eager_seconds(recipe.config, rows, recipe.length);
  fmt::print("Foxscope        {:>6.2f} s a step  {:>7.0f} tokens/s\n", rate.seconds, rate.tokens_per_second);
  fmt::print("eager autograd  {:>6.2f} s a step  {:>7.0f} tokens/s: {:.1f} x (must 5 x)\n", eager,
             static_cast<double>(recipe.batch_tokens) / eager, eager / rate.seconds);
}

}  // namespace
}  // namespace foxscope::bench

int main(int count, char** words) {
  try {
    const std::vector<std::string> recipes(words + 1, words + count);
    if (foxscope::cuda_device_count() > 0) foxscope::bench::run_gpu(recipes);
    if (recipes.empty()) foxscope::bench::run_cpu();
  } catch (const std::exception& error) {
    std::cerr << "foxscope-bench-training: " << error.what() << '\n';
    return 1;
  }
  return 0;
}

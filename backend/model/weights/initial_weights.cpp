#include "backend/model/weights/initial_weights.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>
#include <random>
#include <string_view>

#include <nlohmann/json.hpp>

#include "backend/model/spec/config_keys.h"
#include "backend/model/spec/model_family.h"

namespace foxscope {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 18;
constexpr double kLongestDecay = 1e12;

/// Numbers of a normal distribution with the same bits on every platform (std::normal_distribution is not fixed by the
/// standard): Box and Muller's pairs of uniform numbers of std::mt19937_64, which is.
class NormalNumbers {
 public:
  NormalNumbers(std::uint64_t seed, std::string_view name) {
    // FNV-1a of the name, so that parameters do not share their numbers.
    std::uint64_t hash = 14695981039346656037U;
    for (const char letter : name) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211U;
    const std::array<std::uint32_t, 4> words = {
        static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32), static_cast<std::uint32_t>(hash),
        static_cast<std::uint32_t>(hash >> 32)};
    std::seed_seq sequence(words.begin(), words.end());
    generator_.seed(sequence);
  }

  /// Uniform in [0, 1).
  double uniform() { return static_cast<double>(generator_() >> 11) * 0x1p-53; }

  double next() {
    if (has_second_) {
      has_second_ = false;
      return second_;
    }
    constexpr double kUnit = 0x1p-53;
    const double radius = std::sqrt(-2 * std::log((static_cast<double>(generator_() >> 11) + 1) * kUnit));
    const double angle = 2 * std::numbers::pi * static_cast<double>(generator_() >> 11) * kUnit;
    second_ = radius * std::sin(angle);
    has_second_ = true;
    return radius * std::cos(angle);
  }

 private:
  std::mt19937_64 generator_;
  double second_ = 0;
  bool has_second_ = false;
};

bool is_norm(const Parameter& parameter) {
  using W = LayerWeights;
  for (const auto member : {&W::attention_norm, &W::query_norm, &W::key_norm, &W::output_norm, &W::mlp_norm}) {
    if (parameter.of_layer == member) return true;
  }
  return parameter.of_model == &ModelWeights::final_norm;
}

bool is_table(const Parameter& parameter) { return parameter.of_model == &ModelWeights::embedding; }

bool enters_residual(const Parameter& parameter) {
  return parameter.of_layer == &LayerWeights::output || parameter.of_layer == &LayerWeights::mlp_out;
}

std::vector<float> decay_logits(const ConfigKeys& keys, int heads) {
  const double shortest = keys.number("decay_time_min", 1e-3, kLongestDecay);
  const double longest = keys.number("decay_time_max", shortest, kLongestDecay);
  std::vector<float> logits;
  for (int head = 0; head < heads; ++head) {
    const double place = heads > 1 ? static_cast<double>(head) / (heads - 1) : 0;
    const double time = std::exp(std::log(shortest) + place * (std::log(longest) - std::log(shortest)));
    logits.push_back(static_cast<float>(-std::log(std::expm1(1 / time))));
  }
  return logits;
}

}  // namespace

InitialWeights::InitialWeights(const ModelConfig& config, std::uint64_t seed) : config_(config), seed_(seed) {
  const nlohmann::json json = nlohmann::json::parse(config.json);
  const ConfigKeys keys(json, "config.json");
  range_ = keys.number("initializer_range", 0, 10, 0.02);
  padding_ = keys.integer("pad_token_id", -1, config.vocabulary_size - 1, -1);
  const bool constant = config.forget_gate == ForgetGate::bias_only || config.forget_gate == ForgetGate::fixed;
  const bool spread = keys.flag("fgate_bias_init", config.forget_gate == ForgetGate::fixed);
  if (spread && !constant) {
    keys.fail("fgate_bias_init", "false where gates depend on data (fgate_type \"full\"), whose bias begins at 0");
  }
  if (!spread && config.forget_gate == ForgetGate::fixed) {
    keys.fail("fgate_bias_init", "true for fixed gates, which would else all forget half of everything");
  }
  if (spread) constant_gates_ = decay_logits(keys, config.heads);
  shortest_step_ = keys.number("time_step_min", 1e-12, 1e6, 0.001);
  longest_step_ = keys.number("time_step_max", shortest_step_, 1e6, 0.1);
  least_step_ = keys.number("time_step_floor", 0, 1e6, 1e-4);
  if (!config.linear || !config.linear->selects()) return;
  padding_ = -1;  // its authors' tables have no row of padding
  step_scale_ = keys.number("time_step_scale", 0, 1e6, 1.0);
  const std::string scheme = keys.word("time_step_init_scheme", "random");
  if (scheme != "random" && scheme != "constant") keys.fail("time_step_init_scheme", "\"random\" or \"constant\"");
  constant_step_ = scheme == "constant";
  rescaled_ = keys.flag("rescale_prenorm_residual", false);
}

std::int64_t InitialWeights::bytes(const Parameter& parameter) const {
  return parameter.elements() * static_cast<std::int64_t>(sizeof(float));
}

double InitialWeights::deviation(const Parameter& parameter) const {
  const bool gpt2 = config_.learned_positions > 0;
  if (config_.linear && config_.linear->selects()) return range_;
  const bool smaller = enters_residual(parameter) && (gpt2 || config_.linear);
  return smaller ? range_ / std::sqrt(2.0 * config_.layers) : range_;
}

double InitialWeights::uniform_range(const Parameter& parameter) const {
  if (!config_.linear) return 0;
  using W = LayerWeights;
  const auto in = static_cast<double>(parameter.shape.back());
  const auto out = static_cast<double>(parameter.shape.front());
  if (parameter.of_layer == &W::convolution || parameter.of_layer == &W::convolution_bias) {
    return 1 / std::sqrt(static_cast<double>(config_.linear->convolution));
  }
  if (config_.linear->selects()) return mamba_range(parameter);
  if (config_.linear->kind == Mixer::mamba2) {
    if (parameter.of_layer == &W::output) return 1 / std::sqrt(in * config_.layers);
    const bool head = parameter.of_model == &ModelWeights::language_model_head;
    return parameter.of_layer == &W::projection || head ? 1 / std::sqrt(in) : 0;
  }
  constexpr double kGain = 0.17677669529663687;  // 2^-2.5
  for (const auto member : {&W::projection, &W::output, &W::decay_up}) {
    if (parameter.of_layer == member) return kGain * std::sqrt(6 / (in + out));
  }
  return 0;
}

/// The authors' Samba leaves matrices as LibTorch's modules make them, +-1/sqrt(inputs), but for those that enter the
/// residual stream; FLA's Mamba draws them from the normal distribution.
double InitialWeights::mamba_range(const Parameter& parameter) const {
  const auto in = static_cast<double>(parameter.shape.back());
  if (parameter.of_layer == &LayerWeights::decay_up) return step_scale_ / std::sqrt(in);
  const bool samba = config_.has_mlp();
  if (enters_residual(parameter) && (samba || rescaled_)) {
    return 1 / std::sqrt(in * (samba ? 2.0 : 1.0) * config_.layers);
  }
  return samba && !is_table(parameter) ? 1 / std::sqrt(in) : 0;
}

std::vector<float> InitialWeights::linear_numbers(const Parameter& parameter) const {
  using W = LayerWeights;
  const LinearMixer& mixer = *config_.linear;
  std::vector<float> values(static_cast<std::size_t>(parameter.elements()));
  if (parameter.of_layer == &W::skip) std::ranges::fill(values, 1.0F);
  if (mixer.decay == LinearDecay::rates && parameter.of_layer == &W::decay_rate) {
    const auto dim = static_cast<std::size_t>(mixer.key_dim);
    for (std::size_t n = 0; n < values.size(); ++n) values[n] = std::log(static_cast<float>(n % dim + 1));
    return values;
  }
  if (mixer.decay != LinearDecay::rate && mixer.decay != LinearDecay::rates) return values;
  NormalNumbers numbers(seed_, parameter.name);
  for (std::size_t n = 0; n < values.size(); ++n) {
    if (parameter.of_layer == &W::decay_rate) {
      constexpr double kLargestRate = 16;
      const double rate =
          mixer.kind == Mixer::mamba2 ? static_cast<double>(n + 1) : kLargestRate * std::max(numbers.uniform(), 1e-6);
      values[n] = static_cast<float>(std::log(rate));
    } else if (parameter.of_layer == &W::decay_bias) {
      const double place =
          std::log(shortest_step_) + numbers.uniform() * (std::log(longest_step_) - std::log(shortest_step_));
      const double step = std::max(std::exp(place), least_step_);
      values[n] = static_cast<float>(step + std::log(-std::expm1(-step)));  // softplus of it is the step
    }
  }
  return values;
}

void InitialWeights::read(const Parameter& parameter,
                          const std::function<bool(std::span<const float> piece)>& take) const {
  const bool is_rate = parameter.of_layer == &LayerWeights::decay_rate;
  if (parameter.of_layer == &LayerWeights::constant_gate && !constant_gates_.empty()) {
    take(constant_gates_);
  } else if (parameter.of_model == &ModelWeights::lower_bounds) {
    take(std::vector<float>(static_cast<std::size_t>(parameter.elements())));
  } else if (constant_step_ && parameter.of_layer == &LayerWeights::decay_up) {
    take(
        std::vector<float>(static_cast<std::size_t>(parameter.elements()), static_cast<float>(mamba_range(parameter))));
  } else if (!is_rate && (parameter.shape.size() > 1 || parameter.of_layer == &LayerWeights::convolution_bias)) {
    draw(parameter, take);
  } else if (is_rate || (config_.linear && !is_norm(parameter))) {
    take(linear_numbers(parameter));
  } else {
    take(std::vector<float>(static_cast<std::size_t>(parameter.elements()), is_norm(parameter) ? 1.0F : 0.0F));
  }
}

void InitialWeights::draw(const Parameter& parameter,
                          const std::function<bool(std::span<const float> piece)>& take) const {
  NormalNumbers numbers(seed_, parameter.name);
  const double scale = deviation(parameter);
  const double range = uniform_range(parameter);
  const std::int64_t width = parameter.shape.back();
  const std::int64_t count = parameter.elements();
  const std::int64_t padding = is_table(parameter) ? padding_ : -1;
  std::vector<float> piece;
  for (std::int64_t n = 0; n < count;) {
    piece.clear();
    for (; n < count && piece.size() < kPiece; ++n) {
      const double number = range > 0 ? range * (2 * numbers.uniform() - 1) : scale * numbers.next();
      piece.push_back(n / width == padding ? 0.0F : static_cast<float>(number));
    }
    if (!take(piece)) return;
  }
}

}  // namespace foxscope

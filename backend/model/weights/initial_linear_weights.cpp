#include "backend/model/weights/initial_linear_weights.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace foxscope {

std::unique_ptr<const InitialLinearWeights> InitialLinearWeights::of(const ModelConfig& config,
                                                                     const ConfigKeys& keys) {
  if (!config.linear) return nullptr;
  return std::make_unique<const InitialLinearWeights>(config, keys);
}

InitialLinearWeights::InitialLinearWeights(const ModelConfig& config, const ConfigKeys& keys)
    : config_(config), mixer_(*config.linear) {
  shortest_step_ = keys.number("time_step_min", 1e-12, 1e6, 0.001);
  longest_step_ = keys.number("time_step_max", shortest_step_, 1e6, 0.1);
  least_step_ = keys.number("time_step_floor", 0, 1e6, 1e-4);
  if (!mixer_.is_selective()) return;
  step_scale_ = keys.number("time_step_scale", 0, 1e6, 1.0);
  const std::string scheme = keys.word("time_step_init_scheme", "random");
  if (scheme != "random" && scheme != "constant") keys.fail("time_step_init_scheme", "\"random\" or \"constant\"");
  constant_step_ = scheme == "constant";
  rescaled_ = keys.flag("rescale_prenorm_residual", false);
}

/// The authors' tables of Mamba have no row of padding.
bool InitialLinearWeights::pads() const { return !mixer_.is_selective(); }

bool InitialLinearWeights::shrinks_residual() const { return !mixer_.is_selective(); }

bool InitialLinearWeights::is_constant(const Parameter& parameter) const {
  return constant_step_ && parameter.of_layer == &LayerWeights::decay_up;
}

double InitialLinearWeights::uniform_range(const Parameter& parameter) const {
  using W = LayerWeights;
  const auto in = static_cast<double>(parameter.shape.back());
  const auto out = static_cast<double>(parameter.shape.front());
  if (parameter.of_layer == &W::convolution || parameter.of_layer == &W::convolution_bias) {
    return 1 / std::sqrt(static_cast<double>(mixer_.convolution));
  }
  if (mixer_.is_selective()) return mamba_range(parameter);
  if (mixer_.kind == Mixer::mamba2) {
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
double InitialLinearWeights::mamba_range(const Parameter& parameter) const {
  const auto in = static_cast<double>(parameter.shape.back());
  if (parameter.of_layer == &LayerWeights::decay_up) return step_scale_ / std::sqrt(in);
  const bool samba = config_.has_mlp();
  if (enters_residual(parameter) && (samba || rescaled_)) {
    return 1 / std::sqrt(in * (samba ? 2.0 : 1.0) * config_.layers);
  }
  return samba && parameter.of_model != &ModelWeights::embedding ? 1 / std::sqrt(in) : 0;
}

std::vector<float> InitialLinearWeights::numbers(const Parameter& parameter, NormalNumbers numbers) const {
  using W = LayerWeights;
  std::vector<float> values(static_cast<std::size_t>(parameter.elements()));
  if (parameter.of_layer == &W::skip) std::ranges::fill(values, 1.0F);
  if (mixer_.decay == LinearDecay::rates && parameter.of_layer == &W::decay_rate) {
    const auto dim = static_cast<std::size_t>(mixer_.key_dim);
    for (std::size_t n = 0; n < values.size(); ++n) values[n] = std::log(static_cast<float>(n % dim + 1));
    return values;
  }
  if (mixer_.decay != LinearDecay::rate && mixer_.decay != LinearDecay::rates) return values;
  for (std::size_t n = 0; n < values.size(); ++n) {
    if (parameter.of_layer == &W::decay_rate) {
      constexpr double kLargestRate = 16;
      const double rate =
          mixer_.kind == Mixer::mamba2 ? static_cast<double>(n + 1) : kLargestRate * std::max(numbers.uniform(), 1e-6);
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

}  // namespace foxscope

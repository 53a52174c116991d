#include "backend/model/weights/initial_weights.h"

#include <cmath>

#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/model/spec/config_keys.h"
#include "backend/model/spec/model_family.h"

namespace foxscope {
namespace {

constexpr std::size_t kPiece = std::size_t{1} << 18;

bool is_norm(const Parameter& parameter) {
  using W = LayerWeights;
  for (const auto member : {&W::attention_norm, &W::query_norm, &W::key_norm, &W::output_norm, &W::mlp_norm,
                            &W::attention_post_norm, &W::mlp_post_norm}) {
    if (parameter.of_layer == member) return true;
  }
  return parameter.of_model == &ModelWeights::final_norm;
}

bool is_table(const Parameter& parameter) { return parameter.of_model == &ModelWeights::embedding; }

DecayTimes decay_times(const ConfigKeys& keys) {
  const double shortest = keys.number("decay_time_min", DecayTimes::kShortest, DecayTimes::kLongest);
  return {shortest, keys.number("decay_time_max", shortest, DecayTimes::kLongest)};
}

}  // namespace

std::vector<float> DecayTimes::logits(int heads) const {
  std::vector<float> logits;
  for (int head = 0; head < heads; ++head) {
    const double place = heads > 1 ? static_cast<double>(head) / (heads - 1) : 0;
    const double time = std::exp(std::log(shortest) + place * (std::log(longest) - std::log(shortest)));
    logits.push_back(static_cast<float>(-std::log(std::expm1(1 / time))));
  }
  return logits;
}

InitialWeights::InitialWeights(const ModelConfig& config, std::uint64_t seed, const std::optional<DecayTimes>& gates)
    : config_(config), seed_(seed) {
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
    keys.fail("fgate_bias_init", "true for fixed gates, which would otherwise all forget half of everything");
  }
  if (spread) constant_gates_ = decay_times(keys).logits(config.heads);
  if (gates && (config.forget_gate != ForgetGate::full || config.linear)) {
    throw UsageError("--gate-decay-times: the model has no forget gates that depend on data: leave the option out");
  }
  if (gates) gate_biases_ = gates->logits(config.heads);
  linear_ = InitialLinearWeights::of(config_, keys);
  if (linear_ && !linear_->pads()) padding_ = -1;
}

std::int64_t InitialWeights::bytes(const Parameter& parameter) const {
  return parameter.elements() * static_cast<std::int64_t>(sizeof(float));
}

double InitialWeights::deviation(const Parameter& parameter) const {
  const bool gpt2 = config_.learned_positions > 0;
  const bool smaller = enters_residual(parameter) && (linear_ ? linear_->shrinks_residual() : gpt2);
  return smaller ? range_ / std::sqrt(2.0 * config_.layers) : range_;
}

void InitialWeights::read(const Parameter& parameter,
                          const std::function<bool(std::span<const float> piece)>& take) const {
  const bool is_rate = parameter.of_layer == &LayerWeights::decay_rate;
  if (parameter.of_layer == &LayerWeights::constant_gate && !constant_gates_.empty()) {
    take(constant_gates_);
  } else if (!gate_biases_.empty() && parameter.of_layer == &LayerWeights::projection_bias &&
             parameter.first == ProjectionColumns(config_).forget) {
    take(gate_biases_);
  } else if (parameter.of_model == &ModelWeights::lower_bounds) {
    take(std::vector<float>(static_cast<std::size_t>(parameter.elements())));
  } else if (linear_ && linear_->is_constant(parameter)) {
    const auto number = static_cast<float>(linear_->uniform_range(parameter));
    take(std::vector<float>(static_cast<std::size_t>(parameter.elements()), number));
  } else if (!is_rate && (parameter.shape.size() > 1 || parameter.of_layer == &LayerWeights::convolution_bias)) {
    draw(parameter, take);
  } else if (linear_ && (is_rate || !is_norm(parameter))) {
    take(linear_->numbers(parameter, NormalNumbers(seed_, parameter.name)));
  } else {
    take(std::vector<float>(static_cast<std::size_t>(parameter.elements()), is_norm(parameter) ? 1.0F : 0.0F));
  }
}

void InitialWeights::draw(const Parameter& parameter,
                          const std::function<bool(std::span<const float> piece)>& take) const {
  NormalNumbers numbers(seed_, parameter.name);
  const double scale = deviation(parameter);
  const double range = linear_ ? linear_->uniform_range(parameter) : 0;
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

#include "backend/model/spec/linear_mixer.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/log_sigmoid.h"
#include "backend/model/spec/interventions.h"

namespace foxscope {

LayerMixer LinearMixer::layer() const {
  Decay forgets = decays_by_channel() ? Decay::channel : decay == LinearDecay::none ? Decay::none : Decay::head;
  if (decay == LinearDecay::rates) forgets = Decay::rates;
  return {kind, forgets, heads, query_heads, key_heads, value_heads, key_dim, value_dim};
}

std::int64_t LinearMixer::carried_size() const {
  // RWKV-7 reads norm(x) of the position before in the mixer and in the MLP.
  const std::int64_t shifted = shifts_tokens() ? 2 * key_size() : 0;
  return state_size() + shifted + rows_before() * LinearColumns(*this).count;
}

std::int64_t LinearMixer::bytes_per_position() const {
  const std::int64_t channels = decays_by_channel() ? key_size() : heads;
  // Steps of a selective mixer and, where they are changed, of decays.
  const std::int64_t selected = is_selective() ? 2 * std::int64_t{heads} : 0;
  // Steps one after the other, with their decays, and what is read after each.
  const std::int64_t in_steps =
      steps == 1 ? 0 : 4 * (key_size() + value_size() + steps * (query_size() + output_size()) + 2 * heads);
  const std::int64_t erased = erases_by_arrays() ? (shifts_tokens() ? 6 : 2) * key_size() : 0;
  return 4 * (LinearColumns(*this).count + query_size() + key_size() + value_size() + 2 * output_size() + selected +
              erased) +
         8 * channels + in_steps;
}

LinearMixer::HeadDecay LinearMixer::head_decay(double logit, double rate) const {
  double step = -log_sigmoid(-logit);  // softplus
  if (beta == LinearBeta::step) step = std::clamp(step, lowest_step, highest_step);
  return {step, -step * std::exp(rate)};
}

double LinearMixer::constant_log_decay(int head, int layer, int layers) const {
  if (decay == LinearDecay::retention) return std::log1p(-std::exp2(-5.0 - head));
  constexpr double kSlope = 8;
  constexpr double kRest = 1e-5;
  const double slowed = 1 - layer / (layers - 1 + kRest) + kRest;
  return -std::exp2(-kSlope * (head + 1) / heads) * slowed;
}

double LinearMixer::recurrent_log_decay(float rate) {
  constexpr double kSharpness = 8;
  return kSharpness * log_sigmoid(-static_cast<double>(rate));
}

double LinearMixer::channel_log_decay(double logit, const ChannelDecay& of) const {
  if (decay == LinearDecay::channel_rate) {
    const double rate = std::exp(of.rate);
    return decay_bound < 0 ? decay_bound / (1 + std::exp(-rate * logit)) : rate * log_sigmoid(-logit);
  }
  if (decay == LinearDecay::bounded) return -std::exp(-0.5) / (1 + std::exp(-logit));
  double nats = log_sigmoid(logit) * decay_factor;
  if (of.bound > 0) nats = std::log(of.bound + (1 - of.bound) / (1 + std::exp(-logit)));
  return lowest_log_decay ? std::max(nats, *lowest_log_decay) : nats;
}

void LinearMixer::make_channel_decays(std::span<float> alpha, std::span<const float> bound) const {
  for (std::size_t n = 0; n < bound.size(); ++n) alpha[n] = bound[n] + (1 - bound[n]) * alpha[n];
  if (decay_factor != 1) {
    const auto factor = static_cast<float>(decay_factor);
    for (float& channel : alpha) channel = std::pow(channel, factor);
  }
  if (!lowest_log_decay) return;
  const auto lowest = static_cast<float>(std::exp(*lowest_log_decay));
  for (float& channel : alpha) channel = std::max(channel, lowest);
}

void throw_bad_decay(const DecayPlace& place, double log_decay) {
  throw Error(
      fmt::format("layer {}, head {}: the log decay at position {} is {}, and has to be a number not above 0: check "
                  "the weights and --dtype",
                  place.layer, place.head, place.position, log_decay));
}

void throw_bad_beta(const DecayPlace& place, const LinearMixer& mixer, double beta) {
  const bool step = mixer.beta == LinearBeta::step;
  throw Error(
      fmt::format("layer {}, head {}: {} at position {} is {}, and has to be a number{}: check the weights and "
                  "--dtype",
                  place.layer, place.head, step ? "dt" : "beta", place.position, beta,
                  step ? fmt::format(" from {} to {}", mixer.lowest_step, mixer.highest_step) : std::string()));
}

ChannelRates::ChannelRates(std::span<const float> logarithms, int heads) {
  const std::size_t dim = logarithms.size() / static_cast<std::size_t>(heads);
  for (const float logarithm : logarithms) share.push_back(std::exp(static_cast<double>(logarithm)));
  for (std::size_t first = 0; first < share.size(); first += dim) {
    const std::span<double> rates = std::span(share).subspan(first, dim);
    mean.push_back(std::accumulate(rates.begin(), rates.end(), 0.0) / static_cast<double>(dim));
    for (double& rate : rates) rate = mean.back() > 0 ? rate / mean.back() : 1;
  }
}

void ChannelRates::hold_all(std::int64_t length, double* log_decay) const {
  constexpr double kLeastShare = 1e-6;  // of a rate that sums in float64 can still tell
  const std::size_t dim = share.size() / mean.size();
  for (std::size_t head = 0; head < mean.size(); ++head) {
    const double slowest = std::max(std::ranges::min(std::span(share).subspan(head * dim, dim)), kLeastShare);
    for (std::int64_t n = 0; n < length; ++n) {
      double& nats = log_decay[static_cast<std::int64_t>(head) * length + n];
      if (nats <= kLowestLogGate) nats = kLowestLogGate / slowest;
    }
  }
}

LinearColumns::LinearColumns(const LinearMixer& mixer) {
  std::int64_t next = mixer.gate_columns();
  convolved = next;
  const auto take = [&next](std::int64_t size) { return std::exchange(next, next + size); };
  if (mixer.is_selective()) {
    value = take(mixer.value_size());
  } else if (mixer.kind == Mixer::mamba2) {
    value = take(mixer.value_size());
    key = take(mixer.key_size());
    query = take(mixer.query_size());
  } else {
    query = take(mixer.query_size());
    key = take(mixer.key_size());
    value = take(mixer.value_size());
  }
  precise = next;
  count = beta = decay = next;
  if (mixer.is_selective()) return;
  beta = take(mixer.beta == LinearBeta::one ? 0 : mixer.heads);
  decay = mixer.beta == LinearBeta::step ? beta : next;
  if (mixer.decays_by_low_rank()) take(mixer.decay_rank);
  if (mixer.decay == LinearDecay::rate && mixer.beta != LinearBeta::step) take(mixer.states());
  count = next;
}

}  // namespace foxscope

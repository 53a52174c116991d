#include "backend/model/linear_mixer.h"

#include <utility>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope {

LayerMixer LinearMixer::layer() const {
  const Decay forgets = decays_by_channel() ? Decay::channel : decay == LinearDecay::none ? Decay::none : Decay::head;
  return {kind, forgets, heads, query_heads, key_heads, value_heads, key_dim, value_dim};
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

LinearColumns::LinearColumns(const LinearMixer& mixer) {
  std::int64_t next = mixer.gate == LinearGate::none ? 0 : mixer.output_size();
  convolved = next;
  const auto take = [&next](std::int64_t size) { return std::exchange(next, next + size); };
  if (mixer.kind == Mixer::mamba2) {
    value = take(mixer.value_size());
    key = take(mixer.key_size());
    query = take(mixer.query_size());
  } else {
    query = take(mixer.query_size());
    key = take(mixer.key_size());
    value = take(mixer.value_size());
  }
  precise = next;
  beta = take(mixer.beta == LinearBeta::one ? 0 : mixer.heads);
  decay = mixer.beta == LinearBeta::step ? beta : next;
  if (mixer.decay == LinearDecay::low_rank) take(mixer.decay_rank);
  if (mixer.decay == LinearDecay::rate && mixer.beta != LinearBeta::step) take(mixer.heads);
  count = next;
}

}  // namespace foxscope

#include "backend/model/linear_mixer.h"

#include <utility>

namespace foxscope {

LayerMixer LinearMixer::layer() const {
  const Decay forgets = decays_by_channel() ? Decay::channel : decay == LinearDecay::none ? Decay::none : Decay::head;
  return {kind, forgets, heads, query_heads, key_heads, value_heads, key_dim, value_dim};
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

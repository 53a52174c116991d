#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <string>

#include "backend/trace/mixers/mixer_kind.h"

namespace foxscope {

/// The mixer of one layer, and the extents of its arrays. H heads have maps; head h reads query head h / (H / H_q), and
/// keys and values likewise.
struct LayerMixer {
  Mixer mixer = Mixer::attention;
  Decay decay = Decay::head;
  int heads = 0;        ///< H
  int query_heads = 0;  ///< H_q
  int key_heads = 0;    ///< H_k
  int value_heads = 0;  ///< H_v
  int head_dim = 0;     ///< d, of queries and keys
  int value_dim = 0;    ///< d_v
  /// Whether the softmax is over a logit of the head beside those of keys, its sink, so that a row's sum falls short of
  /// 1 by the sink's share.
  bool sinks = false;
  /// Whether keys reach a query through what the positions between erase (PaTH attention, Yang et al. 2025): the logit
  /// of softmax attention is M_ij / sqrt(d) of the recurrence of MixerKind with a_t = 1, e_t = w_t and b_t = -beta_t
  /// w_t.
  bool path = false;

  [[nodiscard]] constexpr const MixerKind& kind() const { return kind_of(mixer); }
  [[nodiscard]] constexpr bool has_softmax() const { return kind().softmax; }
  /// Whether a position erases part of the state, so that M, or a logit, is computed from the diagonal to the left.
  [[nodiscard]] constexpr bool erases() const { return path || kind().erases != Erasing::nothing; }
  /// Whether a trace keeps the vectors of erasing, b and e.
  [[nodiscard]] constexpr bool keeps_erasing() const { return path || kind().erases == Erasing::arrays; }
  /// Whether what is erased stands at a position's own key, and nowhere else.
  [[nodiscard]] constexpr bool erases_own_key() const { return kind().erases == Erasing::own_key; }
  /// Steps of a position, each of which is a head (MixerKind).
  [[nodiscard]] constexpr int steps() const { return kind().erases == Erasing::several ? heads / query_heads : 1; }
  /// Whether it can forget.
  [[nodiscard]] constexpr bool decays() const { return decay != Decay::none; }
  /// Whether one decay a head is all that it forgets by.
  [[nodiscard]] constexpr bool decays_by_head() const { return decay == Decay::head; }
  /// Whether the channels of a head's keys decay each in its own way.
  [[nodiscard]] constexpr bool decays_by_channel() const { return sums_channels() || has_rates(); }
  /// Whether they do so by a rate, whose log decay is the head's times it.
  [[nodiscard]] constexpr bool has_rates() const { return decay == Decay::rates; }
  /// Whether a trace keeps c, the sums of log decays of heads; of attention without a gate they are 0.
  [[nodiscard]] constexpr bool sums_heads() const { return has_softmax() || decays_by_head() || has_rates(); }
  /// Whether a trace keeps P, the sums of log decays of channels.
  [[nodiscard]] constexpr bool sums_channels() const { return decay == Decay::channel; }
  bool operator==(const LayerMixer&) const = default;
};

/// The extents of a layer by their names in a run file.
struct MixerExtent {
  const char* name;
  int LayerMixer::*member;
};
inline constexpr std::array<MixerExtent, 6> kMixerExtents = {{
    {"heads", &LayerMixer::heads},
    {"query_heads", &LayerMixer::query_heads},
    {"key_heads", &LayerMixer::key_heads},
    {"value_heads", &LayerMixer::value_heads},
    {"head_dim", &LayerMixer::head_dim},
    {"value_dim", &LayerMixer::value_dim},
}};

/// Softmax attention of such extents.
LayerMixer attention_layer(int heads, int key_heads, int head_dim);

/// Why a mixer cannot have these extents and this decay, "4 heads cannot share 3 key heads"; empty: it can.
std::string mixer_problem(const LayerMixer& mixer);

/// The name of a layer's mixer for people: "Mamba-2", "gated linear attention", "gated delta rule", "Mamba",
/// "attention".
const char* mixer_words(const LayerMixer& mixer);

/// 1/sqrt(d), what logits of softmax attention are multiplied by, rounded as a float or a double.
template <typename Number>
Number softmax_scale(std::int64_t head_dim) {
  return 1 / std::sqrt(static_cast<Number>(head_dim));
}

}  // namespace foxscope

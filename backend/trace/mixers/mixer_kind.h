#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "backend/base/index.h"

namespace foxscope {

/// The mixer of a layer's positions: softmax attention, with or without a forget gate; the selective state space of
/// Mamba-2; linear attention, with or without a decay (RetNet, GLA, HGRN2); the delta rule, with or without a decay
/// (DeltaNet, Gated DeltaNet, Kimi Delta Attention); the selective state space of the first Mamba, and RG-LRU, each
/// channel of which is a head with one value; a recurrence whose transition is any diagonal plus a matrix of rank one
/// (RWKV-7 and what is like it); the delta rule in several steps a position (DeltaProduct). Layers of some models have
/// no mixer: they are an MLP alone.
enum class Mixer {
  attention,
  mamba2,
  gated_linear_attention,
  delta_rule,
  mamba,
  diagonal_plus_low_rank,
  delta_product,
  none,
};
/// "attention", "mamba2", "gated_linear_attention", "delta_rule", "mamba", "diagonal_plus_low_rank", "delta_product",
/// "none", as run files name them.
const char* to_string(Mixer mixer);
/// The mixer of this name; none for another name.
std::optional<Mixer> parse_mixer(std::string_view name);

/// How a layer can forget: not at all, by one decay a head, as all attention with its forget gates, by one for each
/// channel of a head's keys, or by one decay a head and a rate for each channel, whose log decay is the head's times
/// its rate. Whether it does is what forgets() says (trace.h).
enum class Decay { none, head, channel, rates };
inline constexpr std::size_t kDecays = 4;
/// "none", "head", "channel", "rates", as run files name them.
const char* to_string(Decay decay);
/// The decay of this name; none for another name.
std::optional<Decay> parse_decay(std::string_view name);

/// The part of the state that a position takes away before it writes: b_t e_t^T of the recurrence (MixerKind).
enum class Erasing {
  nothing,  ///< b_t = 0
  own_key,  ///< what the state holds at the position's key: b_t = -beta_t k_t, e_t = a_t k_t
  arrays,   ///< a trace keeps b_t and e_t (TraceArray::erase_write, erase_read)
  several,  ///< what it holds at several keys, one after the other (MixerKind)
};

/// The description of a kind of mixer, wherever runs are recorded, written, read, mapped and described; no other place
/// asks which kind a layer is. Every kind but softmax attention is a case of one recurrence,
///
///     S_t = (Diag(a_t) + b_t e_t^T) S_(t-1) + k_t u_t^T,  y_t = S_t^T q_t,
///
/// u_t = beta_t v_t, so that y_i = sum over j <= i of M_ij v_j with the row of query i
///
///     r = q_i;  for j = i, ..., 0:  M_ij = beta_j r.k_j,  r <- a_j r + e_j (b_j.r).
///
/// | kind | a_t | b_t | e_t |
/// | Mamba-2 | one number a head | 0 | |
/// | linear attention, RetNet | 1, or one a head | 0 | |
/// | GLA, HGRN2, Mamba | one a channel | 0 | |
/// | delta rule (DeltaNet, Gated DeltaNet) | 1, or one a head | -beta_t k_t | a_t k_t |
/// | delta rule with a decay by channel (Kimi Delta Attention) | one a channel | -beta_t k_t | a_t k_t |
/// | diagonal plus low rank (RWKV-7, Comba) | one a channel, or one a head | an array | an array |
/// | RG-LRU | one a head, of d = 1, which is a channel | 0 | |
///
/// A mixer that is a case of a row needs no new one. Where arrays erase, beta is within k.
///
/// DeltaProduct takes n steps for each position, which have one decay, and a key, a value and a beta each:
///
///     S <- a_t S;  for m = 0, ..., n - 1:  S <- S + beta_tm k_tm (v_tm - S^T k_tm)^T;  y_t = S^T q_t.
///
/// So it has n matrices for each query head, y_i = sum over m and j of M^m_ij v_jm, each of which is a head here: heads
/// h n, ..., h n + n - 1 are the steps of query head h. With the row r of query i
///
///     for j = i, ..., 0:  for m = n - 1, ..., 0:  M^m_ij = beta_jm r.k_jm, r <- r - M^m_ij k_jm;  r <- a_j r.
///
/// A kind that is no such case is a row of kMixerKinds, its arrays rows of kTraceArrays, and its row of M stands in
/// MixingRecurrence.
struct MixerKind {
  Mixer mixer;
  const char* name;  ///< in files
  /// [Decay] what people call it with that decay; null: it cannot have it.
  std::array<const char*, kDecays> words;
  /// Entries are those of a softmax: rows have normalisers, pairs have logits, of which content and decay are parts.
  bool softmax = false;
  Erasing erases = Erasing::nothing;
  /// A trace keeps beta_t; else it is 1.
  bool writes_beta = false;
  /// Heads are the channels of the layer's input, thousands of them, with one value each.
  bool heads_are_channels = false;
  bool mixes = true;  ///< else the layer has no heads, and a trace keeps no arrays of it
};

inline constexpr std::array<MixerKind, 8> kMixerKinds = {{
    {.mixer = Mixer::attention,
     .name = "attention",
     .words = {"attention", "attention", nullptr, nullptr},
     .softmax = true},
    {.mixer = Mixer::mamba2, .name = "mamba2", .words = {nullptr, "Mamba-2", nullptr, nullptr}, .writes_beta = true},
    {.mixer = Mixer::gated_linear_attention,
     .name = "gated_linear_attention",
     .words = {"linear attention", "linear attention with decay", "gated linear attention", nullptr}},
    {.mixer = Mixer::delta_rule,
     .name = "delta_rule",
     .words = {"delta rule", "gated delta rule", "delta rule gated by channel", nullptr},
     .erases = Erasing::own_key,
     .writes_beta = true},
    {.mixer = Mixer::mamba,
     .name = "mamba",
     .words = {nullptr, "RG-LRU", nullptr, "Mamba"},
     .writes_beta = true,
     .heads_are_channels = true},
    {.mixer = Mixer::diagonal_plus_low_rank,
     .name = "diagonal_plus_low_rank",
     .words = {nullptr, "decay plus low rank", "diagonal plus low rank", nullptr},
     .erases = Erasing::arrays},
    {.mixer = Mixer::delta_product,
     .name = "delta_product",
     .words = {"delta product", "gated delta product", nullptr, nullptr},
     .erases = Erasing::several,
     .writes_beta = true},
    {.mixer = Mixer::none, .name = "none", .words = {"MLP", nullptr, nullptr, nullptr}, .mixes = false},
}};

constexpr const MixerKind& kind_of(Mixer mixer) { return kMixerKinds[index_of(mixer)]; }
static_assert(std::ranges::all_of(kMixerKinds, [](const MixerKind& kind) { return &kind_of(kind.mixer) == &kind; }));

}  // namespace foxscope

#pragma once

#include <algorithm>

#include "backend/trace/trace.h"

namespace foxscope {

/// The most heads that a view of all heads shows of a layer whose channels are its heads (Mamba has thousands): every
/// n-th from head 0 on. Every head can be chosen all the same.
inline constexpr int kMostShownChannels = 64;

/// How far apart the heads of a layer are that such a view shows; 1: it shows all.
constexpr int shown_step(const LayerMixer& mixer) {
  return mixer.kind().heads_are_channels ? (mixer.heads + kMostShownChannels - 1) / kMostShownChannels : 1;
}

/// How many heads of a layer such a view shows.
constexpr int shown_heads(const LayerMixer& mixer) {
  const int step = shown_step(mixer);
  return (mixer.heads + step - 1) / step;
}

/// The same of the layer that has most.
inline int most_shown_heads(const TraceInfo& info) {
  int most = 0;
  for (int layer = 0; layer < info.layers; ++layer) most = std::max(most, shown_heads(info.mixer(layer)));
  return most;
}

}  // namespace foxscope

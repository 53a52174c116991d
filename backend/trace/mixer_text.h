#pragma once

#include <string>

#include <fmt/format.h>

#include "backend/trace/trace.h"

namespace foxscope {

/// What mixes the positions of a layer, for people: "Mamba-2", "gated linear attention", "gated delta rule", "Mamba",
/// "attention".
inline const char* mixer_words(const LayerMixer& mixer) {
  switch (mixer.mixer) {
    case Mixer::attention:
      break;
    case Mixer::mamba2:
      return "Mamba-2";
    case Mixer::gated_linear_attention:
      return "gated linear attention";
    case Mixer::delta_rule:
      return mixer.decay == Decay::none ? "delta rule" : "gated delta rule";
    case Mixer::mamba:
      return "Mamba";
  }
  return "attention";
}

/// The same of one layer of a run, and which attention it is: "softmax attention", "attention, window of 128".
inline std::string mixer_text(const TraceInfo& info, int layer) {
  const LayerMixer mixer = info.mixer(layer);
  if (mixer.mixer != Mixer::attention) return mixer_words(mixer);
  if (info.window_size > 0) return fmt::format("attention, window of {}", info.window_size);
  return forgets(info, layer) ? "forgetting attention" : "softmax attention";
}

}  // namespace foxscope

#pragma once

#include <string>

#include <fmt/format.h>

#include "backend/trace/run_origin.h"

namespace foxscope {

/// Whether any layer has a window.
inline bool has_windows(const TraceInfo& info) { return info.window_size > 0 || has_windows_by_layer(info); }

/// The mixer of one layer of a run, for people (mixer_words), and which attention it is: "softmax attention",
/// "attention, window of 128", "forgetting attention, window of 128". "not recorded" of a layer that is_unrecorded.
inline std::string mixer_text(const TraceInfo& info, int layer) {
  const LayerMixer mixer = info.mixer(layer);
  if (is_unrecorded(info, layer)) return "not recorded";
  if (!mixer.has_softmax()) return mixer_words(mixer);
  if (mixer.path) return forgets(info, layer) ? "PaTH attention with a forget gate" : mixer_words(mixer);
  if (const std::int64_t window = window_of(info, layer); window > 0) {
    return fmt::format("{}attention, window of {}", forgets(info, layer) ? "forgetting " : "", window);
  }
  return forgets(info, layer) ? "forgetting attention" : "softmax attention";
}

}  // namespace foxscope

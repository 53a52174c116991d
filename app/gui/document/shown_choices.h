#pragma once

#include "app/gui/document/runs/run_list.h"
#include "backend/trace/shown_heads.h"

namespace foxscope::gui {

/// Calls body(HeadChoice) for every head of a run that views of all heads show, by layer, then head.
template <typename Body>
void forShownHeads(const Run& run, const Body& body) {
  const TraceInfo& info = run.trace->info();
  for (int layer = 0; layer < info.layers; ++layer) {
    const LayerMixer mixer = info.mixer(layer);
    for (int head = 0; head < mixer.heads; head += shown_step(mixer)) body(HeadChoice{run.id, layer, head});
  }
}

}  // namespace foxscope::gui

#pragma once

#include "backend/trace/trace.h"

namespace foxscope {

/// Whether a run was recorded from Python, which says so where other runs name their kernel. Its layers without a mixer
/// were not recorded; of other runs they are an MLP or experts.
inline bool is_recorded(const TraceInfo& info) { return info.attention_kernel.starts_with("recorded"); }

/// Whether a layer has no heads because its calls were not recorded.
inline bool is_unrecorded(const TraceInfo& info, int layer) {
  return is_recorded(info) && !info.mixer(layer).kind().mixes;
}

}  // namespace foxscope

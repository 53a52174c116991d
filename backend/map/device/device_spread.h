#pragma once

#include "backend/map/head_entries.h"
#include "backend/map/statistics/head_statistics.h"
#include "kernels/status.h"

namespace foxscope {

/// attention_spread on a GPU. @returns ok, or unsupported for what is left to the CPU
/// @throws Error as device_map
kernels::Status device_attention_spread(const HeadEntries& entries, int gpu, AttentionSpread& spread);

}  // namespace foxscope

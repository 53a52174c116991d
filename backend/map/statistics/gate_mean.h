#pragma once

#include "backend/trace/trace.h"

namespace foxscope {

/// mean_log_gate (decay_time.h) of c of a head, nats per token. Of a run on another machine those of all heads come
/// together, and c itself stays there.
/// @throws Error as Trace::cumulative_log_gate
double mean_log_gate(const Trace& trace, int layer, int head);

}  // namespace foxscope

#pragma once

#include <span>
#include <vector>

#include "backend/map/map.h"

namespace foxscope {

/// Log-normaliser of softmax(S) without the gate of some rows, nats.
/// @returns [L], NaN for rows that were not asked for; empty if the job was stopped
std::vector<float> compute_log_normalizer_without_gate(const HeadOf& head, const Range& rows, const Job& job);

/// Log-normalisers of attention without key 0 and without sinks, lse_i + log(1 - A_i0), of some rows, nats: one more
/// pass over the rows that park more than 15/16 there. Row 0, which has nothing else, keeps its own; another such row
/// gets NaN.
/// @param without_gate  of attention without the gate: its log-normalisers; empty: of attention
/// @returns [L], NaN for rows that were not asked for; empty if the job was stopped
std::vector<float> compute_log_normalizer_beside_first(const HeadOf& head, std::span<const float> without_gate,
                                                       const Range& rows, const Job& job);

}  // namespace foxscope

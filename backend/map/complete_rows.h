#pragma once

#include <memory>

#include "backend/base/job.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// Whether a layer of softmax attention lacks row normalisers that can be computed from what its trace kept: queries
/// and keys; c, unless nothing there forgets; logits of sinks and the vectors of PaTH attention where it has them.
bool can_complete_rows(const Trace& trace, int layer);

/// The same run with the row normalisers that it lacks and that can be computed (can_complete_rows), by the kernels of
/// the CPU's forward pass,
///
///     lse_i = log sum_j exp(s q_i.k_j + c_i - c_j), and exp(sink) where the head has one (Lin et al. 2025, eq. 6).
///
/// Rows are computed with the share that the run says may be skipped (TraceInfo::pruning_tolerance). Memory is O(L) of
/// one head beside the normalisers.
/// @returns the trace itself where nothing is to be computed; null if the job was stopped
/// @throws Error where the arrays cannot be read
std::shared_ptr<const Trace> complete_rows(std::shared_ptr<const Trace> trace, const Job& job);

}  // namespace foxscope

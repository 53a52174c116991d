#pragma once

#include <cstdint>

#include "backend/model/spec/model_config.h"
#include "backend/trace/trace_arrays.h"

namespace foxscope {

struct TraceInfo;

/// Sizes of the arrays of a run.
/// @param length  tokens
TraceSizes sizes_of(const ModelConfig& config, std::int64_t length);

/// The scale of logits, their cap and the windows, as traces have them.
void describe_attention(const ModelConfig& config, TraceInfo& info);

}  // namespace foxscope

#pragma once

#include <cstdint>

#include "backend/model/spec/model_config.h"
#include "backend/trace/trace_arrays.h"

namespace foxscope {

/// Sizes of the arrays of a run.
/// @param length  tokens
TraceSizes sizes_of(const ModelConfig& config, std::int64_t length);

}  // namespace foxscope

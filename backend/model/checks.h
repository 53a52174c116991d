#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "backend/model/causal_lm.h"
#include "backend/model/model_config.h"

namespace foxscope {

/// @param where  what holds the ids, for the message: "the prompt"
/// @throws Error for an id outside the vocabulary, as throw_outside_vocabulary words it
void check_ids(std::span<const std::int32_t> ids, std::int64_t vocabulary_size, std::string_view where);

/// A share of a row's attention that may be skipped.
/// @throws UsageError outside [0, 1)
void check_pruning(double tolerance);

/// @throws UsageError for matrices in bfloat16 on a CPU
void check_dtype(DType dtype, const Device& device);

/// Whether so many tokens fit a model that has a table of positions.
/// @throws UsageError
void check_length(std::int64_t length, const ModelConfig& config);

}  // namespace foxscope

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "backend/model/model_config.h"

namespace foxscope {

/// @param where  what holds the ids, for the message: "the prompt"
/// @throws Error for an id outside the vocabulary, as throw_outside_vocabulary words it
void validate_ids(std::span<const std::int32_t> ids, std::int64_t vocabulary_size, std::string_view where);

/// A share of a row's attention that may be skipped.
/// @throws UsageError outside [0, 1)
void validate_pruning(double tolerance);

/// Whether so many tokens fit a model that has a table of positions.
/// @throws UsageError
void validate_length(std::int64_t length, const ModelConfig& config);

}  // namespace foxscope

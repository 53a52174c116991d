#pragma once

#include <cstdint>
#include <optional>

#include "backend/file/hdf5/hdf5_object.h"
#include "backend/trace/trace.h"

namespace foxscope {

/// The most that a run file may say of itself.
inline constexpr std::int64_t kMostLayers = 10'000;
inline constexpr std::int64_t kMostHeads = 65'536;
inline constexpr std::int64_t kMostWindow = std::int64_t{1} << 40U;

/// Sizes of a model that another program wrote without our attributes: they come from its first layer.
/// @param layers  the group of that name, if there is one
void fill_sizes(const Hdf5Object& model, const std::optional<Hdf5Object>& layers, TraceInfo& info);

/// 1/sqrt(d) of softmax attention; 0 where d is not known, which only a file without queries and keys does not tell.
double usual_scale(const TraceInfo& info);

}  // namespace foxscope

#pragma once

#include <cstdint>
#include <map>
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

/// How many arrays of softmax attention have an extent.
struct ExtentCounts {
  std::map<int, int> heads;
  std::map<int, int> key_heads;
  std::map<int, int> head_dim;
};

/// Counts the extents of the arrays of all layers; one that cannot be read is left out.
/// @param layers  the group of that name
/// @param info    the number of layers is set
ExtentCounts count_extents(const Hdf5Object& layers, const TraceInfo& info);

/// How many tokens there are by the first of their columns that is a list of numbers, right or not; 0 if none is.
/// @param tokens  the group of that name
std::int64_t count_tokens(const Hdf5Object& tokens);

/// 1/sqrt(d) of softmax attention; 0 where d is not known, which only a file without queries and keys does not tell.
double usual_scale(const TraceInfo& info);

}  // namespace foxscope

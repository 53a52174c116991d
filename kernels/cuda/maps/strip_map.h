#pragma once

#include <cstddef>

#include "kernels/cuda/maps/mixing_map.h"
#include "kernels/cuda/maps/pooled_map.h"
#include "kernels/cuda/stream.h"
#include "kernels/status.h"

namespace foxscope::kernels::cuda {

/// Maps that linear mixers have no kernel for which makes them on the way: differences, by distance, without key 0, and
/// all of heads wider than 128. What is subtracted, or what something is subtracted from, may be a head of softmax.
struct StripMap {
  /// Rectangle, bins and pixels; of heads of linear mixers the length alone. `minus` says whether something is
  /// subtracted. Heads of softmax have normalisers without key 0 where first_key is 1. `workspace` has
  /// strip_map_workspace_bytes.
  PooledMap map;
  PreparedMixer mixer;  ///< in place of map.head, where it has tables
  PreparedMixer minus;  ///< in place of *map.minus, likewise
  /// Of linear mixers; shares are those of the rows' sums from first_key on.
  MixingValue value = MixingValue::mixing;
};

/// At most some 512 MiB for a linear mixer and twice that for a head of softmax, or 256 rows of each.
std::size_t strip_map_workspace_bytes(const StripMap& map);

/// Asynchronous on the stream. Strips of whole rows are written to memory and reduced into pixels; means are summed in
/// fixed point. @returns as mixing_map and pooled_map
Status strip_map(const StripMap& map, Stream stream);

}  // namespace foxscope::kernels::cuda

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "backend/map/map.h"

namespace foxscope {

/// How a map is cut, and how far the maps before it have come.
struct StripeOptions {
  std::int64_t stripe_bytes = 16 << 20;
  std::int64_t first_done = 0;  ///< pixel rows of maps before this one
  std::int64_t total = 0;       ///< pixel rows of all maps; 0: of this one
};

/// Calls `use` with a map's pixels from top to bottom, by distance from the nearest bin of distances to the farthest
/// with queries across (transposed), in stripes of at most about `stripe_bytes`: a whole map is never in memory. The
/// pixels equal those of one compute_map call.
/// @param job   told of pixel rows; first_done and total let several maps share one progress
/// @returns false if the job was stopped
/// @throws what compute_map throws
bool for_each_stripe(const MapRequest& request, const StripeOptions& options, const Job& job,
                     const std::function<void(const Image& stripe)>& use);

/// Rows and columns of a map's file.
struct FileShape {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};
FileShape file_shape(const MapRequest& request);

/// Part of a request: pixel rows [begin, end), if its bins are the same as in the whole (bins of unequal size fall
/// differently when counted from elsewhere). Exact entries can be cut anywhere.
bool can_cut(const MapRequest& request, std::int64_t begin, std::int64_t end);

/// Middles of the bins of a range, as token positions.
std::vector<double> bin_centres(const Range& range, std::int64_t bins);

}  // namespace foxscope

#pragma once

#include <span>

#include "backend/map/map.h"
#include "backend/map/statistics/distance_bins.h"
#include "kernels/status.h"

namespace foxscope {

/// Sums of q_i.k_j over the pairs of each bin of distances, key 0 left out, on a GPU.
/// @param bins  adjoining, as distance_bins makes them
/// @param sums  [bins]
/// @returns ok, or unsupported for what is left to the CPU
/// @throws Error as device_map
kernels::Status device_product_sums(const HeadOf& head, std::span<const DistanceBin> bins, int gpu,
                                    std::span<double> sums);

}  // namespace foxscope

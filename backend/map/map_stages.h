#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "backend/map/map.h"

namespace foxscope {

/// The part of a map that is computed so far.
struct MapStage {
  const Image& image;                  ///< only lines that are done may be read
  std::span<const std::uint8_t> done;  ///< [image.rows] 1: the line is as it will be
};

/// How a caller sees a map while it is computed.
struct MapStages {
  std::function<void(const MapStage&)> show;  ///< called on the calling thread, between two tasks
  std::chrono::milliseconds interval{150};    ///< from one stage to the next, at least
};

/// compute_map, with lines of pixels done from coarse to fine: spread over the picture at first, ever closer later.
/// Stages are shown where the map takes a pass over its entries on the CPU; the last image equals compute_map's.
/// @returns nothing if the job was stopped. @throws as compute_map, and what `show` throws
std::optional<Image> compute_map_in_stages(const MapRequest& request, const Job& job, const MapStages& stages);

}  // namespace foxscope

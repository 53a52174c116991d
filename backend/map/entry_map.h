#pragma once

#include <optional>

#include "backend/map/map_stages.h"

namespace foxscope {

/// A map by one pass over its entries, tile by tile: what has no closed form. The request is valid.
/// @param stages  null: nobody follows
/// @returns nothing if the job was stopped
std::optional<Image> entry_map(const MapRequest& request, const Job& job, const MapStages* stages);

}  // namespace foxscope

#pragma once

#include <optional>

#include "backend/map/map.h"

namespace foxscope {

/// F or log F of one head (or, as a mean, of a difference of two) in O(rows + columns + pixels), by the closed form of
/// docs/maps.md: c never increases, so extremes are at corners and the mean separates. By distance it takes O(rows) a
/// bin of distances. The request is valid.
/// @returns nothing if the job was stopped
std::optional<Image> forget_map(const MapRequest& request, const Job& job);

/// True where the closed form covers the request.
bool has_closed_form(const MapRequest& request);

}  // namespace foxscope

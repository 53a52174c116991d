#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "app/figure/page/number_table.h"
#include "backend/map/map.h"

namespace foxscope::figure {

/// The positions of a pixel of `pixels` over a range: "12", or from A up to, not including, B as "12:16".
std::string positionsText(const Range& range, std::int64_t pixels, std::int64_t pixel);

/// Adds every pixel of a map that exists.
/// @param series       what the map is of, where a panel has several
/// @param row, column  the words of an axis at a pixel of it
void addPixels(NumberTable& numbers, const std::string& series, const Image& image,
               const std::function<std::string(std::int64_t)>& row,
               const std::function<std::string(std::int64_t)>& column);

}  // namespace foxscope::figure

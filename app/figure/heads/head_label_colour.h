#pragma once

#include "app/figure/colour_map.h"
#include "backend/map/statistics/head_labels.h"

namespace foxscope::figure {

/// Ground of a cell whose head has this label; a letter is written on it, which tells labels apart in grey print.
Rgb labelColour(HeadLabel label);

/// Whether a letter on that ground is white or black.
enum class Letter { white, black };
Letter letterOn(const Rgb& ground);

}  // namespace foxscope::figure

#pragma once

#include <cstdint>
#include <vector>

#include "backend/map/map.h"

namespace foxscope {

/// Steps of a colour scale that no eye tells from a smooth one.
inline constexpr int kColourSteps = 240;

/// A map whose pixels have few values, as colours need: value = levels[index].
struct ShadedImage {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::vector<float> levels;        ///< ascending, at most 256; the last is NaN where some pixels are
  std::vector<std::uint8_t> index;  ///< [rows, columns]
  int steps = kColourSteps;
  bool differences = false;  ///< index is what is added, modulo 256, to that of the pixel above; 0 above the first row
};

/// Rounds a map to the colours of MapRequest::shades: to even steps of the scale from its first colour to its last, and
/// wider ones beyond. The limits are those that were chosen, or those that a picture of the values takes by itself
/// (app/figure, colour_scale.h). Order stays. The extremes stay exactly as they are, and so do the quantiles that
/// limits are made of and on which side of the threshold a value lies: so limits, colours' note and blank pixels are
/// those of the exact map, and no pixel's colour differs by more than one step.
/// @param steps  1 to kColourSteps
ShadedImage shaded(const Image& image, const MapRequest& request, int steps = kColourSteps);

/// The same image, with differences in its index.
ShadedImage with_differences(ShadedImage shaded);

/// The map of a shaded one. @throws Error where an index has no level, or there are more or fewer than pixels
Image image_of(const ShadedImage& shaded);

}  // namespace foxscope

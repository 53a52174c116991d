#pragma once

#include <array>
#include <cstddef>
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
  std::vector<std::uint8_t> index;  ///< [rows / side, columns / side], rounded up; packed: fewer bytes
  int steps = kColourSteps;
  bool differences = false;  ///< index is what is added, modulo 256, to that of the pixel above; 0 above the first row
  bool packed = false;       ///< a byte holds several indices (indices_of_byte), the first as its lowest digit
  int side = 1;              ///< so many pixels in so many rows, a square, have one index
};

/// Rounds a map to the colours of MapRequest::shades: to even steps of the scale from its first colour to its last, and
/// wider ones beyond. The limits are those that were chosen, or those that a picture of the values takes by itself
/// (app/figure, colour_scale.h). Order stays. The extremes stay exactly as they are, and so do the quantiles that
/// limits are made of and on which side of the threshold a value lies: so limits, colours' note and blank pixels are
/// those of the exact map, and no pixel's colour differs by more than one step.
class Shading {
 public:
  Shading(const Image& image, const MapRequest& request);

  /// @param joined  of kColourSteps so many become one, at least 1. Where it is more, all values beyond the limits,
  ///                which have one colour, become one level, and a level is where most of its pixels are
  /// @param side    of squares that get the value of one of their pixels, at least 1. Where it is more, the extremes
  /// are
  ///                still there, and other quantiles nearly
  [[nodiscard]] ShadedImage image(int joined = 1, int side = 1) const;
  /// Bits of a pixel in the shortest code that knows no more than how often each level is there.
  [[nodiscard]] double bits(int joined) const;

 private:
  /// Values from one edge of a step up to the next.
  struct Level {
    float value = 0;
    std::int64_t pixels = 0;
    int begins = 0;  ///< stays apart from the level before: always (0), never (-1), or where `joined` divides this
  };
  /// The first of the levels that each level becomes one with.
  [[nodiscard]] std::vector<std::size_t> groups(int joined) const;
  [[nodiscard]] std::uint16_t pick(std::int64_t row, std::int64_t column, int side) const;

  std::int64_t rows_;
  std::int64_t columns_;
  std::vector<Level> levels_;
  std::array<std::uint16_t, 3> kept_ = {};  ///< the levels of the extremes and of the quantile that limits are made of
  std::vector<std::uint16_t> level_of_;     ///< [rows, columns]
};

/// The same image, with differences in its index.
ShadedImage with_differences(ShadedImage shaded);

/// How many indices of so many levels fit into a byte, as digits of a number.
int indices_of_byte(std::size_t levels);
/// The same image, packed, which had no differences.
ShadedImage packed(ShadedImage shaded);

/// The map of a shaded one. @throws Error where an index has no level, or there are more or fewer than pixels
Image image_of(const ShadedImage& shaded);

}  // namespace foxscope

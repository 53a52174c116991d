#include "app/figure/maps/map_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

#include "app/figure/figure_measures.h"
#include "backend/base/error.h"

namespace foxscope::figure {
namespace {

constexpr double kMostOblong = 2.5;   ///< a flatter region is drawn higher than it is
constexpr double kLeastRasterMm = 8;  ///< below, axes are all that would be seen
constexpr double kFilled = 0.85;      ///< share of the room that whole multiples have to fill
constexpr int kTopLines = 3;          ///< of title and notes, where they are not known yet
constexpr int kBottomLines = 2;
constexpr double kNoEnd = std::numeric_limits<double>::max();

double pointsOf(double millimetres) { return millimetres / kMillimetresPerInch * kPointsPerInch; }

}  // namespace

int digitsOf(const Range& range) { return static_cast<int>(std::to_string(range.end - 1).size()); }

const Range& upRange(const MapRequest& request) { return request.by_distance() ? request.columns : request.rows; }

const Range& acrossRange(const MapRequest& request) { return request.by_distance() ? request.rows : request.columns; }

DistanceAxis distanceAxisOf(const MapRequest& request) { return {request.columns, request.pixel_columns}; }

Ticks distanceTicks(const Range& distances, int most) {
  if (distances.size() == 1) return ticksAt({static_cast<double>(distances.begin)}, 0, kNoEnd);
  return logarithmicTicks(static_cast<double>(distances.begin), static_cast<double>(distances.end - 1), most);
}

RasterRoom rasterRoom(const MapRequest& request, const FigureFormat& format, const Margins& margins) {
  const double shape = static_cast<double>(request.rows.size()) / static_cast<double>(request.columns.size());
  const double aspect = request.by_distance() ? kDistanceProportion : std::clamp(shape, 1 / kMostOblong, kMostOblong);
  const double across = widthInPoints(format) - margins.left - margins.right;
  const double down = format.heightMm ? pointsOf(*format.heightMm) - margins.top - margins.bottom : across;
  const double least = pointsOf(kLeastRasterMm);
  if (across < least) {
    throw UsageError(
        fmt::format("figure width {:g} mm: labels of {:g} pt leave no room for a map: use at least {:.0f} mm "
                    "or a smaller font",
                    format.widthMm, fontSize(format),
                    std::ceil(format.widthMm + (least - across) / kPointsPerInch * kMillimetresPerInch)));
  }
  if (down < least) {
    throw UsageError(
        fmt::format("figure height {:g} mm: texts of {:g} pt leave no room for a map: use at least {:.0f} mm "
                    "or a smaller font",
                    format.heightMm.value_or(0), fontSize(format),
                    std::ceil(format.heightMm.value_or(0) + (least - down) / kPointsPerInch * kMillimetresPerInch)));
  }
  const double width = std::min(across, down / aspect);
  return {width, width * aspect};
}

SideDots sideDots(int room, int mapPixels, FigureFormat::Kind kind) {
  const int times = room / mapPixels;
  if (times >= 1 && times * mapPixels >= kFilled * room) return {times * mapPixels, times * mapPixels};
  if (kind != FigureFormat::Kind::png) return {room, std::max(1, (room + mapPixels - 1) / mapPixels) * mapPixels};
  if (times < 1) {
    throw UsageError(
        fmt::format("figure: {} pixels of the map on {} dots of a PNG: use a smaller map, a larger width, "
                    "more dpi, or PDF or SVG",
                    mapPixels, room));
  }
  return {room, room};
}

double barLabelRoom(const MapRequest& request) {
  const bool positive = request.quantity == Quantity::forget || request.quantity == Quantity::attention ||
                        request.quantity == Quantity::attention_without_gate;
  return positive && !request.minus ? em::kBarLabels : em::kSignedBarLabels;
}

PixelRoom mapRoom(const MapRequest& request, const FigureFormat& format) {
  requireValid(format);
  const double font = fontSize(format);
  Margins margins;
  margins.left = (em::kBorder + em::axisDepth(digitsOf(upRange(request)) * em::kDigit)) * font;
  margins.right = (em::kBarGap + em::kBarWidth + em::axisDepth(barLabelRoom(request)) + em::kBorder) * font;
  margins.top = (em::kBorder + kTopLines * em::kLine + 1) * font;
  margins.bottom = (em::axisDepth(em::kDigitHeight) + kBottomLines * em::kLine + em::kBorder) * font;
  const RasterRoom room = rasterRoom(request, format, margins);
  const auto dots = [&](double points) { return static_cast<std::int64_t>(points * dotsPerPoint(format)); };
  return {dots(room.height), dots(room.width)};
}

}  // namespace foxscope::figure

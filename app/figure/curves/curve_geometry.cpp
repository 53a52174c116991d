#include "app/figure/curves/curve_geometry.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

namespace foxscope::figure {
namespace {

/// Keeps of every column of the page what can be seen of it.
class Thinner {
 public:
  explicit Thinner(double columnWidth) : m_width(columnWidth) {}

  void add(const CurvePoint& point) {
    const double column = std::floor(point.x / m_width);
    if (m_count > 0 && column != m_column) flush();
    if (m_count == 0) m_first = m_low = m_high = point;
    m_column = column;
    if (point.y < m_low.y) m_low = point;
    if (point.y > m_high.y) m_high = point;
    m_last = point;
    ++m_count;
  }

  Stroke finish() {
    flush();
    return std::exchange(m_stroke, {});
  }

 private:
  void flush() {
    if (m_count == 0) return;
    // The order of the extremes within a column cannot be seen; that of x keeps the line from turning back.
    CurvePoint extremes[] = {m_low, m_high};
    if (extremes[0].x > extremes[1].x) std::swap(extremes[0], extremes[1]);
    for (const CurvePoint& point : {m_first, extremes[0], extremes[1], m_last}) {
      if (m_stroke.empty() || !(m_stroke.back() == point)) m_stroke.push_back(point);
    }
    m_count = 0;
  }

  double m_width;
  double m_column = 0;
  int m_count = 0;
  CurvePoint m_first, m_low, m_high, m_last;
  Stroke m_stroke;
};

struct Segment {
  CurvePoint from;
  CurvePoint to;
};

// The part of a segment inside the area (Liang and Barsky 1984).
std::optional<Segment> clipped(const Segment& segment, const PlotArea& area) {
  const double dx = segment.to.x - segment.from.x;
  const double dy = segment.to.y - segment.from.y;
  double begin = 0;
  double end = 1;
  const std::pair<double, double> edges[] = {{-dx, segment.from.x - area.left},
                                             {dx, area.right - segment.from.x},
                                             {-dy, segment.from.y - area.top},
                                             {dy, area.bottom - segment.from.y}};
  for (const auto& [towards, room] : edges) {
    if (towards == 0) {
      if (room < 0) return std::nullopt;
    } else if (towards < 0) {
      begin = std::max(begin, room / towards);
    } else {
      end = std::min(end, room / towards);
    }
  }
  if (begin > end) return std::nullopt;
  const auto at = [&](double part) { return CurvePoint{segment.from.x + part * dx, segment.from.y + part * dy}; };
  return Segment{begin == 0 ? segment.from : at(begin), end == 1 ? segment.to : at(end)};
}

bool inside(const CurvePoint& point, const PlotArea& area) {
  return point.x >= area.left && point.x <= area.right && point.y >= area.top && point.y <= area.bottom;
}

void addClipped(const Stroke& stroke, const PlotArea& area, std::vector<Stroke>& strokes) {
  if (stroke.size() == 1 && inside(stroke[0], area)) strokes.push_back(stroke);
  Stroke current;
  const auto end = [&] {
    if (!current.empty()) strokes.push_back(std::exchange(current, {}));
  };
  for (std::size_t index = 1; index < stroke.size(); ++index) {
    const auto part = clipped({stroke[index - 1], stroke[index]}, area);
    if (!part) {
      end();
      continue;
    }
    if (current.empty() || !(current.back() == part->from)) {
      end();
      current.push_back(part->from);
    }
    current.push_back(part->to);
  }
  end();
}

}  // namespace

std::size_t segmentsInside(const Stroke& stroke, const PlotArea& area) {
  if (stroke.size() == 1) return inside(stroke[0], area) ? 1 : 0;
  std::size_t count = 0;
  for (std::size_t index = 1; index < stroke.size(); ++index) {
    count += clipped({stroke[index - 1], stroke[index]}, area) ? 1 : 0;
  }
  return count;
}

double axisPosition(double value, const AxisLimits& limits, AxisScale scale) {
  if (scale == AxisScale::linear) return (value - limits.lower) / (limits.upper - limits.lower);
  if (value <= 0) return std::numeric_limits<double>::quiet_NaN();
  return std::log(value / limits.lower) / std::log(limits.upper / limits.lower);
}

CurvePoint PlotArea::at(double xValue, double yValue) const {
  return {left + axisPosition(xValue, x, xScale) * (right - left),
          bottom - axisPosition(yValue, y, yScale) * (bottom - top)};
}

std::vector<Stroke> strokesOf(std::span<const double> x, std::span<const double> y, const PlotArea& area,
                              double columnWidth) {
  std::vector<Stroke> strokes;
  Thinner thinner(columnWidth);
  for (std::size_t index = 0; index < x.size(); ++index) {
    const CurvePoint point = area.at(x[index], y[index]);
    if (std::isfinite(point.x) && std::isfinite(point.y)) {
      thinner.add(point);
    } else {
      addClipped(thinner.finish(), area, strokes);
    }
  }
  addClipped(thinner.finish(), area, strokes);
  return strokes;
}

std::vector<Band> bandsOf(std::span<const double> x, std::span<const double> lower, std::span<const double> upper,
                          const PlotArea& area, double columnWidth) {
  std::vector<Band> bands(1);
  double column = 0;
  for (std::size_t index = 0; index < x.size(); ++index) {
    CurvePoint high = area.at(x[index], upper[index]);
    CurvePoint low = area.at(x[index], lower[index]);
    Band& band = bands.back();
    if (!std::isfinite(high.x) || !std::isfinite(high.y) || !std::isfinite(low.y) || high.x < area.left ||
        high.x > area.right) {
      if (!band.upper.empty()) bands.emplace_back();
      continue;
    }
    high.y = std::clamp(high.y, area.top, area.bottom);
    low.y = std::clamp(low.y, area.top, area.bottom);
    const double here = std::floor(high.x / columnWidth);
    if (!band.upper.empty() && here == column && index + 1 < x.size()) {
      band.upper.back().y = std::min(band.upper.back().y, high.y);
      band.lower.back().y = std::max(band.lower.back().y, low.y);
      continue;
    }
    column = here;
    band.upper.push_back(high);
    band.lower.push_back(low);
  }
  std::erase_if(bands, [](const Band& band) { return band.upper.size() < 2; });
  return bands;
}

}  // namespace foxscope::figure

#include "app/figure/heads/violin_panel.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "app/figure/page/axis_drawing.h"

namespace foxscope::figure {
namespace {

constexpr int kMostLayersAcross = 24;
constexpr int kMostGateTicks = 9;
constexpr double kQuartiles = 0.1;  ///< width of the bar between the quartiles, font sizes
constexpr double kMedian = 0.16;    ///< radius of the median's disc
const QColor kLevel(232, 232, 232);
const QColor kViolin(0x8e, 0x9a, 0xd6);

}  // namespace

ViolinPanel::ViolinPanel(const FigureFormat& format, Content content)
    : m_content(std::move(content)), m_style(textStyleOf(format)) {}

Ticks ViolinPanel::ticksUp(double height) const {
  const AxisLimits limits = limitsUp();
  const int most = std::clamp(static_cast<int>(height / (2.2 * m_style.size)), 2, kMostGateTicks);
  return m_content.scale == AxisScale::logarithmic ? logarithmicTicks(limits.lower, limits.upper, most)
                                                   : linearTicks(limits.lower, limits.upper, most, TickValues::any);
}

Ticks ViolinPanel::ticksAcross(double width) const {
  const AxisLimits limits = limitsAcross();
  const auto position = [&](double value) { return axisPosition(value, limits, AxisScale::linear); };
  for (int step = 1;; ++step) {
    if (m_content.layers > step * kMostLayersAcross) continue;
    Ticks ticks;
    for (int layer = 0; layer < m_content.layers; layer += step) {
      ticks.major.push_back({static_cast<double>(layer), std::to_string(layer)});
    }
    if (ticks.major.size() < 3 || labelsApart(ticks, position, width, m_style)) return ticks;
  }
}

Margins ViolinPanel::margins(const QSizeF& inner) const {
  const double font = m_style.size;
  const Ticks up = ticksUp(inner.height());
  Margins margins;
  margins.left = widestLabel(up, m_style) + (em::kTick + em::kPad) * font +
                 axisNameDepth(axisName(ownUpName(), up, inner.height(), m_style), m_style);
  margins.top = 0.4 * font;
  margins.bottom = (em::kDigitHeight + em::kTick + em::kPad) * font +
                   axisNameDepth(axisName(ownAcrossName(), {}, inner.width(), m_style), m_style);
  return margins;
}

void ViolinPanel::drawViolin(Canvas& canvas, const Violin& violin, const PlotArea& area) const {
  const double most = *std::ranges::max_element(violin.counts);
  if (!(most > 0)) return;
  QPolygonF left;
  QPolygonF right;
  for (std::size_t bin = 0; bin < violin.counts.size(); ++bin) {
    const double half = m_content.halfWidth * violin.counts[bin] / most;
    for (const double edge : {m_content.edges[bin], m_content.edges[bin + 1]}) {
      const CurvePoint at = area.at(violin.place - half, edge);
      const CurvePoint opposite = area.at(violin.place + half, edge);
      left.append({at.x, at.y});
      right.append({opposite.x, opposite.y});
    }
  }
  std::reverse(right.begin(), right.end());
  canvas.polygon(left + right, kViolin);
  const auto at = [&](double value) {
    const CurvePoint place = area.at(violin.place, std::clamp(value, area.y.lower, area.y.upper));
    return QPointF(place.x, place.y);
  };
  canvas.line(at(violin.lower), at(violin.upper),
              QPen(Qt::black, kQuartiles * m_style.size, Qt::SolidLine, Qt::FlatCap));
  canvas.disc(at(violin.median), kMedian * m_style.size, Qt::black);
  canvas.disc(at(violin.median), 0.6 * kMedian * m_style.size, Qt::white);
}

void ViolinPanel::draw(Canvas& canvas, const QRectF& inner) const {
  const PlotArea area{inner.left(),   inner.top(), inner.right(),     inner.bottom(),
                      limitsAcross(), limitsUp(),  AxisScale::linear, m_content.scale};
  const Ticks up = ticksUp(inner.height());
  for (const Tick& tick : up.major) {
    const double y = area.at(area.x.lower, tick.value).y;
    canvas.line({inner.left(), y}, {inner.right(), y},
                QPen(kLevel, em::kStroke * m_style.size, Qt::SolidLine, Qt::FlatCap));
  }
  for (const Violin& violin : m_content.violins) drawViolin(canvas, violin, area);
  canvas.frame(inner, em::kStroke * m_style.size, Qt::black);
  drawAxis(canvas, {AxisEdge::Side::bottom, inner, [&](double x) { return axisPosition(x, area.x, area.xScale); }},
           ticksAcross(inner.width()), ownAcrossName(), em::kDigitHeight * m_style.size, m_style);
  drawAxis(canvas, {AxisEdge::Side::left, inner, [&](double y) { return axisPosition(y, area.y, area.yScale); }}, up,
           ownUpName(), widestLabel(up, m_style), m_style);
}

void ViolinPanel::addNumbers(NumberTable& numbers) const {
  numbers.setQuantity("count");
  for (const Violin& violin : m_content.violins) {
    for (std::size_t bin = 0; bin < violin.counts.size(); ++bin) {
      numbers.add({"gates", violin.name, fmt::format("{:.9g}:{:.9g}", m_content.edges[bin], m_content.edges[bin + 1]),
                   violin.counts[bin]});
    }
  }
  numbers.setQuantity(m_content.name);
  for (const Violin& violin : m_content.violins) {
    numbers.add({"median and quartiles", violin.name, fmt::format("{:.9g}", violin.place), violin.median, violin.lower,
                 violin.upper});
  }
}

}  // namespace foxscope::figure

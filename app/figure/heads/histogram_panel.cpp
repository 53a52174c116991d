#include "app/figure/heads/histogram_panel.h"

#include <algorithm>

#include <fmt/format.h>

#include "app/figure/page/axis_drawing.h"

namespace foxscope::figure {
namespace {

constexpr int kMostShareTicks = 7;
constexpr int kMostValueTicks = 9;
constexpr double kHeadroom = 1.15;       ///< of the highest bin, which leaves room for the quartiles
constexpr double kQuartilesBelow = 0.6;  ///< the frame's upper edge, font sizes
constexpr double kQuartileLine = 0.16;
constexpr double kMedianRadius = 0.22;
const QColor kShareLevel(232, 232, 232);
const QColor kSteps(0x8e, 0x9a, 0xd6);

}  // namespace

HistogramPanel::HistogramPanel(const FigureFormat& format, Content content)
    : m_content(std::move(content)), m_style(textStyleOf(format)) {
  m_most = kHeadroom * *std::ranges::max_element(m_content.shares);
  if (!(m_most > 0)) m_most = 1;
}

Ticks HistogramPanel::ticksUp(double height) const {
  const int most = std::clamp(static_cast<int>(height / (2.2 * m_style.size)), 2, kMostShareTicks);
  return linearTicks(0, m_most, most, TickValues::any);
}

Ticks HistogramPanel::ticksAcross(double width) const {
  const AxisLimits limits = limitsAcross();
  const auto position = [&](double value) { return axisPosition(value, limits, m_content.scale); };
  for (int most = kMostValueTicks;; --most) {
    Ticks ticks = m_content.scale == AxisScale::logarithmic
                      ? logarithmicTicks(limits.lower, limits.upper, most)
                      : linearTicks(limits.lower, limits.upper, most, TickValues::any);
    if (most == 2 || labelsApart(ticks, position, width, m_style)) return ticks;
  }
}

Margins HistogramPanel::margins(const QSizeF& inner) const {
  const double font = m_style.size;
  const Ticks up = ticksUp(inner.height());
  const Ticks across = ticksAcross(inner.width());
  Margins margins;
  margins.left = widestLabel(up, m_style) + (em::kTick + em::kPad) * font +
                 axisNameDepth(axisName(ownUpName(), up, inner.height(), m_style), m_style);
  margins.bottom = (em::kDigitHeight + em::kTick + em::kPad) * font +
                   axisNameDepth(axisName(ownAcrossName(), across, inner.width(), m_style), m_style);
  // The last label may stand at the very end.
  margins.right = 0.2 * font + widestLabel(across, m_style) / 2;
  margins.top = 0.4 * font;
  if (const std::string title = lettered(m_content.title); !title.empty()) {
    margins.top += (static_cast<double>(titleLinesOf(title, m_style, inner.width()).size()) * em::kLine + 0.1) * font;
  }
  return margins;
}

void HistogramPanel::draw(Canvas& canvas, const QRectF& inner) const {
  const double font = m_style.size;
  const PlotArea area{inner.left(),   inner.top(),           inner.right(),   inner.bottom(),
                      limitsAcross(), AxisLimits{0, m_most}, m_content.scale, AxisScale::linear};
  const auto at = [&](double x, double y) {
    const CurvePoint point = area.at(std::clamp(x, area.x.lower, area.x.upper), y);
    return QPointF(point.x, point.y);
  };
  const Ticks up = ticksUp(inner.height());
  for (const Tick& tick : up.major) {
    canvas.line(at(area.x.lower, tick.value), at(area.x.upper, tick.value),
                QPen(kShareLevel, em::kStroke * font, Qt::SolidLine, Qt::FlatCap));
  }
  QPolygonF steps{at(area.x.lower, 0)};
  for (std::size_t bin = 0; bin < m_content.shares.size(); ++bin) {
    steps.append(at(m_content.edges[bin], m_content.shares[bin]));
    steps.append(at(m_content.edges[bin + 1], m_content.shares[bin]));
  }
  steps.append(at(area.x.upper, 0));
  canvas.polygon(steps, kSteps);
  if (m_content.mark && *m_content.mark > area.x.lower && *m_content.mark < area.x.upper) {
    canvas.line(at(*m_content.mark, 0), at(*m_content.mark, m_most),
                QPen(Qt::black, 2 * em::kStroke * font, Qt::DashLine, Qt::FlatCap));
  }
  if (m_content.quartiles) {
    const auto above = [&](double value) { return QPointF(at(value, 0).x(), inner.top() + kQuartilesBelow * font); };
    canvas.line(above(m_content.quartiles->lower), above(m_content.quartiles->upper),
                QPen(Qt::black, kQuartileLine * font, Qt::SolidLine, Qt::FlatCap));
    canvas.disc(above(m_content.quartiles->median), kMedianRadius * font, Qt::black);
    canvas.disc(above(m_content.quartiles->median), 0.6 * kMedianRadius * font, Qt::white);
  }
  canvas.frame(inner, em::kStroke * font, Qt::black);
  drawAxis(canvas, {AxisEdge::Side::bottom, inner, [&](double x) { return axisPosition(x, area.x, area.xScale); }},
           ticksAcross(inner.width()), ownAcrossName(), em::kDigitHeight * font, m_style);
  drawAxis(canvas, {AxisEdge::Side::left, inner, [&](double y) { return axisPosition(y, area.y, area.yScale); }}, up,
           ownUpName(), widestLabel(up, m_style), m_style);
  drawTitleAbove(canvas, inner, lettered(m_content.title), m_style);
}

void HistogramPanel::addNumbers(NumberTable& numbers) const {
  numbers.setQuantity(m_content.up);
  for (std::size_t bin = 0; bin < m_content.shares.size(); ++bin) {
    numbers.add({m_content.series, m_content.row,
                 fmt::format("{:.9g}:{:.9g}", m_content.edges[bin], m_content.edges[bin + 1]), m_content.shares[bin]});
  }
  if (!m_content.quartiles) return;
  const auto& [lower, median, upper] = *m_content.quartiles;
  numbers.setQuantity(m_content.across);
  numbers.add({"median and quartiles", m_content.row, "", median, lower, upper});
}

}  // namespace foxscope::figure

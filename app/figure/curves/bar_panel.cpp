#include "app/figure/curves/bar_panel.h"

#include <algorithm>
#include <cmath>

#include "app/figure/page/axis_drawing.h"

namespace foxscope::figure {
namespace {

constexpr double kBarShare = 0.62;  ///< of a bar's room that it takes
constexpr double kCap = 0.25;       ///< half the cap of an error, font sizes
constexpr double kErrorLine = 0.1;
constexpr int kMostUpTicks = 7;
const QColor kLevels(232, 232, 232);

}  // namespace

BarPanel::BarPanel(const FigureFormat& format, Content content)
    : m_content(std::move(content)), m_style(textStyleOf(format)) {
  for (const Bar& bar : m_content.bars) {
    const double error = std::isnan(bar.error) ? 0 : bar.error;
    m_lower = std::min(m_lower, bar.value - error);
    m_upper = std::max(m_upper, bar.value + error);
  }
  const double room = 0.06 * (m_upper - m_lower);
  if (m_lower < 0) m_lower -= room;
  if (m_upper > 0) m_upper += room;
  if (m_lower == m_upper) m_upper = 1;
}

Ticks BarPanel::ticksUp(double height) const {
  const int most = std::clamp(static_cast<int>(height / (2.2 * m_style.size)), 2, kMostUpTicks);
  Ticks ticks = linearTicks(m_lower, m_upper, most, TickValues::any);
  if (ticks.major.size() < 2) ticks = linearTicks(m_lower, m_upper, most + 2, TickValues::any);
  return ticks;
}

Ticks BarPanel::ticksAcross(double width) const {
  for (std::size_t step = 1;; ++step) {
    Ticks ticks;
    for (std::size_t bar = 0; bar < m_content.bars.size(); bar += step) {
      ticks.major.push_back({static_cast<double>(bar), m_content.bars[bar].name});
    }
    const auto place = [this](double bar) { return placeOf(bar); };
    if (ticks.major.size() < 2 || labelsApart(ticks, place, width, m_style)) return ticks;
  }
}

Margins BarPanel::margins(const QSizeF& inner) const {
  const double font = m_style.size;
  const Ticks up = ticksUp(inner.height());
  Margins margins;
  margins.left = widestLabel(up, m_style) + (em::kTick + em::kPad) * font +
                 axisNameDepth(axisName(ownUpName(), up, inner.height(), m_style), m_style);
  margins.bottom = (em::kDigitHeight + em::kTick + em::kPad) * font +
                   axisNameDepth(axisName(ownAcrossName(), {}, inner.width(), m_style), m_style);
  margins.top = 0.4 * font;
  if (const std::string title = lettered(m_content.title); !title.empty()) {
    margins.top += (static_cast<double>(titleLinesOf(title, m_style, inner.width()).size()) * em::kLine + 0.1) * font;
  }
  return margins;
}

void BarPanel::draw(Canvas& canvas, const QRectF& inner) const {
  const double font = m_style.size;
  const auto yOf = [&](double value) { return inner.bottom() - position(value) * inner.height(); };
  const Ticks up = ticksUp(inner.height());
  const QPen thin(kLevels, em::kStroke * font, Qt::SolidLine, Qt::FlatCap);
  for (const Tick& tick : up.major) {
    canvas.line({inner.left(), yOf(tick.value)}, {inner.right(), yOf(tick.value)}, thin);
  }
  const double width = kBarShare * inner.width() / static_cast<double>(m_content.bars.size());
  for (std::size_t n = 0; n < m_content.bars.size(); ++n) {
    const Bar& bar = m_content.bars[n];
    const double x = inner.left() + placeOf(static_cast<double>(n)) * inner.width();
    const QRectF area = QRectF(QPointF(x - width / 2, yOf(0)), QPointF(x + width / 2, yOf(bar.value))).normalized();
    const QColor colour(bar.colour.red, bar.colour.green, bar.colour.blue);
    const double line = 2 * em::kStroke * font;
    if (bar.filled) canvas.fill(area, colour);
    // The frame is around its rectangle: an outline is as large as a bar.
    if (!bar.filled && area.height() > line) {
      canvas.frame(area.adjusted(line, line, -line, -line), line, colour);
    } else if (!bar.filled) {
      canvas.fill(area, colour);
    }
    if (std::isnan(bar.error)) continue;
    const QPen pen(Qt::black, kErrorLine * font, Qt::SolidLine, Qt::FlatCap);
    canvas.line({x, yOf(bar.value - bar.error)}, {x, yOf(bar.value + bar.error)}, pen);
    for (const double end : {bar.value - bar.error, bar.value + bar.error}) {
      canvas.line({x - kCap * font, yOf(end)}, {x + kCap * font, yOf(end)}, pen);
    }
  }
  canvas.line({inner.left(), yOf(0)}, {inner.right(), yOf(0)}, QPen(Qt::black, em::kStroke * font));
  canvas.frame(inner, em::kStroke * font, Qt::black);
  drawAxis(canvas, {AxisEdge::Side::bottom, inner, [this](double bar) { return placeOf(bar); }},
           ticksAcross(inner.width()), ownAcrossName(), em::kDigitHeight * font, m_style);
  drawAxis(canvas, {AxisEdge::Side::left, inner, [this](double value) { return position(value); }}, up, ownUpName(),
           widestLabel(up, m_style), m_style);
  drawTitleAbove(canvas, inner, lettered(m_content.title), m_style);
}

void BarPanel::addNumbers(NumberTable& numbers) const {
  numbers.setQuantity(m_content.up);
  for (const Bar& bar : m_content.bars) {
    numbers.add({m_content.series, "", bar.range, bar.value, bar.value - bar.error, bar.value + bar.error});
  }
}

}  // namespace foxscope::figure

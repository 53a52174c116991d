#include "app/gui/maps/colour_bar.h"

#include <algorithm>
#include <cmath>

#include <QMouseEvent>
#include <QPainter>
#include <QPainterPath>

#include "app/figure/page/axis_ticks.h"
#include "app/gui/views/theme.h"

namespace foxscope::gui {
namespace {

using figure::ColourScale;

/// Decades that a logarithmic bar shows at most, below its upper end: attention goes down to 10^-38.
constexpr double kDecades = 8;
/// A bar of what has signs reaches so many times as far as its limits.
constexpr double kSignedLimits = 2;
constexpr double kHandleGrip = 5;        ///< logical pixels beside a handle
constexpr double kLeastDistance = 0.02;  ///< between the limits, share of the bar

constexpr float kHistogramInk = 0.45F;  ///< it lies behind the labels
constexpr double kLabelSize = 0.9;      ///< of the font

// Logical pixels.
constexpr int kGap = 6;  ///< to the map; the handles reach into it
constexpr int kGradientWidth = 11;
constexpr int kTickLength = 3;
constexpr int kTickGap = 2;

QFont labelFont(const QFont& font) {
  QFont small = font;
  small.setPointSizeF(font.pointSizeF() * kLabelSize);
  return small;
}

}  // namespace

ColourBar::ColourBar(QWidget* parent) : QWidget(parent) {
  setMouseTracking(true);
  setAccessibleName(tr("Colour bar"));
  setToolTip(tr("Colours and the histogram of the values. Drag a limit; double click: automatic limits"));
}

int ColourBar::barWidth() const {
  // Labels have at most five characters: figures, a sign and a point.
  const int label = QFontMetrics(labelFont(font())).horizontalAdvance(QStringLiteral("−0.00"));
  return kGap + kGradientWidth + kTickLength + kTickGap + label + 1;
}

void ColourBar::setPicture(const PicturePointer& picture) {
  m_picture = picture;
  // The bar stands still under a handle that is being dragged.
  if (m_picture && m_handle == Handle::none) m_ends = endsOf(*m_picture);
  update();
}

void ColourBar::setExtent(int top, int bottom) {
  m_top = top;
  m_bottom = bottom;
  update();
}

bool ColourBar::logarithmic() const { return m_picture && m_picture->colours.scale == ColourScale::logarithmic; }

ColourBar::Ends ColourBar::endsOf(const MapPicture& picture) const {
  const figure::ScaledColours& colours = picture.colours;
  Ends ends{colours.lower, colours.upper};
  const ValueSummary& summary = *picture.summary;
  if (summary.empty) return ends;
  if (logarithmic()) {
    ends.upper = std::max(ends.upper, summary.highest);
    if (!summary.logarithmic.counts.empty()) {
      ends.lower = std::min(ends.lower, std::pow(10, summary.logarithmic.lower));
    }
    ends.lower = std::clamp(ends.lower, ends.upper * std::pow(10, -kDecades), colours.lower);
    return ends;
  }
  Ends all{std::min(ends.lower, summary.lowest), std::max(ends.upper, summary.highest)};
  if (!colours.hasSigns) return all;
  // A few entries of many times the limits would leave the colours no room.
  const double most = kSignedLimits * std::max(std::abs(ends.lower), std::abs(ends.upper));
  return {std::max(all.lower, std::min(ends.lower, -most)), std::min(all.upper, std::max(ends.upper, most))};
}

double ColourBar::placeOf(double value) const {
  double share = 0;
  if (logarithmic()) {
    share = std::log(std::max(value, m_ends.lower * 1e-9) / m_ends.lower) / std::log(m_ends.upper / m_ends.lower);
  } else {
    share = (value - m_ends.lower) / (m_ends.upper - m_ends.lower);
  }
  return m_bottom - std::clamp(share, 0.0, 1.0) * (m_bottom - m_top);
}

double ColourBar::valueAt(double y) const {
  const double share = std::clamp((m_bottom - y) / std::max(1, m_bottom - m_top), 0.0, 1.0);
  if (logarithmic()) return m_ends.lower * std::pow(m_ends.upper / m_ends.lower, share);
  return m_ends.lower + share * (m_ends.upper - m_ends.lower);
}

QRectF ColourBar::gradientRect() const {
  return {kGap, static_cast<double>(m_top), kGradientWidth, static_cast<double>(m_bottom - m_top)};
}

ColourBar::Handle ColourBar::handleAt(const QPointF& point) const {
  if (!m_picture) return Handle::none;
  const double toLower = std::abs(point.y() - placeOf(m_picture->colours.lower));
  const double toUpper = std::abs(point.y() - placeOf(m_picture->colours.upper));
  if (std::min(toLower, toUpper) > kHandleGrip) return Handle::none;
  return toLower < toUpper ? Handle::lower : Handle::upper;
}

void ColourBar::mousePressEvent(QMouseEvent* event) {
  if (event->button() == Qt::LeftButton) m_handle = handleAt(event->position());
}

void ColourBar::mouseMoveEvent(QMouseEvent* event) {
  if (m_handle == Handle::none || !m_picture) {
    setCursor(handleAt(event->position()) == Handle::none ? Qt::ArrowCursor : Qt::SplitVCursor);
    return;
  }
  const figure::ScaledColours& colours = m_picture->colours;
  const double step = kLeastDistance * (m_bottom - m_top);
  if (m_handle == Handle::lower) {
    const double lower = valueAt(std::max(event->position().y(), placeOf(colours.upper) + step));
    if (lower < colours.upper) emit limitsWanted(lower, colours.upper);
  } else {
    const double upper = valueAt(std::min(event->position().y(), placeOf(colours.lower) - step));
    if (upper > colours.lower) emit limitsWanted(colours.lower, upper);
  }
}

void ColourBar::mouseReleaseEvent(QMouseEvent* /*event*/) {
  m_handle = Handle::none;
  setPicture(m_picture);
}

void ColourBar::mouseDoubleClickEvent(QMouseEvent* /*event*/) {
  m_handle = Handle::none;
  emit automaticWanted();
}

void ColourBar::paintEvent(QPaintEvent* /*event*/) {
  if (!m_picture || m_bottom - m_top < 2 * fontMetrics().height()) return;
  QPainter painter(this);
  drawHistogram(painter);
  drawGradient(painter);
  drawTicks(painter);
  drawHandles(painter);
}

void ColourBar::drawGradient(QPainter& painter) const {
  const QRectF rect = gradientRect();
  for (int y = m_top; y < m_bottom; ++y) {
    const double value = valueAt(y + 0.5);
    const figure::Rgb colour = figure::colourAt(*m_picture->colours.map, m_picture->colours.position(value));
    QColor shown(colour.red, colour.green, colour.blue);
    const auto& blankBelow = m_picture->colours.blankBelow;
    if (blankBelow && (m_picture->colours.hasSigns ? std::abs(value) : value) < *blankBelow) {
      shown = QColor::fromRgb(m_picture->request.shading.blank);
    }
    painter.fillRect(QRectF(rect.left(), y, rect.width(), 1), shown);
  }
  painter.setPen(mutedTextColour(palette()));
  painter.setBrush(Qt::NoBrush);
  painter.drawRect(rect.adjusted(0, 0, -1, -1));
}

void ColourBar::drawHistogram(QPainter& painter) const {
  // Some lines of a coarse picture stand for others: their counts are not those of the map.
  if (!m_picture->exact) return;
  const Histogram& histogram = logarithmic() ? m_picture->summary->logarithmic : m_picture->summary->linear;
  if (histogram.counts.empty()) return;
  const double most = std::log1p(*std::max_element(histogram.counts.begin(), histogram.counts.end()));
  const double step = (histogram.upper - histogram.lower) / static_cast<double>(histogram.counts.size());
  const QRectF gradient = gradientRect();
  const double width = this->width() - gradient.right() - kTickLength - kTickGap;
  QColor faint = mutedTextColour(palette());
  faint.setAlphaF(kHistogramInk);
  painter.setPen(Qt::NoPen);
  painter.setBrush(faint);
  // Counts on a logarithmic scale: nearly all entries of attention are next to zero.
  for (std::size_t n = 0; n < histogram.counts.size(); ++n) {
    if (histogram.counts[n] == 0) continue;
    const auto edge = [&](std::size_t index) {
      const double value = histogram.lower + static_cast<double>(index) * step;
      return placeOf(logarithmic() ? std::pow(10, value) : value);
    };
    const double length = std::max(1.0, width * std::log1p(histogram.counts[n]) / most);
    const double top = edge(n + 1);
    const double height = std::max(1.0, edge(n) - top);
    if (step > 0 && edge(n) - top <= 0) continue;
    painter.fillRect(QRectF(gradient.right() + 1, top, length, height), painter.brush());
  }
}

void ColourBar::drawTicks(QPainter& painter) const {
  const double line = fontMetrics().height();
  const int most = std::clamp(static_cast<int>((m_bottom - m_top) / (2.5 * line)), 2, 9);
  const figure::Ticks ticks = logarithmic()
                                  ? figure::logarithmicTicks(m_ends.lower, m_ends.upper, most)
                                  : figure::linearTicks(m_ends.lower, m_ends.upper, most, figure::TickValues::any);
  painter.setFont(labelFont(font()));
  const QRectF rect = gradientRect();
  for (const figure::Tick& tick : ticks.major) {
    const double y = placeOf(tick.value);
    painter.setPen(mutedTextColour(palette()));
    painter.drawLine(QPointF(rect.right(), y), QPointF(rect.right() + kTickLength, y));
    painter.setPen(palette().color(QPalette::Text));
    const double top = std::clamp(y - line / 2, 0.0, height() - line);
    const double left = rect.right() + kTickLength + kTickGap;
    painter.drawText(QRectF(left, top, width() - left, line), Qt::AlignLeft | Qt::AlignVCenter,
                     QString::fromStdString(tick.label));
  }
  if (ticks.factor.empty()) return;
  painter.setPen(palette().color(QPalette::Text));
  painter.drawText(QRectF(rect.left(), 0, width() - rect.left(), rect.top() - 1), Qt::AlignLeft | Qt::AlignVCenter,
                   QStringLiteral("× ") + QString::fromStdString(ticks.factor));
}

void ColourBar::drawHandles(QPainter& painter) const {
  painter.setRenderHint(QPainter::Antialiasing);
  const QRectF rect = gradientRect();
  const double size = 0.3 * fontMetrics().height();
  for (const double limit : {m_picture->colours.lower, m_picture->colours.upper}) {
    const double y = placeOf(limit);
    QPainterPath path;
    path.moveTo(rect.left() + size, y);
    path.lineTo(rect.left() - size, y - size);
    path.lineTo(rect.left() - size, y + size);
    path.closeSubpath();
    painter.setPen(QPen(palette().color(QPalette::Base), 1));
    painter.setBrush(palette().color(QPalette::Text));
    painter.drawPath(path);
  }
}

}  // namespace foxscope::gui

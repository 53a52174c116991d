#include "app/gui/comparison/octave_bars.h"

#include <algorithm>
#include <cmath>

#include <QHelpEvent>
#include <QLocale>
#include <QPainter>
#include <QToolTip>

#include "app/figure/colour_map.h"
#include "app/gui/document/number_text.h"
#include "app/gui/views/estimate_text.h"
#include "app/gui/views/plot_style.h"
#include "app/gui/views/theme.h"
#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

constexpr double kBarShare = 0.62;  ///< of the room of an octave
constexpr double kWhisker = 4;      ///< half the width of an error's ends
constexpr int kGap = 4;

QColor signColour(double difference) {
  constexpr double kBetter = 0.12;  // of the diverging map: a clear blue, and as clear a red
  const figure::Rgb rgb = figure::colourAt(figure::diverging(), difference < 0 ? kBetter : 1 - kBetter);
  return {rgb.red, rgb.green, rgb.blue};
}

/// The first of 1, 2, 5, 10 and so on, times a power of ten, that is not less.
double roundedUp(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double step : {1.0, 2.0, 5.0}) {
    if (step * power >= value) return step * power;
  }
  return 10 * power;
}

double errorOf(const Estimate& estimate) { return std::isfinite(estimate.error) ? estimate.error : 0; }

/// "256", "1k", "64k": where an octave begins.
QString positionText(std::int64_t position) {
  constexpr std::int64_t kKilo = 1024;
  if (position >= kKilo && position % kKilo == 0) return QStringLiteral("%1k").arg(position / kKilo);
  return QString::number(position);
}

}  // namespace

OctaveBars::OctaveBars(QWidget* parent) : QWidget(parent) {
  setAccessibleName(tr("Difference of the losses by octave of position"));
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Expanding);
}

void OctaveBars::setOctaves(std::vector<LossOctave> octaves) {
  m_octaves = std::move(octaves);
  double largest = 0;
  for (const LossOctave& octave : m_octaves) {
    const Estimate& difference = octave.difference;
    largest = std::max(largest, std::abs(difference.value) + errorOf(difference));
  }
  m_limit = largest > 0 ? roundedUp(largest) : 1;
  QStringList words;
  for (std::size_t n = 0; n < m_octaves.size(); ++n) words += description(static_cast<int>(n));
  setAccessibleDescription(words.join(QStringLiteral("; ")));
  update();
}

QString OctaveBars::description(int index) const {
  const LossOctave& octave = m_octaves[index_of(index)];
  const QLocale english(QLocale::English);
  return tr("positions %1 to %2: %3 nats/token (%4 and %5)")
      .arg(english.toString(static_cast<qlonglong>(octave.positions.begin)),
           english.toString(static_cast<qlonglong>(octave.positions.end - 1)), estimateText(octave.difference),
           QString::number(octave.loss, 'f', 4), QString::number(octave.minus, 'f', 4));
}

QSize OctaveBars::minimumSizeHint() const {
  const int line = fontMetrics().height();
  return {12 * line, 6 * line};
}

QSize OctaveBars::sizeHint() const { return 2 * minimumSizeHint(); }

QRectF OctaveBars::area() const {
  const int left = fontMetrics().horizontalAdvance(QStringLiteral("−0.005")) + 2 * kGap;
  const int line = fontMetrics().height();
  return QRectF(rect()).adjusted(left, line / 2.0 + 1, -kGap, -(2 * line + kGap));
}

double OctaveBars::heightOf(double difference) const {
  const QRectF inside = area();
  return inside.center().y() - difference / m_limit * inside.height() / 2;
}

QRectF OctaveBars::bar(int index) const {
  if (index < 0 || index >= static_cast<int>(m_octaves.size())) return {};
  const QRectF inside = area();
  const double room = inside.width() / static_cast<double>(m_octaves.size());
  const double width = std::min(room * kBarShare, 4.0 * fontMetrics().height());
  const double zero = heightOf(0);
  const double end = heightOf(m_octaves[index_of(index)].difference.value);
  return {QPointF(inside.left() + room * (index + 0.5) - width / 2, std::min(zero, end)),
          QSizeF(width, std::abs(end - zero))};
}

void OctaveBars::paintEvent(QPaintEvent* /*event*/) {
  if (m_octaves.empty()) return;
  QPainter painter(this);
  painter.setRenderHint(QPainter::Antialiasing);
  const QRectF inside = area();
  const int line = fontMetrics().height();
  for (const double tick : {m_limit, 0.0, -m_limit}) {
    const double y = heightOf(tick);
    painter.setPen(QPen(lineColour(palette()), tick == 0 ? 1.5 : 1));
    painter.drawLine(QPointF(inside.left(), y), QPointF(inside.right(), y));
    painter.setPen(mutedTextColour(palette()));
    painter.drawText(QRectF(0, y - line / 2.0, inside.left() - kGap, line), Qt::AlignRight | Qt::AlignVCenter,
                     tick > 0 ? QStringLiteral("+") + numberText(tick) : numberText(tick));
  }
  const double room = inside.width() / static_cast<double>(m_octaves.size());
  // As many beginnings are named as fit beside one another.
  int widest = 0;
  for (const LossOctave& octave : m_octaves) {
    widest = std::max(widest, fontMetrics().horizontalAdvance(positionText(octave.positions.begin)));
  }
  const int every = std::max(1, static_cast<int>(std::ceil((widest + kGap) / room)));
  for (int index = 0; index < static_cast<int>(m_octaves.size()); ++index) {
    const LossOctave& octave = m_octaves[index_of(index)];
    const QRectF shape = bar(index);
    // A difference that may be chance is an outline.
    const QColor colour = signColour(octave.difference.value);
    if (octave.difference.over.suffice() && beyond_chance(octave.difference)) {
      painter.fillRect(shape, colour);
    } else {
      painter.setPen(QPen(colour, 1.5));
      painter.drawRect(shape.adjusted(0.75, 0.75, -0.75, -0.75));
    }
    const double error = errorOf(octave.difference);
    if (error > 0) {
      painter.setPen(QPen(palette().color(QPalette::Text), 1.2));
      const double x = shape.center().x();
      const double high = heightOf(octave.difference.value + error);
      const double low = heightOf(octave.difference.value - error);
      painter.drawLine(QPointF(x, high), QPointF(x, low));
      for (const double y : {high, low}) painter.drawLine(QPointF(x - kWhisker, y), QPointF(x + kWhisker, y));
    }
    painter.setPen(mutedTextColour(palette()));
    if (index % every != 0) continue;
    painter.drawText(QRectF(shape.center().x() - widest, inside.bottom() + kGap, 2 * widest, line), Qt::AlignCenter,
                     positionText(octave.positions.begin));
  }
  QString caption = tr("nats/token from a position on, ± 1 standard error");
  if (fontMetrics().horizontalAdvance(caption) > width()) caption = tr("nats/token from position, ± 1 s.e.");
  if (fontMetrics().horizontalAdvance(caption) > width()) caption = tr("from position, ± 1 s.e.");
  painter.drawText(QRectF(0, inside.bottom() + kGap + line, width(), line), Qt::AlignCenter, caption);
}

bool OctaveBars::event(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return QWidget::event(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  const QRectF inside = area();
  const double room = inside.width() / static_cast<double>(std::max<std::size_t>(1, m_octaves.size()));
  const int index = static_cast<int>(std::floor((help->pos().x() - inside.left()) / room));
  if (index < 0 || index >= static_cast<int>(m_octaves.size())) {
    QToolTip::hideText();
    event->ignore();
  } else {
    QToolTip::showText(help->globalPos(), description(index), this);
  }
  return true;
}

}  // namespace foxscope::gui

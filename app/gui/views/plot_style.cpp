#include "app/gui/views/plot_style.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <QFontMetricsF>
#include <qcustomplot.h>

#include "app/figure/page/axis_ticks.h"
#include "app/gui/views/theme.h"

namespace foxscope::gui {
namespace {

constexpr double kEmsPerTick = 8;      // along a horizontal axis
constexpr double kLinesPerTick = 1.6;  // along a vertical one
constexpr double kBeyond = 6;          // pixels that a title may stand over its axis

/// Ticks as in exported figures, for the axis' range and length as they are when it is laid out.
class FittingTicker : public QCPAxisTicker {
 public:
  FittingTicker(QCPAxis* axis, figure::AxisScale scale, TickUnit unit, QString label)
      : m_axis(axis), m_scale(scale), m_unit(unit), m_label(std::move(label)) {}

  void generate(const QCPRange& range, const QLocale& /*locale*/, QChar /*formatChar*/, int /*precision*/,
                QVector<double>& ticks, QVector<double>* subTicks, QVector<QString>* tickLabels) override {
    const figure::Ticks made = ticksOf(range);
    ticks.clear();
    if (tickLabels != nullptr) tickLabels->clear();
    for (const figure::Tick& tick : made.major) {
      ticks.push_back(tick.value);
      if (tickLabels != nullptr) tickLabels->push_back(labelOf(tick));
    }
    if (subTicks != nullptr) *subTicks = QVector<double>(made.minor.begin(), made.minor.end());
    const QString title = titleWith(QString::fromStdString(made.factor));
    if (m_axis->label() != title) m_axis->setLabel(title);
  }

 private:
  [[nodiscard]] figure::Ticks ticksOf(const QCPRange& range) const {
    if (m_scale == figure::AxisScale::logarithmic && range.lower > 0) {
      return figure::logarithmicTicks(range.lower, range.upper, most());
    }
    const auto values = m_unit == TickUnit::tokens ? figure::TickValues::whole : figure::TickValues::any;
    figure::Ticks made = figure::linearTicks(range.lower, range.upper, most(), values);
    // One number or two say nothing of the size of a difference.
    constexpr std::size_t kFewest = 3;
    constexpr int kMost = 8;
    for (int more = most() + 1; m_unit == TickUnit::difference && made.major.size() < kFewest && more <= kMost;
         ++more) {
      made = figure::linearTicks(range.lower, range.upper, more, values);
    }
    return made;
  }

  /// The label where the axis is long enough for it: one that is cut off says less than none. The numbers' factor stays
  /// without it.
  [[nodiscard]] QString titleWith(const QString& factor) const {
    if (m_label.isEmpty()) return {};
    QString whole = factor.isEmpty() ? m_label : m_label + " × " + factor;
    const int length = across() ? m_axis->axisRect()->width() : m_axis->axisRect()->height();
    const bool fits = length <= 0 || QFontMetricsF(m_axis->labelFont()).horizontalAdvance(whole) <= length + kBeyond;
    if (fits) return whole;
    return factor.isEmpty() ? QString() : "× " + factor;
  }

  [[nodiscard]] bool across() const { return QCPAxis::orientation(m_axis->axisType()) == Qt::Horizontal; }

  [[nodiscard]] int most() const {
    const QFontMetricsF metrics(m_axis->tickLabelFont());
    const double room = across() ? m_axis->axisRect()->width() / (kEmsPerTick * metrics.averageCharWidth())
                                 : m_axis->axisRect()->height() / (kLinesPerTick * metrics.height());
    return std::clamp(static_cast<int>(room), across() ? 2 : 3, across() ? 12 : 8);
  }

  [[nodiscard]] QString labelOf(const figure::Tick& tick) const {
    // Counts are written out, powers of ten among them.
    const bool count = m_unit == TickUnit::tokens && tick.value >= 1 && std::round(tick.value) == tick.value;
    const QString sign = m_unit == TickUnit::difference && tick.value > 0 ? QStringLiteral("+") : QString();
    return count ? QString::number(tick.value, 'f', 0) : sign + QString::fromStdString(tick.label);
  }

  QCPAxis* m_axis;
  figure::AxisScale m_scale;
  TickUnit m_unit;
  QString m_label;
};

}  // namespace

void applyPalette(QCustomPlot& plot, const QPalette& palette) { plot.setBackground(palette.color(QPalette::Base)); }

void applyPalette(QCPAxisRect& rect, const QPalette& palette) {
  const QColor line = lineColour(palette);
  QColor grid = line;
  grid.setAlphaF(0.45F);
  for (QCPAxis* axis : rect.axes()) {
    axis->setBasePen(QPen(line, 1));
    axis->setTickPen(QPen(line, 1));
    axis->setSubTickPen(QPen(line, 1));
    axis->setTickLabelColor(mutedTextColour(palette));
    axis->setLabelColor(mutedTextColour(palette));
    axis->grid()->setPen(QPen(grid, 1));
    axis->grid()->setZeroLinePen(QPen(line, 1));
    axis->grid()->setSubGridVisible(false);
    if (const QWidget* plot = axis->parentPlot()) {
      axis->setTickLabelFont(plot->font());
      axis->setLabelFont(plot->font());
    }
  }
}

void styleAxis(QCPAxis& axis, figure::AxisScale scale, TickUnit unit, const QString& label) {
  axis.setScaleType(scale == figure::AxisScale::logarithmic ? QCPAxis::stLogarithmic : QCPAxis::stLinear);
  axis.setTicker(QSharedPointer<QCPAxisTicker>(new FittingTicker(&axis, scale, unit, label)));
  axis.setLabel(label);
  axis.setTickLength(0, 4);
  axis.setSubTickLength(0, 2);
  axis.setTickLabelPadding(3);
  axis.setLabelPadding(3);
}

void fitTicksToSize(QCustomPlot& plot) {
  QObject::connect(&plot, &QCustomPlot::afterLayout, &plot, [&plot, laidOut = QSize()]() mutable {
    const QSize size = plot.viewport().size();
    if (std::exchange(laidOut, size) != size) plot.replot(QCustomPlot::rpQueuedReplot);
  });
}

}  // namespace foxscope::gui

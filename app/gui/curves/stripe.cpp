#include "app/gui/curves/stripe.h"

#include <algorithm>
#include <cmath>

#include <qcustomplot.h>

#include "app/gui/views/plot_style.h"
#include "app/gui/views/theme.h"

namespace foxscope::gui::curves {
namespace {

constexpr double kLeastLines = 3;       // height of a strip; a label that does not fit is left out
constexpr double kMargin = 0.06;        // of a vertical axis, beyond its values
constexpr double kMostDecades = 1e-8;   // least part of the largest value that a logarithmic axis reaches down to
constexpr double kUnsmoothable = 1e-9;  // relative width below which values count as equal

/// An axis that holds these values.
QCPRange around(double least, double largest, figure::AxisScale scale) {
  if (scale == figure::AxisScale::logarithmic) {
    const double margin = std::pow(std::max(largest / least, 2.0), kMargin);
    return {least / margin, largest * margin};
  }
  const double width = largest - least;
  if (width <= kUnsmoothable * std::max(std::abs(least), std::abs(largest))) {
    const double half = largest == 0 ? 0.5 : 0.05 * std::abs(largest);
    return {least - half, largest + half};
  }
  return {least - kMargin * width, largest + kMargin * width};
}

}  // namespace

Stripe::Stripe(QCustomPlot& plot, const Strip& shown, Place place)
    : strip(shown), rect(new QCPAxisRect(&plot, true)), m_place(place) {
  const int row = plot.plotLayout()->rowCount();
  plot.plotLayout()->addElement(row, 0, rect);
  plot.plotLayout()->setRowStretchFactor(row, strip.stretch);
  rect->setMinimumSize(10, static_cast<int>(kLeastLines * QFontMetrics(plot.font()).height()));
  rect->setMinimumMargins(QMargins(8, 6, 8, 4));
  rect->axis(QCPAxis::atTop)->setVisible(false);
  rect->axis(QCPAxis::atRight)->setVisible(!strip.rightLabel.isEmpty());
  rect->axis(QCPAxis::atRight)->grid()->setVisible(false);
  rect->axis(QCPAxis::atBottom)->setTickLabels(place == Place::lowest);
  for (QCPAxis* axis : rect->axes()) axis->setLayer(QStringLiteral("axes"));
  for (auto*& line : m_cursor) {
    line = new QCPItemStraightLine(&plot);
    line->setClipAxisRect(rect);
    line->setLayer(QStringLiteral("cursor"));
    for (QCPItemPosition* point : {line->point1, line->point2}) {
      point->setTypeX(QCPItemPosition::ptPlotCoords);
      point->setTypeY(QCPItemPosition::ptAxisRectRatio);
      point->setAxes(x(), y(Side::left));
      point->setAxisRect(rect);
    }
    line->setVisible(false);
  }
}

QCPAxis* Stripe::x() const { return rect->axis(QCPAxis::atBottom); }

QCPAxis* Stripe::y(Side side) const { return rect->axis(side == Side::left ? QCPAxis::atLeft : QCPAxis::atRight); }

void Stripe::restyle(const QPalette& palette, figure::AxisScale horizontal, const QString& xLabel) {
  applyPalette(*rect, palette);
  styleAxis(*x(), horizontal, TickUnit::tokens, m_place == Place::lowest ? xLabel : QString());
  styleAxis(*y(Side::left), strip.scale, strip.ofDifferences ? TickUnit::difference : TickUnit::any, strip.leftLabel);
  if (strip.ofDifferences) y(Side::left)->grid()->setZeroLinePen(QPen(mutedTextColour(palette), 1));
  styleAxis(*y(Side::right), strip.scale, TickUnit::any, strip.rightLabel);
  const std::array<QPen, kCursorLines> pens{QPen(pinnedQueryColour(palette), 1.5), QPen(pinnedKeyColour(palette), 1.5),
                                            QPen(hoverColour(palette), 1), QPen(hoverColour(palette), 1, Qt::DashLine)};
  for (std::size_t index = 0; index < pens.size(); ++index) m_cursor[index]->setPen(pens[index]);
}

void Stripe::beginFit() {
  m_extent = {};
  if (strip.ofDifferences) m_extent[0] = {0, 0, true};
}

void Stripe::include(Side side, double value) {
  const bool shown = std::isfinite(value) && (strip.scale == figure::AxisScale::linear || value > 0);
  if (!shown) return;
  Extent& extent = m_extent[side == Side::left ? 0 : 1];
  extent.least = extent.any ? std::min(extent.least, value) : value;
  extent.largest = extent.any ? std::max(extent.largest, value) : value;
  extent.any = true;
}

void Stripe::endFit() {
  for (const Side side : {Side::left, Side::right}) {
    Extent extent = m_extent[side == Side::left ? 0 : 1];
    const bool logarithmic = strip.scale == figure::AxisScale::logarithmic;
    if (!extent.any) {
      y(side)->setRange(logarithmic ? 0.1 : 0.0, 1.0);
      continue;
    }
    if (logarithmic) extent.least = std::max(extent.least, kMostDecades * extent.largest);
    y(side)->setRange(around(extent.least, extent.largest, strip.scale));
  }
}

void Stripe::setCursor(const std::array<std::optional<double>, kCursorLines>& places) {
  for (std::size_t index = 0; index < places.size(); ++index) {
    m_cursor[index]->setVisible(places[index].has_value());
    if (!places[index]) continue;
    m_cursor[index]->point1->setCoords(*places[index], 0);
    m_cursor[index]->point2->setCoords(*places[index], 1);
  }
}

}  // namespace foxscope::gui::curves

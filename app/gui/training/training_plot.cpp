#include "app/gui/training/training_plot.h"

#include <algorithm>
#include <utility>

#include <QEvent>
#include <QMouseEvent>
#include <QVBoxLayout>
#include <qcustomplot.h>

#include "app/figure/curves/curve_limits.h"
#include "app/gui/views/plot_style.h"
#include "app/gui/views/theme.h"

namespace foxscope::gui {
namespace {

constexpr double kWidth = 1.5;
constexpr double kStrongWidth = 3.2;
constexpr double kFaintWidth = 0.8;
constexpr float kFaint = 0.35F;
constexpr double kPointSize = 6;
constexpr double kLegendHeight = 0.001;       ///< as low as it goes
constexpr QMargins kAroundAxes(4, 4, 15, 4);  ///< at least: labels need more at the left and below

QColor colourIn(const figure::Curve& curve, const QPalette& palette) {
  if (!curve.ownColour) return runColour(curve.colour, palette);
  return {curve.ownColour->red, curve.ownColour->green, curve.ownColour->blue};
}

QCPScatterStyle::ScatterShape shapeOf(figure::PointShape shape) {
  switch (shape) {
    case figure::PointShape::square:
      return QCPScatterStyle::ssSquare;
    case figure::PointShape::triangle:
      return QCPScatterStyle::ssTriangle;
    case figure::PointShape::diamond:
      return QCPScatterStyle::ssDiamond;
    default:
      return QCPScatterStyle::ssDisc;
  }
}

QVector<double> listOf(const std::vector<double>& values) { return {values.begin(), values.end()}; }

}  // namespace

TrainingPlot::TrainingPlot(const QString& name, QWidget* parent)
    : QWidget(parent), m_axes(new QCustomPlot(this)), m_line(new QCPItemStraightLine(m_axes)) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(m_axes);
  m_axes->setAccessibleName(name);
  m_axes->setInteractions(QCP::iRangeDrag | QCP::iRangeZoom);
  m_axes->setMinimumHeight(fontMetrics().height() * 7);
  m_axes->axisRect()->insetLayout()->take(m_axes->legend);
  m_axes->plotLayout()->insertRow(0);
  m_axes->plotLayout()->addElement(0, 0, m_axes->legend);
  m_axes->plotLayout()->setRowStretchFactor(0, kLegendHeight);
  m_axes->plotLayout()->setRowSpacing(0);
  m_axes->axisRect()->setMinimumMargins(kAroundAxes);
  m_axes->legend->setFillOrder(QCPLayoutGrid::foColumnsFirst, true);
  m_line->setVisible(false);
  m_line->setSelectable(false);
  connect(m_axes, &QCustomPlot::beforeReplot, this, [this] {
    int widest = 1;
    for (int item = 0; item < m_axes->legend->itemCount(); ++item) {
      const QCPAbstractLegendItem* entry = m_axes->legend->item(item);  // null: an empty cell
      if (entry != nullptr) widest = std::max(widest, entry->minimumOuterSizeHint().width());
    }
    const int columns = std::max(1, m_axes->width() / (widest + m_axes->legend->columnSpacing()));
    if (columns == m_axes->legend->wrap()) return;
    m_axes->legend->setWrap(columns);
    m_axes->legend->setFillOrder(QCPLayoutGrid::foColumnsFirst, true);
  });
  connect(m_axes, &QCustomPlot::mouseMove, this,
          [this](const QMouseEvent* event) { emit pointed(m_axes->xAxis->pixelToCoord(event->position().x())); });
  connect(m_axes, &QCustomPlot::mousePress, this, [this](const QMouseEvent* event) {
    if (event->button() != Qt::LeftButton) return;
    m_pressed = event->position().toPoint();
  });
  connect(m_axes, &QCustomPlot::mouseRelease, this, [this](const QMouseEvent* event) {
    constexpr int kMoved = 3;  // pixels, from which on it was a drag
    if (event->button() != Qt::LeftButton) return;
    if ((event->position().toPoint() - m_pressed).manhattanLength() > kMoved) return;
    emit chosen(m_axes->xAxis->pixelToCoord(event->position().x()));
  });
  connect(m_axes, &QCustomPlot::mouseDoubleClick, this, [this] {
    showAll();
    m_axes->replot(QCustomPlot::rpQueuedReplot);
  });
}

void TrainingPlot::setPlot(figure::CurvePlot plot, std::optional<std::size_t> strong) {
  m_plot = std::move(plot);
  m_strong = strong;
  draw();
  showAll();
}

void TrainingPlot::setStrong(std::optional<std::size_t> strong) {
  if (strong == m_strong) return;
  m_strong = strong;
  draw();
}

void TrainingPlot::setMark(std::optional<double> x) {
  if (x == m_mark) return;
  m_mark = x;
  m_line->setVisible(x.has_value());
  if (x) {
    m_line->point1->setCoords(*x, 1);
    m_line->point2->setCoords(*x, 2);
  }
  m_axes->replot(QCustomPlot::rpQueuedReplot);
}

void TrainingPlot::addCurve(const figure::Curve& curve, bool strong) {
  const QColor colour = colourIn(curve, palette());
  const bool points = curve.line == figure::LineStyle::points;
  if (!curve.rawY.empty()) {
    QCPGraph* raw = m_axes->addGraph();
    QColor faint = colour;
    faint.setAlphaF(kFaint);
    raw->setPen(QPen(faint, kFaintWidth));
    raw->setData(listOf(curve.x), listOf(curve.rawY), true);
    raw->removeFromLegend();
  }
  QCPGraph* graph = m_axes->addGraph();
  graph->setName(QString::fromStdString(curve.name));
  graph->setData(listOf(curve.x), listOf(curve.y), true);
  if (curve.name.empty()) graph->removeFromLegend();
  graph->setPen(QPen(colour, strong ? kStrongWidth : kWidth, penStyle(curve.line)));
  if (strong) graph->setLayer(QStringLiteral("axes"));  // above all others
  if (!points) return;
  graph->setLineStyle(QCPGraph::lsNone);
  graph->setScatterStyle(
      QCPScatterStyle(shapeOf(curve.shape), QPen(colour), QBrush(colour), strong ? 1.6 * kPointSize : kPointSize));
  if (curve.bandUpper.empty()) return;
  auto* bars = new QCPErrorBars(m_axes->xAxis, m_axes->yAxis);
  bars->setDataPlottable(graph);
  bars->removeFromLegend();
  bars->setPen(QPen(colour, 1));
  bars->setSymbolGap(0);
  QVector<double> errors;
  for (std::size_t n = 0; n < curve.y.size(); ++n) errors.append(curve.bandUpper[n] - curve.y[n]);
  bars->setData(errors);
}

void TrainingPlot::draw() {
  m_axes->clearPlottables();
  styleAxis(*m_axes->xAxis, m_plot.xScale, TickUnit::any, QString::fromStdString(m_plot.xLabel));
  styleAxis(*m_axes->yAxis, m_plot.yScale, TickUnit::any, QString::fromStdString(m_plot.yLabel));
  for (std::size_t n = 0; n < m_plot.curves.size(); ++n) addCurve(m_plot.curves[n], n == m_strong);
  m_axes->legend->setVisible(m_axes->legend->itemCount() > 0);
  m_axes->legend->setBrush(palette().color(QPalette::Base));
  m_axes->legend->setBorderPen(Qt::NoPen);
  m_axes->legend->setTextColor(palette().color(QPalette::Text));
  m_axes->legend->setFont(font());
  applyPalette(*m_axes, palette());
  applyPalette(*m_axes->axisRect(), palette());
  m_line->setPen(QPen(pinnedQueryColour(palette()), 1.5));
  m_axes->replot(QCustomPlot::rpQueuedReplot);
}

void TrainingPlot::showAll() {
  const figure::AxisLimits x = figure::limitsOfX(m_plot);
  const figure::AxisLimits y = figure::limitsOfY(m_plot);
  m_axes->xAxis->setRange(x.lower, x.upper);
  m_axes->yAxis->setRange(y.lower, y.upper);
}

void TrainingPlot::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange && m_line != nullptr) draw();
}

}  // namespace foxscope::gui

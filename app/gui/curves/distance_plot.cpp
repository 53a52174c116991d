#include "app/gui/curves/distance_plot.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QVBoxLayout>
#include <qcustomplot.h>

#include "app/gui/views/plot_style.h"
#include "app/gui/views/theme.h"

namespace foxscope::gui::curves {
namespace {

constexpr double kLineWidth = 1.6;
constexpr double kRoomAbove = 0.06;  // of the values' range, above and, below 0, beneath them

}  // namespace

double middleOf(const DistanceBin& bin) {
  return std::sqrt(static_cast<double>(1 + bin.from) * static_cast<double>(bin.to));
}

DistancePlot::DistancePlot(QWidget* parent) : QWidget(parent), m_plot(new QCustomPlot(this)) {
  m_plot->setAttribute(Qt::WA_TransparentForMouseEvents);
  m_plot->setFocusPolicy(Qt::NoFocus);
  m_plot->setMinimumSize(20, 20);
  m_plot->axisRect()->setMinimumMargins(QMargins(8, 6, 8, 4));
  m_cursor = new QCPItemLine(m_plot);
  m_cursor->start->setTypeX(QCPItemPosition::ptPlotCoords);
  m_cursor->start->setTypeY(QCPItemPosition::ptAxisRectRatio);
  m_cursor->end->setTypeX(QCPItemPosition::ptPlotCoords);
  m_cursor->end->setTypeY(QCPItemPosition::ptAxisRectRatio);
  m_cursor->setVisible(false);
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(1, 1, 1, 1);
  layout->addWidget(m_plot);
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
}

const std::vector<DistanceBin>& DistancePlot::bins() const {
  static const std::vector<DistanceBin> kNone;
  const auto longest =
      std::max_element(m_lines.begin(), m_lines.end(),
                       [](const DistanceLine& a, const DistanceLine& b) { return a.bins.size() < b.bins.size(); });
  return longest == m_lines.end() ? kNone : longest->bins;
}

void DistancePlot::setLines(std::vector<DistanceLine> lines, const QString& label) {
  m_lines = std::move(lines);
  m_label = label;
  if (m_hovered && *m_hovered >= bins().size()) m_hovered.reset();
  for (QCPGraph* graph : m_graphs) m_plot->removeGraph(graph);
  m_graphs.clear();
  double least = 0;
  double largest = 0;
  for (const DistanceLine& line : m_lines) {
    QVector<double> x;
    QVector<double> y;
    for (std::size_t bin = 0; bin < line.value.size(); ++bin) {
      x.push_back(middleOf(line.bins[bin]));
      y.push_back(line.value[bin]);
      if (!std::isfinite(line.value[bin])) continue;
      least = std::min(least, line.value[bin]);
      largest = std::max(largest, line.value[bin]);
    }
    m_graphs.push_back(m_plot->addGraph());
    m_graphs.back()->setData(x, y, true);
  }
  const double room = kRoomAbove * (largest > least ? largest - least : 1);
  m_plot->yAxis->setRange(least < 0 ? least - room : 0, largest + room);
  if (!bins().empty()) m_plot->xAxis->setRange(1, static_cast<double>(std::max<std::int64_t>(2, bins().back().to)));
  restyle();
}

void DistancePlot::restyle() {
  applyPalette(*m_plot, palette());
  applyPalette(*m_plot->axisRect(), palette());
  styleAxis(*m_plot->xAxis, figure::AxisScale::logarithmic, TickUnit::tokens, tr("1 + distance, tokens"));
  styleAxis(*m_plot->yAxis, figure::AxisScale::linear, TickUnit::any, m_label);
  for (std::size_t index = 0; index < m_graphs.size(); ++index) {
    const DistanceLine& line = m_lines[index];
    m_graphs[index]->setPen(QPen(line.colour, kLineWidth, line.style));
    m_graphs[index]->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssDisc, line.colour, line.colour, 4));
  }
  m_cursor->setPen(QPen(hoverColour(palette()), 1));
  m_cursor->setVisible(m_hovered.has_value());
  if (m_hovered) {
    const double x = middleOf(bins()[*m_hovered]);
    m_cursor->start->setCoords(x, 0);
    m_cursor->end->setCoords(x, 1);
  }
  if (!m_plot->viewport().isEmpty()) m_plot->replot(QCustomPlot::rpQueuedReplot);
}

double DistancePlot::pixelOf(std::size_t bin) const {
  return m_plot->pos().x() + m_plot->xAxis->coordToPixel(middleOf(bins().at(bin)));
}

void DistancePlot::setHovered(std::optional<std::size_t> bin) {
  if (bin == m_hovered) return;
  m_hovered = bin;
  restyle();
  emit hoveredChanged();
}

void DistancePlot::mouseMoveEvent(QMouseEvent* event) {
  std::optional<std::size_t> nearest;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t bin = 0; bin < bins().size(); ++bin) {
    const double away = std::abs(pixelOf(bin) - event->position().x());
    if (away >= least) continue;
    least = away;
    nearest = bin;
  }
  setHovered(nearest);
}

void DistancePlot::leaveEvent(QEvent* event) {
  QWidget::leaveEvent(event);
  setHovered(std::nullopt);
}

void DistancePlot::keyPressEvent(QKeyEvent* event) {
  const bool back = event->key() == Qt::Key_Left;
  if ((!back && event->key() != Qt::Key_Right) || bins().empty()) return QWidget::keyPressEvent(event);
  const std::size_t last = bins().size() - 1;
  if (!m_hovered) return setHovered(back ? last : 0);
  setHovered(back ? (*m_hovered > 0 ? *m_hovered - 1 : 0) : std::min(last, *m_hovered + 1));
}

void DistancePlot::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange) restyle();
}

void DistancePlot::focusInEvent(QFocusEvent* event) {
  QWidget::focusInEvent(event);
  update();
}

void DistancePlot::focusOutEvent(QFocusEvent* event) {
  QWidget::focusOutEvent(event);
  update();
}

void DistancePlot::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  painter.setPen(palette().color(hasFocus() ? QPalette::Highlight : QPalette::Base));
  painter.drawRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5));
}

}  // namespace foxscope::gui::curves

#include "app/gui/atlas/gate_bars.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <QEvent>
#include <QMouseEvent>
#include <QVBoxLayout>
#include <qcustomplot.h>

#include "app/gui/document/number_text.h"
#include "app/gui/views/plot_style.h"
#include "app/gui/views/theme.h"
#include "backend/base/index.h"

namespace foxscope::gui::atlas {
namespace {

constexpr std::size_t kBinsOfBar = 4;  ///< bins of the file in one bar: 4 bars an octave

}  // namespace

GateBars::GateBars(QWidget* parent)
    : QWidget(parent),
      m_plot(new QCustomPlot(this)),
      m_graph(m_plot->addGraph()),
      m_half(new QCPItemStraightLine(m_plot)) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(m_plot);
  m_plot->setMinimumSize(120, 60);
  fitTicksToSize(*m_plot);
  m_plot->setAccessibleName(tr("Histogram of gates"));
  m_graph->setLineStyle(QCPGraph::lsStepLeft);
  m_half->setSelectable(false);
  connect(m_plot, &QCustomPlot::mouseMove, this,
          [this](const QMouseEvent* event) { tell(m_plot->xAxis->pixelToCoord(event->position().x())); });
}

void GateBars::setHistogram(AtlasHistogram histogram, const AtlasHeadResets& resets) {
  m_histogram = std::move(histogram);
  m_resets = resets;
  draw();
}

void GateBars::show(Shown shown) {
  m_shown = shown;
  draw();
}

void GateBars::draw() {
  m_ends.clear();
  m_shares.clear();
  m_kept = 0;
  QString title = tr("distance of neighbouring resets (tokens)");
  if (m_shown == Shown::gaps) {
    const auto all = static_cast<double>(std::accumulate(m_resets.gaps.begin(), m_resets.gaps.end(), std::int64_t{0}));
    std::size_t last = m_resets.gaps.size();
    while (last > 0 && m_resets.gaps[last - 1] == 0) --last;
    for (std::size_t bin = 0; bin < last; ++bin) {
      m_ends.append(static_cast<double>(m_resets.gap[bin]));
      m_shares.append(static_cast<double>(m_resets.gaps[bin]) / all);
    }
    if (last > 0) {
      m_ends.append(2 * static_cast<double>(m_resets.gap[last - 1]));
      m_shares.append(0);
    }
  } else if (!m_histogram.positions.empty()) {
    const std::vector<std::int64_t>& positions = m_histogram.positions;
    const auto all = static_cast<double>(std::accumulate(positions.begin(), positions.end(), std::int64_t{0}));
    // The first bin begins at 0.
    m_kept = all > 0 ? static_cast<double>(positions.front()) / all : 0;
    std::size_t first = 1;
    std::size_t last = positions.size();
    while (first < last && positions[first] == 0) ++first;
    while (last > first && positions[last - 1] == 0) --last;
    first = 1 + (first - 1) / kBinsOfBar * kBinsOfBar;
    for (std::size_t bin = first; bin < last; bin += kBinsOfBar) {
      const std::size_t end = std::min(bin + kBinsOfBar, positions.size());
      std::int64_t count = 0;
      for (std::size_t n = bin; n < end; ++n) count += positions[n];
      m_ends.append(m_histogram.minus_log_gate[bin]);
      m_shares.append(static_cast<double>(count) / all);
    }
    if (!m_ends.isEmpty()) {
      m_ends.append(m_ends.back() * std::exp2(0.25));
      m_shares.append(0);
    }
    title = tr("−log f (nats)");
    if (m_shown == Shown::decayTime) {
      // A bar from a to b becomes one from 1/b to 1/a.
      QVector<double> ends;
      QVector<double> shares;
      for (qsizetype n = m_ends.size(); n-- > 0;) ends.append(1 / m_ends[n]);
      for (qsizetype n = m_shares.size() - 1; n-- > 0;) shares.append(m_shares[n]);
      if (!ends.isEmpty()) shares.append(0);
      m_ends = ends;
      m_shares = shares;
      title = tr("decay time −1 / log f (tokens)");
    }
  }
  styleAxis(*m_plot->xAxis, figure::AxisScale::logarithmic, TickUnit::any, title);
  styleAxis(*m_plot->yAxis, figure::AxisScale::linear, TickUnit::any,
            m_shown == Shown::gaps ? tr("share of distances") : tr("share of positions"));
  m_graph->setData(m_ends, m_shares, true);
  const QColor colour = runColour(0, palette());
  m_graph->setPen(QPen(colour, 1));
  QColor fill = colour;
  fill.setAlphaF(0.5F);
  m_graph->setBrush(fill);
  const double most = m_shares.isEmpty() ? 0 : *std::ranges::max_element(m_shares);
  m_plot->yAxis->setRange(0, most > 0 ? 1.05 * most : 1);
  if (m_ends.size() > 1) m_plot->xAxis->setRange(m_ends.front(), m_ends.back());
  const double half = m_shown == Shown::decayTime ? 1 / std::log(2.0) : std::log(2.0);
  m_half->setVisible(m_shown != Shown::gaps);
  m_half->point1->setCoords(half, 0);
  m_half->point2->setCoords(half, 1);
  m_half->setPen(QPen(pinnedQueryColour(palette()), 1, Qt::DashLine));
  applyPalette(*m_plot, palette());
  applyPalette(*m_plot->axisRect(), palette());
  m_plot->replot(QCustomPlot::rpQueuedReplot);
}

void GateBars::tell(double x) {
  const auto after = std::ranges::upper_bound(m_ends, x);
  if (after == m_ends.begin() || after == m_ends.end()) return emit hovered({});
  const auto bar = after - m_ends.begin() - 1;
  const QString what = m_shown == Shown::gaps ? tr("of the distances") : tr("of the positions");
  emit hovered(
      tr("%1 to %2: %3 % %4")
          .arg(numberOf(m_ends[bar], 3), numberOf(m_ends[bar + 1], 3), numberOf(100 * m_shares[bar], 3), what));
}

void GateBars::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) draw();
}

}  // namespace foxscope::gui::atlas

#include "app/gui/curves/decay_plot.h"

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
#include "backend/base/index.h"

namespace foxscope::gui::curves {
namespace {

constexpr double kDot = 7;           // pixels across
constexpr double kReach = 12;        // pixels from the mouse to a dot that it means
constexpr double kColumns = 0.84;    // of a layer's width that its columns of dots fill
constexpr double kTimeMargin = 1.3;  // factor beyond the least and the largest decay time

}  // namespace

DecayPlot::DecayPlot(QWidget* parent) : QWidget(parent), m_plot(new QCustomPlot(this)), m_rect(m_plot->axisRect()) {
  m_plot->setAttribute(Qt::WA_TransparentForMouseEvents);
  m_plot->setFocusPolicy(Qt::NoFocus);
  m_plot->setMinimumSize(20, 20);
  m_channels = m_plot->addGraph();
  m_ring = m_plot->addGraph();
  m_hoverRing = m_plot->addGraph();
  m_rect->setMinimumMargins(QMargins(8, 6, 8, 4));
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(1, 1, 1, 1);
  layout->addWidget(m_plot);
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  connect(m_plot, &QCustomPlot::afterLayout, this, &DecayPlot::placeDots);
}

DecayPlot::~DecayPlot() { disconnect(m_plot, nullptr, this, nullptr); }

void DecayPlot::setSpectra(std::vector<DecaySpectrum> spectra) {
  m_spectra = std::move(spectra);
  for (QCPGraph* graph : m_graphs) m_plot->removeGraph(graph);
  m_graphs.clear();
  for (QCPCurve* range : m_ranges) m_plot->removePlottable(range);
  m_ranges.clear();
  m_hovered.reset();
  double least = std::numeric_limits<double>::infinity();
  double largest = 0;
  int layers = 1;
  for (const DecaySpectrum& spectrum : m_spectra) {
    m_ranges.push_back(new QCPCurve(m_plot->xAxis, m_plot->yAxis));
    m_graphs.push_back(m_plot->addGraph());
    m_graphs.back()->setLineStyle(QCPGraph::lsNone);
    layers = std::max(layers, spectrum.run.trace->info().layers);
    for (const HeadDecay& head : spectrum.heads) {
      const auto take = [&](double time) {
        if (!std::isfinite(time)) return;
        least = std::min(least, time);
        largest = std::max(largest, time);
      };
      take(head.time);
      for (const double time : head.channels) take(time);
    }
  }
  m_plot->xAxis->setRange(-0.5, layers - 0.5);
  if (largest > 0) {
    m_plot->yAxis->setRange(least / kTimeMargin, largest * kTimeMargin);
  } else {
    m_plot->yAxis->setRange(1, 1000);
  }
  restyle();
}

void DecayPlot::restyle() {
  applyPalette(*m_plot, palette());
  applyPalette(*m_rect, palette());
  styleAxis(*m_plot->xAxis, figure::AxisScale::linear, TickUnit::tokens, tr("layer"));
  styleAxis(*m_plot->yAxis, figure::AxisScale::logarithmic, TickUnit::tokens, tr("decay time, tokens"));
  m_plot->xAxis->grid()->setVisible(false);
  for (std::size_t index = 0; index < m_graphs.size(); ++index) {
    const QColor colour = runColour(m_spectra[index].run.look.colour, palette());
    QColor inside = colour;
    inside.setAlphaF(0.75F);
    m_graphs[index]->setScatterStyle(
        QCPScatterStyle(QCPScatterStyle::ssCircle, QPen(colour, 1), QBrush(inside), kDot - 1));
    QColor faint = colour;
    faint.setAlphaF(0.45F);
    m_ranges[index]->setPen(QPen(faint, 1));
  }
  const auto ring = [](QCPGraph* graph, const QPen& pen) {
    graph->setLineStyle(QCPGraph::lsNone);
    graph->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssCircle, pen, QBrush(Qt::NoBrush), kDot + 6));
  };
  m_channels->setLineStyle(QCPGraph::lsNone);
  m_channels->setScatterStyle(QCPScatterStyle(QCPScatterStyle::ssDisc, palette().color(QPalette::Text), 3));
  ring(m_ring, QPen(palette().color(QPalette::Text), 2));
  ring(m_hoverRing, QPen(hoverColour(palette()), 1.5));
  redraw();
}

void DecayPlot::redraw() {
  if (!m_plot->viewport().isEmpty()) m_plot->replot(QCustomPlot::rpQueuedReplot);
}

// Called when the axes know their lengths: dots are as large as they are on the screen.
void DecayPlot::placeDots() {
  m_dots.clear();
  const double layerWidth = m_plot->xAxis->coordToPixel(1) - m_plot->xAxis->coordToPixel(0);
  const auto groups = static_cast<double>(std::max<std::ptrdiff_t>(
      1, std::count_if(m_spectra.begin(), m_spectra.end(), [](const auto& one) { return !one.heads.empty(); })));
  double group = 0;
  for (std::size_t index = 0; index < m_spectra.size(); ++index) {
    if (m_spectra[index].heads.empty()) continue;
    const double centre = kColumns * ((group + 0.5) / groups - 0.5);
    const double room = std::max(0.0, kColumns * layerWidth / groups / 2 - kDot / 2);
    ++group;
    QVector<QCPGraphData> drawn;
    QVector<QCPCurveData> ranges;
    const auto point = [&](double x, double y) { ranges.push_back({static_cast<double>(ranges.size()), x, y}); };
    std::vector<HeadDecay> heads = m_spectra[index].heads;
    std::erase_if(heads, [](const HeadDecay& head) { return !std::isfinite(head.time); });
    std::sort(heads.begin(), heads.end(), [](const HeadDecay& a, const HeadDecay& b) {
      return a.head.layer != b.head.layer ? a.head.layer < b.head.layer : a.time < b.time;
    });
    for (auto begin = heads.begin(); begin != heads.end();) {
      const auto end =
          std::find_if(begin, heads.end(), [&](const HeadDecay& head) { return head.head.layer != begin->head.layer; });
      std::vector<double> heights;
      for (auto head = begin; head != end; ++head) heights.push_back(m_plot->yAxis->coordToPixel(head->time));
      std::vector<double> shifts = swarm(heights, kDot, room);
      if (!begin->channels.empty()) {
        // Lines of channels beside each other are longer than dots.
        const auto count = static_cast<double>(heights.size());
        const double step = std::min(kDot + 4, 2 * room / count);
        for (std::size_t n = 0; n < shifts.size(); ++n) shifts[n] = (static_cast<double>(n) - (count - 1) / 2) * step;
      }
      for (auto head = begin; head != end; ++head) {
        const double x = head->head.layer + centre + shifts[index_of(head - begin)] / layerWidth;
        m_dots.push_back({*head, x});
        drawn.push_back({x, head->time});
        const auto slowest = std::ranges::find_if_not(head->channels, [](double time) { return std::isfinite(time); });
        if (slowest == head->channels.begin()) continue;
        point(x, head->channels.front());
        point(x, *(slowest - 1));
        point(std::nan(""), std::nan(""));
      }
      begin = end;
    }
    m_graphs[index]->data()->set(drawn, false);
    m_ranges[index]->data()->set(ranges, true);
  }
  placeRings();
}

void DecayPlot::placeRings() {
  const auto place = [&](QCPGraph* ring, const Dot* dot) {
    ring->data()->clear();
    if (dot != nullptr) ring->addData(dot->x, dot->head.time);
  };
  place(m_ring, find(m_chosen));
  place(m_hoverRing, m_hovered ? find(m_hovered->head) : nullptr);
  m_channels->data()->clear();
  const Dot* const told = m_hovered ? find(m_hovered->head) : find(m_chosen);
  if (told == nullptr) return;
  for (const double time : told->head.channels) m_channels->addData(told->x, time);
}

void DecayPlot::setChosen(const HeadChoice& head) {
  m_chosen = head;
  placeRings();
  redraw();
}

const DecayPlot::Dot* DecayPlot::find(const HeadChoice& head) const {
  const auto found = std::find_if(m_dots.begin(), m_dots.end(), [&](const Dot& dot) { return dot.head.head == head; });
  return found == m_dots.end() ? nullptr : &*found;
}

std::optional<QPointF> DecayPlot::dotOf(const HeadChoice& head) const {
  const Dot* dot = find(head);
  if (dot == nullptr) return std::nullopt;
  return QPointF(m_plot->pos()) +
         QPointF(m_plot->xAxis->coordToPixel(dot->x), m_plot->yAxis->coordToPixel(dot->head.time));
}

const DecayPlot::Dot* DecayPlot::dotAt(const QPointF& place) const {
  const Dot* nearest = nullptr;
  double least = kReach;
  for (const Dot& dot : m_dots) {
    const QPointF away = QPointF(m_plot->pos()) +
                         QPointF(m_plot->xAxis->coordToPixel(dot.x), m_plot->yAxis->coordToPixel(dot.head.time)) -
                         place;
    const double distance = std::hypot(away.x(), away.y());
    if (distance >= least) continue;
    least = distance;
    nearest = &dot;
  }
  return nearest;
}

void DecayPlot::setHovered(const std::optional<HeadDecay>& head) {
  const bool same = head.has_value() == m_hovered.has_value() && (!head || head->head == m_hovered->head);
  if (same) return;
  m_hovered = head;
  setCursor(head ? Qt::PointingHandCursor : Qt::ArrowCursor);
  placeRings();
  redraw();
  emit hoveredChanged();
}

void DecayPlot::mouseMoveEvent(QMouseEvent* event) {
  const Dot* dot = dotAt(event->position());
  setHovered(dot != nullptr ? std::optional(dot->head) : std::nullopt);
}

void DecayPlot::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return QWidget::mousePressEvent(event);
  if (const Dot* dot = dotAt(event->position())) emit headClicked(dot->head.head);
}

void DecayPlot::leaveEvent(QEvent* event) {
  QWidget::leaveEvent(event);
  setHovered(std::nullopt);
}

// Up and down: the next longer and shorter decay time of the layer; left and right: the same head of the next layer.
void DecayPlot::keyPressEvent(QKeyEvent* event) {
  const Dot* chosen = find(m_chosen);
  const bool across = event->key() == Qt::Key_Left || event->key() == Qt::Key_Right;
  const bool along = event->key() == Qt::Key_Up || event->key() == Qt::Key_Down;
  if (!across && !along) return QWidget::keyPressEvent(event);
  if (chosen == nullptr) {
    if (!m_dots.empty()) emit headClicked(m_dots.front().head.head);
    return;
  }
  HeadChoice next = m_chosen;
  if (across) {
    next.layer += event->key() == Qt::Key_Right ? 1 : -1;
    if (find(next) != nullptr) emit headClicked(next);
    return;
  }
  // Dots of a layer stand next to each other, shorter times first.
  const Dot* beside = chosen + (event->key() == Qt::Key_Up ? 1 : -1);
  const bool exists = beside >= m_dots.data() && beside < m_dots.data() + m_dots.size();
  if (exists && beside->head.head.run == next.run && beside->head.head.layer == next.layer) {
    emit headClicked(beside->head.head);
  }
}

void DecayPlot::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange) restyle();
}

void DecayPlot::focusInEvent(QFocusEvent* event) {
  QWidget::focusInEvent(event);
  update();
}

void DecayPlot::focusOutEvent(QFocusEvent* event) {
  QWidget::focusOutEvent(event);
  update();
}

void DecayPlot::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  painter.setPen(palette().color(hasFocus() ? QPalette::Highlight : QPalette::Base));
  painter.drawRect(QRectF(rect()).adjusted(0.5, 0.5, -0.5, -0.5));
}

}  // namespace foxscope::gui::curves

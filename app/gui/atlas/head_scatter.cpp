#include "app/gui/atlas/head_scatter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <QEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QVBoxLayout>
#include <qcustomplot.h>

#include "app/gui/atlas/atlas_model.h"
#include "app/gui/views/plot_style.h"
#include "app/gui/views/theme.h"

namespace foxscope::gui::atlas {
namespace {

constexpr double kNear = 12;        ///< pixels from which a point takes the mouse
constexpr double kDragged = 4;      ///< pixels from which on a press is a line
constexpr double kRing = 3;         ///< pixels from a point to a ring around it
constexpr std::size_t kNamed = 12;  ///< as many chosen heads have their names beside them
constexpr std::size_t kFewHeads = 100;

figure::AxisScale scaleOf(const ScatterAxis& axis) {
  return axis.logarithmic ? figure::AxisScale::logarithmic : figure::AxisScale::linear;
}

}  // namespace

bool ScatterAxis::holds(double value) const { return std::isfinite(value) && (!logarithmic || value > 0); }

bool ScatterContent::has(std::size_t head) const {
  return head < names.size() && x.holds(x.values[head]) && y.holds(y.values[head]);
}

/// The points over the axes, and what is drawn around them.
class HeadScatter::Points : public QCPAbstractItem {
 public:
  Points(QCustomPlot* plot, const HeadScatter& scatter) : QCPAbstractItem(plot), m_scatter(scatter) {
    setSelectable(false);
  }
  double selectTest(const QPointF& /*pos*/, bool /*onlySelectable*/, QVariant* /*details*/) const override {
    return -1;
  }

 protected:
  void draw(QCPPainter* painter) override {
    painter->setAntialiasing(true);
    // Points at an edge are whole.
    const int beyond = static_cast<int>(std::ceil(radius() + kRing)) + 1;
    painter->setClipRect(mParentPlot->axisRect()->rect().adjusted(-beyond, -beyond, beyond, beyond));
    const ScatterContent& content = m_scatter.m_content;
    const bool few = !m_scatter.m_chosen.empty();
    // Chosen heads lie above the others.
    for (const bool chosen : {false, true}) {
      for (std::size_t head = 0; head < content.names.size(); ++head) {
        if (few ? m_scatter.m_chosen.contains(head) == chosen : !chosen) drawHead(*painter, head, few && !chosen);
      }
    }
    if (m_scatter.m_head) ring(*painter, *m_scatter.m_head, pinnedQueryColour(m_scatter.palette()), 2);
    m_named.clear();
    if (m_scatter.m_hovered) {
      errors(*painter, *m_scatter.m_hovered);
      ring(*painter, *m_scatter.m_hovered, hoverColour(m_scatter.palette()), 1.5);
      name(*painter, *m_scatter.m_hovered, content.names[*m_scatter.m_hovered]);
    } else if (m_scatter.m_head) {
      name(*painter, *m_scatter.m_head, content.names[*m_scatter.m_head]);
    }
    if (m_scatter.m_chosen.size() <= kNamed) {
      for (const std::size_t head : m_scatter.m_chosen) name(*painter, head, content.names[head]);
    }
    if (m_scatter.m_lasso.size() < 2) return;
    QColor area = m_scatter.palette().color(QPalette::Highlight);
    painter->setPen(QPen(area, 1.5, Qt::DashLine));
    area.setAlphaF(0.12F);
    painter->setBrush(area);
    painter->drawPolygon(m_scatter.m_lasso);
  }

 private:
  [[nodiscard]] double radius() const { return m_scatter.m_content.names.size() > kFewHeads ? 3.5 : 5; }

  [[nodiscard]] std::optional<QPointF> placeInSight(std::size_t head) const {
    const auto place = m_scatter.placeOf(head);
    return place && QRectF(mParentPlot->axisRect()->rect()).contains(*place) ? place : std::nullopt;
  }

  void drawHead(QPainter& painter, std::size_t head, bool faded) const {
    const auto place = placeInSight(head);
    if (!place) return;
    const ScatterContent& content = m_scatter.m_content;
    const QPalette palette = m_scatter.palette();
    painter.setOpacity(faded ? 0.3 : 1);
    QColor edge = mutedTextColour(palette);
    edge.setAlphaF(0.6F);
    painter.setPen(QPen(edge, 1));
    if (std::isfinite(content.colour[head])) {
      const figure::Rgb rgb = content.colours.colour(content.colour[head]);
      painter.setBrush(QColor(rgb.red, rgb.green, rgb.blue));
    } else {
      painter.setPen(QPen(mutedTextColour(palette), 1));
      painter.setBrush(Qt::NoBrush);
    }
    painter.drawEllipse(*place, radius(), radius());
    painter.setOpacity(1);
  }

  void ring(QPainter& painter, std::size_t head, const QColor& colour, double width) const {
    const auto place = placeInSight(head);
    if (!place) return;
    painter.setPen(QPen(colour, width));
    painter.setBrush(Qt::NoBrush);
    painter.drawEllipse(*place, radius() + kRing, radius() + kRing);
  }

  /// Bars of one standard error.
  void errors(QPainter& painter, std::size_t head) const {
    const auto place = placeInSight(head);
    if (!place) return;
    const ScatterContent& content = m_scatter.m_content;
    painter.setPen(QPen(hoverColour(m_scatter.palette()), 1));
    const auto bar = [&](const ScatterAxis& axis, QCPAxis& on, bool across) {
      if (axis.errors.empty() || !std::isfinite(axis.errors[head])) return;
      const double value = axis.values[head];
      const double low = value - axis.errors[head];
      const double from = on.coordToPixel(axis.holds(low) ? low : axis.limits.lower);
      const double to = on.coordToPixel(value + axis.errors[head]);
      across ? painter.drawLine(QPointF(from, place->y()), QPointF(to, place->y()))
             : painter.drawLine(QPointF(place->x(), from), QPointF(place->x(), to));
    };
    bar(content.x, *mParentPlot->xAxis, true);
    bar(content.y, *mParentPlot->yAxis, false);
  }

  /// Beside the point, unless another name stands there.
  void name(QPainter& painter, std::size_t head, const QString& text) {
    const auto place = placeInSight(head);
    if (!place) return;
    const QRectF room = mParentPlot->axisRect()->rect();
    const QFontMetricsF metrics(m_scatter.font());
    QRectF box(0, 0, metrics.horizontalAdvance(text) + 6, metrics.height());
    box.moveTopLeft(*place + QPointF(radius() + 4, -box.height() - 1));
    if (box.right() > room.right()) box.moveRight(place->x() - radius() - 4);
    if (box.top() < room.top()) box.moveTop(place->y() + radius() + 1);
    if (std::ranges::any_of(m_named, [&](const QRectF& other) { return other.intersects(box); })) return;
    m_named.push_back(box);
    QColor ground = m_scatter.palette().color(QPalette::Base);
    ground.setAlphaF(0.8F);
    painter.fillRect(box, ground);
    painter.setPen(m_scatter.palette().color(QPalette::Text));
    painter.drawText(box, Qt::AlignCenter, text);
  }

  const HeadScatter& m_scatter;
  std::vector<QRectF> m_named;  ///< places of the names that are drawn
};

HeadScatter::HeadScatter(QWidget* parent)
    : QWidget(parent), m_plot(new QCustomPlot(this)), m_points(new Points(m_plot, *this)) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(0, 0, 0, 0);
  layout->addWidget(m_plot);
  m_plot->setInteractions(QCP::iRangeZoom);
  m_plot->setMinimumSize(120, 60);
  fitTicksToSize(*m_plot);
  m_plot->setMouseTracking(true);
  m_plot->setFocusPolicy(Qt::StrongFocus);
  m_plot->setAccessibleName(tr("Scatter of heads"));
  m_plot->installEventFilter(this);
  restyle();
}

HeadScatter::~HeadScatter() { m_plot->removeEventFilter(this); }

void HeadScatter::setContent(ScatterContent content) {
  m_content = std::move(content);
  m_hovered.reset();
  m_lasso.clear();
  styleAxis(*m_plot->xAxis, scaleOf(m_content.x), TickUnit::any, m_content.x.title);
  styleAxis(*m_plot->yAxis, scaleOf(m_content.y), TickUnit::any, m_content.y.title);
  restyle();
  showAll();
}

std::pair<figure::AxisLimits, figure::AxisLimits> HeadScatter::shownLimits() const {
  const auto limits = [](const QCPAxis& axis) { return figure::AxisLimits{axis.range().lower, axis.range().upper}; };
  return {limits(*m_plot->xAxis), limits(*m_plot->yAxis)};
}

void HeadScatter::setHead(std::optional<std::size_t> head) {
  m_head = head;
  repaintPoints();
}

void HeadScatter::setChosen(const std::set<std::size_t>& heads) {
  m_chosen = heads;
  repaintPoints();
}

void HeadScatter::repaintPoints() { m_plot->replot(QCustomPlot::rpQueuedReplot); }

void HeadScatter::restyle() {
  applyPalette(*m_plot, palette());
  applyPalette(*m_plot->axisRect(), palette());
  repaintPoints();
}

void HeadScatter::showAll() {
  m_plot->xAxis->setRange(m_content.x.limits.lower, m_content.x.limits.upper);
  m_plot->yAxis->setRange(m_content.y.limits.lower, m_content.y.limits.upper);
  repaintPoints();
}

std::optional<QPointF> HeadScatter::placeOf(std::size_t head) const {
  if (!m_content.has(head)) return std::nullopt;
  return QPointF(m_plot->xAxis->coordToPixel(m_content.x.values[head]),
                 m_plot->yAxis->coordToPixel(m_content.y.values[head]));
}

QString HeadScatter::description(std::size_t head) const {
  const auto number = [&](const ScatterAxis& axis) {
    const double error = axis.errors.empty() ? std::nan("") : axis.errors[head];
    return tr("%1 %2").arg(axis.name, withError(axis.values[head], error));
  };
  return tr("%1: %2, %3; %4 %5")
      .arg(m_content.names[head], number(m_content.x), number(m_content.y), m_content.colourName,
           withError(m_content.colour[head], std::nan("")));
}

std::optional<std::size_t> HeadScatter::headAt(const QPointF& place) const {
  std::optional<std::size_t> nearest;
  double least = kNear;
  for (std::size_t head = 0; head < m_content.names.size(); ++head) {
    const auto at = placeOf(head);
    if (!at) continue;
    const double distance = std::hypot(at->x() - place.x(), at->y() - place.y());
    if (distance >= least) continue;
    least = distance;
    nearest = head;
  }
  return nearest;
}

void HeadScatter::moveTo(const QPointF& place) {
  if (m_pressed) {
    const bool dragged =
        m_lasso.size() > 1 || std::hypot(place.x() - m_lasso.front().x(), place.y() - m_lasso.front().y()) > kDragged;
    if (!dragged) return;
    m_lasso.append(place);
    return repaintPoints();
  }
  const auto head = headAt(place);
  if (head == m_hovered) return;
  m_hovered = head;
  emit hovered(head ? description(*head) : QString());
  repaintPoints();
}

void HeadScatter::release(Qt::KeyboardModifiers modifiers) {
  m_pressed = false;
  const QPolygonF lasso = std::exchange(m_lasso, {});
  repaintPoints();
  if (lasso.size() < 3) {
    const auto head = headAt(lasso.front());
    if (head) return emit headClicked(*head);
    if (!m_chosen.empty()) emit headsEnclosed({});
    return;
  }
  std::set<std::size_t> enclosed;
  if (modifiers.testFlag(Qt::ShiftModifier)) enclosed = m_chosen;
  for (std::size_t head = 0; head < m_content.names.size(); ++head) {
    const auto at = placeOf(head);
    if (at && lasso.containsPoint(*at, Qt::OddEvenFill)) enclosed.insert(head);
  }
  emit headsEnclosed(enclosed);
}

bool HeadScatter::step(int by) {
  std::vector<std::size_t> heads;
  for (std::size_t head = 0; head < m_content.names.size(); ++head) {
    if (m_content.has(head)) heads.push_back(head);
  }
  if (heads.empty()) return false;
  std::ranges::stable_sort(heads, {}, [&](std::size_t head) { return m_content.x.values[head]; });
  const auto here = m_head ? std::ranges::find(heads, *m_head) : heads.end();
  const auto last = std::ssize(heads) - 1;
  const auto next = here == heads.end() ? 0 : std::clamp<std::ptrdiff_t>(here - heads.begin() + by, 0, last);
  emit headClicked(heads[static_cast<std::size_t>(next)]);
  return true;
}

bool HeadScatter::eventFilter(QObject* watched, QEvent* event) {
  switch (event->type()) {
    case QEvent::MouseButtonPress: {
      const auto* mouse = static_cast<QMouseEvent*>(event);
      if (mouse->button() != Qt::LeftButton) break;
      m_pressed = true;
      m_lasso = QPolygonF({mouse->position()});
      break;
    }
    case QEvent::MouseMove:
      moveTo(static_cast<QMouseEvent*>(event)->position());
      break;
    case QEvent::MouseButtonRelease: {
      const auto* mouse = static_cast<QMouseEvent*>(event);
      if (mouse->button() == Qt::LeftButton && m_pressed) release(mouse->modifiers());
      break;
    }
    case QEvent::MouseButtonDblClick:
      showAll();
      return true;
    case QEvent::Leave:
      m_hovered.reset();
      emit hovered({});
      repaintPoints();
      break;
    case QEvent::KeyPress: {
      const int key = static_cast<QKeyEvent*>(event)->key();
      if (key == Qt::Key_Left || key == Qt::Key_Right) return step(key == Qt::Key_Left ? -1 : 1);
      if (key != Qt::Key_Escape || m_chosen.empty()) break;
      emit headsEnclosed({});
      return true;
    }
    default:
      break;
  }
  return QWidget::eventFilter(watched, event);
}

void HeadScatter::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) restyle();
}

}  // namespace foxscope::gui::atlas

#include "app/gui/effects/sweep_grid.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>
#include <QToolTip>

#include "app/figure/colour_map.h"
#include "app/gui/document/number_text.h"
#include "app/gui/views/cell_table.h"
#include "app/gui/views/estimate_text.h"
#include "app/gui/views/theme.h"
#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

constexpr int kLeastWide = 4;
constexpr int kLeastHigh = 4;
constexpr int kFramedCell = 9;  ///< from which the mark of a head is drawn inside its cell
constexpr int kMostWide = 90;
constexpr int kMostHigh = 44;
constexpr int kLegendBar = 10;  ///< height of the colour bar

QColor changeColour(const QPalette& palette, double value, double limit) {
  const figure::Rgb rgb = figure::colourAt(divergingColours(palette), (value / limit + 1) / 2);
  return {rgb.red, rgb.green, rgb.blue};
}

}  // namespace

SweepGrid::SweepGrid(QWidget* parent) : QWidget(parent) {
  setFocusPolicy(Qt::StrongFocus);
  setMouseTracking(true);
  setAccessibleName(tr("Change of the loss by each head"));
  describeCells(
      *this, {[this] { return QSize(m_sweep.heads, m_sweep.layers); },
              [this](int layer, int head) { return m_sweep.has(layer, head) ? spoken(layer, head) : QString(); },
              [this](int layer, int head) { return m_sweep.has(layer, head) ? cell(layer, head) : QRect(); },
              [this](int layer, int head) { return m_chosen == std::pair(layer, head); },
              [this](int layer, int head) {
                if (m_sweep.has(layer, head)) emit headChosen(layer, head);
              },
              [](int layer) { return tr("layer %1").arg(layer); }, [](int head) { return tr("head %1").arg(head); }});
}

QString SweepGrid::spoken(int layer, int head) const {
  const QString name = tr("layer %1, head %2").arg(layer).arg(head);
  const LossChange* effect = m_sweep.effect(layer, head);
  if (effect == nullptr) return tr("%1, not known yet").arg(name);
  return tr("%1, %2 nats/token").arg(name, estimateText(effect->mean));
}

void SweepGrid::setSweep(const HeadSweep& sweep, const std::optional<std::pair<int, int>>& chosen) {
  const bool sameSize = sweep.layers == m_sweep.layers && sweep.heads == m_sweep.heads;
  const bool another = chosen && chosen != m_chosen;
  m_sweep = sweep;
  m_chosen = chosen;
  std::vector<double> values;
  for (const auto& effect : m_sweep.effects) {
    if (effect) values.push_back(effect->mean.value);
  }
  m_limits = figure::sweepLimits(values);
  if (!sameSize) {
    m_hovered.reset();
    updateGeometry();
    announceCells(*this);
  }
  if (another) announceCell(*this, chosen->first, chosen->second);
  update();
}

QSize SweepGrid::minimumSizeHint() const {
  const int line = fontMetrics().height();
  return {fontMetrics().horizontalAdvance("000") + 8 + std::max(m_sweep.heads * kLeastWide, 8 * line),
          m_sweep.layers * kLeastHigh + 3 * line + kLegendBar + 8};
}

QSize SweepGrid::sizeHint() const {
  return {minimumSizeHint().width() + m_sweep.heads * 40, minimumSizeHint().height() + m_sweep.layers * 10};
}

QRect SweepGrid::area() const {
  if (m_sweep.layers == 0 || m_sweep.heads == 0) return {};
  const int left = fontMetrics().horizontalAdvance("000") + 8;
  const int line = fontMetrics().height();
  const int below = 2 * line + kLegendBar + 8;
  const int wide = std::clamp((width() - left - 2) / m_sweep.heads, kLeastWide, kMostWide);
  const int high = std::clamp((height() - line - below) / m_sweep.layers, kLeastHigh, kMostHigh);
  return {left, line, wide * m_sweep.heads, high * m_sweep.layers};
}

QRect SweepGrid::legend() const {
  const QRect cells = area();
  return {cells.left(), cells.bottom() + 8, std::max(cells.width(), 8 * fontMetrics().height()), kLegendBar};
}

QRect SweepGrid::cell(int layer, int head) const {
  const QRect cells = area();
  if (cells.isEmpty() || layer >= m_sweep.layers || head >= m_sweep.heads) return {};
  const QSize size(cells.width() / m_sweep.heads, cells.height() / m_sweep.layers);
  return {cells.topLeft() + QPoint(head * size.width(), layer * size.height()), size};
}

std::optional<std::pair<int, int>> SweepGrid::headAt(const QPoint& place) const {
  const QRect cells = area();
  if (!cells.contains(place)) return std::nullopt;
  const QRect first = cell(0, 0);
  const QPoint inside = place - cells.topLeft();
  const std::pair head{inside.y() / first.height(), inside.x() / first.width()};
  return m_sweep.has(head.first, head.second) ? std::optional(head) : std::nullopt;
}

void SweepGrid::paintCell(QPainter& painter, int layer, int head) const {
  const QRect whole = cell(layer, head);
  const QRect inner = whole.adjusted(0, 0, whole.width() > kLeastWide ? -1 : 0, whole.height() > kLeastHigh ? -1 : 0);
  // A layer of fewer heads.
  if (!m_sweep.has(layer, head)) {
    QColor hatch = lineColour(palette());
    hatch.setAlphaF(0.7F);
    return painter.fillRect(inner, QBrush(hatch, Qt::BDiagPattern));
  }
  const LossChange* effect = m_sweep.effect(layer, head);
  if (effect == nullptr) {
    painter.fillRect(inner, palette().color(QPalette::AlternateBase));
    return;
  }
  const QColor colour = changeColour(palette(), effect->mean.value, m_limits.limit);
  painter.fillRect(inner, colour);
  painter.setPen(colour.lightnessF() > 0.5F ? Qt::black : Qt::white);
  const QString value = QString::number(1000 * effect->mean.value, 'f', 1).replace('-', QStringLiteral("−"));
  const QString error =
      std::isfinite(effect->mean.error) ? QStringLiteral(" ±%1").arg(1000 * effect->mean.error, 0, 'f', 1) : QString();
  const bool marked = beyond_chance(effect->mean) || std::isnan(effect->mean.error);
  for (const QString& text : {value + error, value, marked ? QString() : QStringLiteral("•")}) {
    const bool fits =
        fontMetrics().horizontalAdvance(text) + 4 <= inner.width() && fontMetrics().height() - 2 <= inner.height();
    if (!fits && (text != QStringLiteral("•") || inner.height() < kFramedCell)) continue;
    return painter.drawText(inner, Qt::AlignCenter, text);
  }
}

void SweepGrid::paintNumbers(QPainter& painter) const {
  painter.setPen(mutedTextColour(palette()));
  const int line = fontMetrics().height();
  const QRect first = cell(0, 0);
  const int everyHead = std::max(1, (fontMetrics().horizontalAdvance("000") + first.width() - 1) / first.width());
  for (int head = 0; head < m_sweep.heads; head += everyHead) {
    const QRect place = cell(0, head);
    painter.drawText(QRect(place.left() - line, 0, place.width() + 2 * line, line), Qt::AlignCenter,
                     QString::number(head));
  }
  const int everyLayer = std::max(1, (line + first.height() - 1) / first.height());
  for (int layer = 0; layer < m_sweep.layers; layer += everyLayer) {
    const QRect place = cell(layer, 0);
    painter.drawText(QRect(0, place.center().y() - line / 2, place.left() - 5, line), Qt::AlignRight | Qt::AlignVCenter,
                     QString::number(layer));
  }
}

void SweepGrid::paintLegend(QPainter& painter) const {
  const QRect bar = legend();
  for (int x = 0; x < bar.width(); ++x) {
    painter.fillRect(
        bar.left() + x, bar.top(), 1, bar.height(),
        changeColour(palette(), m_limits.limit * (2.0 * x / std::max(1, bar.width() - 1) - 1), m_limits.limit));
  }
  const QRect words(bar.left(), bar.bottom() + 1, bar.width(), fontMetrics().height());
  const QString end = numberOf(1000 * m_limits.limit, 3);
  painter.setPen(palette().color(QPalette::WindowText));
  // Some cells may be beyond the colours' ends.
  const QString lower = (m_limits.cut ? QStringLiteral("≤ −") : QStringLiteral("−")) + end;
  const QString upper = (m_limits.cut ? QStringLiteral("≥ +") : QStringLiteral("+")) + end;
  painter.drawText(words, Qt::AlignLeft, lower);
  painter.drawText(words, Qt::AlignRight, upper);
  const int room = words.width() - 2 * fontMetrics().horizontalAdvance(QStringLiteral(" ") + upper);
  const QString whole = tr("change of the loss, 10⁻³ nats/token");
  painter.drawText(words, Qt::AlignHCenter,
                   fontMetrics().horizontalAdvance(whole) <= room ? whole : tr("10⁻³ nats/token"));
}

void SweepGrid::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  if (area().isEmpty()) return;
  for (int layer = 0; layer < m_sweep.layers; ++layer) {
    for (int head = 0; head < m_sweep.heads; ++head) paintCell(painter, layer, head);
  }
  paintNumbers(painter);
  if (m_sweep.known() > 0) paintLegend(painter);
  // A cell of a few pixels is framed from outside, so that its colour is still seen.
  const int outside = std::min(cell(0, 0).width(), cell(0, 0).height()) < kFramedCell ? 2 : 0;
  const auto outline = [&](const std::optional<std::pair<int, int>>& head, const QColor& colour, int thickness) {
    if (!head) return;
    painter.setPen(QPen(colour, thickness, Qt::SolidLine, Qt::SquareCap, Qt::MiterJoin));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(cell(head->first, head->second).adjusted(-outside, -outside, outside - 2, outside - 2));
  };
  outline(m_hovered, hoverColour(palette()), 1);
  if (outside == 0) outline(m_chosen, palette().color(QPalette::Base), 4);
  outline(m_chosen, pinnedQueryColour(palette()), 2);
}

QString SweepGrid::description(int layer, int head) const {
  Intervention change = m_sweep.change;
  change.layer = layer;
  change.head = head;
  const QString name = QString::fromStdString(change.words());
  const LossChange* effect = m_sweep.effect(layer, head);
  if (effect == nullptr) return tr("%1: not known yet").arg(name);
  return tr("%1: %2 nats/token").arg(name, estimateText(effect->mean));
}

bool SweepGrid::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const auto* help = static_cast<QHelpEvent*>(event);
    if (const auto head = headAt(help->pos())) {
      QToolTip::showText(help->globalPos(), description(head->first, head->second), this,
                         cell(head->first, head->second));
    } else {
      QToolTip::hideText();
    }
    return true;
  }
  if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange) update();
  return QWidget::event(event);
}

void SweepGrid::mousePressEvent(QMouseEvent* event) {
  const auto head = headAt(event->pos());
  if (event->button() == Qt::LeftButton && head) emit headChosen(head->first, head->second);
}

void SweepGrid::mouseMoveEvent(QMouseEvent* event) {
  const auto head = headAt(event->pos());
  if (head == m_hovered) return;
  m_hovered = head;
  update();
}

void SweepGrid::leaveEvent(QEvent* /*event*/) {
  m_hovered.reset();
  update();
}

void SweepGrid::keyPressEvent(QKeyEvent* event) {
  const auto [layer, head] = m_chosen.value_or(std::pair{0, 0});
  const auto choose = [&](int to_layer, int to_head) {
    to_layer = std::clamp(to_layer, 0, m_sweep.layers - 1);
    const int last = m_sweep.headsOfLayer[index_of(to_layer)] - 1;
    emit headChosen(to_layer, std::clamp(to_head, 0, last));
  };
  switch (event->key()) {
    case Qt::Key_Up:
      return choose(layer - 1, head);
    case Qt::Key_Down:
      return choose(layer + 1, head);
    case Qt::Key_Left:
      return choose(layer, head - 1);
    case Qt::Key_Right:
      return choose(layer, head + 1);
    default:
      QWidget::keyPressEvent(event);
  }
}

}  // namespace foxscope::gui

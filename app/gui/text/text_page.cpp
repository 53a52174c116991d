#include "app/gui/text/text_page.h"

#include <algorithm>
#include <cmath>

#include <QHelpEvent>
#include <QKeyEvent>
#include <QMouseEvent>
#include <QPaintEvent>
#include <QPainter>
#include <QScrollBar>

#include "app/gui/text/text_painter.h"
#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

constexpr int kLinesAround = 3;  // seen above and below what is scrolled to
constexpr int kLinesBelow = 2;   // empty after the text, one of them for the note on what was not read

}  // namespace

TextPage::TextPage(QWidget* parent) : QAbstractScrollArea(parent) {
  setAccessibleName(tr("Text of the run"));
  setAccessibleDescription(tr("Arrow keys move the pinned query, Enter pins the hovered word"));
  setFocusPolicy(Qt::StrongFocus);
  setFrameShape(QFrame::NoFrame);
  setHorizontalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOn);
  viewport()->setMouseTracking(true);
  viewport()->setCursor(Qt::ArrowCursor);
  viewport()->setAutoFillBackground(false);
  viewport()->setAttribute(Qt::WA_OpaquePaintEvent);
  makeRamp();
}

TextPage::~TextPage() = default;

double TextPage::margin() const { return std::round(QFontMetricsF(font()).height() * 0.8); }

QPointF TextPage::origin() const { return {margin(), margin() / 2 - verticalScrollBar()->value()}; }

void TextPage::setShape(std::shared_ptr<const TextShape> shape) {
  const bool sameText = shape && m_layout && shape->cells == m_layout->shape().cells;
  if (!sameText) {
    m_tint.reset();
    m_hits = {};
    m_hoveredCell.reset();
    m_layout.reset();
    ++m_revision;
    verticalScrollBar()->setValue(0);
  }
  if (shape) {
    const double place =
        sameText ? m_layout->cells().cell[index_of(m_layout->firstCell(visibleLines().begin))].begin : 0;
    m_layout = std::make_unique<TextLayout>(std::move(shape), 1);
    layOut();
    if (sameText)
      verticalScrollBar()->setValue(
          static_cast<int>(static_cast<double>(m_layout->lineOfByte(place)) * m_layout->lineHeight()));
  }
  viewport()->update();
  emit changed();
}

void TextPage::layOut() {
  ++m_revision;
  const double width = std::max(1.0, viewport()->width() - 2 * margin());
  m_layout = std::make_unique<TextLayout>(m_layout->sharedShape(), width);
  const double height = static_cast<double>(m_layout->lineCount() + kLinesBelow) * m_layout->lineHeight() + margin();
  const int step = static_cast<int>(m_layout->lineHeight());
  verticalScrollBar()->setRange(0, std::max(0, static_cast<int>(std::ceil(height)) - viewport()->height()));
  verticalScrollBar()->setPageStep(std::max(step, viewport()->height() - step));
  verticalScrollBar()->setSingleStep(step);
}

void TextPage::layOutKeepingPlace() {
  if (!m_layout) return;
  const std::int64_t line = visibleLines().begin;
  const std::int64_t cell = std::min(m_layout->firstCell(line), m_layout->cells().length());
  const double within =
      static_cast<double>(verticalScrollBar()->value()) - static_cast<double>(line) * m_layout->lineHeight();
  const bool atTop = verticalScrollBar()->value() == 0;
  const double byte = m_layout->cells().cell[index_of(cell)].begin;
  layOut();
  const double top = static_cast<double>(m_layout->lineOfByte(byte)) * m_layout->lineHeight() + within;
  verticalScrollBar()->setValue(atTop ? 0 : static_cast<int>(top));
  viewport()->update();
  emit changed();
}

void TextPage::setTint(std::shared_ptr<const Tint> tint) {
  m_tint = std::move(tint);
  makeRamp();
  viewport()->update();
  emit changed();
}

void TextPage::makeRamp() {
  ++m_revision;
  const bool diverging = m_tint && m_tint->scale.diverging;
  m_ramp =
      std::make_unique<TintRamp>(palette(), diverging ? TintRamp::Course::diverging : TintRamp::Course::sequential);
  m_hues = std::make_unique<ExpertColours>(palette());
}

QColor TextPage::tintColour(std::int64_t cell) const {
  if (!m_tint || cell < 0 || cell >= static_cast<std::int64_t>(m_tint->value.size())) return {};
  const float value = m_tint->value[index_of(cell)];
  if (std::isnan(value)) return {};
  const double position = m_tint->scale.position(static_cast<double>(value));
  return m_tint->hue.empty() ? m_ramp->at(position) : m_hues->at(m_tint->hue[index_of(cell)], position);
}

void TextPage::updateCell(std::optional<std::int64_t> cell) {
  if (!m_layout || !cell || *cell < 0 || *cell > m_layout->cells().length()) return;
  constexpr double kPen = 3;
  for (const QRectF& rect : m_layout->cellRects(*cell))
    viewport()->update(rect.translated(origin()).adjusted(-kPen, -kPen, kPen, kPen).toAlignedRect());
}

void TextPage::setPin(const Cursor& pin) {
  for (const auto& cell : {m_pin.query, m_pin.key, pin.query, pin.key}) updateCell(cell);
  m_pin = pin;
  emit changed();
}

void TextPage::setHover(const Cursor& hover) {
  for (const auto& cell : {m_hover.query, m_hover.key, hover.query, hover.key}) updateCell(cell);
  m_hover = hover;
}

void TextPage::setView(const View& view) {
  m_view = view;
  viewport()->update(QRectF(0, 0, margin(), viewport()->height()).toAlignedRect());
  emit changed();
}

void TextPage::setHits(SearchHits hits) {
  m_hits = std::move(hits);
  viewport()->update();
  emit changed();
}

QRectF TextPage::cellRect(std::int64_t cell) const {
  return m_layout ? m_layout->mainRect(cell).translated(origin()) : QRectF();
}

std::optional<std::int64_t> TextPage::cellAt(const QPointF& point) const {
  return m_layout ? m_layout->cellAt(point - origin()) : std::nullopt;
}

Range TextPage::visibleLines() const {
  if (!m_layout) return {};
  const double height = m_layout->lineHeight();
  const auto line = [&](double y) {
    return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::floor((y - origin().y()) / height)), 0,
                                    m_layout->lineCount() - 1);
  };
  return {line(0), line(viewport()->height() - 1) + 1};
}

void TextPage::showStretch(const Stretch& stretch) {
  if (!m_layout) return;
  showLines({m_layout->lineOfByte(stretch.begin), m_layout->lineOfByte(stretch.end) + 1});
}

void TextPage::showLines(const Range& lines) {
  const double height = m_layout->lineHeight();
  const double top = static_cast<double>(lines.begin) * height + margin() / 2;
  const double bottom = static_cast<double>(lines.end) * height + margin() / 2;
  const double seen = viewport()->height();
  const double at = verticalScrollBar()->value();
  if (top >= at && bottom <= at + seen) return;
  const double around = std::min(kLinesAround * height, std::max(0.0, (seen - height) / 2));
  // A line that is far away moves to the middle, a near one by as little as is needed.
  const bool isNear = top >= at - 2 * height && bottom <= at + seen + 2 * height;
  double wanted = (top + std::min(bottom, top + seen) - seen) / 2;
  if (isNear) wanted = top < at ? top - around : bottom + around - seen;
  verticalScrollBar()->setValue(static_cast<int>(std::lround(wanted)));
}

void TextPage::showCell(std::int64_t cell) {
  if (!m_layout || cell < 0 || cell > m_layout->cells().length()) return;
  const std::int64_t line = m_layout->lineOfCell(cell);
  showLines({line, line + 1});
}

void TextPage::centreLine(std::int64_t line) {
  if (!m_layout) return;
  const double y = (static_cast<double>(line) + 0.5) * m_layout->lineHeight() + margin() / 2;
  verticalScrollBar()->setValue(static_cast<int>(std::lround(y - viewport()->height() / 2.0)));
}

void TextPage::paintEvent(QPaintEvent* event) {
  QPainter painter(viewport());
  paintPage(painter, *this, event->rect());
}

void TextPage::resizeEvent(QResizeEvent* event) {
  QAbstractScrollArea::resizeEvent(event);
  layOutKeepingPlace();
}

void TextPage::changeEvent(QEvent* event) {
  QAbstractScrollArea::changeEvent(event);
  if (event->type() != QEvent::PaletteChange) return;
  makeRamp();
  viewport()->update();
  emit changed();
}

void TextPage::scrollContentsBy(int /*dx*/, int dy) {
  viewport()->scroll(0, dy);
  if (m_mouse) setHoveredCell(cellAt(*m_mouse));
  emit changed();
}

void TextPage::setHoveredCell(std::optional<std::int64_t> cell) {
  if (cell == m_hoveredCell) return;
  m_hoveredCell = cell;
  emit cellHovered(cell);
}

bool TextPage::viewportEvent(QEvent* event) {
  if (event->type() == QEvent::Leave) {
    m_mouse.reset();
    setHoveredCell(std::nullopt);
  } else if (event->type() == QEvent::ToolTip) {
    const auto* help = static_cast<QHelpEvent*>(event);
    if (const auto cell = cellAt(help->pos())) emit readoutAsked(*cell, help->globalPos());
    return true;
  }
  return QAbstractScrollArea::viewportEvent(event);
}

void TextPage::mouseMoveEvent(QMouseEvent* event) {
  m_mouse = event->position();
  setHoveredCell(cellAt(*m_mouse));
}

void TextPage::mousePressEvent(QMouseEvent* event) {
  const auto cell = cellAt(event->position());
  // The last cell is read by no position.
  if (event->button() != Qt::LeftButton || !cell || *cell >= m_layout->cells().length()) return;
  m_wantedX.reset();
  if (event->modifiers().testFlag(Qt::ShiftModifier)) {
    emit keyPicked(*cell);
  } else {
    emit queryPicked(*cell);
  }
}

void TextPage::contextMenuEvent(QContextMenuEvent* event) {
  const bool byMouse = event->reason() == QContextMenuEvent::Mouse;
  const auto cell = byMouse ? cellAt(event->pos()) : m_pin.query;
  if (!cell) return;
  const QPoint below = viewport()->mapToGlobal(cellRect(*cell).bottomLeft().toPoint());
  emit menuAsked(*cell, byMouse ? event->globalPos() : below);
}

std::int64_t TextPage::keyOrigin() const {
  if (m_pin.query) return *m_pin.query;
  if (m_hover.query) return *m_hover.query;
  return m_layout->firstCell(visibleLines().begin);
}

std::int64_t TextPage::verticalTarget(std::int64_t from, std::int64_t lines) {
  const std::int64_t line = m_layout->lineOfCell(from);
  if (!m_wantedX) m_wantedX = m_layout->mainRect(from).center().x();
  const std::int64_t wanted = std::clamp<std::int64_t>(line + lines, 0, m_layout->lineCount() - 1);
  return m_layout->nearestCell(wanted, *m_wantedX).value_or(from);
}

std::optional<std::int64_t> TextPage::keyTarget(const QKeyEvent& event) {
  const std::int64_t from = keyOrigin();
  const bool control = event.modifiers().testFlag(Qt::ControlModifier);
  const auto page =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(viewport()->height() / m_layout->lineHeight()) - 1);
  const std::int64_t line = m_layout->lineOfCell(from);
  switch (event.key()) {
    case Qt::Key_Up:
      return verticalTarget(from, -1);
    case Qt::Key_Down:
      return verticalTarget(from, 1);
    case Qt::Key_PageUp:
      return verticalTarget(from, -page);
    case Qt::Key_PageDown:
      return verticalTarget(from, page);
    default:
      m_wantedX.reset();
  }
  switch (event.key()) {
    case Qt::Key_Left:
      return m_pin.query ? from - 1 : from;
    case Qt::Key_Right:
      return m_pin.query ? from + 1 : from;
    case Qt::Key_Home:
      return control ? 0 : m_layout->nearestCell(line, 0).value_or(from);
    case Qt::Key_End:
      return control ? m_layout->cells().length() : m_layout->nearestCell(line, viewport()->width()).value_or(from);
    case Qt::Key_Return:
    case Qt::Key_Enter:
      return m_hover.query;
    default:
      return std::nullopt;
  }
}

void TextPage::keyPressEvent(QKeyEvent* event) {
  // Arrows of the keypad carry a modifier of their own.
  const auto modifiers = event->modifiers() & ~(Qt::ControlModifier | Qt::KeypadModifier);
  const auto target = m_layout && modifiers == Qt::NoModifier ? keyTarget(*event) : std::nullopt;
  if (!target) return event->ignore();
  const std::int64_t position = std::clamp<std::int64_t>(*target, 0, m_layout->cells().length() - 1);
  emit queryPicked(position);
  showCell(position);
}

}  // namespace foxscope::gui

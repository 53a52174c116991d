#include "app/gui/heads/head_gallery.h"

#include <algorithm>
#include <cmath>

#include <QPaintEvent>
#include <QPainter>

#include "app/gui/views/theme.h"
#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

constexpr int kLeastCell = 76;  // pixels from one picture to the next
constexpr int kSmallCell = 50;  // where that has room for a layer in one line
constexpr int kGalleryGap = 6;

}  // namespace

HeadGallery::HeadGallery(RunList& runs, HeadTable& table, HeadPictures& pictures, QWidget* parent)
    : HeadCells(runs, parent), m_runs(runs), m_table(table), m_pictures(pictures) {
  setAccessibleName(tr("Pictures of heads"));
  connect(&m_table, &HeadTable::valuesChanged, this, &HeadGallery::arrange);
  connect(&m_runs, &RunList::runsChanged, this, &HeadGallery::arrange);
  connect(&m_pictures, &HeadPictures::changed, this, qOverload<>(&QWidget::update));
  arrange();
}

void HeadGallery::setQuantity(Quantity quantity) {
  m_quantity = quantity;
  update();
}

void HeadGallery::setOrder(std::optional<HeadQuantity> order) {
  m_order = order;
  arrange();
}

void HeadGallery::setLabel(std::optional<HeadLabel> label) {
  m_label = label;
  arrange();
}

void HeadGallery::arrange() {
  std::vector<HeadChoice> heads;
  const Run* run = m_runs.run(m_table.run());
  for (int row = 0; run != nullptr && !run->look.hidden && row < m_table.rowCount(); ++row) {
    const QModelIndex entry = m_table.index(row, 0);
    const int labels = entry.data(HeadTable::LabelsRole).toInt();
    if (m_label && (labels >> static_cast<int>(*m_label) & 1) == 0) continue;
    heads.push_back(entry.data(HeadTable::HeadRole).value<HeadChoice>());
  }
  if (m_order) {
    // Heads without a value come last.
    const auto place = [&](const HeadChoice& head) {
      const double value = m_table.value(head, *m_order);
      return std::pair(std::isnan(value), std::isnan(value) ? 0.0 : -value);
    };
    std::stable_sort(heads.begin(), heads.end(),
                     [&](const HeadChoice& a, const HeadChoice& b) { return place(a) < place(b); });
  }
  if (heads.size() != m_heads.size()) updateGeometry();
  m_heads = std::move(heads);
  update();
}

int HeadGallery::columns(int width) const {
  const int count = std::max(1, (width + kGalleryGap) / (kLeastCell + kGalleryGap));
  if (m_order || m_heads.empty()) return count;
  const auto inLayer = static_cast<int>(std::ranges::count(m_heads, m_heads.front().layer, &HeadChoice::layer));
  return inLayer > count && inLayer <= (width + kGalleryGap) / (kSmallCell + kGalleryGap) ? inLayer : count;
}

HeadGallery::Layout HeadGallery::layOut(int width) const {
  Layout layout;
  const int count = columns(width);
  const int side = (width + kGalleryGap) / count - kGalleryGap;
  const int line = fontMetrics().height();
  const int captions = m_order ? 2 : 1;
  int column = 0;
  int top = 0;
  int layer = -1;
  for (const HeadChoice& head : m_heads) {
    const bool begins = !m_order && head.layer != layer;
    if (begins || column == count) {
      if (!layout.cells.empty()) top = layout.cells.back().bottom() + 1 + kGalleryGap;
      column = 0;
    }
    if (begins) {
      layer = head.layer;
      layout.headings.emplace_back(QRect(0, top, width, line), tr("layer %1").arg(layer));
      top += line + 2;
    }
    layout.cells.emplace_back(column * (side + kGalleryGap), top, side, side + captions * line);
    ++column;
  }
  layout.height = layout.cells.empty() ? 3 * line : layout.cells.back().bottom() + 1 + kGalleryGap;
  return layout;
}

QRect HeadGallery::pictureIn(const QRect& cell) const { return {cell.topLeft(), QSize(cell.width(), cell.width())}; }

int HeadGallery::heightForWidth(int width) const { return layOut(width).height; }

QRect HeadGallery::cell(const HeadChoice& head) const {
  const auto found = std::find(m_heads.begin(), m_heads.end(), head);
  if (found == m_heads.end()) return {};
  return pictureIn(layOut(width()).cells[index_of(found - m_heads.begin())]);
}

std::optional<HeadChoice> HeadGallery::headAt(const QPoint& place) const {
  const Layout layout = layOut(width());
  for (std::size_t index = 0; index < layout.cells.size(); ++index) {
    if (layout.cells[index].contains(place)) return m_heads[index];
  }
  return std::nullopt;
}

void HeadGallery::paintCell(QPainter& painter, const QRect& cell, const HeadChoice& head) const {
  const QRect place = pictureIn(cell);
  painter.fillRect(place, palette().color(QPalette::AlternateBase));
  if (const QImage* picture = m_pictures.of(head, m_quantity)) painter.drawImage(place, *picture);
  const bool chosen = head == m_runs.selection().head();
  if (chosen || head == hovered()) {
    painter.setPen(QPen(chosen ? pinnedQueryColour(palette()) : hoverColour(palette()), chosen ? 3 : 1, Qt::SolidLine,
                        Qt::SquareCap, Qt::MiterJoin));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(place.adjusted(1, 1, -2, -2));
  }
  const int line = fontMetrics().height();
  QRect caption(cell.left(), place.bottom() + 1, cell.width(), line);
  painter.setPen(palette().color(QPalette::WindowText));
  painter.drawText(caption, Qt::AlignHCenter | Qt::AlignVCenter,
                   m_order ? tr("L%1 H%2").arg(head.layer).arg(head.head) : tr("head %1").arg(head.head));
  if (!m_order) return;
  painter.setPen(mutedTextColour(palette()));
  painter.drawText(caption.translated(0, line), Qt::AlignHCenter | Qt::AlignVCenter,
                   valueText(*m_order, m_table.value(head, *m_order), Unit::without));
}

void HeadGallery::paintEvent(QPaintEvent* event) {
  QPainter painter(this);
  if (m_heads.empty()) {
    painter.setPen(mutedTextColour(palette()));
    painter.drawText(rect(), Qt::AlignCenter | Qt::TextWordWrap, nothingText());
    return;
  }
  painter.setRenderHint(QPainter::SmoothPixmapTransform, false);
  const Layout layout = layOut(width());
  for (const auto& [place, text] : layout.headings) {
    if (!event->rect().intersects(place)) continue;
    painter.setPen(mutedTextColour(palette()));
    painter.drawText(place, Qt::AlignLeft | Qt::AlignVCenter, text);
  }
  for (std::size_t index = 0; index < layout.cells.size(); ++index) {
    if (event->rect().intersects(layout.cells[index])) paintCell(painter, layout.cells[index], m_heads[index]);
  }
}

QString HeadGallery::nothingText() const {
  if (m_runs.empty()) return tr("The heads of a run appear here");
  const Run* run = m_runs.run(m_table.run());
  const bool hidden = run != nullptr && run->look.hidden;
  return hidden ? tr("All runs are hidden: the eye in the list of runs shows them") : tr("No head has this label");
}

// Left and right go through the pictures in their order, up and down to the one above and below.
std::optional<HeadChoice> HeadGallery::beside(const HeadChoice& head, Qt::Key arrow) const {
  if (m_heads.empty()) return std::nullopt;
  const auto from = std::find(m_heads.begin(), m_heads.end(), head);
  if (from == m_heads.end()) return m_heads.front();
  const bool forth = arrow == Qt::Key_Right || arrow == Qt::Key_Down;
  if (arrow == Qt::Key_Left || arrow == Qt::Key_Right) {
    const auto last = static_cast<std::ptrdiff_t>(m_heads.size()) - 1;
    const std::ptrdiff_t index = from - m_heads.begin();
    return m_heads[index_of(std::clamp<std::ptrdiff_t>(index + (forth ? 1 : -1), 0, last))];
  }
  const QRect place = cell(head);
  const int step = place.height() + 2 * fontMetrics().height() + kGalleryGap;
  return headAt(place.center() + QPoint(0, forth ? step : -step));
}

QString HeadGallery::description(const HeadChoice& head) const { return m_table.labelsTold(head); }

}  // namespace foxscope::gui

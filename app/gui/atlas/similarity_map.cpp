#include "app/gui/atlas/similarity_map.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>

#include "app/figure/colour_map.h"
#include "app/gui/document/number_text.h"
#include "app/gui/views/cell_table.h"
#include "app/gui/views/theme.h"
#include "backend/base/index.h"

namespace foxscope::gui::atlas {

SimilarityMap::SimilarityMap(QWidget* parent) : QWidget(parent) {
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  setAccessibleName(tr("Similarity of heads"));
  const auto head = [this](int rank) { return index_of(m_similarity.order[index_of(rank)]); };
  describeCells(*this, {[this] { return QSize(static_cast<int>(count()), static_cast<int>(count())); },
                        [this, head](int row, int column) { return description(head(row), head(column)); },
                        [this, head](int row, int column) { return cell(head(row), head(column)).toRect(); },
                        [this, head](int row, int column) { return row == column && m_head == head(row); },
                        [this, head](int /*row*/, int column) { emit headClicked(head(column)); },
                        [this, head](int row) { return m_names[head(row)]; },
                        [this, head](int column) { return m_names[head(column)]; }});
}

void SimilarityMap::setSimilarity(AtlasSimilarity similarity, std::vector<QString> names) {
  m_similarity = std::move(similarity);
  m_names = std::move(names);
  m_rank.assign(count(), 0);
  for (std::size_t rank = 0; rank < count(); ++rank) m_rank[index_of(m_similarity.order[rank])] = rank;
  m_pair.reset();
  colour();
  announceCells(*this);
}

void SimilarityMap::setHead(std::optional<std::size_t> head) {
  m_head = head;
  update();
}

void SimilarityMap::setChosen(const std::set<std::size_t>& heads) {
  m_chosen = heads;
  update();
}

void SimilarityMap::colour() {
  const int size = static_cast<int>(count());
  m_image = QImage(size, size, QImage::Format_RGB32);
  const QColor ground = palette().color(QPalette::AlternateBase);
  const figure::ColourMap& map = divergingColours(palette());
  for (int row = 0; row < size; ++row) {
    const auto a = index_of(m_similarity.order[index_of(row)]);
    auto* line = reinterpret_cast<QRgb*>(m_image.scanLine(row));
    for (int column = 0; column < size; ++column) {
      const float r = value(a, index_of(m_similarity.order[index_of(column)]));
      const figure::Rgb rgb = figure::colourAt(map, (static_cast<double>(r) + 1) / 2);
      line[column] = std::isnan(r) ? ground.rgb() : qRgb(rgb.red, rgb.green, rgb.blue);
    }
  }
  update();
}

QRectF SimilarityMap::area() const {
  constexpr double kEdge = 6;
  const double side = std::max(1.0, std::min(width(), height()) - 2 * kEdge);
  return {(width() - side) / 2, (height() - side) / 2, side, side};
}

QRectF SimilarityMap::cell(std::size_t row, std::size_t column) const {
  const QRectF all = area();
  const double size = all.width() / static_cast<double>(std::max<std::size_t>(1, count()));
  return {all.left() + static_cast<double>(m_rank[column]) * size, all.top() + static_cast<double>(m_rank[row]) * size,
          size, size};
}

std::optional<SimilarityMap::Pair> SimilarityMap::pairAt(const QPointF& place) const {
  const QRectF all = area();
  if (count() == 0 || !all.contains(place)) return std::nullopt;
  const auto rank = [&](double inside) {
    const auto at = static_cast<std::size_t>(inside / all.width() * static_cast<double>(count()));
    return index_of(m_similarity.order[std::min(at, count() - 1)]);
  };
  return Pair{rank(place.y() - all.top()), rank(place.x() - all.left())};
}

QString SimilarityMap::description(std::size_t a, std::size_t b) const {
  return tr("%1 and %2: r %3").arg(m_names[a], m_names[b], numberOf(static_cast<double>(value(a, b)), 3));
}

void SimilarityMap::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  painter.fillRect(rect(), palette().color(QPalette::Base));
  if (count() == 0) return;
  const QRectF all = area();
  painter.drawImage(all, m_image);
  painter.setPen(lineColour(palette()));
  painter.drawRect(all);
  const auto cross = [&](std::size_t head, const QColor& colour) {
    const QRectF at = cell(head, head);
    constexpr double kFramed = 4;  // pixels of a cell that has room for a frame
    QColor line = colour;
    if (at.width() < kFramed) line.setAlphaF(0.5F);
    painter.setPen(QPen(line, 1));
    painter.setBrush(Qt::NoBrush);
    if (at.width() < kFramed) {
      painter.drawLine(QPointF(all.left(), at.center().y()), QPointF(all.right(), at.center().y()));
      painter.drawLine(QPointF(at.center().x(), all.top()), QPointF(at.center().x(), all.bottom()));
      return;
    }
    painter.drawRect(QRectF(all.left(), at.top(), all.width(), at.height()));
    painter.drawRect(QRectF(at.left(), all.top(), at.width(), all.height()));
  };
  painter.setPen(Qt::NoPen);
  // Those that are chosen are marked along the diagonal.
  painter.setBrush(pinnedKeyColour(palette()));
  for (const std::size_t head : m_chosen) {
    const QRectF at = cell(head, head);
    painter.drawRect(QRectF(at.left(), all.top() - 4, std::max(1.0, at.width()), 3));
    painter.drawRect(QRectF(all.left() - 4, at.top(), 3, std::max(1.0, at.height())));
  }
  if (m_head) cross(*m_head, pinnedQueryColour(palette()));
  if (!m_pair) return;
  painter.setPen(QPen(palette().color(QPalette::Text), 1.5));
  painter.setBrush(Qt::NoBrush);
  painter.drawRect(cell(m_pair->row, m_pair->column).adjusted(-1, -1, 1, 1));
}

void SimilarityMap::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange) colour();
}

void SimilarityMap::mouseMoveEvent(QMouseEvent* event) {
  const auto pair = pairAt(event->position());
  if (pair == m_pair) return;
  m_pair = pair;
  update();
  emit hovered(pair ? description(pair->row, pair->column) : QString());
}

void SimilarityMap::mousePressEvent(QMouseEvent* event) {
  if (event->button() != Qt::LeftButton) return;
  if (const auto pair = pairAt(event->position())) emit headClicked(pair->column);
}

void SimilarityMap::leaveEvent(QEvent* /*event*/) {
  m_pair.reset();
  update();
  emit hovered({});
}

void SimilarityMap::keyPressEvent(QKeyEvent* event) {
  const int key = event->key();
  const bool back = key == Qt::Key_Left || key == Qt::Key_Up;
  if ((!back && key != Qt::Key_Right && key != Qt::Key_Down) || count() == 0) return QWidget::keyPressEvent(event);
  const auto rank = m_head ? static_cast<std::ptrdiff_t>(m_rank[*m_head]) + (back ? -1 : 1) : 0;
  const auto last = static_cast<std::ptrdiff_t>(count()) - 1;
  emit headClicked(index_of(m_similarity.order[index_of(std::clamp<std::ptrdiff_t>(rank, 0, last))]));
}

}  // namespace foxscope::gui::atlas

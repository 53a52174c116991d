#include "app/gui/atlas/similarity_map.h"

#include <algorithm>
#include <array>
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
namespace {

constexpr int kNameGap = 4;

/// Places of names that do not touch: every one, every second, every fifth and so on.
/// @param room  of all places, pixels
/// @param name  of one name
std::vector<std::size_t> thinned(std::size_t count, double room, int name) {
  std::vector<std::size_t> places;
  if (count == 0) return places;
  constexpr std::array<std::size_t, 3> kSteps = {1, 2, 5};
  const double cell = room / static_cast<double>(count);
  std::size_t step = 1;
  for (std::size_t n = 0; static_cast<double>(step) * cell < name && step < count; ++n) {
    step = kSteps[n % 3] * static_cast<std::size_t>(std::pow(10, static_cast<double>(n / 3)));
  }
  for (std::size_t place = 0; place < count; place += step) places.push_back(place);
  return places;
}

}  // namespace

SimilarityMap::SimilarityMap(QWidget* parent) : QWidget(parent) {
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  setAccessibleName(tr("Similarity of heads"));
  const auto of = [this](int row) { return index_of(m_similarity.order[index_of(row)]); };
  const auto at = [this](int column) { return index_of(m_similarity.column_order[index_of(column)]); };
  describeCells(
      *this,
      {[this] { return QSize(static_cast<int>(columns()), static_cast<int>(count())); },
       [this, of, at](int row, int column) { return description(of(row), at(column)); },
       [this, of, at](int row, int column) { return cell(of(row), at(column)).toRect(); },
       [this, of](int row, int column) { return (isWithAnother() ? column == 0 : row == column) && m_head == of(row); },
       [this, of, at](int row, int column) { emit headClicked(isWithAnother() ? of(row) : at(column)); },
       [this, of](int row) { return m_names[of(row)]; }, [this, at](int column) { return columnName(at(column)); }});
}

void SimilarityMap::setSimilarity(AtlasSimilarity similarity, std::vector<QString> names,
                                  std::vector<QString> columnNames) {
  m_similarity = std::move(similarity);
  m_names = std::move(names);
  m_columnNames = std::move(columnNames);
  m_rank.assign(count(), 0);
  for (std::size_t rank = 0; rank < count(); ++rank) m_rank[index_of(m_similarity.order[rank])] = rank;
  m_columnRank.assign(columns(), 0);
  for (std::size_t rank = 0; rank < columns(); ++rank) m_columnRank[index_of(m_similarity.column_order[rank])] = rank;
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
  const int rows = static_cast<int>(count());
  const int across = static_cast<int>(columns());
  m_image = QImage(across, rows, QImage::Format_RGB32);
  const QColor ground = palette().color(QPalette::AlternateBase);
  const figure::ColourMap& map = divergingColours(palette());
  for (int row = 0; row < rows; ++row) {
    const auto a = index_of(m_similarity.order[index_of(row)]);
    auto* line = reinterpret_cast<QRgb*>(m_image.scanLine(row));
    for (int column = 0; column < across; ++column) {
      const float r = value(a, index_of(m_similarity.column_order[index_of(column)]));
      const figure::Rgb rgb = figure::colourAt(map, (static_cast<double>(r) + 1) / 2);
      line[column] = std::isnan(r) ? ground.rgb() : qRgb(rgb.red, rgb.green, rgb.blue);
    }
  }
  update();
}

QSize SimilarityMap::namesRoom() const {
  constexpr int kLeastForNames = 180;
  if (count() == 0 || std::min(width(), height()) < kLeastForNames) return {0, 0};
  int widest = 0;
  for (const QString& name : m_names) widest = std::max(widest, fontMetrics().horizontalAdvance(name));
  return {widest + kNameGap, fontMetrics().height() + kNameGap};
}

QRectF SimilarityMap::area() const {
  constexpr double kEdge = 6;
  const QSize names = namesRoom();
  const double side = std::max(1.0, std::min(width() - names.width(), height() - names.height()) - 2 * kEdge);
  return {names.width() + (width() - names.width() - side) / 2, (height() - names.height() - side) / 2, side, side};
}

QRectF SimilarityMap::cell(std::size_t row, std::size_t column) const {
  const QRectF all = area();
  const double wide = all.width() / static_cast<double>(std::max<std::size_t>(1, columns()));
  const double high = all.height() / static_cast<double>(std::max<std::size_t>(1, count()));
  return {all.left() + static_cast<double>(m_columnRank[column]) * wide,
          all.top() + static_cast<double>(m_rank[row]) * high, wide, high};
}

std::vector<std::size_t> SimilarityMap::namedRows() const {
  if (namesRoom().isEmpty()) return {};
  return thinned(count(), area().height(), fontMetrics().height());
}

std::vector<std::size_t> SimilarityMap::namedColumns() const {
  if (namesRoom().isEmpty()) return {};
  int widest = 0;
  for (std::size_t head = 0; head < columns(); ++head) {
    widest = std::max(widest, fontMetrics().horizontalAdvance(columnName(head)));
  }
  return thinned(columns(), area().width(), widest + 2 * kNameGap);
}

void SimilarityMap::paintNames(QPainter& painter) const {
  const QRectF all = area();
  const double high = all.height() / static_cast<double>(count());
  const double wide = all.width() / static_cast<double>(columns());
  painter.setPen(mutedTextColour(palette()));
  for (const std::size_t rank : namedRows()) {
    const QRectF place(0, all.top() + static_cast<double>(rank) * high + high / 2 - fontMetrics().height() / 2.0,
                       all.left() - kNameGap, fontMetrics().height());
    painter.drawText(place, Qt::AlignRight | Qt::AlignVCenter, m_names[index_of(m_similarity.order[rank])]);
  }
  for (const std::size_t rank : namedColumns()) {
    const double middle = all.left() + (static_cast<double>(rank) + 0.5) * wide;
    const QString& name = columnName(index_of(m_similarity.column_order[rank]));
    const double room = fontMetrics().horizontalAdvance(name) + 2.0;
    painter.drawText(QRectF(middle - room / 2, all.bottom() + kNameGap, room, fontMetrics().height()), Qt::AlignCenter,
                     name);
  }
}

std::optional<SimilarityMap::Pair> SimilarityMap::pairAt(const QPointF& place) const {
  const QRectF all = area();
  if (count() == 0 || !all.contains(place)) return std::nullopt;
  const auto headAt = [&](double inside, const std::vector<std::int64_t>& order) {
    const auto at = static_cast<std::size_t>(inside / all.width() * static_cast<double>(order.size()));
    return index_of(order[std::min(at, order.size() - 1)]);
  };
  return Pair{headAt(place.y() - all.top(), m_similarity.order),
              headAt(place.x() - all.left(), m_similarity.column_order)};
}

QString SimilarityMap::description(std::size_t row, std::size_t column) const {
  return tr("%1 and %2: r %3")
      .arg(m_names[row], columnName(column), numberOf(static_cast<double>(value(row, column)), 3));
}

void SimilarityMap::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  painter.fillRect(rect(), palette().color(QPalette::Base));
  if (count() == 0) return;
  const QRectF all = area();
  painter.drawImage(all, m_image);
  painter.setPen(lineColour(palette()));
  painter.drawRect(all);
  paintNames(painter);
  const auto cross = [&](std::size_t head, const QColor& colour) {
    // The columns of another model have no such head.
    const QRectF at = cell(head, isWithAnother() ? 0 : head);
    constexpr double kFramed = 4;  // pixels of a cell that has room for a frame
    QColor line = colour;
    if (at.height() < kFramed) line.setAlphaF(0.5F);
    painter.setPen(QPen(line, 1));
    painter.setBrush(Qt::NoBrush);
    if (at.height() < kFramed) {
      painter.drawLine(QPointF(all.left(), at.center().y()), QPointF(all.right(), at.center().y()));
      if (isWithAnother()) return;
      painter.drawLine(QPointF(at.center().x(), all.top()), QPointF(at.center().x(), all.bottom()));
      return;
    }
    painter.drawRect(QRectF(all.left(), at.top(), all.width(), at.height()));
    if (!isWithAnother()) painter.drawRect(QRectF(at.left(), all.top(), at.width(), all.height()));
  };
  painter.setPen(Qt::NoPen);
  // A mark on the diagonal shows each chosen head.
  painter.setBrush(pinnedKeyColour(palette()));
  for (const std::size_t head : m_chosen) {
    const QRectF at = cell(head, isWithAnother() ? 0 : head);
    if (!isWithAnother()) painter.drawRect(QRectF(at.left(), all.top() - 4, std::max(1.0, at.width()), 3));
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
  if (const auto pair = pairAt(event->position())) emit headClicked(isWithAnother() ? pair->row : pair->column);
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

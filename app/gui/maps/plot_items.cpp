#include "app/gui/maps/plot_items.h"

#include <algorithm>
#include <cmath>

#include "app/gui/views/theme.h"

namespace foxscope::gui {
namespace {

/// Size, in logical pixels, from which a position's line becomes a frame around its cells.
constexpr double kFramedCell = 5;
constexpr double kTickHalf = 14;      ///< of the tick at a pair's distance, logical pixels
constexpr double kValueSize = 0.85;   ///< of the font
constexpr double kValueHeight = 1.1;  ///< lines

constexpr double kLockSize = 0.85;  ///< of the font
constexpr double kLockRing = 5;     ///< radius, logical pixels
constexpr QRgb kLockColour = 0xff1f2328;

/// Four characters at most, a sign left out.
QString valueText(float value) {
  const float size = std::abs(value);
  if (value == 0) return QStringLiteral("0");
  if (size < 0.01F || size >= 1000) {
    QString text = QString::number(value, 'e', 0);
    return text.replace(QStringLiteral("e-0"), QStringLiteral("e-"))
        .replace(QStringLiteral("e+0"), QStringLiteral("e"));
  }
  if (size >= 10) return QString::number(value, 'f', size >= 100 ? 0 : 1);
  return QString::number(value, 'f', 2);
}

/// Black or white, whichever is read more easily on a colour (Rec. 709 weights).
QColor inkOn(QRgb ground) {
  const double light = 0.2126 * qRed(ground) + 0.7152 * qGreen(ground) + 0.0722 * qBlue(ground);
  return light > 128 ? Qt::black : Qt::white;
}

}  // namespace

double PlotGeometry::cellWidth() const {
  return rect.width() / static_cast<double>(byDistance() ? view.rows.size() : view.columns.size());
}

double PlotGeometry::cellHeight() const { return rect.height() / static_cast<double>(view.rows.size()); }

double PlotGeometry::leftOf(std::int64_t position) const {
  const std::int64_t begin = byDistance() ? view.rows.begin : view.columns.begin;
  return rect.left() + static_cast<double>(position - begin) * cellWidth();
}

double PlotGeometry::topOf(std::int64_t distance) const {
  return rect.top() +
         (1 - distanceAxis().place(static_cast<double>(std::max<std::int64_t>(distance, 1)))) * rect.height();
}

QRectF PlotGeometry::cell(std::int64_t row, std::int64_t column) const {
  if (byDistance()) {
    const std::int64_t distance = row - column + 1;
    return {QPointF(leftOf(row), topOf(distance + 1)), QPointF(leftOf(row + 1), topOf(distance))};
  }
  const QPointF corner(leftOf(column), rect.top() + static_cast<double>(row - view.rows.begin) * cellHeight());
  return {corner, QSizeF(cellWidth(), cellHeight())};
}

QRectF PlotGeometry::placeOf(const View& part) const {
  if (byDistance()) {
    return {QPointF(leftOf(part.rows.begin), topOf(part.distances.end)),
            QPointF(leftOf(part.rows.end), topOf(part.distances.begin))};
  }
  return {cell(part.rows.begin, part.columns.begin).topLeft(), cell(part.rows.end, part.columns.end).topLeft()};
}

std::int64_t PlotGeometry::rowAt(const QPointF& point) const {
  const double cells = byDistance() ? (point.x() - rect.left()) / cellWidth() : (point.y() - rect.top()) / cellHeight();
  return view.rows.begin + static_cast<std::int64_t>(std::floor(cells));
}

std::int64_t PlotGeometry::columnAt(const QPointF& point) const {
  if (byDistance()) return rowAt(point) - distanceAt(point.y()) + 1;
  return view.columns.begin + static_cast<std::int64_t>(std::floor((point.x() - rect.left()) / cellWidth()));
}

std::int64_t PlotGeometry::distanceAt(double y) const {
  return distanceAxis().at(1 - (y - rect.top()) / rect.height());
}

QRectF Divider::part(const QRectF& rect, std::size_t side) const {
  if (!divides()) return rect;
  QRectF result = rect;
  if (sides == Sides::splitVertically) {
    const double line = std::round(rect.left() + place * rect.width());
    side == 0 ? result.setRight(line) : result.setLeft(line);
  } else {
    const double line = std::round(rect.top() + place * rect.height());
    side == 0 ? result.setBottom(line) : result.setTop(line);
  }
  return result;
}

std::size_t Divider::sideAt(const QRectF& rect, const QPointF& point) const {
  if (!divides()) return 0;
  return part(rect, 0).contains(point) ? 0 : 1;
}

RasterItem::RasterItem(QCustomPlot* plot, const PlotGeometry& geometry) : QCPAbstractItem(plot), m_geometry(geometry) {
  setAntialiased(false);
  setSelectable(false);
}

void RasterItem::draw(QCPPainter* painter) {
  painter->setRenderHint(QPainter::SmoothPixmapTransform, false);
  painter->setRenderHint(QPainter::Antialiasing, false);
  painter->fillRect(m_geometry.rect, ground);
  for (const PicturePointer& picture : pictures) drawPicture(painter, *picture);
  if (pictures.empty()) return;
  const bool singleQueries = pictures.back()->exact && pictures.back()->tokensPerPixel() == 1;
  if (m_geometry.byDistance() ? !singleQueries : !pictures.back()->showsEntries()) return;
  QFont small = painter->font();
  small.setPointSizeF(small.pointSizeF() * kValueSize);
  painter->setFont(small);
  const QFontMetricsF metrics(small);
  if (m_geometry.cellWidth() < metrics.horizontalAdvance(QStringLiteral("−0.00")) + 4) return;
  if (m_geometry.byDistance()) return drawValuesByDistance(painter, *pictures.back());
  if (m_geometry.cellHeight() >= kValueHeight * metrics.height()) drawValues(painter, *pictures.back());
}

void RasterItem::drawPicture(QCPPainter* painter, const MapPicture& picture) const {
  const View& whole = picture.request.view;
  const View& shown = m_geometry.view;
  // The part that is seen: of a stretched picture the rest would be far outside.
  const auto common = [](const Range& a, const Range& b) {
    return Range{std::max(a.begin, b.begin), std::min(a.end, b.end)};
  };
  if (picture.request.content.axes != m_geometry.axes) return;
  const bool byDistance = m_geometry.byDistance();
  const View part{common(whole.rows, shown.rows), common(whole.columns, shown.columns),
                  common(whole.distances, shown.distances)};
  if (part.rows.size() <= 0 || (byDistance ? part.distances.size() : part.columns.size()) <= 0) return;
  const QRectF target = m_geometry.placeOf(part);
  for (std::size_t side = 0; side < picture.images.size(); ++side) {
    const QImage& image = picture.images[side];
    // The picture fills a plot of its own view.
    const PlotGeometry own{{QPoint(), image.size()}, whole, m_geometry.axes};
    const QRectF source = own.placeOf(part);
    painter->save();
    painter->setClipRect(divider.part(m_geometry.rect, side), Qt::IntersectClip);
    painter->drawImage(target, image, source);
    painter->restore();
  }
}

void RasterItem::drawValues(QCPPainter* painter, const MapPicture& picture) const {
  const View& view = m_geometry.view;
  for (std::int64_t row = view.rows.begin; row < view.rows.end; ++row) {
    for (std::int64_t column = view.columns.begin; column < view.columns.end; ++column) {
      const QRectF cell = m_geometry.cell(row, column);
      const std::size_t side = divider.sideAt(m_geometry.rect, cell.center());
      const float value = picture.value(side, row, column);
      if (!std::isfinite(value) || side >= picture.images.size()) continue;
      const Range& rows = picture.request.view.rows;
      const Range& columns = picture.request.view.columns;
      painter->setPen(inkOn(
          picture.images[side].pixel(static_cast<int>(column - columns.begin), static_cast<int>(row - rows.begin))));
      painter->drawText(cell, Qt::AlignCenter, valueText(value));
    }
  }
}

// Only cells of one distance are as high as a line of text.
void RasterItem::drawValuesByDistance(QCPPainter* painter, const MapPicture& picture) const {
  const View& view = m_geometry.view;
  const double least = kValueHeight * painter->fontMetrics().height();
  const QRectF rect = m_geometry.rect;
  for (std::int64_t row = view.rows.begin; row < view.rows.end; ++row) {
    for (std::int64_t distance = view.distances.begin; distance < view.distances.end; ++distance) {
      const std::int64_t column = row - distance + 1;
      const QRectF cell = m_geometry.cell(row, column);
      if (cell.height() < least) break;
      const std::size_t side = divider.sideAt(rect, cell.center());
      const float value = picture.value(side, row, column);
      if (!std::isfinite(value) || side >= picture.images.size()) continue;
      const QImage& image = picture.images[side];
      const PlotGeometry own{{QPoint(), image.size()}, picture.request.view, m_geometry.axes};
      const QPoint middle = own.cell(row, column).center().toPoint();
      if (!image.valid(middle)) continue;
      painter->setPen(inkOn(image.pixel(middle)));
      painter->drawText(cell, Qt::AlignCenter, valueText(value));
    }
  }
}

MarksItem::MarksItem(QCustomPlot* plot, const PlotGeometry& geometry) : QCPAbstractItem(plot), m_geometry(geometry) {
  setAntialiased(false);
  setSelectable(false);
}

void MarksItem::draw(QCPPainter* painter) {
  painter->setRenderHint(QPainter::Antialiasing, false);
  const auto read = [this](const std::optional<std::int64_t>& position) { return position && *position < covered; };
  const Casing query{QColor(kPinnedQueryOnMap), 2, 1};
  const Casing key{QColor(kPinnedKeyOnMap), 2, 1};
  const Casing under{QColor(0x303030), 1, 1};
  painter->save();
  painter->setClipRect(m_geometry.rect);
  const auto part = [&](const Cursor& cursor) {
    return Cursor{read(cursor.query) ? cursor.query : std::nullopt, read(cursor.key) ? cursor.key : std::nullopt};
  };
  drawCursor(painter, part(pin), query, key);
  drawCursor(painter, part(hover), under, under);
  for (std::size_t n = 0; n < locks.size(); ++n) {
    if (read(locks[n].query) && read(locks[n].key)) drawLock(painter, locks[n], static_cast<int>(n) + 1);
  }
  painter->restore();
  drawDivider(painter);
  if (band) {
    QColor fill = palette.color(QPalette::Highlight);
    painter->setPen(QPen(fill, 1));
    fill.setAlpha(50);
    painter->setBrush(fill);
    painter->drawRect(*band);
  }
}

void MarksItem::drawCursor(QCPPainter* painter, const Cursor& cursor, const Casing& query, const Casing& key) const {
  if (m_geometry.byDistance()) {
    if (cursor.query) drawDown(painter, m_geometry.cell(*cursor.query, *cursor.query), query);
    if (!cursor.key || (cursor.query && *cursor.key > *cursor.query)) return;
    if (cursor.query) return drawTick(painter, m_geometry.cell(*cursor.query, *cursor.key), key);
    return drawKey(painter, *cursor.key, key);
  }
  if (cursor.query) drawAcross(painter, m_geometry.cell(*cursor.query, m_geometry.view.columns.begin), query);
  if (cursor.key) drawDown(painter, m_geometry.cell(m_geometry.view.rows.begin, *cursor.key), key);
}

void MarksItem::drawAcross(QCPPainter* painter, const QRectF& cell, const Casing& casing) const {
  const QRectF rect = m_geometry.rect;
  const auto line = [&](double y) {
    const double begin = std::floor(y - casing.width / 2);
    painter->fillRect(QRectF(rect.left(), begin - casing.white, rect.width(), casing.width + 2 * casing.white),
                      Qt::white);
    painter->fillRect(QRectF(rect.left(), begin, rect.width(), casing.width), casing.colour);
  };
  if (cell.height() < kFramedCell) return line(cell.center().y());
  line(std::round(cell.top()));
  line(std::round(cell.bottom()));
}

void MarksItem::drawDown(QCPPainter* painter, const QRectF& cell, const Casing& casing) const {
  const QRectF rect = m_geometry.rect;
  const auto line = [&](double x) {
    const double begin = std::floor(x - casing.width / 2);
    painter->fillRect(QRectF(begin - casing.white, rect.top(), casing.width + 2 * casing.white, rect.height()),
                      Qt::white);
    painter->fillRect(QRectF(begin, rect.top(), casing.width, rect.height()), casing.colour);
  };
  if (cell.width() < kFramedCell) return line(cell.center().x());
  line(std::round(cell.left()));
  line(std::round(cell.right()));
}

void MarksItem::drawTick(QCPPainter* painter, const QRectF& cell, const Casing& casing) const {
  const double half = std::max(kTickHalf, cell.width() / 2 + kTickHalf / 2);
  const double top = std::floor(cell.center().y() - casing.width / 2);
  const QRectF tick(cell.center().x() - half, top, 2 * half, casing.width);
  painter->fillRect(tick.adjusted(-casing.white, -casing.white, casing.white, casing.white), Qt::white);
  painter->fillRect(tick, casing.colour);
}

void MarksItem::drawKey(QCPPainter* painter, std::int64_t key, const Casing& casing) const {
  const QRectF rect = m_geometry.rect;
  QPolygonF way;
  const std::int64_t first = std::max(key, m_geometry.view.rows.begin);
  const auto step = std::max<std::int64_t>(1, static_cast<std::int64_t>(1 / m_geometry.cellWidth()));
  for (std::int64_t row = first; row < m_geometry.view.rows.end; row += step) {
    way += m_geometry.cell(row, key).center();
  }
  if (way.isEmpty() || way.front().x() > rect.right()) return;
  painter->setBrush(Qt::NoBrush);
  painter->setPen(QPen(Qt::white, casing.width + 2 * casing.white));
  painter->drawPolyline(way);
  painter->setPen(QPen(casing.colour, casing.width));
  painter->drawPolyline(way);
}

void MarksItem::drawLock(QCPPainter* painter, const Cursor& lock, int number) const {
  const QPointF middle = m_geometry.cell(*lock.query, *lock.key).center();
  if (!QRectF(m_geometry.rect).contains(middle)) return;
  QFont small = painter->font();
  small.setPointSizeF(small.pointSizeF() * kLockSize);
  small.setBold(true);
  painter->save();
  painter->setFont(small);
  painter->setRenderHint(QPainter::Antialiasing, true);
  // A ring around the entry, and its number beside it.
  painter->setBrush(Qt::NoBrush);
  painter->setPen(QPen(Qt::white, 4));
  painter->drawEllipse(middle, kLockRing, kLockRing);
  painter->setPen(QPen(QColor(kLockColour), 2));
  painter->drawEllipse(middle, kLockRing, kLockRing);
  const QString text = QString::number(number);
  const QFontMetricsF metrics(small);
  const QSizeF size(metrics.horizontalAdvance(text) + 6, metrics.height());
  const QRectF rect = m_geometry.rect;
  const QPointF corner(std::min(middle.x() + kLockRing + 2, rect.right() - size.width()),
                       std::max(middle.y() - kLockRing - size.height(), rect.top()));
  const QRectF flag(corner, size);
  painter->setPen(QPen(Qt::white, 1));
  painter->setBrush(QColor(kLockColour));
  painter->drawRoundedRect(flag, 3, 3);
  painter->drawText(flag, Qt::AlignCenter, text);
  painter->restore();
}

void MarksItem::drawDivider(QCPPainter* painter) const {
  if (!divider.divides()) return;
  const QRectF first = divider.part(m_geometry.rect, 0);
  const bool vertical = divider.sides == Sides::splitVertically;
  const QPointF from = vertical ? first.topRight() : first.bottomLeft();
  // A line that is seen on any colour: light inside dark.
  painter->setPen(QPen(Qt::black, 3));
  painter->drawLine(from, first.bottomRight());
  painter->setPen(QPen(Qt::white, 1));
  painter->drawLine(from, first.bottomRight());
  // Letters tell the sides apart.
  const QFontMetricsF metrics(painter->font());
  const double size = metrics.height() * 1.3;
  const auto letter = [&](const QString& text, const QPointF& corner) {
    const QRectF box(corner, QSizeF(size, size));
    painter->fillRect(box, QColor(0, 0, 0, 150));
    painter->setPen(Qt::white);
    painter->drawText(box, Qt::AlignCenter, text);
  };
  const QPointF line = vertical ? first.topRight() : first.topRight() + QPointF(0, first.height());
  if (vertical) {
    letter(QStringLiteral("A"), line + QPointF(-size - 4, 4));
    letter(QStringLiteral("B"), line + QPointF(4, 4));
  } else {
    letter(QStringLiteral("A"), line + QPointF(-size - 4, -size - 4));
    letter(QStringLiteral("B"), line + QPointF(-size - 4, 4));
  }
}

}  // namespace foxscope::gui

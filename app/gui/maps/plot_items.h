#pragma once

#include <limits>
#include <optional>
#include <vector>

#include <QRect>
#include <qcustomplot.h>

#include "app/gui/maps/map_picture.h"

namespace foxscope::gui {

/// Where positions lie in a plot: the view fills the rectangle, queries downwards, keys to the right; by distance
/// queries to the right, distances upwards on a logarithmic axis.
struct PlotGeometry {
  QRect rect;  ///< logical pixels
  View view;   ///< by distance with the distances that are shown
  MapAxes axes = MapAxes::key;

  [[nodiscard]] bool byDistance() const { return axes == MapAxes::distance; }
  [[nodiscard]] DistanceAxis distanceAxis() const { return {view.distances}; }
  /// Queries or keys across, and queries down; by distance cells have no height in common.
  [[nodiscard]] double cellWidth() const;
  [[nodiscard]] double cellHeight() const;
  /// An entry's cell; by distance of a key after the query one without height.
  [[nodiscard]] QRectF cell(std::int64_t row, std::int64_t column) const;
  [[nodiscard]] QRectF placeOf(const View& part) const;
  /// The entry at a point, which may lie outside of the view where the point is outside of the rectangle. By distance
  /// the key may lie before the text.
  [[nodiscard]] std::int64_t rowAt(const QPointF& point) const;
  [[nodiscard]] std::int64_t columnAt(const QPointF& point) const;
  /// By distance, held inside the axis.
  [[nodiscard]] std::int64_t distanceAt(double y) const;

 private:
  [[nodiscard]] double leftOf(std::int64_t position) const;
  [[nodiscard]] double topOf(std::int64_t distance) const;
};

/// The line between two sides.
struct Divider {
  Sides sides = Sides::left;
  double place = 0.5;  ///< share of the rectangle's width or height

  [[nodiscard]] bool divides() const { return sides == Sides::splitVertically || sides == Sides::splitHorizontally; }
  [[nodiscard]] QRectF part(const QRectF& rect, std::size_t side) const;
  [[nodiscard]] std::size_t sideAt(const QRectF& rect, const QPointF& point) const;
};

/// The pictures of a plot and, where cells are wide enough, their values.
class RasterItem : public QCPAbstractItem {
 public:
  RasterItem(QCustomPlot* plot, const PlotGeometry& geometry);

  std::vector<PicturePointer> pictures;  ///< later ones over earlier ones
  Divider divider;
  QColor ground;  ///< where there is no picture, or no entry

  double selectTest(const QPointF& /*pos*/, bool /*onlySelectable*/, QVariant* /*details*/) const override {
    return -1;
  }

 protected:
  void draw(QCPPainter* painter) override;

 private:
  void drawPicture(QCPPainter* painter, const MapPicture& picture) const;
  void drawValues(QCPPainter* painter, const MapPicture& picture) const;
  void drawValuesByDistance(QCPPainter* painter, const MapPicture& picture) const;

  const PlotGeometry& m_geometry;
};

/// Colours of the pinned query and key on a map: cased in white, so that they are seen on every colour map.
inline constexpr QRgb kPinnedQueryOnMap = 0xffc2185b;
inline constexpr QRgb kPinnedKeyOnMap = 0xff0091b8;

/// The marks over the pictures that change with the pointer: pinned, locked and hovered positions, the line between two
/// sides, the rubber band.
class MarksItem : public QCPAbstractItem {
 public:
  MarksItem(QCustomPlot* plot, const PlotGeometry& geometry);

  Cursor pin;
  Cursor hover;
  std::vector<Cursor> locks;  ///< numbered from 1 on
  Divider divider;
  std::optional<QRectF> band;
  std::int64_t covered = std::numeric_limits<std::int64_t>::max();  ///< positions from here on are not the run's
  QPalette palette;

  double selectTest(const QPointF& /*pos*/, bool /*onlySelectable*/, QVariant* /*details*/) const override {
    return -1;
  }

 protected:
  void draw(QCPPainter* painter) override;

 private:
  /// A line of this colour inside a white one.
  struct Casing {
    QColor colour;
    double width = 1;  ///< logical pixels, of the line itself
    double white = 1;  ///< on each of its sides
  };
  void drawCursor(QCPPainter* painter, const Cursor& cursor, const Casing& query, const Casing& key) const;
  void drawAcross(QCPPainter* painter, const QRectF& cell, const Casing& casing) const;
  void drawDown(QCPPainter* painter, const QRectF& cell, const Casing& casing) const;
  /// By distance: a tick at the distance of a pair, and the way of a key that has no query.
  void drawTick(QCPPainter* painter, const QRectF& cell, const Casing& casing) const;
  void drawKey(QCPPainter* painter, std::int64_t key, const Casing& casing) const;
  void drawLock(QCPPainter* painter, const Cursor& lock, int number) const;
  void drawDivider(QCPPainter* painter) const;

  const PlotGeometry& m_geometry;
};

}  // namespace foxscope::gui

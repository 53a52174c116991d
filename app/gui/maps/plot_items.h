#pragma once

#include <limits>
#include <optional>
#include <vector>

#include <QRect>
#include <qcustomplot.h>

#include "app/gui/maps/map_picture.h"

namespace foxscope::gui {

/// Where positions lie in a plot: the view fills the rectangle, queries downwards, keys to the right.
struct PlotGeometry {
  QRect rect;  ///< logical pixels
  View view;

  [[nodiscard]] double cellWidth() const;
  [[nodiscard]] double cellHeight() const;
  /// Upper left corner of an entry's cell.
  [[nodiscard]] QPointF corner(std::int64_t row, std::int64_t column) const;
  [[nodiscard]] QRectF placeOf(const View& part) const;
  /// The entry at a point, which may lie outside of the view where the point is outside of the rectangle.
  [[nodiscard]] std::int64_t rowAt(double y) const;
  [[nodiscard]] std::int64_t columnAt(double x) const;
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
  void drawRow(QCPPainter* painter, std::int64_t row, const Casing& casing) const;
  void drawColumn(QCPPainter* painter, std::int64_t column, const Casing& casing) const;
  void drawLock(QCPPainter* painter, const Cursor& lock, int number) const;
  void drawDivider(QCPPainter* painter) const;

  const PlotGeometry& m_geometry;
};

}  // namespace foxscope::gui

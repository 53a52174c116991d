#pragma once

#include <optional>

#include <QWidget>

#include "app/gui/maps/map_picture.h"

namespace foxscope::gui {

/// The colours of a picture with their values, the histogram of the values behind their labels, and two handles for the
/// limits.
class ColourBar : public QWidget {
  Q_OBJECT

 public:
  explicit ColourBar(QWidget* parent = nullptr);

  /// Null: nothing is drawn.
  void setPicture(const PicturePointer& picture);
  /// The bar's ends, so that it stands beside the map.
  void setExtent(int top, int bottom);
  /// Width that the bar wants, by its font.
  [[nodiscard]] int barWidth() const;
  /// The length by which the label of the lower end reaches below the bar.
  [[nodiscard]] int overhang() const { return fontMetrics().height() / 2; }
  /// Where a value lies, and which value lies at a place; logical pixels from the top.
  [[nodiscard]] double placeOf(double value) const;
  [[nodiscard]] double valueAt(double y) const;

 signals:
  /// lower < upper, and above 0 on a logarithmic scale.
  void limitsWanted(double lower, double upper);
  void automaticWanted();

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;

 private:
  enum class Handle { none, lower, upper };
  struct Ends {
    double lower = 0;
    double upper = 1;
  };
  [[nodiscard]] bool logarithmic() const;
  [[nodiscard]] Ends endsOf(const MapPicture& picture) const;
  [[nodiscard]] Handle handleAt(const QPointF& point) const;
  [[nodiscard]] QRectF gradientRect() const;
  void drawGradient(QPainter& painter) const;
  void drawHistogram(QPainter& painter) const;
  void drawTicks(QPainter& painter) const;
  void drawHandles(QPainter& painter) const;

  PicturePointer m_picture;
  Ends m_ends;  ///< values at the bar's ends
  int m_top = 0;
  int m_bottom = 0;
  Handle m_handle = Handle::none;
};

}  // namespace foxscope::gui

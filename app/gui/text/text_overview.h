#pragma once

#include <QImage>
#include <QWidget>

#include "app/gui/text/text_page.h"

namespace foxscope::gui {

/// The whole text in a strip beside the page: the strongest tint of the lines that a row of pixels stands for, with
/// pins, the range of the maps, search hits, and the part that is seen. A click or drag scrolls the page.
class TextOverview : public QWidget {
  Q_OBJECT

 public:
  explicit TextOverview(TextPage& page, QWidget* parent = nullptr);

  [[nodiscard]] QSize sizeHint() const override;
  /// Where a cell is in the strip, in pixels from the top.
  [[nodiscard]] double yOfCell(std::int64_t cell) const;

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;

 private:
  /// The state that the picture of the tint was drawn from.
  struct Drawn {
    std::uint64_t revision = 0;
    int rows = 0;
    bool operator==(const Drawn&) const = default;
  };
  [[nodiscard]] double yOfLine(double line) const;
  [[nodiscard]] QRgb colourOfCells(const Range& cells, QRgb ground) const;
  void drawTint(int rows);
  void scrollTo(double y);
  void paintMarks(QPainter& painter) const;

  TextPage& m_page;
  QImage m_tint;  ///< one pixel wide
  Drawn m_drawn;
};

}  // namespace foxscope::gui

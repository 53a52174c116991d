#pragma once

#include <functional>
#include <vector>

#include <QStringList>
#include <QWidget>

#include "app/figure/colour_scale.h"

namespace foxscope::gui::evaluations {

/// A table of values as coloured cells.
struct GridContent {
  QString title;
  QString rowTitle;
  QString columnTitle;
  QStringList rows;
  QStringList columns;
  std::vector<float> values;  ///< [rows, columns]
  std::vector<bool> dots;     ///< [rows, columns]; may be empty
  figure::ScaledColours colours;
  std::function<QString(int row, int column)> reading;  ///< in words, of one cell
};

/// Coloured cells with their values where there is room for all of them, a name for each row and column. Infinite
/// values are hatched: times of heads without a gate, in which nothing decays. Cells are 4 pixels at least. The cell
/// under the mouse, or that the arrow keys chose, is told; a double click or Return opens it.
class ValueGrid : public QWidget {
  Q_OBJECT

 public:
  static constexpr QSize kLeast{180, 120};

  explicit ValueGrid(QWidget* parent = nullptr);
  void setContent(GridContent content);
  [[nodiscard]] const GridContent& content() const { return m_content; }
  [[nodiscard]] QRectF cell(int row, int column) const;
  /// The texts of the cells, [rows * columns]: values in as many digits as all have room for, or none; dots.
  [[nodiscard]] QStringList cellTexts() const;
  [[nodiscard]] QSize sizeHint() const override { return {320, 220}; }
  [[nodiscard]] QSize minimumSizeHint() const override;

 signals:
  void told(const QString& reading);
  void opened(int row, int column);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  [[nodiscard]] int rowCount() const { return static_cast<int>(m_content.rows.size()); }
  [[nodiscard]] int columnCount() const { return static_cast<int>(m_content.columns.size()); }
  [[nodiscard]] QRectF area() const;
  /// @returns false outside of the cells
  bool choose(const QPointF& place);
  void choose(int row, int column);
  void paintCell(QPainter& painter, int row, int column, const QString& text) const;

  GridContent m_content;
  int m_row = -1;
  int m_column = -1;
};

}  // namespace foxscope::gui::evaluations

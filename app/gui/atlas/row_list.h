#pragma once

#include <utility>

#include <QAbstractScrollArea>
#include <QString>

namespace foxscope::gui::atlas {

/// Rows below each other that scroll; only those in sight are painted. The mouse or the arrow keys point at a row, and
/// a click or Return chooses it.
class RowList : public QAbstractScrollArea {
  Q_OBJECT

 public:
  /// The first and the last row in sight.
  [[nodiscard]] std::pair<int, int> rowsInSight() const;

 signals:
  /// @param words  of the row that is pointed at; empty: of none
  void hovered(const QString& words);

 protected:
  explicit RowList(QWidget* parent);

  [[nodiscard]] virtual int count() const = 0;
  [[nodiscard]] virtual int rowHeight() const = 0;
  /// Pixels above the rows that do not scroll.
  [[nodiscard]] virtual int titleHeight() const { return 0; }
  [[nodiscard]] virtual int scrollStep() const { return rowHeight(); }
  [[nodiscard]] virtual QString wordsOf(int row) const = 0;
  virtual void choose(int row) = 0;
  /// A row that stays in sight when the list gets another size, and where the arrow keys begin; -1: none.
  [[nodiscard]] virtual int keptRow() const { return -1; }

  /// The row under the mouse, or where the keys went; -1: none.
  [[nodiscard]] int pointedRow() const { return m_row; }
  [[nodiscard]] QRect rowPlace(int row) const;
  /// Shows rows that have changed, from the first on.
  void showRows();
  void point(int row);
  /// Scrolls as little as shows the row.
  void bringIntoSight(int row);

  void resizeEvent(QResizeEvent* event) override;
  void changeEvent(QEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  [[nodiscard]] int rowAt(const QPointF& place) const;
  void followSize();

  int m_row = -1;
};

}  // namespace foxscope::gui::atlas

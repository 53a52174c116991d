#pragma once

#include <vector>

#include <QLayout>

namespace foxscope::gui {

/// Lines up what it holds from left to right, each as wide as its size hint, and goes on in another row where a row is
/// full. A width below that of one item cuts it to size. Items aligned to the right stand at the end of their row.
class FlowLayout : public QLayout {
 public:
  /// @param gap        between items of a row, logical pixels
  /// @param gapOfRows  between rows
  FlowLayout(int gap, int gapOfRows) : m_gap(gap), m_gapOfRows(gapOfRows) {}
  ~FlowLayout() override;

  void addItem(QLayoutItem* item) override { m_items.push_back(item); }
  [[nodiscard]] int count() const override { return static_cast<int>(m_items.size()); }
  [[nodiscard]] QLayoutItem* itemAt(int index) const override;
  QLayoutItem* takeAt(int index) override;
  [[nodiscard]] Qt::Orientations expandingDirections() const override { return Qt::Horizontal; }
  [[nodiscard]] bool hasHeightForWidth() const override { return true; }
  [[nodiscard]] int heightForWidth(int width) const override { return arrange({0, 0, width, 0}, Act::measure); }
  /// The size of all items in one row.
  [[nodiscard]] QSize sizeHint() const override;
  /// One in each row, as narrow as it goes.
  [[nodiscard]] QSize minimumSize() const override;
  void setGeometry(const QRect& place) override;

 private:
  enum class Act { measure, place };
  /// @returns the height of all rows
  int arrange(const QRect& place, Act act) const;

  int m_gap;
  int m_gapOfRows;
  std::vector<QLayoutItem*> m_items;  ///< owned, as Qt wants it
};

}  // namespace foxscope::gui

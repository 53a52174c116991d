#pragma once

#include <vector>

#include <QWidget>

namespace foxscope::gui {

class MapPane;

/// Lays out one, two or four panes so that their squares are as large as there is room for, and all alike: two side by
/// side or one above the other, whichever gives the larger ones. Where panes show the same positions, the keys' axis is
/// labelled in the lowest row only and the queries' in the first column only.
class PaneGrid : public QWidget {
  Q_OBJECT

 public:
  explicit PaneGrid(const std::vector<MapPane*>& panes, QWidget* parent = nullptr);

  /// Shows the first of the panes. @param count  1, 2 or 4
  void setCount(int count);
  [[nodiscard]] QSize minimumSizeHint() const override;

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  struct Shape {
    int rows = 1;
    int columns = 1;
  };
  void place();
  void placeOnce();
  void placeLater();
  [[nodiscard]] Shape bestShape() const;
  /// Whether all panes have distances along their axis.
  [[nodiscard]] bool areStrips() const;
  [[nodiscard]] bool sharesAxes() const;
  /// Side of the squares and the room around them, of each column and row.
  struct Plan {
    int square = 0;
    std::vector<int> beside;
    std::vector<int> above;
  };
  [[nodiscard]] Plan planOf(const Shape& shape, bool shared) const;

  std::vector<MapPane*> m_panes;
  int m_count = 1;
  QSize m_least;  ///< minimumSizeHint, as the layout knows it
  bool m_placing = false;
  bool m_changed = false;  ///< the axes of a pane, while the panes were placed
  bool m_placeQueued = false;
};

}  // namespace foxscope::gui

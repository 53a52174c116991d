#pragma once

#include <QScrollArea>

#include "app/gui/evaluations/value_grid.h"

class QHBoxLayout;

namespace foxscope::gui::evaluations {

/// Grids beside one another, which share the width; those that it has no room for are scrolled to.
class GridRow : public QScrollArea {
 public:
  explicit GridRow(QWidget* parent = nullptr);
  void clear();
  /// Adds a grid of this content.
  ValueGrid& add(GridContent content);
  [[nodiscard]] bool isEmpty() const { return m_grids.empty(); }
  [[nodiscard]] QSize minimumSizeHint() const override;

 private:
  QHBoxLayout* m_row;
  std::vector<ValueGrid*> m_grids;
};

}  // namespace foxscope::gui::evaluations

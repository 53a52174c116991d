#include "app/gui/evaluations/grid_row.h"

#include <utility>

#include <QHBoxLayout>

namespace foxscope::gui::evaluations {

GridRow::GridRow(QWidget* parent) : QScrollArea(parent), m_row(new QHBoxLayout) {
  m_row->setContentsMargins(0, 0, 0, 0);
  m_row->setSpacing(8);
  auto* inside = new QWidget;
  inside->setLayout(m_row);
  setWidget(inside);
  setWidgetResizable(true);
  setFrameShape(QFrame::NoFrame);
}

void GridRow::clear() {
  for (ValueGrid* grid : std::exchange(m_grids, {})) {
    grid->hide();
    grid->deleteLater();
  }
}

ValueGrid& GridRow::add(GridContent content) {
  auto* grid = new ValueGrid;
  grid->setContent(std::move(content));
  m_row->addWidget(grid, 1);
  m_grids.push_back(grid);
  return *grid;
}

QSize GridRow::minimumSizeHint() const { return ValueGrid::kLeast; }

}  // namespace foxscope::gui::evaluations

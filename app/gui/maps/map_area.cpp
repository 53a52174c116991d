#include "app/gui/maps/map_area.h"

#include <algorithm>

#include "app/gui/maps/colour_bar.h"
#include "app/gui/maps/map_plot.h"

namespace foxscope::gui {

MapArea::MapArea(QWidget* parent) : QWidget(parent), m_plot(new MapPlot(this)), m_bar(new ColourBar(this)) {
  setMinimumSize(120, 100);
  m_plot->setRightRoom(m_bar->barWidth());
  connect(m_plot, &MapPlot::shapeChanged, this, &MapArea::place);
}

void MapArea::resizeEvent(QResizeEvent* /*event*/) { place(); }

void MapArea::place() {
  m_plot->setRightRoom(m_bar->barWidth());
  const int plot = std::min(width(), m_plot->usefulWidth(height()));
  const int left = (width() - plot) / 2;
  m_plot->setGeometry(left, 0, plot, height());
  // Over the room that the plot keeps free; below it the numbers of the keys may go on.
  const QRect map = m_plot->geometryOfView().rect;
  m_bar->setGeometry(left + map.left() + map.width(), 0, m_bar->barWidth(),
                     std::min(height(), map.top() + map.height() + m_bar->overhang()));
  m_bar->setExtent(map.top(), map.top() + map.height());
}

}  // namespace foxscope::gui

#include "app/gui/maps/plot_area.h"

#include <algorithm>

#include "app/gui/maps/colour_bar.h"
#include "app/gui/maps/map_plot.h"

namespace foxscope::gui {

PlotArea::PlotArea(QWidget* parent) : QWidget(parent), m_plot(new MapPlot(this)), m_bar(new ColourBar(this)) {
  setMinimumSize(160, 120);
  connect(m_plot, &MapPlot::shapeChanged, this, &PlotArea::place);
}

void PlotArea::resizeEvent(QResizeEvent* /*event*/) { place(); }

void PlotArea::place() {
  const int bar = m_bar->barWidth();
  const int plot = std::min(width() - bar, m_plot->usefulWidth(height()));
  const int left = (width() - bar - plot) / 2;
  m_plot->setGeometry(left, 0, plot, height());
  m_bar->setGeometry(left + plot, 0, bar, height());
  const QRect map = m_plot->geometryOfView().rect;
  m_bar->setExtent(map.top(), map.top() + map.height());
}

}  // namespace foxscope::gui

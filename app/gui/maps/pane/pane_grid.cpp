#include "app/gui/maps/pane/pane_grid.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "app/gui/maps/map_plot.h"
#include "app/gui/maps/pane/map_pane.h"
#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

constexpr int kBetween = 4;  ///< logical pixels
constexpr QSize kLeastPane(150, 130);
constexpr int kLeastStrip = 112;  ///< height of a strip, which fills its pane and needs no square

}  // namespace

PaneGrid::PaneGrid(const std::vector<MapPane*>& panes, QWidget* parent) : QWidget(parent), m_panes(panes) {
  for (MapPane* pane : m_panes) {
    pane->setParent(this);
    connect(&pane->plot(), &MapPlot::axesChanged, this, &PaneGrid::placeLater);
  }
}

void PaneGrid::setCount(int count) {
  m_count = count;
  for (std::size_t n = 0; n < m_panes.size(); ++n) m_panes[n]->setVisible(static_cast<int>(n) < count);
  updateGeometry();
  place();
}

bool PaneGrid::areStrips() const {
  return std::all_of(m_panes.begin(), m_panes.begin() + m_count,
                     [](const MapPane* pane) { return pane->plot().geometryOfView().byDistance(); });
}

// Two square maps that have room beside each other need no room above one another.
QSize PaneGrid::minimumSizeHint() const {
  const bool beside = m_count == 2 && !areStrips() && width() >= 2 * kLeastPane.width() + kBetween;
  const int columns = m_count > 2 ? 2 : 1;
  const int rows = m_count > 1 && !beside ? 2 : 1;
  const int height = areStrips() ? kLeastStrip : kLeastPane.height();
  return {columns * kLeastPane.width() + (columns - 1) * kBetween, rows * height + (rows - 1) * kBetween};
}

void PaneGrid::resizeEvent(QResizeEvent* /*event*/) { place(); }

// Several panes change one after the other: they are placed when all have.
void PaneGrid::placeLater() {
  m_changed = true;
  if (m_placing || m_placeQueued) return;
  m_placeQueued = true;
  QMetaObject::invokeMethod(this, &PaneGrid::place, Qt::QueuedConnection);
}

bool PaneGrid::sharesAxes() const {
  const MapPlot& first = m_panes.front()->plot();
  return std::all_of(m_panes.begin(), m_panes.begin() + m_count,
                     [&](const MapPane* pane) { return first.sharesPositionsWith(pane->plot()); });
}

PaneGrid::Plan PaneGrid::planOf(const Shape& shape, bool shared) const {
  Plan plan{0, std::vector<int>(static_cast<std::size_t>(shape.columns)),
            std::vector<int>(static_cast<std::size_t>(shape.rows))};
  for (int n = 0; n < m_count; ++n) {
    const int row = n / shape.columns;
    const int column = n % shape.columns;
    const LabelledAxes labelled{!shared || column == 0, !shared || row + 1 == shape.rows};
    const QSize room = m_panes[index_of(n)]->roomAroundMap(labelled);
    int& beside = plan.beside[index_of(column)];
    int& above = plan.above[index_of(row)];
    beside = std::max(beside, room.width());
    above = std::max(above, room.height());
  }
  const auto share = [](int all, int count, const std::vector<int>& rooms) {
    return (all - (count - 1) * kBetween - std::accumulate(rooms.begin(), rooms.end(), 0)) / count;
  };
  plan.square = std::min(share(width(), shape.columns, plan.beside), share(height(), shape.rows, plan.above));
  return plan;
}

PaneGrid::Shape PaneGrid::bestShape() const {
  // Maps by distance are strips above one another: their queries go on from one to the next.
  if (areStrips()) return m_count == 4 ? Shape{2, 2} : Shape{m_count, 1};
  static const std::map<int, std::vector<Shape>> kShapes{
      {1, {{1, 1}}}, {2, {{1, 2}, {2, 1}}}, {4, {{2, 2}, {1, 4}, {4, 1}}}};
  return std::ranges::max(kShapes.at(m_count), {}, [this](const Shape& shape) { return planOf(shape, false).square; });
}

// Another size may make room for the names of tokens, or take it, and names want other room than numbers.
void PaneGrid::place() {
  constexpr int kMostRounds = 3;
  m_placeQueued = false;
  m_placing = true;
  for (int round = 0; round < kMostRounds; ++round) {
    m_changed = false;
    placeOnce();
    if (!m_changed) break;
  }
  m_placing = false;
  if (const QSize least = minimumSizeHint(); std::exchange(m_least, least) != least) updateGeometry();
}

void PaneGrid::placeOnce() {
  const Shape shape = bestShape();
  const bool shared = sharesAxes();
  const Plan plan = planOf(shape, shared);
  // Room that the squares leave is dealt out evenly; all of them are as large.
  const auto ends = [](int all, const std::vector<int>& rooms) {
    const int count = static_cast<int>(rooms.size());
    const int rest = all - (count - 1) * kBetween - std::accumulate(rooms.begin(), rooms.end(), 0);
    std::vector<int> begins{0};
    for (std::size_t n = 0; n < rooms.size(); ++n) {
      begins.push_back(begins.back() + rooms[n] + rest / count + kBetween);
    }
    return begins;
  };
  const std::vector<int> across = ends(width(), plan.beside);
  const std::vector<int> down = ends(height(), plan.above);
  for (int n = 0; n < m_count; ++n) {
    const auto row = static_cast<std::size_t>(n / shape.columns);
    const auto column = static_cast<std::size_t>(n % shape.columns);
    MapPane* pane = m_panes[index_of(n)];
    pane->plot().setLabelledAxes({!shared || column == 0, !shared || static_cast<int>(row) + 1 == shape.rows});
    pane->setGeometry(across[column], down[row], across[column + 1] - across[column] - kBetween,
                      down[row + 1] - down[row] - kBetween);
  }
}

}  // namespace foxscope::gui

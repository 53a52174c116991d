#pragma once

#include <QWidget>

namespace foxscope::gui {

class MapPlot;
class ColourBar;

/// A map and its colour bar, which stands at the map's side, in the room that the plot keeps free there.
class MapArea : public QWidget {
  Q_OBJECT

 public:
  explicit MapArea(QWidget* parent = nullptr);
  [[nodiscard]] MapPlot& plot() const { return *m_plot; }
  [[nodiscard]] ColourBar& bar() const { return *m_bar; }

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  void place();

  MapPlot* m_plot;
  ColourBar* m_bar;
};

}  // namespace foxscope::gui

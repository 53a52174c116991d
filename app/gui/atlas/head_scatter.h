#pragma once

#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <QPolygonF>
#include <QWidget>

#include "app/figure/colour_scale.h"
#include "app/figure/curves/curve_geometry.h"

class QCustomPlot;

namespace foxscope::gui::atlas {

/// One axis of a scatter.
struct ScatterAxis {
  QString title;  ///< "decay time (tokens)"
  QString name;   ///< "decay time"
  bool logarithmic = false;
  std::vector<double> values;  ///< [N] NaN where a head has none
  std::vector<double> errors;  ///< [N]; may be empty
  figure::AxisLimits limits = {};
  /// Whether a value has a place on it.
  [[nodiscard]] bool holds(double value) const;
};

/// Heads as points.
struct ScatterContent {
  ScatterAxis x;
  ScatterAxis y;
  figure::ScaledColours colours;
  std::vector<double> colour;  ///< [N] values that colour them
  QString colourName;
  std::vector<QString> names;  ///< [N] "L2 H3"
  [[nodiscard]] bool has(std::size_t head) const;
};

/// Heads as points in two of their numbers, coloured by a third. A click chooses a head; a line drawn around some with
/// the left button chooses all of them, with Shift beside those that are chosen; hovering names one with its numbers.
/// The wheel zooms, a double click shows all. Left and Right go to the next head along the axis, Escape lets go of
/// those that are chosen.
class HeadScatter : public QWidget {
  Q_OBJECT

 public:
  explicit HeadScatter(QWidget* parent = nullptr);
  ~HeadScatter() override;

  void setContent(ScatterContent content);
  [[nodiscard]] const ScatterContent& content() const { return m_content; }
  void setHead(std::optional<std::size_t> head);
  void setChosen(const std::set<std::size_t>& heads);
  /// The ends of both axes as they are zoomed.
  [[nodiscard]] std::pair<figure::AxisLimits, figure::AxisLimits> shownLimits() const;
  /// Where a head is drawn, in the widget; nothing where it has no place.
  [[nodiscard]] std::optional<QPointF> placeOf(std::size_t head) const;
  /// The words of a head: its name and its numbers with their errors.
  [[nodiscard]] QString description(std::size_t head) const;

 signals:
  void headClicked(std::size_t head);
  void headsEnclosed(const std::set<std::size_t>& heads);
  void hovered(const QString& words);  ///< empty: none is

 protected:
  void changeEvent(QEvent* event) override;
  bool eventFilter(QObject* watched, QEvent* event) override;

 private:
  class Points;
  void restyle();
  void showAll();
  void repaintPoints();
  [[nodiscard]] std::optional<std::size_t> headAt(const QPointF& place) const;
  void moveTo(const QPointF& place);
  void release(Qt::KeyboardModifiers modifiers);
  bool step(int by);

  QCustomPlot* m_plot;
  Points* m_points;
  ScatterContent m_content;
  std::optional<std::size_t> m_head;
  std::set<std::size_t> m_chosen;
  std::optional<std::size_t> m_hovered;
  QPolygonF m_lasso;
  bool m_pressed = false;
};

}  // namespace foxscope::gui::atlas

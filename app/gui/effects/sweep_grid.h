#pragma once

#include <optional>
#include <utility>

#include <QWidget>

#include "app/figure/kinds/sweep.h"
#include "app/gui/document/runs/sweeps.h"

namespace foxscope::gui {

/// The heads of a sweep as cells, layers downwards, coloured by the change of the loss as far as it is known: red
/// hurts, blue helps. A click or the arrow keys choose a head; hovering shows its change and error.
class SweepGrid : public QWidget {
  Q_OBJECT

 public:
  explicit SweepGrid(QWidget* parent = nullptr);

  /// @param chosen  layer and head that are outlined
  void setSweep(const HeadSweep& sweep, const std::optional<std::pair<int, int>>& chosen);
  /// Where a head is drawn; empty where there is none.
  [[nodiscard]] QRect cell(int layer, int head) const;
  /// "L3 H0, gate 1: +0.0123 ± 0.0011 nats/token"
  [[nodiscard]] QString description(int layer, int head) const;
  /// The change at the ends of the colours, nats.
  [[nodiscard]] double limit() const { return m_limits.limit; }

  [[nodiscard]] QSize sizeHint() const override;
  [[nodiscard]] QSize minimumSizeHint() const override;

 signals:
  void headChosen(int layer, int head);

 protected:
  void paintEvent(QPaintEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  bool event(QEvent* event) override;

 private:
  /// "layer 3, head 0, +0.0123 ± 0.0011 nats/token", read out.
  [[nodiscard]] QString spoken(int layer, int head) const;
  [[nodiscard]] QRect area() const;
  [[nodiscard]] QRect legend() const;
  [[nodiscard]] std::optional<std::pair<int, int>> headAt(const QPoint& place) const;
  void paintCell(QPainter& painter, int layer, int head) const;
  void paintNumbers(QPainter& painter) const;
  void paintLegend(QPainter& painter) const;

  HeadSweep m_sweep;
  figure::SweepLimits m_limits{0, false};
  std::optional<std::pair<int, int>> m_chosen;
  std::optional<std::pair<int, int>> m_hovered;
};

}  // namespace foxscope::gui

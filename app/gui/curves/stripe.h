#pragma once

#include <array>
#include <optional>

#include <QPalette>
#include <QString>

#include "app/figure/curves/curve_geometry.h"
#include "app/gui/curves/plot_content.h"

class QCPAxis;
class QCPAxisRect;
class QCPItemStraightLine;
class QCustomPlot;

namespace foxscope::gui::curves {

/// Pinned query, pinned key, hovered query, hovered key.
inline constexpr int kCursorLines = 4;

/// One strip of a PositionPlot as it stands on the screen: its axes, and the cursor's lines through it.
struct Stripe {
  enum class Place { above, lowest };  ///< the lowest one carries the labels of the horizontal axis

  Strip strip;
  QCPAxisRect* rect = nullptr;

  /// Takes the next place downwards in the plot.
  Stripe(QCustomPlot& plot, const Strip& strip, Place place);

  [[nodiscard]] QCPAxis* x() const;
  [[nodiscard]] QCPAxis* y(Side side) const;
  void restyle(const QPalette& palette, figure::AxisScale horizontal, const QString& xLabel);

  /// Between these calls, include() takes every value that the vertical axes have to cover.
  void beginFit();
  void include(Side side, double value);
  void endFit();

  /// Coordinates of the lines; those that are missing are not drawn.
  void setCursor(const std::array<std::optional<double>, kCursorLines>& places);

 private:
  struct Extent {
    double least = 0;
    double largest = 0;
    bool any = false;
  };
  Place m_place;
  std::array<QCPItemStraightLine*, kCursorLines> m_cursor{};
  std::array<Extent, 2> m_extent;  ///< by side
};

}  // namespace foxscope::gui::curves

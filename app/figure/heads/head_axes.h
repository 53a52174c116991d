#pragma once

#include "app/figure/figure_measures.h"
#include "app/figure/page/axis_ticks.h"
#include "app/figure/page/canvas.h"

namespace foxscope::figure {

/// The axes of a grid of heads: layers downwards, heads across, each number in the middle of its row or column, and as
/// many of them as have room.
struct HeadAxes {
  int layers = 0;
  int heads = 0;
  TextStyle style;

  [[nodiscard]] Margins margins(double height) const;
  void draw(Canvas& canvas, const QRectF& inner) const;

 private:
  [[nodiscard]] Ticks across(double width) const;
  [[nodiscard]] Ticks down(double height) const;
};

}  // namespace foxscope::figure

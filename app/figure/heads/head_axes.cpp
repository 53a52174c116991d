#include "app/figure/heads/head_axes.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "app/figure/page/axis_drawing.h"

namespace foxscope::figure {
namespace {

Ticks numbers(int count, double room, double each) {
  Ticks ticks;
  const int every = std::max(1, static_cast<int>(std::ceil(each * count / room)));
  for (int index = 0; index < count; index += every) {
    ticks.major.push_back({static_cast<double>(index), std::to_string(index)});
  }
  return ticks;
}

}  // namespace

Ticks HeadAxes::across(double width) const { return numbers(heads, width, 1.7 * style.size); }
Ticks HeadAxes::down(double height) const { return numbers(layers, height, 1.1 * style.size); }

Margins HeadAxes::margins(double height) const {
  Margins margins;
  margins.left = widestLabel(down(height), style) + em::axisDepth(0) * style.size;
  margins.bottom = em::axisDepth(em::kDigitHeight) * style.size;
  margins.top = 0.2 * style.size;
  return margins;
}

void HeadAxes::draw(Canvas& canvas, const QRectF& inner) const {
  const auto centre = [](double index, int count) { return (index + 0.5) / count; };
  drawAxis(canvas, {AxisEdge::Side::bottom, inner, [&](double index) { return centre(index, heads); }},
           across(inner.width()), "head", em::kDigitHeight * style.size, style);
  const Ticks rows = down(inner.height());
  drawAxis(canvas, {AxisEdge::Side::left, inner, [&](double index) { return 1 - centre(index, layers); }}, rows,
           "layer", widestLabel(rows, style), style);
}

}  // namespace foxscope::figure

#include "app/figure/legend_panel.h"

#include "app/figure/curves/curve_pen.h"

namespace foxscope::figure {

LegendPanel::LegendPanel(const FigureFormat& format, std::vector<Curve> curves, std::string note)
    : m_style(textStyleOf(format).scaled(em::kSmallFont)),
      m_lineWidth(lineWidthOf(format)),
      m_curves(std::move(curves)),
      m_note(std::move(note)) {}

std::vector<LegendEntry> LegendPanel::entries(const QRectF& inner) const {
  const Legend legend{m_curves, m_note};
  return flowingLegend(legend, inner.topLeft(), inner.width(), legendStyle(legend, m_style, inner.width()));
}

std::optional<double> LegendPanel::heightFor(double width) const {
  const auto all = entries({0, 0, width, 0});
  return all.empty() ? 0 : all.back().place.bottom();
}

void LegendPanel::draw(Canvas& canvas, const QRectF& inner) const {
  const Legend legend{m_curves, m_note};
  drawLegendEntries(canvas, entries(inner), legendStyle(legend, m_style, inner.width()), m_lineWidth);
}

}  // namespace foxscope::figure

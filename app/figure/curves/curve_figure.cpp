#include "app/figure/curves/curve_figure.h"

#include "app/figure/curves/curve_panel.h"
#include "app/figure/page/panel_page.h"

namespace foxscope::figure {

std::string drawCurves(const CurveFigure& figure, const FigureFormat& format) {
  FigureStyle style;
  style.format = format;
  style.letters = PanelLetters::none;
  FigureOrigin origin;
  origin.title = figure.title;
  origin.command = figure.command;
  std::vector<CurvePlot> plots{figure};
  plots.insert(plots.end(), figure.below.begin(), figure.below.end());
  for (const CurvePlot& plot : plots) {
    for (const Curve& curve : plot.curves) {
      if (!curve.name.empty()) origin.facts.emplace_back("curve", curve.name);
    }
  }
  for (const auto& run : figure.runs) addRun(origin, *run);
  PanelPage page(style);
  constexpr double kFlat = 0.3;  // height of its width, of a plot below another
  for (std::size_t row = 0; row < plots.size(); ++row) {
    if (row + 1 < plots.size()) plots[row].xLabels = CurvePlot::XLabels::hidden;
    if (row > 0) plots[row].heightOfWidth = kFlat;
    page.add(std::make_unique<CurvePanel>(format, std::move(plots[row])), {static_cast<int>(row), 0});
  }
  page.arrange();
  return page.paint(origin);
}

}  // namespace foxscope::figure

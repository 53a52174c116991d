#include "app/figure/curve_figure.h"

#include "app/figure/curve_panel.h"
#include "app/figure/panel_page.h"

namespace foxscope::figure {

std::string drawCurves(const CurveFigure& figure, const FigureFormat& format) {
  FigureStyle style;
  style.format = format;
  FigureOrigin origin;
  origin.title = figure.title;
  origin.command = figure.command;
  for (const Curve& curve : figure.curves) {
    if (!curve.name.empty()) origin.facts.emplace_back("curve", curve.name);
  }
  for (const auto& run : figure.runs) addRun(origin, *run);
  PanelPage page(style);
  page.add(std::make_unique<CurvePanel>(format, figure), {});
  page.arrange();
  return page.paint(origin);
}

}  // namespace foxscope::figure

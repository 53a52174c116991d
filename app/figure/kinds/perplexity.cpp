#include "app/figure/kinds/perplexity.h"

#include "app/figure/curves/curve_panel.h"
#include "app/figure/figure_request.h"
#include "app/figure/page/panel_page.h"

namespace foxscope::figure {

DrawnFigure drawPerplexity(std::span<const LossSource> sources, const LossOptions& options, const FigureStyle& style) {
  requireComparable(sources);
  CurvePlot plot;
  plot.xLabel = "context length *l* (tokens)";
  plot.yLabel = "perplexity *P*(*l*)";
  plot.xScale = AxisScale::logarithmic;
  // The first lengths, whose perplexity is that of guessing, would take the whole axis.
  const std::int64_t first = std::max<std::int64_t>(0, firstPosition(sources, options.curves.xLimits) - 1);
  for (const LossSource& source : sources) {
    const foxscope::PositionCurve values = perplexitiesOf(source);
    plot.curves.push_back(curveOf(source.name, style.look(source.name, plot.curves.size()), values, first, 1));
  }
  plot.note = legendNote(sources, plot.curves, 1, first, LossAxis::lengths);
  DrawnFigure drawn;
  noteErrors(drawn.notes, sources, 1, first, LossAxis::lengths);
  if (options.trainLength) plot.markers.push_back({static_cast<double>(*options.trainLength), "training length"});
  applyChoice(plot.curves, options.curves, style);
  applyChoice(plot, options.curves);
  plot.legend = style.legend;
  FigureOrigin origin;
  origin.title = style.title.empty() ? "Perplexity against context length" : style.title;
  origin.command = style.command;
  origin.facts = {{"bands", "one standard error"}, {"errors", errorsOf(sources.front())}};
  addLosses(origin, sources);
  PanelPage page(style);
  page.add(std::make_unique<CurvePanel>(style.format, std::move(plot)), {});
  page.arrange();
  drawn.file = page.paint(origin);
  return drawn;
}

std::optional<DrawnFigure> drawPerplexity(FigureRequest& request) {
  const auto sources = request.losses();
  return drawPerplexity(sources, lossOptionsOf(request.spec), request.style);
}

}  // namespace foxscope::figure

#include "app/figure/kinds/ablation.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/figure/curves/curve_panel.h"
#include "app/figure/figure_request.h"
#include "app/figure/page/panel_page.h"
#include "backend/base/error.h"
#include "backend/base/nearest_name.h"

namespace foxscope::figure {
namespace {

constexpr Rgb kDifference{64, 64, 64};

const LossSource& baseOf(std::span<const LossSource> sources, const std::string& name) {
  if (name.empty()) return sources.front();
  std::vector<std::string> names;
  for (const LossSource& source : sources) {
    if (source.name == name) return source;
    names.push_back(source.name);
  }
  throw UsageError(
      fmt::format("--base {}: the files have {}{}", name, fmt::join(names, ", "), nearest_question(name, names)));
}

}  // namespace

DrawnFigure drawAblation(std::span<const LossSource> sources, const std::string& base, const LossOptions& options,
                         const FigureStyle& style) {
  requireComparable(sources);
  const LossSource& against = baseOf(sources, base);
  if (sources.size() < 2) {
    throw UsageError(fmt::format("{} is alone: an ablation takes another model to compare it with", against.name));
  }
  DrawnFigure drawn;
  if (base.empty()) drawn.notes.push_back(fmt::format("the base is {}: --base chooses another", against.name));
  const std::int64_t smooth = smoothingWidth(sources, options.smooth);
  if (!options.smooth) drawn.notes.push_back(fmt::format("smoothed over {} tokens: --smooth changes that", smooth));

  CurvePlot above = lossPlot(sources, options, smooth, style);
  const std::int64_t first = firstPosition(sources, options.curves.xLimits);
  noteErrors(drawn.notes, sources, smooth, first);
  CurvePlot below;
  below.xLabel = std::exchange(above.xLabel, "");
  // With several others the panel above names them.
  const bool several = sources.size() > 2;
  below.yLabel = several ? style.label(against.name) + " − other (nats per token)" : "difference (nats per token)";
  below.level = 0;
  below.markers = above.markers;
  for (CurveMarker& marker : below.markers) marker.label.clear();
  for (std::size_t index = 0; index < sources.size(); ++index) {
    const LossSource& source = sources[index];
    if (&source == &against) continue;
    below.curves.push_back(
        curveOf(source.name, style.look(source.name, index), differencesOver(against, source, smooth), first, 0));
    if (several) continue;
    // In the colour of one of the two it would look like that model's own loss.
    below.curves.back().ownColour = kDifference;
    below.curves.back().line = LineStyle::solid;
  }
  CurveChoice colours = options.curves;
  std::erase_if(colours.colours, [&](const auto& colour) { return colour.first == against.name; });
  std::erase(colours.order, against.name);
  FigureStyle unnamed = style;
  unnamed.labels.clear();
  unnamed.looks.clear();
  applyChoice(above.curves, options.curves, style);
  applyChoice(below.curves, colours, unnamed);
  for (Curve& curve : below.curves) {
    curve.name = fmt::format("{} − {}", style.label(against.name), style.label(curve.name));
  }
  applyChoice(above, options.curves);
  below.xLimits = options.curves.xLimits;
  below.xTicks = options.curves.xTicks;
  above.xLabels = CurvePlot::XLabels::hidden;
  above.legend = style.legend;
  below.legend = several ? LegendPlace::none : style.legend;
  above.heightOfWidth = 0.42;
  below.heightOfWidth = 0.3;

  FigureOrigin origin;
  origin.title =
      style.title.empty() ? fmt::format("Losses, and the loss of {} minus each other loss", against.name) : style.title;
  origin.command = style.command;
  origin.facts = {{"base", against.name},
                  {"smoothed over", fmt::format("{} tokens", smooth)},
                  {"bands", "one standard error; below, of the differences"},
                  {"errors", errorsOf(against)}};
  addLosses(origin, sources);
  FigureStyle unlettered = style;
  unlettered.letters = PanelLetters::none;
  PanelPage page(unlettered);
  page.add(std::make_unique<CurvePanel>(style.format, std::move(above)), {0, 0});
  page.add(std::make_unique<CurvePanel>(style.format, std::move(below)), {1, 0});
  page.arrange();
  drawn.file = page.paint(origin);
  return drawn;
}

std::optional<DrawnFigure> drawAblation(FigureRequest& request) {
  const auto sources = request.losses();
  return drawAblation(sources, request.spec.text("base"), lossOptionsOf(request.spec), request.style);
}

}  // namespace foxscope::figure

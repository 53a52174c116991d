#include "app/figure/kinds/loss.h"

#include <algorithm>

#include <fmt/format.h>

#include "app/figure/curves/curve_panel.h"
#include "app/figure/figure_request.h"
#include "app/figure/figure_words.h"
#include "app/figure/page/panel_page.h"
#include "backend/base/error.h"
#include "backend/eval/loss/loss_statistics.h"

namespace foxscope::figure {
namespace {

constexpr std::int64_t kPaperWidth = 101;
constexpr std::int64_t kWideWidth = 1001;  ///< the paper's for its ablations
constexpr std::int64_t kFewWindows = 8;
constexpr std::int64_t kWidthsInLength = 4;  ///< a moving average is at most this part of the length

}  // namespace

std::int64_t smoothingWidth(std::span<const LossSource> sources, const std::optional<std::int64_t>& chosen) {
  if (chosen) {
    if (*chosen < 1 || *chosen % 2 == 0) {
      throw UsageError(fmt::format("--smooth {}: use an odd number of tokens, as 101 or 1001; 1 is none", *chosen));
    }
    const std::int64_t length = sources.front().model.losses.common_length();
    // Beyond that every position is a mean over nearly the same ones, and the line is flat whatever the losses are.
    const std::int64_t most = std::max<std::int64_t>(1, (length / 2 - 1) / 2 * 2 + 1);
    if (*chosen > most) {
      throw UsageError(
          fmt::format("--smooth {}: the losses have {} positions: use an odd number up to {}", *chosen, length, most));
    }
    return *chosen;
  }
  const LossTable& losses = sources.front().model.losses;
  const bool few = losses.windows < kFewWindows && !sources.front().model.averaged;
  const std::int64_t most = std::max<std::int64_t>(1, losses.common_length() / kWidthsInLength - 1);
  const std::int64_t width = few && most >= kWideWidth ? kWideWidth : kPaperWidth;
  return std::min(width, most) / 2 * 2 + 1;
}

CurvePlot lossPlot(std::span<const LossSource> sources, const LossOptions& options, std::int64_t smooth,
                   const FigureStyle& style) {
  CurvePlot plot;
  plot.xLabel = "token position *p*";
  plot.yLabel = "loss *L*(*p*) (nats per token)";
  const std::int64_t first = firstPosition(sources, options.curves.xLimits);
  for (const LossSource& source : sources) {
    const foxscope::PositionCurve values = lossesOver(source, smooth);
    plot.curves.push_back(curveOf(source.name, style.look(source.name, plot.curves.size()), values, first, 0));
  }
  plot.note = legendNote(sources, plot.curves, smooth, first);
  if (options.trainLength) {
    plot.markers.push_back({static_cast<double>(*options.trainLength), "training length"});
  }
  return plot;
}

DrawnFigure drawLoss(std::span<const LossSource> sources, const LossOptions& options, const FigureStyle& style) {
  requireComparable(sources);
  DrawnFigure drawn;
  const std::int64_t smooth = smoothingWidth(sources, options.smooth);
  if (!options.smooth) drawn.notes.push_back(fmt::format("smoothed over {} tokens: --smooth changes that", smooth));
  CurvePlot plot = lossPlot(sources, options, smooth, style);
  noteErrors(drawn.notes, sources, smooth, firstPosition(sources, options.curves.xLimits));
  applyChoice(plot.curves, options.curves, style);
  applyChoice(plot, options.curves);
  plot.legend = style.legend;
  FigureOrigin origin;
  origin.title = style.title.empty() ? "Loss against position" : style.title;
  origin.command = style.command;
  origin.facts = {{"smoothed over", fmt::format("{} tokens", smooth)},
                  {"bands", "one standard error"},
                  {"errors", errorsOf(sources.front())}};
  addLosses(origin, sources);
  PanelPage page(style);
  page.add(std::make_unique<CurvePanel>(style.format, std::move(plot)), {});
  page.arrange();
  drawn.file = page.paint(origin);
  return drawn;
}

LossOptions lossOptionsOf(const FigureSpec& spec) {
  const auto trainLength = trainLengthOf(spec);
  return {integerOf(spec, "smooth"), trainLength, curvesOf(spec)};
}

std::optional<DrawnFigure> drawLoss(FigureRequest& request) {
  const auto sources = request.losses();
  return drawLoss(sources, lossOptionsOf(request.spec), request.style);
}

}  // namespace foxscope::figure

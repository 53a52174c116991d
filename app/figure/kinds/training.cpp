#include "app/figure/kinds/training.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>

#include <fmt/format.h>

#include "app/figure/curves/curve_palette.h"
#include "app/figure/curves/curve_panel.h"
#include "app/figure/curves/curve_pen.h"
#include "app/figure/figure_measures.h"
#include "app/figure/figure_origin.h"
#include "app/figure/figure_request.h"
#include "app/figure/figure_words.h"
#include "app/figure/kinds/loss_source.h"
#include "app/figure/page/panel_page.h"
#include "backend/base/error.h"
#include "backend/eval/loss/loss_file.h"
#include "backend/file/provenance.h"

namespace foxscope::figure {
namespace {

constexpr std::int64_t kWidthsInTraining = 50;
constexpr Rgb kNeutral{110, 110, 110};
// Range of viridis: its end is too light for a line on white, its beginning too dark for one on a dark ground.
constexpr double kLightestLayer = 0.85;
constexpr double kDarkestLayer = 0.35;
constexpr int kMostNamedLayers = 6;
constexpr double kWidthOfTwo = 4.0;   ///< inches of a page, from which on two panels stand beside each other
constexpr double kLineOfHead = 0.65;  ///< widths of other curves: heads are many
constexpr double kRoomAround = 1.3;   ///< of decay times

double nan() { return std::numeric_limits<double>::quiet_NaN(); }

std::string tokensLabel(const TokenUnit& unit) {
  return std::string("tokens seen") + (*unit.name == '\0' ? "" : fmt::format(" ({})", unit.name));
}

std::int64_t mostTokens(std::span<const TrainingSource> trainings) {
  std::int64_t most = 0;
  for (const TrainingSource& training : trainings) most = std::max(most, training.record.steps.back().tokens);
  return most;
}

Curve lossCurve(const TrainingSource& training, const CurveLook& look, const TokenUnit& unit, std::int64_t smooth) {
  Curve curve;
  curve.name = training.name;
  curve.colour = look.colour;
  curve.line = curveLine(look.colour, look.change);
  curve.y = smoothed_losses(training.record.steps, smooth);
  for (const TrainingStep& step : training.record.steps) {
    curve.x.push_back(static_cast<double>(step.tokens) / unit.tokens);
    if (smooth > 1) curve.rawY.push_back(step.loss);
  }
  return curve;
}

/// Points with bars; empty without held-out data.
Curve heldOutCurve(const TrainingSource& training, const Curve& like, std::size_t place, const TokenUnit& unit) {
  constexpr std::size_t kShapes = 4;
  Curve points;
  points.colour = like.colour;
  points.ownColour = like.ownColour;
  points.line = LineStyle::points;
  points.shape = static_cast<PointShape>(place % kShapes);
  bool known = false;
  for (const TrainingMeasures& line : training.record.measures) {
    if (!line.loss) continue;
    const double error = line.loss_error.value_or(nan());
    points.x.push_back(static_cast<double>(line.tokens) / unit.tokens);
    points.y.push_back(*line.loss);
    points.bandLower.push_back(*line.loss - error);
    points.bandUpper.push_back(*line.loss + error);
    known = known || std::isfinite(error);
  }
  if (!known) points.bandLower = points.bandUpper = {};
  return points;
}

/// The axis from no token to the last, and a little more, so that no point lies on the frame.
AxisLimits allTokens(std::span<const TrainingSource> trainings, const TokenUnit& unit) {
  constexpr double kBeyond = 1.02;
  return {0, kBeyond * static_cast<double>(mostTokens(trainings)) / unit.tokens};
}

void chooseTokens(CurvePlot& plot, const CurveChoice& choice, const TokenUnit& unit) {
  if (choice.xLimits) {
    plot.xLimits = AxisLimits{choice.xLimits->lower / unit.tokens, choice.xLimits->upper / unit.tokens};
  }
  for (const double tokens : choice.xTicks) plot.xTicks.push_back(tokens / unit.tokens);
}

/// One range for all decay times, so that panels compare; nothing where none is finite.
std::optional<AxisLimits> commonLimits(std::span<const CurvePlot> plots) {
  AxisLimits limits{std::numeric_limits<double>::infinity(), 0};
  for (const CurvePlot& plot : plots) {
    for (const Curve& curve : plot.curves) {
      for (const double time : curve.y) {
        if (!std::isfinite(time) || time <= 0) continue;
        limits.lower = std::min(limits.lower, time);
        limits.upper = std::max(limits.upper, time);
      }
    }
  }
  if (limits.upper == 0) return std::nullopt;
  return AxisLimits{limits.lower / kRoomAround, limits.upper * kRoomAround};
}

/// Says what the bars of the held-out losses are over, or why there are none.
void noteBars(std::vector<std::string>& notes, const TrainingSource& training) {
  const auto& measures = training.record.measures;
  const auto last = std::find_if(measures.rbegin(), measures.rend(), [](const auto& line) { return line.loss; });
  if (last == measures.rend()) return;
  const bool bars =
      std::ranges::any_of(measures, [](const TrainingMeasures& line) { return line.loss_error.has_value(); });
  const std::string words = last->error_over.count > 0 ? errors_text(last->error_over)
                            : bars ? "bars as the log has them, which does not say what they are over"
                                   : "no bars: the log has no errors of them";
  notes.push_back(fmt::format("{}: held-out losses: {}", training.name, words));
}

/// Says which training has no decay times, and which heads are left out where they forget nothing.
void noteHeads(std::vector<std::string>& notes, const TrainingSource& training) {
  const TrainingRecord& record = training.record;
  if (record.layers() == 0) {
    notes.push_back(fmt::format("{}: no decay times were measured (no gates, or no save yet): its heads are left out",
                                training.name));
    return;
  }
  const auto heads = static_cast<std::size_t>(record.heads());
  std::vector<std::string> open;
  for (std::size_t head = 0; head < static_cast<std::size_t>(record.layers()) * heads; ++head) {
    const bool infinite = std::ranges::any_of(record.measures, [&](const TrainingMeasures& line) {
      return head < line.decay_times.size() && !std::isfinite(line.decay_times[head]);
    });
    if (infinite) open.push_back(fmt::format("{}:{}", head / heads, head % heads));
  }
  if (open.empty()) return;
  notes.push_back(fmt::format("{}: heads that forget nothing at a save have a gap there: {}", training.name,
                              fmt::join(open, ", ")));
}

FigureOrigin originOf(std::span<const TrainingSource> trainings, std::int64_t smooth, const FigureStyle& style) {
  FigureOrigin origin;
  origin.title = style.title.empty() ? "Training" : style.title;
  origin.command = style.command;
  origin.facts = {{"smoothed over", fmt::format("{} steps", smooth)}, {"bars", "one standard error"}};
  for (const TrainingSource& training : trainings) {
    const TrainingStep& last = training.record.steps.back();
    origin.facts.emplace_back("training", fmt::format("{}: {} steps, {} tokens, loss {:.4f}", training.name, last.step,
                                                      last.tokens, last.loss));
  }
  return origin;
}

/// @throws UsageError for a file, with the figures that draw what it holds
void requireFolder(const std::string& path) {
  if (!std::filesystem::is_regular_file(path)) return;
  const bool hdf5 = path.ends_with(".h5");
  const std::string content = hdf5 ? read_content(path) : std::string();
  std::string advice;
  if (content == kLossContent) {
    advice = fmt::format(
        "{} holds losses of models that were trained: foxscope figure loss, perplexity or ablation "
        "draws them",
        path);
  } else if (hdf5) {
    advice = fmt::format("{} holds {}", path, content.empty() ? "runs of models" : content_words(content));
  } else {
    advice = fmt::format("{} is a file", path);
  }
  throw UsageError(fmt::format("{}; a training is a folder that foxscope train wrote: name that", advice));
}

}  // namespace

TokenUnit tokenUnit(std::span<const TrainingSource> trainings) {
  const std::int64_t most = mostTokens(trainings);
  constexpr TokenUnit kUnits[] = {{1e9, "billions"}, {1e6, "millions"}, {1e3, "thousands"}};
  for (const TokenUnit& unit : kUnits) {
    if (static_cast<double>(most) >= 2 * unit.tokens) return unit;
  }
  return {};
}

std::int64_t smoothingSteps(std::span<const TrainingSource> trainings, const std::optional<std::int64_t>& chosen) {
  if (chosen) return *chosen;
  std::size_t most = 0;
  for (const TrainingSource& training : trainings) most = std::max(most, training.record.steps.size());
  return static_cast<std::int64_t>(most) / kWidthsInTraining / 2 * 2 + 1;
}

Rgb layerColour(int layer, int layers, Ground ground) {
  const double share = static_cast<double>(layer) / std::max(1, layers - 1);
  if (ground == Ground::light) return colourAt(viridis(), kLightestLayer * share);
  return colourAt(viridis(), kDarkestLayer + (1 - kDarkestLayer) * share);
}

CurvePlot trainingLossPlot(std::span<const TrainingSource> trainings, const TrainingOptions& options,
                           const FigureStyle& style) {
  const TokenUnit unit = tokenUnit(trainings);
  const std::int64_t smooth = smoothingSteps(trainings, options.smooth);
  CurvePlot plot;
  plot.title = "Loss";
  plot.xLabel = tokensLabel(unit);
  plot.yLabel = "loss (nats per token)";
  plot.legend = style.legend;
  for (const TrainingSource& training : trainings) {
    plot.curves.push_back(lossCurve(training, style.look(training.name, plot.curves.size()), unit, smooth));
  }
  applyChoice(plot.curves, options.curves, style);
  std::vector<Curve> heldOut;
  bool errors = false;
  for (std::size_t place = 0; place < trainings.size(); ++place) {
    const auto like = std::ranges::find(plot.curves, style.label(trainings[place].name), &Curve::name);
    Curve points = heldOutCurve(trainings[place], *like, place, unit);
    errors = errors || !points.bandLower.empty();
    if (!points.x.empty()) heldOut.push_back(std::move(points));
  }
  if (!heldOut.empty()) {
    Curve sample;
    sample.name = errors ? "held-out, ± 1 standard error" : "held-out";
    sample.line = LineStyle::points;
    sample.shape = heldOut.front().shape;
    if (trainings.size() == 1) {
      sample.colour = heldOut.front().colour;
      sample.ownColour = heldOut.front().ownColour;
    } else {
      sample.ownColour = kNeutral;
    }
    plot.curves.push_back(std::move(sample));
  }
  for (Curve& points : heldOut) plot.curves.push_back(std::move(points));
  if (smooth > 1) plot.note = fmt::format("lines: mean of {} steps", smooth);
  plot.yLimits = options.curves.yLimits;
  plot.yTicks = options.curves.yTicks;
  plot.xLimits = allTokens(trainings, unit);
  chooseTokens(plot, options.curves, unit);
  return plot;
}

CurvePlot trainingDecayPlot(const TrainingSource& training, const TokenUnit& unit, Ground ground) {
  const TrainingRecord& record = training.record;
  CurvePlot plot;
  plot.title = "Decay times of heads";
  plot.xLabel = tokensLabel(unit);
  plot.yLabel = "decay time (tokens)";
  plot.yScale = AxisScale::logarithmic;
  const int step = (record.layers() + kMostNamedLayers - 1) / kMostNamedLayers;
  std::size_t place = 0;
  for (int layer = 0; layer < record.layers(); ++layer) {
    for (int head = 0; head < record.heads(); ++head) {
      Curve curve;
      if (head == 0 && layer % step == 0) curve.name = fmt::format("layer {}", layer);
      curve.ownColour = layerColour(layer, record.layers(), ground);
      for (const TrainingMeasures& line : record.measures) {
        if (line.decay_times.empty()) continue;
        const double time = line.decay_times[place];
        curve.x.push_back(static_cast<double>(line.tokens) / unit.tokens);
        curve.y.push_back(std::isfinite(time) ? time : nan());
      }
      ++place;
      if (curve.x.size() == 1) curve.line = LineStyle::points;
      plot.curves.push_back(std::move(curve));
    }
  }
  return plot;
}

DrawnFigure drawTraining(std::span<const TrainingSource> trainings, const TrainingOptions& options,
                         const FigureStyle& style) {
  if (trainings.empty()) throw UsageError("figure training: there is no training to draw");
  DrawnFigure drawn;
  const TokenUnit unit = tokenUnit(trainings);
  const std::int64_t smooth = smoothingSteps(trainings, options.smooth);
  CurvePlot losses = trainingLossPlot(trainings, options, style);
  if (!options.smooth && smooth > 1) {
    drawn.notes.push_back(fmt::format("losses are smoothed over {} steps: --smooth changes that", smooth));
  }
  std::vector<CurvePlot> decays;
  for (const TrainingSource& training : trainings) {
    noteHeads(drawn.notes, training);
    if (training.record.layers() == 0) continue;
    CurvePlot& plot = decays.emplace_back(trainingDecayPlot(training, unit));
    if (trainings.size() > 1) plot.title += ", " + style.label(training.name);
    plot.legend = style.legend;
    chooseTokens(plot, options.curves, unit);
  }
  for (const TrainingSource& training : trainings) noteBars(drawn.notes, training);
  for (CurvePlot& plot : decays) {
    plot.yLimits = commonLimits(decays);
    plot.xLimits = losses.xLimits;
  }
  FigureFormat ofHeads = style.format;
  ofHeads.lineWidthPt = kLineOfHead * lineWidthOf(style.format);
  PanelPage page(style);
  const int panels = static_cast<int>(decays.size()) + 1;
  const int across = widthInPoints(style.format) < kWidthOfTwo * kPointsPerInch ? 1 : std::min(2, panels);
  const bool wide = across == 2 && panels % 2 == 1;
  if (wide) losses.heightOfWidth = 0.36;
  page.add(std::make_unique<CurvePanel>(style.format, std::move(losses)), {0, 0, 1, wide ? across : 1});
  int place = wide ? across : 1;
  for (CurvePlot& plot : decays) {
    page.add(std::make_unique<CurvePanel>(ofHeads, std::move(plot)), {place / across, place % across});
    ++place;
  }
  page.arrange();
  drawn.file = page.paint(originOf(trainings, smooth, style));
  return drawn;
}

std::optional<DrawnFigure> drawTraining(FigureRequest& request) {
  std::vector<TrainingSource> trainings;
  for (std::size_t n = 0; n < request.sources.files.size(); ++n) {
    requireFolder(request.sources.files[n]);
    trainings.push_back({request.sources.names[n], read_training(request.sources.files[n])});
  }
  return drawTraining(trainings, {integerOf(request.spec, "smooth"), curvesOf(request.spec)}, request.style);
}

}  // namespace foxscope::figure

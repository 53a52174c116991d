#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "app/figure/figure_style.h"
#include "backend/train/training_record.h"

namespace foxscope::figure {

/// A training under the name that the figure gives it.
struct TrainingSource {
  std::string name;
  TrainingRecord record;
};

/// The options of `drawTraining`.
struct TrainingOptions {
  std::optional<std::int64_t> smooth;  ///< steps of the moving average, odd; absent: by their number
  CurveChoice curves;                  ///< limits and ticks along the horizontal axis are tokens
};

/// The unit of tokens along an axis.
struct TokenUnit {
  double tokens = 1;
  const char* name = "";  ///< "millions"; empty: single tokens
};
TokenUnit tokenUnit(std::span<const TrainingSource> trainings);

/// The moving average's width: what was chosen, or a fiftieth of the longest training's steps.
std::int64_t smoothingSteps(std::span<const TrainingSource> trainings, const std::optional<std::int64_t>& chosen);

/// Loss against tokens seen: of each training the smoothed loss of its steps, their own losses faintly behind it, and
/// the held-out loss as points with bars of one standard error.
/// @throws UsageError for a width of smoothing that is none, and names that no training has
CurvePlot trainingLossPlot(std::span<const TrainingSource> trainings, const TrainingOptions& options,
                           const FigureStyle& style = {});

/// Decay time of every head against tokens seen, with the colour of its layer; a gap where a head forgets nothing.
/// Curves are by layer, of a layer by head.
/// @param unit  of the tokens
CurvePlot trainingDecayPlot(const TrainingSource& training, const TokenUnit& unit, Ground ground = Ground::light);

/// Colour of a layer's curves, darker for lower layers.
Rgb layerColour(int layer, int layers, Ground ground = Ground::light);

/// Losses of one or several trainings, and for each with gates the decay times of its heads.
/// @throws UsageError for no training, and as trainingLossPlot
DrawnFigure drawTraining(std::span<const TrainingSource> trainings, const TrainingOptions& options,
                         const FigureStyle& style);

/// The same as `foxscope figure training` asks for it.
std::optional<DrawnFigure> drawTraining(struct FigureRequest& request);

}  // namespace foxscope::figure

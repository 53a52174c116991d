#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "app/figure/curve_palette.h"
#include "app/figure/curve_plot.h"
#include "app/figure/figure_origin.h"
#include "app/figure/figure_style.h"
#include "backend/eval/loss_file.h"

namespace foxscope::figure {

/// Losses of one model, of an evaluation or of a run's only text.
struct LossSource {
  std::string name;
  EvaluatedModel model;
  EvaluatedCorpus corpus;            ///< of an evaluation
  std::shared_ptr<const Trace> run;  ///< of a run file, else null
};

/// @throws Error where the run kept no losses
LossSource lossesOf(const std::shared_ptr<const Trace>& run);
std::vector<LossSource> lossesOf(const LossEvaluation& evaluation);

/// @throws UsageError for models whose positions are not the same tokens of the same windows
void requireComparable(std::span<const LossSource> sources);

/// The first position to be drawn: 128 as in the paper, 0 where that would leave out much.
std::int64_t firstPosition(std::int64_t length);

/// Adds models, corpus and texts to a figure's metadata.
void addLosses(FigureOrigin& origin, std::span<const LossSource> sources);

/// A curve with its band of one standard error, where that is known, from this index on; x is index + offset.
Curve curveOf(const std::string& name, const CurveLook& look, const foxscope::Curve& values, std::int64_t first,
              std::int64_t offset);

/// What the legend says of lines and bands: "mean of 101 tokens, band: ± 1 standard error".
std::string legendNote(std::span<const Curve> curves, std::int64_t smooth);

/// Says that there are no bands, if there are none.
void noteErrors(std::vector<std::string>& notes, std::span<const Curve> curves);

/// Order, colours and names of curves as they were chosen.
/// @throws UsageError for a name that no curve has
void applyChoice(std::vector<Curve>& curves, const CurveChoice& choice, const FigureStyle& style);

/// Limits and ticks as they were chosen.
void applyChoice(CurvePlot& plot, const CurveChoice& choice);

}  // namespace foxscope::figure

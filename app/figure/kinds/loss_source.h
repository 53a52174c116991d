#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "app/figure/curves/curve_palette.h"
#include "app/figure/curves/curve_plot.h"
#include "app/figure/figure_origin.h"
#include "app/figure/figure_style.h"
#include "backend/eval/loss/loss_file.h"

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

/// The first position to be drawn: 128 as in the paper, 0 where that would leave out much (of fewer than 1024), and
/// less where the limits of the axis that were chosen begin before it.
std::int64_t firstPosition(std::span<const LossSource> sources, const std::optional<AxisLimits>& chosen = {});

/// Whether the losses are of one text: then errors are over blocks of it (text_curve.h), else over documents.
bool ofOneText(const LossSource& source);

/// L(p) smoothed over so many tokens, P(l), and L(p) of a source less that of another, with their errors.
foxscope::PositionCurve lossesOver(const LossSource& source, std::int64_t smooth);
foxscope::PositionCurve perplexitiesOf(const LossSource& source);
foxscope::PositionCurve differencesOver(const LossSource& source, const LossSource& minus, std::int64_t smooth);

/// The groups that the errors of such curves are over, for a figure's metadata.
std::string errorsOf(const LossSource& source);

/// Adds models, corpus and texts to a figure's metadata.
void addLosses(FigureOrigin& origin, std::span<const LossSource> sources);

/// A curve with its band of one standard error, where that is known, from this index on; x is index + offset.
Curve curveOf(const std::string& name, const CurveLook& look, const foxscope::PositionCurve& values, std::int64_t first,
              std::int64_t offset);

/// The unit of the horizontal axis: positions p, or lengths p + 1 of which a loss is the mean.
enum class LossAxis { positions, lengths };

/// The legend's note on lines and bands, in lines: "mean of 101 tokens, band: ± 1 standard error", what the bands are
/// over or why there are none, and which position is the first where others are left out.
std::string legendNote(std::span<const LossSource> sources, std::span<const Curve> curves, std::int64_t smooth,
                       std::int64_t first, LossAxis axis = LossAxis::positions);

/// Says what bands are, or why there are none, and which positions are left out.
/// @param smooth  tokens of the moving average over positions; of one over lengths nothing depends on it
void noteErrors(std::vector<std::string>& notes, std::span<const LossSource> sources, std::int64_t smooth,
                std::int64_t first, LossAxis axis = LossAxis::positions);

/// Says of which different texts the losses are, which cannot be compared then; empty where they are of the same
/// windows.
std::string differentTexts(std::span<const LossSource> sources);

/// Order, colours and names of curves as they were chosen.
/// @throws UsageError for a name that no curve has
void applyChoice(std::vector<Curve>& curves, const CurveChoice& choice, const FigureStyle& style);

/// Limits and ticks as they were chosen.
void applyChoice(CurvePlot& plot, const CurveChoice& choice);

}  // namespace foxscope::figure

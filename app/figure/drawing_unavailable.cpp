#include "app/figure/curves/curve_figure.h"
#include "app/figure/kinds/ablation.h"
#include "app/figure/kinds/compare.h"
#include "app/figure/kinds/decay.h"
#include "app/figure/kinds/distance.h"
#include "app/figure/kinds/grid.h"
#include "app/figure/kinds/labels.h"
#include "app/figure/kinds/maps.h"
#include "app/figure/kinds/needle.h"
#include "app/figure/kinds/passage.h"
#include "app/figure/kinds/perplexity.h"
#include "app/figure/kinds/saliency.h"
#include "app/figure/kinds/sweep.h"
#include "app/figure/kinds/training.h"
#include "app/figure/maps/map_figure.h"
#include "backend/base/error.h"

// For a build without Qt: numbers can be written, pictures cannot be drawn.

namespace foxscope::figure {

void requireDrawing() {
  throw Error("drawing: this build has no Qt: build with -DFOXSCOPE_GUI=ON, or write .npy, .h5 or .csv");
}

std::string drawMap(const MapFigure& /*figure*/, const FigureFormat& /*format*/) {
  requireDrawing();
  return {};
}

std::string drawCurves(const CurveFigure& /*figure*/, const FigureFormat& /*format*/) {
  requireDrawing();
  return {};
}

std::optional<DrawnFigure> drawMaps(const std::shared_ptr<const Trace>& /*trace*/, const MapsOptions& /*options*/,
                                    const FigureStyle& /*style*/, const Job& /*job*/) {
  requireDrawing();
  return {};
}

std::optional<DrawnFigure> drawGrid(const std::shared_ptr<const Trace>& /*trace*/, const GridOptions& /*options*/,
                                    const FigureStyle& /*style*/, const Job& /*job*/) {
  requireDrawing();
  return {};
}

std::optional<DrawnFigure> drawCompare(const std::shared_ptr<const Trace>& /*first*/,
                                       const std::shared_ptr<const Trace>& /*second*/,
                                       const CompareOptions& /*options*/, const FigureStyle& /*style*/,
                                       const Job& /*job*/) {
  requireDrawing();
  return {};
}

std::optional<DrawnFigure> drawPassage(const std::shared_ptr<const Trace>& /*trace*/, const PassageOptions& /*options*/,
                                       const FigureStyle& /*style*/, const Job& /*job*/) {
  requireDrawing();
  return {};
}

std::optional<DrawnFigure> drawSaliency(const std::shared_ptr<const Trace>& /*trace*/,
                                        const SaliencyOptions& /*options*/, const FigureStyle& /*style*/,
                                        const Job& /*job*/) {
  requireDrawing();
  return {};
}

DrawnFigure drawNeedle(const NeedleEvaluation& /*evaluation*/, const NeedleOptions& /*options*/,
                       const FigureStyle& /*style*/) {
  requireDrawing();
  return {};
}

DrawnFigure drawNeedle(std::span<const std::shared_ptr<const NeedleEvaluation>> /*tests*/,
                       const NeedleOptions& /*options*/, const FigureStyle& /*style*/) {
  requireDrawing();
  return {};
}

DrawnFigure drawSweep(std::span<const SweepEvaluation> /*sweeps*/, const FigureStyle& /*style*/,
                      std::optional<double> /*rate*/) {
  requireDrawing();
  return {};
}

DrawnFigure drawLoss(std::span<const LossSource> /*sources*/, const LossOptions& /*options*/,
                     const FigureStyle& /*style*/) {
  requireDrawing();
  return {};
}

DrawnFigure drawPerplexity(std::span<const LossSource> /*sources*/, const LossOptions& /*options*/,
                           const FigureStyle& /*style*/) {
  requireDrawing();
  return {};
}

DrawnFigure drawAblation(std::span<const LossSource> /*sources*/, const std::string& /*base*/,
                         const LossOptions& /*options*/, const FigureStyle& /*style*/) {
  requireDrawing();
  return {};
}

DrawnFigure drawTraining(std::span<const TrainingSource> /*trainings*/, const TrainingOptions& /*options*/,
                         const FigureStyle& /*style*/) {
  requireDrawing();
  return {};
}

DrawnFigure drawDecay(std::span<const EvaluatedHeads> /*models*/, const FigureStyle& /*style*/) {
  requireDrawing();
  return {};
}

DrawnFigure drawLabels(std::span<const EvaluatedHeads> /*models*/, const FigureStyle& /*style*/) {
  requireDrawing();
  return {};
}

DrawnFigure drawDistance(const EvaluatedHeads& /*model*/, const DistanceOptions& /*options*/,
                         const FigureStyle& /*style*/) {
  requireDrawing();
  return {};
}

}  // namespace foxscope::figure

#include "app/figure/curves/curve_figure.h"
#include "app/figure/figure_parts.h"
#include "app/figure/maps/map_figure.h"
#include "backend/base/error.h"

// A build without Qt writes numbers and draws no pictures.

namespace foxscope::figure {

void requireDrawing() {
  throw Error("drawing: this build has no Qt: build with -DFOXSCOPE_GUI=ON, or write .npy, .h5 or .csv");
}

std::string drawMap(const MapFigure& /*figure*/, const FigureFormat& /*format*/) {
  requireDrawing();
  return {};
}

std::optional<DrawnFigure> drawParts(const std::vector<std::vector<PartRequest>>& /*rows*/,
                                     const FigureStyle& /*style*/, const Job& /*job*/) {
  requireDrawing();
  return std::nullopt;
}

std::string drawCurves(const CurveFigure& /*figure*/, const FigureFormat& /*format*/) {
  requireDrawing();
  return {};
}

}  // namespace foxscope::figure

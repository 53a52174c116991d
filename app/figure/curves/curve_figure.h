#pragma once

#include <memory>
#include <string>
#include <vector>

#include "app/figure/curves/curve_plot.h"
#include "app/figure/figure_format.h"
#include "backend/trace/trace.h"

namespace foxscope::figure {

/// One plot, or several below each other over one horizontal axis, as a file of their own.
struct CurveFigure : CurvePlot {
  std::vector<CurvePlot> below;                    ///< further plots; the lowest has the label of x
  std::string command;                             ///< how to make the picture again; goes into the file's metadata
  std::vector<std::shared_ptr<const Trace>> runs;  ///< what the curves were read from; into the metadata as well
};

/// Draws the curves without a display, from any thread while a Qt application runs. The legend stands where it covers
/// no curve: in a corner, above curves that make room for it, or above the axes where their limits were chosen.
/// @returns the bytes of the file; the same figure and format give the same bytes
/// @throws ShapeError for a curve whose x and y differ in size; UsageError for a format that is not valid or has no
///         room for curves, and limits that are none; Error in a build without Qt
std::string drawCurves(const CurveFigure& figure, const FigureFormat& format);

}  // namespace foxscope::figure

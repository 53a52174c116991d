#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <QColor>
#include <QString>

#include "app/figure/curves/curve_geometry.h"
#include "app/gui/curves/series.h"

namespace foxscope::gui::curves {

enum class Side { left, right };

/// When a line is drawn. The vertical axis covers all that is drawn.
enum class Shown {
  always,
  whenSparse,  ///< only where every token has some pixels of its own
};

/// Whether single values are dots on the line.
enum class Dots { whereTheyFit, never };

/// One curve of a plot.
struct Line {
  std::shared_ptr<const Series> series;
  int strip = 0;
  Side side = Side::left;
  QColor colour;
  QString name = {};  ///< in an export's legend; empty: single tokens behind a line of the same colour
  Qt::PenStyle style = Qt::SolidLine;
  double width = 1.6;  ///< pixels of a screen of usual density
  Shown shown = Shown::always;
  Dots dots = Dots::whereTheyFit;
  QString entry = {};  ///< of the legend that hides and shows it; empty: that of its name
  QColor second = {};  ///< of every other dash, for what two runs make together; not valid: one colour
};

/// One of the plots that stand above each other over the same horizontal axis.
struct Strip {
  QString leftLabel;   ///< quantity and unit
  QString rightLabel;  ///< empty: no axis there
  figure::AxisScale scale = figure::AxisScale::linear;
  int stretch = 1;             ///< share of the height
  bool ofDifferences = false;  ///< its axis has signs, and 0 on it
  bool operator==(const Strip&) const = default;
};

/// A value that is pointed out, in the first strip.
struct Mark {
  Point point;
  Side side = Side::left;
  QString label;
};

struct PlotContent {
  std::vector<Strip> strips;
  std::vector<Line> lines;  ///< later ones above earlier ones
  std::vector<Mark> marks;  ///< most important first: a label that has no room is left out
  QColor markColour;
  QString xLabel;
  /// Where eight times as much is shown, earlier positions do not count for the range of the vertical axis.
  std::int64_t quietStart = 0;
};

}  // namespace foxscope::gui::curves

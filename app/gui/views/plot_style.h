#pragma once

#include <QPalette>
#include <QString>

#include "app/figure/curves/curve_geometry.h"

class QCPAxis;
class QCPAxisRect;
class QCustomPlot;

namespace foxscope::gui {

/// The unit of an axis, which decides how its ticks are written: of differences with a sign, three of them or more.
enum class TickUnit { any, tokens, difference };

/// Ground, fonts and colours of a plot as the palette has them.
void applyPalette(QCustomPlot& plot, const QPalette& palette);
void applyPalette(QCPAxisRect& rect, const QPalette& palette);

/// Scale and ticks of an axis: as many as there is room for at its present length. The axis' label names a common
/// factor of the numbers.
void styleAxis(QCPAxis& axis, figure::AxisScale scale, TickUnit unit, const QString& label);

/// Lays a plot out once more after its size has changed: QCustomPlot makes ticks and labels for the axes' lengths of
/// the layout before, which for a plot that was hidden may be far off.
void fitTicksToSize(QCustomPlot& plot);

}  // namespace foxscope::gui

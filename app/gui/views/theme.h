#pragma once

#include <QColor>
#include <QPalette>
#include <QPixmap>
#include <QWidget>
#include <Qt>

#include "app/figure/colour_map.h"
#include "app/figure/curves/curve_plot.h"

namespace foxscope::gui {

/// Light or dark, as the palette says; views read their colours from it and repaint on QEvent::PaletteChange.
bool isDark(const QPalette& palette);

/// Colour of a run's curve, as in figures on this background (figure::curveColour).
/// @param index  RunLook::colour
QColor runColour(int index, const QPalette& palette);
/// How the window draws a figure's line.
Qt::PenStyle penStyle(figure::LineStyle line);
/// Line of a run's curve: full, or another one for the n-th changed copy of a model.
Qt::PenStyle runLine(int change);
/// A square in a run's colour, half of it for a changed copy; `side` in pixels of a screen of usual density.
QPixmap runMark(int colour, int change, int side, const QPalette& palette);

/// The pinned query, the pinned key, and the hovered pair, on any ground: far from the colours of all runs.
QColor pinnedQueryColour(const QPalette& palette);
QColor pinnedKeyColour(const QPalette& palette);
QColor hoverColour(const QPalette& palette);

/// Colours of what has signs, 0 in their middle: white on light ground, and on dark ground, where white would glare,
/// nearly the ground's own.
const figure::ColourMap& divergingColours(const QPalette& palette);

/// Lines of axes and grids, and text of less weight.
QColor lineColour(const QPalette& palette);
QColor mutedTextColour(const QPalette& palette);
/// Lets a label have that colour of a palette.
void muteText(QWidget& label, const QPalette& palette);

/// The window's own two palettes.
QPalette lightPalette();
QPalette darkPalette();

}  // namespace foxscope::gui

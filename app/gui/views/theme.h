#pragma once

#include <QColor>
#include <QPalette>

namespace foxscope::gui {

/// Light or dark, as the palette says; views read their colours from it and repaint on QEvent::PaletteChange.
bool isDark(const QPalette& palette);

/// Colour of a run's curve, told apart by colour-blind people and in grey; runs beyond the list begin anew.
/// @param index  place of the run in Document::runs()
QColor runColour(int index, const QPalette& palette);

/// The pinned query, the pinned key, and the hovered pair, on any ground.
QColor pinnedQueryColour(const QPalette& palette);
QColor pinnedKeyColour(const QPalette& palette);
QColor hoverColour(const QPalette& palette);

/// Lines of axes and grids, and text of less weight.
QColor lineColour(const QPalette& palette);
QColor mutedTextColour(const QPalette& palette);

/// The window's own two palettes.
QPalette lightPalette();
QPalette darkPalette();

}  // namespace foxscope::gui

#pragma once

#include <string>

#include "app/figure/kinds/run_figure.h"
#include "app/gui/document/document.h"
#include "app/gui/maps/map_export.h"

namespace foxscope::gui {

/// Why `foxscope map` cannot draw what a pane shows, in one sentence; empty where it can.
QString mapCommandObstacle(const ShownMap& shown, const Document& document);

/// The command that draws this map of the pane in this format into a file, as a shell takes it.
/// @param figure  the pane's map with what was chosen of it
std::string mapCommand(const figure::MapFigure& figure, const figure::FigureFormat& format, const Document& document,
                       const std::string& output, figure::Folders folders);

}  // namespace foxscope::gui

#pragma once

#include <string>

#include "app/figure/run_figure.h"
#include "app/gui/maps/map_export.h"
#include "app/gui/window/run_commands.h"

namespace foxscope::gui {

/// The reason why `foxscope map` cannot draw what a pane shows, in one sentence; empty where it can.
QString mapCommandObstacle(const ShownMap& shown, const RunCommands& runs);

/// The command that draws this map of the pane in this format into a file, as a shell takes it.
/// @param figure  the pane's map with what was chosen of it
/// @param runs    where its runs are
std::string mapCommand(const figure::MapFigure& figure, const figure::FigureFormat& format, const RunCommands& runs,
                       const std::string& output, figure::Folders folders);

}  // namespace foxscope::gui

#pragma once

#include <optional>
#include <string>

#include <QString>

#include "app/figure/run_figure.h"
#include "app/gui/atlas/atlas_view.h"

namespace foxscope::gui {

/// Whether the panels are one, which is a figure with a command.
inline bool areOne(const ShownPanels& panels) { return panels.size() == 1 && panels[0].size() == 1; }

/// Draws panels on a page, or one alone as the figure that it is.
/// @param panels  not empty
/// @returns nothing if the job was stopped. @throws as figure::drawParts
std::optional<figure::DrawnFigure> drawPanels(const ShownPanels& panels, const figure::FigureStyle& style,
                                              const Job& job);

/// The command that draws one panel.
std::string panelCommand(const figure::FigurePart& panel, const figure::FigureStyle& style, const std::string& output,
                         figure::Folders folders);

/// The panels as a spec that `foxscope figure spec` draws. It names no file where all are drawn from one.
/// @param path  of the spec, from whose folder on it names files
std::string panelsSpec(const ShownPanels& panels, const figure::FigureStyle& style, const QString& path);

}  // namespace foxscope::gui

#pragma once

#include <functional>

#include "app/figure/figure_style.h"
#include "app/gui/document/file_writer.h"

namespace foxscope::gui {

/// Writes a figure in the background, as the kind that the file's name ends on: PDF unless it is .svg or .png.
/// @param draw  runs on a thread of its own
void exportFigure(FileWriter& files, const QString& path,
                  const std::function<figure::DrawnFigure(const figure::FigureStyle& style)>& draw);

}  // namespace foxscope::gui

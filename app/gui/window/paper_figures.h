#pragma once

#include <functional>
#include <optional>
#include <vector>

#include <QString>

#include "app/figure/figure_style.h"
#include "app/gui/document/document.h"

namespace foxscope::gui {

/// A figure for a paper that can be made of the runs that are open, as by `foxscope figure KIND`.
struct PaperFigure {
  QString kind;  ///< of the command
  QString name;
  /// The file; nothing if the job was stopped. Runs on a job's thread.
  std::function<std::optional<std::string>(const figure::FigureStyle& style, const Job& job)> draw;
};

/// Those that suit what is open and chosen: the chosen head, its run, the part of the text that is shown.
std::vector<PaperFigure> paperFigures(const Document& document);

}  // namespace foxscope::gui

#pragma once

#include <vector>

#include <QString>

#include "app/figure/run_figure.h"
#include "app/gui/document/runs/run_list.h"

namespace foxscope::gui {

/// A figure for a paper that can be made of the runs that are open.
struct PaperFigure {
  QString name;
  figure::RunFigure figure;
};

/// The figures that suit what is open and chosen: the chosen head, its run, the part of the text that is shown.
std::vector<PaperFigure> paperFigures(const RunList& list);

}  // namespace foxscope::gui

#pragma once

#include <functional>

#include "app/gui/document/head_table.h"
#include "app/gui/heads/head_grid.h"

namespace foxscope::gui {

/// Describes the grid of heads to accessibility: a row for each layer of each run that is not hidden, one below the
/// other, a column for each head; a head that is chosen is read out.
/// @param shown  what the cells stand for
void describeGrid(HeadGrid& grid, RunList& runs, const HeadTable& table, std::function<HeadColouring()> shown);

/// "layer 7, head 2, decay time 858 tokens", with the run before it where there are several.
QString spokenHead(const RunList& runs, const HeadTable& table, const HeadColouring& shown, const HeadChoice& head);

}  // namespace foxscope::gui

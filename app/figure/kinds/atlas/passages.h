#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/figure/figure_style.h"
#include "backend/eval/atlas/atlas_file.h"

namespace foxscope::figure {

/// The options of `drawPassages`.
struct PassagesOptions {
  std::vector<std::size_t> heads;  ///< places in arrays [layers, H], at least one
  std::vector<std::string> kinds;  ///< empty: the first that the atlas has
  std::string holding = {};        ///< text that a passage holds, whatever its case; empty: any
  std::size_t count = 12;          ///< places of each kind
};

/// Places of texts that an atlas keeps of heads, one a line: the value, and the token that is read there between the
/// words around it, tinted by the share 1 - f that the head forgets at each of them. Places of one head stand in the
/// file's order; those of several are merged by their values, and each line names its head.
/// @throws UsageError naming the kinds that there are, and for a text that no passage holds
/// @param atlas  of the model, which is named where there are several
DrawnFigure drawPassages(const Atlas& atlas, const AtlasModel& model, const PassagesOptions& options,
                         const FigureStyle& style);

/// The same as `foxscope figure passages` asks for it.
std::optional<DrawnFigure> drawPassages(struct FigureRequest& request);

}  // namespace foxscope::figure

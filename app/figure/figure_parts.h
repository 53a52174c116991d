#pragma once

#include <optional>
#include <vector>

#include "app/figure/figure_kind.h"
#include "app/figure/figure_request.h"

namespace foxscope::figure {

/// A figure that is to be a part of a page.
struct PartRequest {
  const FigureKind* kind = nullptr;
  FigureSpec spec;
  FigureSources sources;
  double share = 1;  ///< of its row's width, beside the shares of the others
};

/// Figures of any kinds on one page: rows of parts with their upper edges at one height, with the letters (a), (b)
/// above them where there are several. The letters and the font are the page's, so that a part has none of its own. As
/// numbers they are one table, whose panels begin with the letter.
/// @param style  of the page; notes of the parts begin with their letters
/// @returns nothing if the job was stopped
/// @throws as the kinds, UsageError for a page too narrow for a part
std::optional<DrawnFigure> drawParts(const std::vector<std::vector<PartRequest>>& rows, const FigureStyle& style,
                                     const Job& job);

}  // namespace foxscope::figure

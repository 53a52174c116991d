#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "app/figure/figure_style.h"
#include "backend/eval/atlas/atlas_file.h"

namespace foxscope::figure {

/// The options of `drawTokens`.
struct TokensOptions {
  std::size_t head = 0;    ///< place in arrays [layers, H]
  std::size_t count = 15;  ///< tokens in each list
  enum class By { gate, resets };
  By by = By::gate;                       ///< mean of -log f, or the share of readings that are resets (f < 1/2)
  std::string holding = {};               ///< text that a token holds, whatever its case; empty: any
  std::int64_t fewest = kFewestReadings;  ///< readings of a token that is shown
};

/// The tokens at which a head of an atlas forgets most, and those at which it forgets least, as bars with the number
/// of readings: the mean of -log f over the positions that read the token, or the share of them that are resets. A
/// token that was read fewer than kFewestReadings times is grey. A dashed line is the mean over all positions.
/// @throws Error where no token was read so often, or none that holds the text; UsageError for resets where no token
///         has any
/// @param atlas  of the model, which is named where there are several
DrawnFigure drawTokens(const Atlas& atlas, const AtlasModel& model, const TokensOptions& options,
                       const FigureStyle& style);

/// The same as `foxscope figure tokens` asks for it.
std::optional<DrawnFigure> drawTokens(struct FigureRequest& request);

}  // namespace foxscope::figure

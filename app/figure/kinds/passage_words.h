#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "app/figure/text_panel.h"
#include "backend/map/map.h"

namespace foxscope::figure {

/// Tokens that fill some ten lines: as many as are shown where nothing was asked for.
inline constexpr std::int64_t kPassageTokens = 160;

/// The tokens of a run that a passage shows.
struct PassageWords {
  enum class Shown { read, predicted };
  Range range;  ///< of positions
  Shown shown = Shown::read;
  std::optional<std::int64_t> outlined = {};  ///< a position
};

/// The tokens as pieces of the run's text, as readText names them where there is none; tokens that hold parts of one
/// character are one piece with the value of largest size.
/// @param values  [range.size()], NaN for no tint
std::vector<TintedPiece> tintedPieces(const Trace& trace, const PassageWords& words, const std::vector<double>& values);

/// @throws UsageError for a range that is empty or not in the text
void requirePositions(const Range& range, std::int64_t length);

}  // namespace foxscope::figure

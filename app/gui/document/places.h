#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "app/figure/token_text.h"
#include "backend/map/map.h"
#include "backend/trace/trace.h"

namespace foxscope::gui {

using figure::predictedText;
using figure::readText;
using figure::Whitespace;

/// The tokens of one are the first of the other's: a position that both have is the same place in the text.
bool beginAlike(const TokenTable& a, const TokenTable& b);

/// Positions of one run as positions of another run on the same text, by their place in the text where the tokens
/// differ: position p goes to the one that reads the token which holds the first byte that p reads. Runs may end at
/// different places: what the other one has not read has no position in it.
class PlaceMap {
 public:
  PlaceMap(std::shared_ptr<const TokenTable> from, std::shared_ptr<const TokenTable> to);

  /// beginAlike: every position that both runs have is itself.
  [[nodiscard]] bool identical() const { return m_identical; }
  /// False where tokens differ and there is no text to go by: positions are then themselves as well.
  [[nodiscard]] bool byText() const { return m_byText; }
  /// The position in the other run; nothing where that has not read that place.
  [[nodiscard]] std::optional<std::int64_t> operator()(std::int64_t position) const;
  /// Positions from 0 on that have one in the other run.
  [[nodiscard]] std::int64_t covered() const { return m_covered; }
  /// The same part of the text in the other run, as far as that has read it; empty (0:0) where it has read none of it.
  [[nodiscard]] Range part(const Range& range) const;

 private:
  [[nodiscard]] std::int64_t byBytes(std::int64_t position) const;

  std::shared_ptr<const TokenTable> m_from;
  std::shared_ptr<const TokenTable> m_to;
  std::int64_t m_covered = 0;
  bool m_identical = false;
  bool m_byText = false;
};

}  // namespace foxscope::gui

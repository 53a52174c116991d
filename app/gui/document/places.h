#pragma once

#include <cstdint>
#include <memory>

#include "app/figure/token_text.h"
#include "backend/trace/trace.h"

namespace foxscope::gui {

using figure::predictedText;
using figure::readText;
using figure::Whitespace;

/// Positions of one run as positions of another run on the same text, by their place in the text where the tokens
/// differ: position p goes to the one that reads the token which holds the first byte that p reads.
class PlaceMap {
 public:
  PlaceMap(std::shared_ptr<const TokenTable> from, std::shared_ptr<const TokenTable> to);

  /// Both runs have the same tokens: every position is itself.
  [[nodiscard]] bool identical() const { return m_identical; }
  /// False where tokens differ and there is no text to go by: positions are then clamped.
  [[nodiscard]] bool byText() const { return m_byText; }
  [[nodiscard]] std::int64_t operator()(std::int64_t position) const;

 private:
  std::shared_ptr<const TokenTable> m_from;
  std::shared_ptr<const TokenTable> m_to;
  bool m_identical = false;
  bool m_byText = false;
};

}  // namespace foxscope::gui

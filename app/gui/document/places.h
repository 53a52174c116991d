#pragma once

#include <cstdint>
#include <memory>

#include <QString>

#include "backend/trace/trace.h"

namespace foxscope::gui {

/// How text is shown where a line break or a blank would not be seen.
enum class Whitespace { asIs, visible };

/// What position p reads, as text: "⟨BOS⟩" or "⟨id⟩" where it is no token of the text, visible signs for blanks
/// and line breaks if asked for ("␣the", "⏎").
/// @param position  0 <= position < length of the table
QString readText(const TokenTable& tokens, std::int64_t position, Whitespace whitespace);
/// What position p predicts, likewise.
QString predictedText(const TokenTable& tokens, std::int64_t position, Whitespace whitespace);

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

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "backend/trace/trace.h"

namespace foxscope::gui {

/// Whether a byte of UTF-8 goes on with a character that another began.
inline bool continuesCharacter(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }

/// A stretch of the shown text, in bytes of its UTF-8, half open; with fractions where tokens share a byte.
struct Stretch {
  double begin = 0;
  double end = 0;
  bool operator==(const Stretch&) const = default;
};

/// The tokens that a run reads and predicts, as cells in the order of the text. Cell k holds what position k reads and
/// what position k - 1 predicts: cell 0 stands before the text (BOS) and is predicted by nothing, cell L is read by
/// nothing.
struct TextCells {
  std::string shown;           ///< what is laid out, UTF-8: cell 0, a blank, the text; or tokens with blanks between
  std::int64_t textBegin = 0;  ///< byte of `shown` at which the text begins
  std::int64_t unread = 0;     ///< bytes of the text after the run's last token, not shown
  bool hasText = false;        ///< false: tokens that came from --ids
  std::vector<Stretch> cell;   ///< [L + 1], in order; with a text, those from 1 on lie without gaps

  /// Number of positions, L.
  [[nodiscard]] std::int64_t length() const { return static_cast<std::int64_t>(cell.size()) - 1; }
  /// The cell that holds a place; nothing on the blanks that separate cells.
  [[nodiscard]] std::optional<std::int64_t> at(double byte) const;
};

/// The cells of a run. Tokens of one character share it: by their bytes, or evenly where each claims all of it (as
/// with tokenizers that escape the text first).
TextCells cellsOf(const Trace& trace);

}  // namespace foxscope::gui

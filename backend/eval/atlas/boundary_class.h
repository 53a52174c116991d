#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/data/windows.h"

namespace foxscope {

/// Classes of a token by what ends or begins with it in its text. A token may be in several, or in none. Words,
/// sentences and punctuation are those of TokenClass.
/// - sentence_start: begins a sentence
/// - sentence_end: has a . ! ? or ellipsis (the wide marks too) behind which the next word begins a sentence; where the
///   window ends before that word, no one knows
/// - paragraph_end: has the second line feed of white space, which makes a blank line
/// - line_end: has a line feed
/// - punctuation
/// - capital, number: its first character that is not white space is an upper-case letter (Lu), a number (N)
/// - word_start: the first token of a word
/// - newline, space, word_first, word_later: as TokenClass has them
/// The first kResetClasses are those that resets are held against.
enum class BoundaryClass : std::uint8_t {
  sentence_start,
  sentence_end,
  paragraph_end,
  line_end,
  punctuation,
  capital,
  number,
  word_start,
  newline,
  space,
  word_first,
  word_later
};
inline constexpr std::size_t kBoundaryClasses = 12;
inline constexpr std::size_t kResetClasses = 8;

/// "sentence_start" and so on, as files and tables name them.
const char* to_string(BoundaryClass boundary);

/// Classes of one token: bit n is the class of number n.
using BoundaryClassSet = std::uint16_t;
constexpr BoundaryClassSet set_of(BoundaryClass boundary) {
  return static_cast<BoundaryClassSet>(1U << static_cast<unsigned>(boundary));
}

/// Classes of a window's tokens, [L]. Empty for a window without text.
std::vector<BoundaryClassSet> boundary_classes(const Window& window);

}  // namespace foxscope

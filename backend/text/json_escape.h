#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace foxscope {

/// The text as Python's json.dumps(text)[1:-1] gives it: ASCII only, beyond U+FFFF as two surrogates.
std::string escape_json(std::string_view text);

/// Undoes escape_json. Incomplete or unknown escapes and lone surrogates stay as they are.
std::string unescape_json(std::string_view escaped);

/// Finds the character of a text to which a byte of the escaped text belongs, for positions that never go back.
class EscapePosition {
 public:
  explicit EscapePosition(std::string_view text);

  /// Bytes [begin(), end()) of the text stand for the byte at `escaped` (below the escaped text's size).
  void seek(std::size_t escaped);
  [[nodiscard]] std::size_t begin() const { return begin_; }
  [[nodiscard]] std::size_t end() const { return end_; }

 private:
  std::string_view text_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t escaped_end_ = 0;
};

}  // namespace foxscope

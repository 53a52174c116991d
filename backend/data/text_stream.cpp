#include "backend/data/text_stream.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace foxscope {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::size_t kUnit = 6;                           // \uXXXX

/// Bytes of a character that begins at the end of a text and is not whole.
std::size_t unfinished_character(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xC0U) == 0x80U) continue;
    const std::size_t whole = byte >= 0xF0U ? 4 : byte >= 0xE0U ? 3 : byte >= 0xC0U ? 2 : 1;
    return whole > back ? back : 0;
  }
  return 0;
}

/// Whether a text is the beginning of \uXXXX, or all of it.
bool begins_unit(std::string_view text) {
  if (text.size() > kUnit || text[0] != '\\' || (text.size() > 1 && text[1] != 'u')) return false;
  return std::all_of(text.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(2, text.size())), text.end(),
                     [](unsigned char digit) { return std::isxdigit(digit) != 0; });
}

/// Whether more text could make an escape of it. A high surrogate waits for the low one.
bool unfinished_escape(std::string_view text) {
  if (text.size() < kUnit) return begins_unit(text);
  const auto letter = static_cast<char>(std::tolower(static_cast<unsigned char>(text[3])));
  const bool high = begins_unit(text.substr(0, kUnit)) && (text[2] == 'd' || text[2] == 'D') &&
                    std::string_view("89ab").find(letter) != std::string_view::npos;
  return high && (text.size() == kUnit || (text.size() < 2 * kUnit && begins_unit(text.substr(kUnit))));
}

/// Bytes at the end of a text that the next token may change.
std::size_t unfinished(std::string_view text) {
  std::size_t most = unfinished_character(text);
  for (std::size_t back = 1; back < std::min(2 * kUnit, text.size() + 1); ++back) {
    const std::string_view tail = text.substr(text.size() - back);
    if (tail[0] == '\\' && unfinished_escape(tail)) most = std::max(most, back);
  }
  return most;
}

}  // namespace

std::string TextStream::add(std::int32_t id) {
  if (id >= tokenizer_.vocabulary_size()) return finish() + std::string(kReplacement);
  pending_.push_back(id);
  const std::string text = tokenizer_.decode_within(pending_);
  const std::size_t end = std::max(given_, text.size() - unfinished(text));
  std::string piece = replace_invalid_utf8(std::string_view(text).substr(given_, end - given_));
  given_ = end;
  if (end == text.size()) {
    pending_.clear();
    given_ = 0;
  }
  return piece;
}

std::string TextStream::finish() {
  const std::string text = tokenizer_.decode_within(pending_);
  std::string piece = replace_invalid_utf8(std::string_view(text).substr(given_));
  pending_.clear();
  given_ = 0;
  return piece;
}

}  // namespace foxscope

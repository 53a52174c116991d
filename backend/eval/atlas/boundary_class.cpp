#include "backend/eval/atlas/boundary_class.h"

#include <array>
#include <string_view>

#include "backend/base/index.h"
#include "backend/text/pattern.h"
#include "backend/text/token_class.h"
#include "backend/text/unicode/utf8.h"

namespace foxscope {
namespace {

bool is_sentence_mark(char32_t c) {
  return c == '.' || c == '!' || c == '?' || c == 0x2026 || c == 0x3002 || c == 0xFF01 || c == 0xFF1F;
}

/// Where the token's first whole character begins: a token may begin within one.
std::size_t whole_begin(std::string_view text, std::size_t begin, std::size_t end) {
  while (begin < end && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U) ++begin;
  return begin;
}

/// Reads the characters of one token, taken by themselves.
class TokenReader {
 public:
  BoundaryClassSet read(std::string_view text, std::size_t begin, std::size_t end) {
    BoundaryClassSet classes = 0;
    bool leading = true;
    for (std::size_t at = whole_begin(text, begin, end); at < end;) {
      const Character character = character_at(text, at);
      const char32_t c = character.code_point;
      if (c == '\n') {
        classes |= set_of(BoundaryClass::line_end);
        if (broken_) classes |= set_of(BoundaryClass::paragraph_end);
        broken_ = true;
      } else if (!is_white_space(c)) {
        broken_ = false;
        if (is_sentence_mark(c)) classes |= set_of(BoundaryClass::sentence_end);
        if (leading) classes |= first_class(text, at);
        leading = false;
      }
      at += character.bytes;
    }
    return classes;
  }

 private:
  BoundaryClassSet first_class(std::string_view text, std::size_t at) {
    if (capital_.match_end(text, at)) return set_of(BoundaryClass::capital);
    if (number_.match_end(text, at)) return set_of(BoundaryClass::number);
    return 0;
  }

  static const Pattern& capital() {
    static const Pattern pattern("\\p{Lu}");
    return pattern;
  }
  static const Pattern& number() {
    static const Pattern pattern("\\p{N}");
    return pattern;
  }
  Matcher capital_{capital()};
  Matcher number_{number()};
  bool broken_ = false;  ///< white space since the last line feed
};

}  // namespace

const char* to_string(BoundaryClass boundary) {
  constexpr std::array<const char*, kBoundaryClasses> kNames = {
      "sentence_start", "sentence_end", "paragraph_end", "line_end", "punctuation", "capital",
      "number",         "word_start",   "newline",       "space",    "word_first",  "word_later"};
  return kNames[index_of(boundary)];
}

std::vector<BoundaryClassSet> boundary_classes(const Window& window) {
  if (window.text.empty()) return {};
  const std::vector<TokenClassSet> tokens = window_classes(window, {});
  std::vector<BoundaryClassSet> classes(tokens.size());
  TokenReader reader;
  for (std::size_t n = 0; n < tokens.size(); ++n) {
    const auto is = [&](TokenClass token_class) { return (tokens[n] & set_of(token_class)) != 0; };
    classes[n] = reader.read(window.text, static_cast<std::size_t>(window.id_start[n]),
                             static_cast<std::size_t>(window.id_end[n]));
    if (is(TokenClass::sentence_start)) classes[n] |= set_of(BoundaryClass::sentence_start);
    if (is(TokenClass::sentence_start) || is(TokenClass::word_first)) classes[n] |= set_of(BoundaryClass::word_start);
    if (is(TokenClass::punctuation)) classes[n] |= set_of(BoundaryClass::punctuation);
    if (is(TokenClass::newline)) classes[n] |= set_of(BoundaryClass::newline);
    if (is(TokenClass::space)) classes[n] |= set_of(BoundaryClass::space);
    if (is(TokenClass::word_first)) classes[n] |= set_of(BoundaryClass::word_first);
    if (is(TokenClass::word_later)) classes[n] |= set_of(BoundaryClass::word_later);
  }
  // A mark ends a sentence where the next word begins one.
  bool begins = false;
  for (std::size_t n = tokens.size(); n-- > 0;) {
    if (!begins) classes[n] &= static_cast<BoundaryClassSet>(~set_of(BoundaryClass::sentence_end));
    if ((classes[n] & set_of(BoundaryClass::word_start)) != 0) {
      begins = (classes[n] & set_of(BoundaryClass::sentence_start)) != 0;
    } else if ((tokens[n] & set_of(TokenClass::word_later)) != 0) {
      begins = false;
    }
  }
  return classes;
}

}  // namespace foxscope

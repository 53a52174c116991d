#include "backend/text/json_escape.h"

#include <cstdint>
#include <optional>

#include "backend/text/unicode/utf8.h"

namespace foxscope {
namespace {

constexpr std::string_view kHexadecimal = "0123456789abcdef";

/// The letter after the backslash in an escape of two characters; 0: the character has none.
char short_escape(char32_t code_point) {
  switch (code_point) {
    case '"':
    case '\\':
      return static_cast<char>(code_point);
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    default:
      return 0;
  }
}

bool stays(char32_t code_point) {
  return code_point >= 0x20 && code_point < 0x7F && code_point != '"' && code_point != '\\';
}

std::size_t escaped_size(char32_t code_point) {
  if (stays(code_point)) return 1;
  if (short_escape(code_point) != 0) return 2;
  return code_point < 0x10000 ? 6 : 12;
}

void append_unit(std::string& escaped, std::uint32_t unit) {
  escaped += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) escaped += kHexadecimal[(unit >> shift) & 0xFU];
}

void append_utf8(std::string& text, char32_t code_point) {
  const auto continuation = [&](int shift) { text += static_cast<char>(0x80U | ((code_point >> shift) & 0x3FU)); };
  if (code_point < 0x80) {
    text += static_cast<char>(code_point);
  } else if (code_point < 0x800) {
    text += static_cast<char>(0xC0U | (code_point >> 6));
    continuation(0);
  } else if (code_point < 0x10000) {
    text += static_cast<char>(0xE0U | (code_point >> 12));
    continuation(6);
    continuation(0);
  } else {
    text += static_cast<char>(0xF0U | (code_point >> 18));
    continuation(12);
    continuation(6);
    continuation(0);
  }
}

/// The 16-bit unit of \uXXXX at `position`.
std::optional<std::uint32_t> unit_at(std::string_view escaped, std::size_t position) {
  if (position + 6 > escaped.size() || escaped[position] != '\\' || escaped[position + 1] != 'u') return std::nullopt;
  std::uint32_t unit = 0;
  for (std::size_t i = position + 2; i < position + 6; ++i) {
    const char digit = escaped[i];
    const char lower = digit >= 'A' && digit <= 'F' ? static_cast<char>(digit - 'A' + 'a') : digit;
    const std::size_t value = kHexadecimal.find(lower);
    if (value == std::string_view::npos) return std::nullopt;
    unit = unit * 16 + static_cast<std::uint32_t>(value);
  }
  return unit;
}

/// Appends the character that the escape at `position` stands for; returns the escape's size, 0 where it is none.
std::size_t unescape_at(std::string_view escaped, std::size_t position, std::string& text) {
  constexpr std::string_view letters = "\"\\/bfnrt";
  constexpr std::string_view meanings = "\"\\/\b\f\n\r\t";
  if (position + 1 >= escaped.size()) return 0;
  const std::size_t letter = letters.find(escaped[position + 1]);
  if (letter != std::string_view::npos) {
    text += meanings[letter];
    return 2;
  }
  const std::optional<std::uint32_t> unit = unit_at(escaped, position);
  if (!unit || (*unit >= 0xDC00 && *unit < 0xE000)) return 0;
  if (*unit < 0xD800 || *unit >= 0xE000) {
    append_utf8(text, *unit);
    return 6;
  }
  const std::optional<std::uint32_t> low = unit_at(escaped, position + 6);
  if (!low || *low < 0xDC00 || *low >= 0xE000) return 0;
  append_utf8(text, 0x10000 + ((*unit - 0xD800) << 10) + (*low - 0xDC00));
  return 12;
}

}  // namespace

std::string escape_json(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size() + text.size() / 16);
  for (std::size_t position = 0; position < text.size();) {
    const Character character = character_at(text, position);
    position += character.bytes;
    const char32_t code_point = character.code_point;
    if (stays(code_point)) {
      escaped += static_cast<char>(code_point);
    } else if (const char letter = short_escape(code_point); letter != 0) {
      escaped += '\\';
      escaped += letter;
    } else if (code_point < 0x10000) {
      append_unit(escaped, code_point);
    } else {
      append_unit(escaped, 0xD800 + ((code_point - 0x10000) >> 10));
      append_unit(escaped, 0xDC00 + ((code_point - 0x10000) & 0x3FFU));
    }
  }
  return escaped;
}

std::string unescape_json(std::string_view escaped) {
  std::string text;
  text.reserve(escaped.size());
  for (std::size_t position = 0; position < escaped.size();) {
    const std::size_t used = escaped[position] == '\\' ? unescape_at(escaped, position, text) : 0;
    if (used == 0) text += escaped[position];
    position += used == 0 ? 1 : used;
  }
  return text;
}

EscapePosition::EscapePosition(std::string_view text) : text_(text) {}

void EscapePosition::seek(std::size_t escaped) {
  while (escaped >= escaped_end_ && end_ < text_.size()) {
    const Character character = character_at(text_, end_);
    begin_ = end_;
    end_ += character.bytes;
    escaped_end_ += escaped_size(character.code_point);
  }
}

}  // namespace foxscope

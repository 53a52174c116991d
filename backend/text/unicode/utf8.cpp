#include "backend/text/unicode/utf8.h"

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>

#include "backend/text/tokenizer.h"

namespace foxscope {
namespace {

struct Sequence {
  std::size_t bytes = 0;
  bool well_formed = false;
};

std::uint8_t byte_at(std::string_view bytes, std::size_t position) {
  return static_cast<std::uint8_t>(bytes[position]);
}

/// The sequence at `position`: a character, or else the maximal part of one (The Unicode Standard, section 3.9, table
/// 3-7 and "U+FFFD Substitution of Maximal Subparts").
Sequence sequence_at(std::string_view bytes, std::size_t position) {
  const std::uint8_t lead = byte_at(bytes, position);
  if (lead < 0x80) return {1, true};
  if (lead < 0xC2 || lead > 0xF4) return {1, false};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // Overlong forms, surrogates and what lies beyond U+10FFFF are excluded by the second byte.
  std::uint8_t low = 0x80;
  std::uint8_t high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (std::size_t i = 1; i < length; ++i) {
    if (position + i >= bytes.size()) return {i, false};
    const std::uint8_t byte = byte_at(bytes, position + i);
    if (byte < low || byte > high) return {i, false};
    low = 0x80;
    high = 0xBF;
  }
  return {length, true};
}

/// First offset from `position` on that is not ASCII, eight bytes at a time.
std::size_t skip_ascii(std::string_view bytes, std::size_t position) {
  constexpr std::uint64_t high_bits = 0x8080808080808080U;
  std::uint64_t eight = 0;
  while (position + sizeof(eight) <= bytes.size()) {
    std::memcpy(&eight, bytes.data() + position, sizeof(eight));
    if ((eight & high_bits) != 0) break;
    position += sizeof(eight);
  }
  while (position < bytes.size() && byte_at(bytes, position) < 0x80) ++position;
  return position;
}

}  // namespace

std::optional<std::size_t> find_invalid_utf8(std::string_view bytes) {
  for (std::size_t position = skip_ascii(bytes, 0); position < bytes.size();) {
    const Sequence sequence = sequence_at(bytes, position);
    if (!sequence.well_formed) return position;
    position += sequence.bytes;
    if (position < bytes.size() && byte_at(bytes, position) < 0x80) position = skip_ascii(bytes, position);
  }
  return std::nullopt;
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (std::size_t position = 0; position < bytes.size();) {
    const std::size_t valid = find_invalid_utf8(bytes.substr(position)).value_or(bytes.size() - position);
    text.append(bytes, position, valid);
    position += valid;
    while (position < bytes.size()) {
      const Sequence sequence = sequence_at(bytes, position);
      if (sequence.well_formed) break;
      text += "\xEF\xBF\xBD";
      position += sequence.bytes;
    }
  }
  return text;
}

std::string spell_invalid_utf8(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  while (const auto invalid = find_invalid_utf8(bytes)) {
    const std::size_t byte = byte_at(bytes, *invalid);
    text.append(bytes.substr(0, *invalid)).append("\\x").append(1, kDigits[byte / 16]).append(1, kDigits[byte % 16]);
    bytes.remove_prefix(*invalid + 1);
  }
  return text.append(bytes);
}

Character character_at(std::string_view text, std::size_t position) {
  const char32_t lead = byte_at(text, position);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t code_point = lead & (0x7FU >> length);
  for (std::size_t i = 1; i < length; ++i) code_point = (code_point << 6) | (byte_at(text, position + i) & 0x3FU);
  return {code_point, length};
}

std::size_t previous_character(std::string_view text, std::size_t position) {
  do {
    --position;
  } while (position > 0 && (byte_at(text, position) & 0xC0U) == 0x80);
  return position;
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

}  // namespace foxscope

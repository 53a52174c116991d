#include "backend/text/unicode/byte_alphabet.h"

#include <array>

#include "backend/text/unicode/utf8.h"

namespace foxscope {
namespace {

constexpr bool stands_for_itself(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

struct Alphabet {
  std::array<char32_t, 256> character{};
  std::array<std::int16_t, 324> byte{};  ///< of a character; -1: spells none

  Alphabet() {
    byte.fill(-1);
    char32_t next = 0x100;
    for (std::size_t i = 0; i < 256; ++i) {
      character[i] = stands_for_itself(static_cast<int>(i)) ? static_cast<char32_t>(i) : next++;
      byte[character[i]] = static_cast<std::int16_t>(i);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet instance;
  return instance;
}

}  // namespace

std::string spell_byte(std::uint8_t byte) {
  const char32_t character = alphabet().character[byte];
  if (character < 0x80) return std::string(1, static_cast<char>(character));
  return {static_cast<char>(0xC0U | (character >> 6)), static_cast<char>(0x80U | (character & 0x3FU))};
}

std::optional<std::string> unspell_bytes(std::string_view spelled) {
  std::string bytes;
  for (std::size_t position = 0; position < spelled.size();) {
    const Character character = character_at(spelled, position);
    if (character.code_point >= alphabet().byte.size()) return std::nullopt;
    const std::int16_t byte = alphabet().byte[character.code_point];
    if (byte < 0) return std::nullopt;
    bytes += static_cast<char>(byte);
    position += character.bytes;
  }
  return bytes;
}

}  // namespace foxscope

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace foxscope {

/// GPT-2 spells every byte as one printable character in its vocabulary files: printable Latin-1 characters stand for
/// themselves, the other 68 bytes are U+0100 upwards in their order (a space is U+0120).
std::string spell_byte(std::uint8_t byte);

/// The bytes that a vocabulary entry spells; none where one of its characters spells no byte.
std::optional<std::string> unspell_bytes(std::string_view spelled);

}  // namespace foxscope

#pragma once

#include <cstddef>
#include <string_view>

namespace foxscope {

/// One character of well-formed UTF-8.
struct Character {
  char32_t code_point = 0;
  std::size_t bytes = 0;
};

/// The character that begins at `position`. The text must be well-formed and `position` inside it, at a beginning.
Character character_at(std::string_view text, std::size_t position);

/// Offset at which the character that ends just before `position` begins; `position` must not be 0.
std::size_t previous_character(std::string_view text, std::size_t position);

/// Unicode's White_Space property, which GPT-2's \s means.
bool is_white_space(char32_t code_point);

}  // namespace foxscope

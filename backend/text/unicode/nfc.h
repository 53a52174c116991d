#pragma once

#include <string_view>

namespace foxscope {

class Rewriting;

/// Unicode's normalization form C (UAX 15): what a character and its marks, or parts of a Hangul syllable, become
/// where that form has something else for them. Each such run of characters is one change.
/// @param source     well-formed UTF-8, which `rewriting` rewrites
void normalize_nfc(std::string_view source, Rewriting& rewriting);

}  // namespace foxscope

#pragma once

#include <cstdint>
#include <string>

#include "backend/trace/trace.h"

namespace foxscope {

/// The token that position p reads, as the table has it; "⟨BOS⟩" or "⟨id⟩" where it is no token of the text.
/// @param position  0 <= position < length of the table
std::string read_string(const TokenTable& tokens, std::int64_t position);
/// The token that position p predicts, likewise; empty where nobody knows it, as behind the end of a recorded run.
std::string predicted_string(const TokenTable& tokens, std::int64_t position);
/// The words of the text before the token that position p predicts: so many, fewer at the text's start, and no more
/// than 24 tokens, since Chinese has no blanks. A token that is known by its id alone is a word.
std::string words_before(const TokenTable& tokens, std::int64_t position, int words = 5);

}  // namespace foxscope

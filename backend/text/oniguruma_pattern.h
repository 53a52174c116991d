#pragma once

#include <string>
#include <string_view>

namespace foxscope {

/// A pattern of a tokenizer.json, which Oniguruma's syntax for Ruby is meant for, in PCRE2's syntax. Taken is what the
/// published tokenizers use and what means the same in both or can be said in the other: literals, classes without
/// classes inside, \s \S \d \p{..} \P{..}, groups, alternatives, quantifiers, looking around, and (?i:...) of plain
/// letters.
/// @param label  the file and the pattern, for errors
/// @throws Error naming the first part that is not taken
std::string pcre2_of_oniguruma(std::string_view pattern, const std::string& label);

/// The pattern that matches a text literally, in PCRE2's syntax.
std::string pcre2_of_literal(std::string_view text);

}  // namespace foxscope

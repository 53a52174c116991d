#pragma once

#include <string>

#include "backend/text/tokenizer.h"

namespace foxscope::test {

/// A tokenizer whose tokens are bytes: 'a' is 97. With `pairs` the letters "ab" make one token, 256.
Tokenizer byte_tokenizer(bool pairs = false);

/// The same where the text is escaped as JSON first.
Tokenizer escaping_byte_tokenizer();

/// Compressed as the commands gzip and xz do.
std::string gzip(const std::string& data);
std::string xz(const std::string& data);

}  // namespace foxscope::test

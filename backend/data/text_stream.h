#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/text/tokenizer.h"

namespace foxscope {

/// Text of tokens that arrive one by one, in whole characters: a token may end inside one, or inside the escape that
/// stands for one. Bytes that never become a character are U+FFFD.
class TextStream {
 public:
  explicit TextStream(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  /// The text that this token completes; may be empty. Ids that the tokenizer does not have are U+FFFD.
  std::string add(std::int32_t id);
  /// Ends the stream: the bytes that are left when no token follows.
  std::string finish();

 private:
  const Tokenizer& tokenizer_;
  std::vector<std::int32_t> pending_;  ///< tokens of which some text was not given
  std::size_t given_ = 0;              ///< bytes of their text that were
};

}  // namespace foxscope

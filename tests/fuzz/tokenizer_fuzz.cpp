// Any bytes as a tokenizer's files and as a text. The input is parts with 0xFF between them, a byte that neither JSON
// nor UTF-8 holds: a tokenizer.json and a text, or vocab.json, merges.txt and a text. The first byte, where it is a
// digit, chooses: bit 0 the JSON-escaping variant, bit 1 the second form.

#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "backend/base/error.h"
#include "backend/text/tokenizer.h"

namespace {

std::string_view take_part(std::string_view& rest) {
  const std::string_view part = rest.substr(0, rest.find('\xFF'));
  rest.remove_prefix(part.size() < rest.size() ? part.size() + 1 : part.size());
  return part;
}

foxscope::Tokenizer read(std::string_view& rest) {
  unsigned form = 0;
  if (!rest.empty() && rest.front() >= '0' && rest.front() <= '3') {
    form = static_cast<unsigned>(rest.front() - '0');
    rest.remove_prefix(1);
  }
  const bool escaping = (form & 1U) != 0;
  const std::string_view first = take_part(rest);
  if ((form & 2U) == 0) return foxscope::Tokenizer::from_json(first, "tokenizer.json", escaping);
  return foxscope::Tokenizer::from_vocab_and_merges(first, take_part(rest), "vocab.json", escaping);
}

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  try {
    const foxscope::Tokenizer tokenizer = read(rest);
    const foxscope::Tokens tokens = tokenizer.encode(rest);
    std::int64_t last_start = 0;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      require(tokens.id[i] >= 0 && tokens.id[i] < tokenizer.vocabulary_size());
      require(tokens.byte_start[i] >= last_start && tokens.byte_start[i] <= tokens.byte_end[i]);
      last_start = tokens.byte_start[i];
      require(tokens.byte_end[i] <= static_cast<std::int64_t>(rest.size()));
    }
    static_cast<void>(tokenizer.decode(tokens.id));
    static_cast<void>(tokenizer.decode_within(tokens.id));
  } catch (const foxscope::Error&) {
    // Refused, with a message: as it should be.
  }
  return 0;
}

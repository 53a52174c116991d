#include "backend/agent/run_reference.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "backend/base/index.h"

namespace foxscope::agent {
namespace {

/// The bytes of each token in the text; empty where they are not all there.
std::vector<std::string> slices(const TokenTable& tokens, const Text* text) {
  std::vector<std::string> all;
  if (text == nullptr) return all;
  const std::string_view content = text->content;
  for (std::size_t n = 0; n < tokens.byte_start.size(); ++n) {
    all.emplace_back(
        content.substr(index_of(tokens.byte_start[n]), index_of(tokens.byte_end[n] - tokens.byte_start[n])));
  }
  return all;
}

void require_length(std::size_t size, std::size_t length) {
  if (size != length) throw ProtocolError("a list of tokens came in another length");
}

}  // namespace

OpenedTokens packed_tokens(const TokenTable& tokens, const Text* text) {
  OpenedTokens packed;
  packed.id = tokens.id;
  packed.first_input_id = tokens.input_id.front();
  if (!std::equal(tokens.input_id.begin() + 1, tokens.input_id.end(), tokens.id.begin())) {
    packed.input_id = tokens.input_id;
  }
  bool joined = true;
  std::int64_t end = 0;
  for (std::size_t n = 0; n < tokens.byte_start.size(); ++n) {
    joined = joined && tokens.byte_start[n] == end;
    end = tokens.byte_end[n];
    packed.byte_size.push_back(static_cast<std::int32_t>(end - tokens.byte_start[n]));
  }
  if (!joined) packed.byte_start = tokens.byte_start;
  if (tokens.string.empty() || tokens.string != slices(tokens, text)) packed.string = tokens.string;
  return packed;
}

TokenTable unpacked_tokens(OpenedTokens packed, const Text* text) {
  const std::size_t length = packed.id.size();
  if (length == 0) throw ProtocolError("there are no tokens");
  TokenTable tokens;
  tokens.id = std::move(packed.id);
  if (packed.input_id) {
    tokens.input_id = std::move(*packed.input_id);
  } else {
    tokens.input_id.assign(1, packed.first_input_id);
    tokens.input_id.insert(tokens.input_id.end(), tokens.id.begin(), tokens.id.end() - 1);
  }
  require_length(tokens.input_id.size(), length);
  if (!packed.byte_size.empty()) {
    require_length(packed.byte_size.size(), length);
    if (packed.byte_start) require_length(packed.byte_start->size(), length);
    const std::int64_t bytes = text == nullptr ? 0 : std::ssize(text->content);
    std::int64_t end = 0;
    for (std::size_t n = 0; n < length; ++n) {
      const std::int64_t start = packed.byte_start ? (*packed.byte_start)[n] : end;
      const std::int64_t size = packed.byte_size[n];
      if (start < 0 || size < 0 || start > bytes || size > bytes - start) {
        throw ProtocolError("a token lies outside of the text");
      }
      end = start + size;
      tokens.byte_start.push_back(start);
      tokens.byte_end.push_back(end);
    }
  }
  tokens.string = packed.string ? std::move(*packed.string) : slices(tokens, text);
  if (!tokens.string.empty()) require_length(tokens.string.size(), length);
  return tokens;
}

}  // namespace foxscope::agent

#include "backend/agent/run_reference.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "backend/base/index.h"

namespace foxscope::agent {
namespace {

/// The bytes of each token of a part in the text; empty where they are not all there.
std::vector<std::string_view> slices(const TokenTable& tokens, const Text* text, const Range& part) {
  std::vector<std::string_view> all;
  if (text == nullptr || tokens.byte_start.empty()) return all;
  const std::string_view content = text->content;
  for (std::size_t n = index_of(part.begin); n < index_of(part.end); ++n) {
    all.push_back(content.substr(index_of(tokens.byte_start[n]), index_of(tokens.byte_end[n] - tokens.byte_start[n])));
  }
  return all;
}

template <typename T>
std::vector<T> part_of(const std::vector<T>& list, const Range& part) {
  return {list.begin() + part.begin, list.begin() + part.end};
}

void require_length(std::size_t size, std::size_t length) {
  if (size != length) throw ProtocolError("a list of tokens came in another length");
}

/// The ids of tokens by their bytes, in the order in which bytes first occur; nothing where equal bytes have several.
std::optional<std::vector<std::int32_t>> ids_by_bytes(const std::vector<std::string_view>& bytes,
                                                      const std::vector<std::int32_t>& id) {
  std::vector<std::int32_t> ids;
  std::unordered_map<std::string_view, std::int32_t> known;
  for (std::size_t n = 0; n < bytes.size(); ++n) {
    const auto [found, is_new] = known.try_emplace(bytes[n], id[n]);
    if (is_new) ids.push_back(id[n]);
    if (found->second != id[n]) return std::nullopt;
  }
  return ids;
}

std::vector<std::int32_t> ids_of(const std::vector<std::string_view>& bytes, const std::vector<std::int32_t>& ids) {
  std::vector<std::int32_t> id;
  std::unordered_map<std::string_view, std::int32_t> known;
  std::size_t used = 0;
  for (const std::string_view token : bytes) {
    const auto [found, is_new] = known.try_emplace(token, 0);
    if (is_new && used == ids.size()) throw ProtocolError("a token's id is missing");
    if (is_new) found->second = ids[used++];
    id.push_back(found->second);
  }
  require_length(used, ids.size());
  return id;
}

}  // namespace

OpenedTokens packed_tokens(const TokenTable& tokens, const Text* text, const Range& part) {
  OpenedTokens packed;
  const std::vector<std::int32_t> id = part_of(tokens.id, part);
  const std::vector<std::string_view> bytes = slices(tokens, text, part);
  auto ids = bytes.empty() ? std::nullopt : ids_by_bytes(bytes, id);
  if (ids) {
    packed.id_of_bytes = std::move(*ids);
  } else {
    packed.id = id;
  }
  packed.first_input_id = tokens.input_id[index_of(part.begin)];
  const std::vector<std::int32_t> input_id = part_of(tokens.input_id, part);
  if (!std::equal(input_id.begin() + 1, input_id.end(), id.begin())) packed.input_id = input_id;
  if (!tokens.byte_start.empty()) {
    bool joined = true;
    packed.first_byte = tokens.byte_start[index_of(part.begin)];
    std::int64_t end = packed.first_byte;
    for (std::size_t n = index_of(part.begin); n < index_of(part.end); ++n) {
      joined = joined && tokens.byte_start[n] == end;
      end = tokens.byte_end[n];
      packed.byte_size.push_back(static_cast<std::int32_t>(end - tokens.byte_start[n]));
    }
    if (!joined) packed.byte_start = part_of(tokens.byte_start, part);
  }
  const std::vector<std::string> string = tokens.string.empty() ? tokens.string : part_of(tokens.string, part);
  if (string.empty() || !std::ranges::equal(string, bytes)) packed.string = string;
  if (part.begin == 0 && !tokens.first_string.empty()) packed.first_string = tokens.first_string;
  return packed;
}

void unpack_tokens(const OpenedTokens& part, const Text* text, TokenTable& tokens) {
  const std::size_t length = part.id ? part.id->size() : part.byte_size.size();
  const auto before = std::ssize(tokens.id);
  if (length == 0) throw ProtocolError("there are no tokens");
  if (!part.byte_size.empty()) {
    require_length(part.byte_size.size(), length);
    if (part.byte_start) require_length(part.byte_start->size(), length);
    const std::int64_t size_of_text = text == nullptr ? 0 : std::ssize(text->content);
    std::int64_t end = part.first_byte;
    for (std::size_t n = 0; n < length; ++n) {
      const std::int64_t start = part.byte_start ? (*part.byte_start)[n] : end;
      const std::int64_t size = part.byte_size[n];
      if (start < 0 || size < 0 || start > size_of_text || size > size_of_text - start) {
        throw ProtocolError("a token lies outside of the text");
      }
      end = start + size;
      tokens.byte_start.push_back(start);
      tokens.byte_end.push_back(end);
    }
  }
  const Range added{before, before + static_cast<std::int64_t>(length)};
  if (!tokens.byte_start.empty()) require_length(tokens.byte_start.size(), index_of(added.end));
  const std::vector<std::string_view> bytes = slices(tokens, text, added);
  const std::vector<std::int32_t> id = part.id ? *part.id : ids_of(bytes, part.id_of_bytes);
  require_length(id.size(), length);
  tokens.id.insert(tokens.id.end(), id.begin(), id.end());
  if (part.input_id) {
    require_length(part.input_id->size(), length);
    tokens.input_id.insert(tokens.input_id.end(), part.input_id->begin(), part.input_id->end());
  } else {
    tokens.input_id.push_back(part.first_input_id);
    tokens.input_id.insert(tokens.input_id.end(), id.begin(), id.end() - 1);
  }
  if (part.string) {
    tokens.string.insert(tokens.string.end(), part.string->begin(), part.string->end());
  } else {
    tokens.string.insert(tokens.string.end(), bytes.begin(), bytes.end());
  }
  if (!tokens.string.empty()) require_length(tokens.string.size(), tokens.id.size());
  if (part.first_string) tokens.first_string = *part.first_string;
}

}  // namespace foxscope::agent

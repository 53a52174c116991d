#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace foxscope {

/// Token ids from a JSON file: an array of ids, or {"input_ids": [...], "labels": [...]}.
struct TokenIds {
  std::vector<std::int32_t> ids;                    ///< of the array: the text's tokens
  std::optional<std::vector<std::int32_t>> labels;  ///< of the object: then `ids` are the input ids as they are
};

/// @param vocabulary_size  ids must be in [0, vocabulary_size)
/// @throws Error naming the file, the position and the id
TokenIds read_token_ids(std::string_view content, std::string_view name, std::int64_t vocabulary_size);

/// @param where  what holds the id: a file, "the prompt"
/// @param place  of the id in it, "position 3"
/// @throws Error
[[noreturn]] void throw_outside_vocabulary(std::string_view where, std::string_view id, std::string_view place,
                                           std::int64_t vocabulary_size);

}  // namespace foxscope

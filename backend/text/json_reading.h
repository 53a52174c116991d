#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace foxscope {

/// Levels of lists and objects inside one another that are read. Published files have some ten.
inline constexpr int kMaxJsonDepth = 256;

/// The most memory that a value may take once it is parsed, as a multiple of its file's bytes, beside a first
/// kFreeJsonBytes. Merges of a tokenizer written without spaces need 15.
inline constexpr std::size_t kMaxJsonGrowth = 16;
inline constexpr std::size_t kFreeJsonBytes = std::size_t{4} << 20;

/// Looked at before anything is parsed, by everything that parses JSON. A bracket, a comma and a pair of quotes are a
/// byte or two of a file, and some 16 bytes for each value, 48 to 64 for each list and object and 48 to 96 for each
/// string and key that is parsed; each level takes some stack of whoever walks through it.
/// @param file_bytes  of the file, if content was made of it; 0: as many as content has
/// @throws Error naming the file and the byte at which it is nested too deep, would take too much memory, or is NUL
void check_json_bounds(std::string_view content, const std::string& name, std::size_t file_bytes = 0);

/// JSON leaves open what an object means that has a key twice, and json::parse takes the last value in silence: looked
/// at in files that people write. Text that is no JSON passes.
/// @throws Error naming the file and the key, with the keys that it stands under
void refuse_repeated_keys(std::string_view content, const std::string& name);

/// @throws Error naming the file and the byte at which it stops being JSON, or goes beyond the bounds
nlohmann::json parse_json(std::string_view content, const std::string& name);

/// An object without its lists and objects, which take no memory; null for what is no object. Throws as parse_json.
nlohmann::json parse_plain_members(std::string_view content, const std::string& name);

/// The message for a file that is no JSON.
std::string not_json(const std::string& name, std::size_t byte);

/// A string in quotes, fit for one line of an error message: without control characters and not too long.
std::string in_quotes(std::string_view text);

/// A member of an object; null where it is absent or null.
const nlohmann::json* member(const nlohmann::json& object, const char* key);

/// A member that must be true or false where it is there.
bool flag(const nlohmann::json& object, const char* key, bool otherwise, const std::string& name);

/// A member that must be a string where it is there; else empty.
std::string text_member(const nlohmann::json& object, const char* key, const std::string& name);

/// A token's id, of which files give at most four million.
std::int32_t token_id(const nlohmann::json& value, std::string_view token, const std::string& name);

}  // namespace foxscope

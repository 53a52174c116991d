#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace foxscope {

/// Levels of lists and objects inside one another that are read. What people publish has some ten.
inline constexpr int kMaxJsonDepth = 256;

/// Looked at before anything is parsed, by everything that parses JSON: each level of a value costs a parser some 20
/// bytes of memory for one byte of the file, and whoever walks through it afterwards some of its stack.
/// @throws Error naming the file, and the byte at which it is nested too deep
void check_json_depth(std::string_view content, const std::string& name);

/// @throws Error naming the file and the byte at which it stops being JSON, or is nested too deep
nlohmann::json parse_json(std::string_view content, const std::string& name);

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

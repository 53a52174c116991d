#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace foxscope {

/// The object that a request's body holds. Bounded before anything is built: levels, lists and objects are counted as
/// they are read, and no level takes a frame of the stack.
/// @throws RefusedRequest (400) not_json for what is no JSON in UTF-8 (NaN and numbers beyond a double too);
///         invalid_value for another thing than an object, a field that is given twice, and too many lists
nlohmann::json read_request_object(std::string_view body);

/// A value as a message shows it: its JSON, in one line, cut to some sixty bytes.
std::string shown(const nlohmann::json& value);

/// A text as a message shows it, in quotes and cut likewise.
std::string shown_text(std::string_view text);

}  // namespace foxscope

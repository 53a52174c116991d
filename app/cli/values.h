#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace foxscope::cli {

/// Enough digits to read the same double again; NaN is empty.
std::string digits(double value);
/// What is no number, or has no end, is null.
nlohmann::ordered_json jsonNumber(double value);
/// What stands between separators; as many parts as separators and one more.
std::vector<std::string> split(const std::string& text, char separator);

}  // namespace foxscope::cli

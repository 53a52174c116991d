#pragma once

#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace foxscope::cli {

/// Enough digits to read the same double again; NaN is empty.
std::string digits(double value);
/// A number as JSON; null for NaN and infinities.
nlohmann::ordered_json jsonNumber(double value);
/// The parts between separators, one more than there are separators.
std::vector<std::string> split(const std::string& text, char separator);

}  // namespace foxscope::cli

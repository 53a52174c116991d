#pragma once

#include <cstdint>
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
/// Why a word is no seed, which CLI11 would take for the largest number that it knows; empty if there is no such
/// reason.
std::string tooLarge(const std::string& word, std::uint64_t largest);

}  // namespace foxscope::cli

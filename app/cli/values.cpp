#include "app/cli/values.h"

#include <cerrno>
#include <cmath>
#include <cstdlib>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace foxscope::cli {

std::string digits(double value) { return std::isnan(value) ? "" : fmt::format("{}", value); }

nlohmann::ordered_json jsonNumber(double value) {
  return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0;;) {
    const std::size_t end = text.find(separator, begin);
    parts.push_back(text.substr(begin, end - begin));
    if (end == std::string::npos) return parts;
    begin = end + 1;
  }
}

std::string tooLarge(const std::string& word, std::uint64_t largest) {
  if (word.starts_with('-')) return "";
  errno = 0;
  const std::uint64_t value = std::strtoull(word.c_str(), nullptr, 0);
  if (errno != ERANGE && value <= largest) return "";
  return fmt::format("{} is too large: use a number up to {}", word, largest);
}

}  // namespace foxscope::cli

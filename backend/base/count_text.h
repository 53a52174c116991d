#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include <fmt/format.h>

namespace foxscope {

/// 12345 as "12,345".
inline std::string count_text(std::int64_t count) {
  std::string digits = fmt::format("{}", count);
  const std::size_t sign = count < 0 ? 1 : 0;
  for (std::size_t place = digits.size(); place > sign + 3; place -= 3) digits.insert(place - 3, 1, ',');
  return digits;
}

/// Tokens of a time or a distance, in three digits or all that stand before the point: "0.498", "51.5", "1,589", "inf".
inline std::string tokens_text(double tokens) {
  constexpr double kFourDigits = 999.5;  // from here on three digits have an exponent
  constexpr double kWhole = 1e15;        // as far as every whole number is a double
  return tokens >= kFourDigits && tokens < kWhole ? count_text(std::llround(tokens)) : fmt::format("{:.3g}", tokens);
}

}  // namespace foxscope

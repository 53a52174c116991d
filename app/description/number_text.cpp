#include "app/description/number_text.h"

#include <fmt/format.h>

namespace foxscope {

std::string sizeText(double bytes) {
  if (bytes < 1e3) return fmt::format("{:.0f} bytes", bytes);
  if (bytes < 1e6) return fmt::format("{:.1f} kB", bytes / 1e3);
  if (bytes < 1e9) return fmt::format("{:.1f} MB", bytes / 1e6);
  return fmt::format("{:.1f} GB", bytes / 1e9);
}

std::string countText(std::int64_t count) {
  std::string digits = fmt::format("{}", count);
  const std::size_t sign = count < 0 ? 1 : 0;
  for (std::size_t place = digits.size(); place > sign + 3; place -= 3) digits.insert(place - 3, 1, ',');
  return digits;
}

}  // namespace foxscope

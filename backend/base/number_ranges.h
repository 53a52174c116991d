#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace foxscope {

/// Rising numbers for people, those that follow one another as a range: "0-2, 4, 6-9".
inline std::string ranges_text(std::span<const int> numbers) {
  std::string text;
  for (std::size_t first = 0; first < numbers.size();) {
    std::size_t last = first;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += (text.empty() ? "" : ", ") + std::to_string(numbers[first]);
    if (last > first) text += '-' + std::to_string(numbers[last]);
    first = last + 1;
  }
  return text;
}

}  // namespace foxscope

#pragma once

#include <cstdint>
#include <limits>

namespace foxscope {

/// Half-open range of positions.
struct Range {
  static constexpr std::int64_t kToTheEnd = std::numeric_limits<std::int64_t>::max();
  std::int64_t begin = 0;
  std::int64_t end = 0;  ///< kToTheEnd: of a text whose length is not known yet
  [[nodiscard]] std::int64_t size() const { return end - begin; }
  bool operator==(const Range&) const = default;
};

}  // namespace foxscope

#pragma once

#include <cstddef>

namespace foxscope {

/// A number or an enumerator as an index of a container; not negative.
template <typename Number>
[[nodiscard]] constexpr std::size_t index_of(Number number) {
  return static_cast<std::size_t>(number);
}

}  // namespace foxscope

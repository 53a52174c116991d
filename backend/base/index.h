#pragma once

#include <cstddef>

namespace foxscope {

/// A number of elements, an index or an enumerator as the standard library takes it; not negative.
template <typename Number>
[[nodiscard]] constexpr std::size_t index_of(Number number) {
  return static_cast<std::size_t>(number);
}

}  // namespace foxscope

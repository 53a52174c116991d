#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace foxscope {

/// The noun behind a count: "token" behind 1, else "tokens".
/// @param one  a noun whose plural ends in s
inline std::string plural(std::int64_t count, std::string_view one) {
  std::string noun(one);
  if (count != 1) noun += 's';
  return noun;
}

}  // namespace foxscope

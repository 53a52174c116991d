#pragma once

#include <string>
#include <string_view>

namespace foxscope {

/// A field of a CSV file (RFC 4180): in quotes where it has to be, quotes in it doubled. White space at the ends is
/// quoted too, which readers may take away, and what R and pandas take for a missing value, nothing and NA. Line ends
/// stay as they are; NUL, at which readers end, is written as "\0".
std::string csv_field(std::string_view text);

}  // namespace foxscope

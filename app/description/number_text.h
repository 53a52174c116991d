#pragma once

#include <string>

namespace foxscope {

/// "12.3 MB", "640 bytes" (powers of 1000).
std::string sizeText(double bytes);

}  // namespace foxscope

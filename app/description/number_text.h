#pragma once

#include <cstdint>
#include <string>

namespace foxscope {

/// "12.3 MB", "640 bytes" (powers of 1000).
std::string sizeText(double bytes);
/// 12345 as "12,345".
std::string countText(std::int64_t count);

}  // namespace foxscope

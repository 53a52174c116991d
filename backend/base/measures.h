#pragma once

#include <chrono>
#include <concepts>

namespace foxscope {

/// Bytes for reports: GiB of 2^30 bytes.
template <std::integral Bytes>
constexpr double gibibytes(Bytes bytes) {
  return static_cast<double>(bytes) / 0x1p30;
}

/// Seconds from a moment until now, for reports.
inline double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace foxscope

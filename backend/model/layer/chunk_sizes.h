#pragma once

#include <cstdint>

namespace foxscope {

/// Rows of the MLP, and numbers of a block of logits, that exist at once on a GPU.
inline constexpr std::int64_t kDeviceMlpRows = 16384;
inline constexpr std::int64_t kDeviceLogitElements = std::int64_t{1} << 27;

}  // namespace foxscope

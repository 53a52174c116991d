#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "backend/train/token_rows.h"
#include "backend/train/zarr_array.h"

namespace foxscope {

/// Memory for decompressed chunks that may be asked for again; at least one is kept.
inline constexpr std::size_t kZarrCacheBytes = std::size_t{1} << 28;

/// The rows of a zarr array (cut_into_rows). The chunks that were read last stay in memory.
/// @throws Error as cut_into_rows does
std::unique_ptr<TokenRows> rows_of(std::unique_ptr<const ZarrArray> array, std::int64_t length, std::int64_t vocabulary,
                                   std::size_t cache_bytes = kZarrCacheBytes);

}  // namespace foxscope

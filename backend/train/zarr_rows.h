#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>

#include "backend/train/token_rows.h"

namespace foxscope {

/// Memory for decompressed chunks that may be asked for again; at least one is kept.
inline constexpr std::size_t kZarrCacheBytes = std::size_t{1} << 28;

/// The rows of a zarr array (ZarrArray, cut_into_rows), of which the chunks that were read last stay in memory.
/// @throws Error naming the file
std::unique_ptr<TokenRows> open_zarr_rows(const std::filesystem::path& folder, std::int64_t length,
                                          std::int64_t vocabulary, std::size_t cache_bytes = kZarrCacheBytes);

}  // namespace foxscope

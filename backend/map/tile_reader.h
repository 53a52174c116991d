#pragma once

#include <cstdint>

#include "backend/map/map.h"
#include "kernels/cpu/pooled_map.h"

namespace foxscope {

/// Entries at 2^-126 and above are computed; exponentials below are exactly 0 (kernels::cpu::exponentiate), on a GPU
/// too.
inline constexpr double kSmallestExponent = -126.0;

/// Keys are read from the store this many at a time, so that a store in a file is asked for large pieces.
inline constexpr std::int64_t kKeyChunk = 512;
/// Queries that one band holds packed at a time, a multiple of kernels::cpu::kMapTile.
inline constexpr std::int64_t kBandRows = 256;
/// The same of softmax attention in long texts, whose keys are read once for each band.
inline constexpr std::int64_t kLongBandRows = 1024;

/// Computes tiles of one head's entries for one thread (pooled_map.h says how they lie).
class TileReader {
 public:
  TileReader() = default;
  TileReader(const TileReader&) = delete;
  TileReader& operator=(const TileReader&) = delete;
  virtual ~TileReader() = default;

  /// The queries that follow: at most kBandRows; of EntryReader kLongBandRows.
  virtual void set_band(const Range& rows) = 0;
  /// The keys that tiles will ask for; they are read with the first tile.
  virtual void set_chunk(const Range& keys) = 0;

  /// True if every entry of strip x keys is known to be below 2^log2_limit; false where one may be NaN. Keys lie in one
  /// block.
  [[nodiscard]] virtual bool negligible(std::int64_t strip, const Range& keys, double log2_limit) const = 0;
  /// The same with the limit of HeadEntries::skip_below.
  [[nodiscard]] virtual bool negligible(std::int64_t strip, const Range& keys) const = 0;

  /// Entries of the band's 64 queries from strip * 64 on, and keys of the chunk that lie in one block of kMapTile
  /// positions: [keys][64]. Absent entries are computed like others.
  virtual void tile(std::int64_t strip, const Range& keys, float* out) = 0;
  /// The largest entries of a tile's parts, where they can be found without computing the tile
  /// (kernels::cpu::largest_of_parts, which says what `current` and `result` are).
  /// @returns false where they cannot
  virtual bool largest_of_parts(std::int64_t strip, const Range& keys, const kernels::cpu::TilePixels& pixels,
                                const float* current, float* result);
  /// log2 of attention, whatever the quantity; for entries that have queries and keys.
  virtual void log_attention_tile(std::int64_t strip, const Range& keys, float* out) = 0;
};

inline bool TileReader::largest_of_parts(std::int64_t, const Range&, const kernels::cpu::TilePixels&, const float*,
                                         float*) {
  return false;
}

}  // namespace foxscope

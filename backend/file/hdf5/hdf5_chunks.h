#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/file/hdf5/hdf5_file.h"

namespace foxscope {

/// Sizes of an array along its axes.
struct Hdf5Shape {
  std::vector<std::uint64_t> dims;
  std::vector<std::uint64_t> most;  ///< what dims may grow to; kHdf5Undefined: anything
};

/// Product of sizes; the largest number where it would be larger.
std::uint64_t hdf5_product(const std::vector<std::uint64_t>& dims, std::uint64_t start);

/// One chunk of an array, as it lies in the file.
struct Hdf5Chunk {
  std::uint64_t number = 0;  ///< in C order of the grid of chunks
  std::uint64_t address = 0;
  std::uint64_t size = 0;         ///< bytes, filtered
  std::uint32_t filter_mask = 0;  ///< bit n: filter n was left out
};

/// How an array is cut into chunks, and where they are.
struct Hdf5Chunking {
  std::vector<std::uint64_t> dims;  ///< of a chunk
  std::uint64_t bytes = 0;          ///< of a chunk without filters; chunks at the edges are padded to it
  std::vector<Hdf5Chunk> chunks;    ///< those that were written, by number
  bool whole = true;                ///< whether these are all that the array needs

  /// Position of a chunk's first element.
  [[nodiscard]] std::vector<std::uint64_t> first(const std::vector<std::uint64_t>& shape, std::uint64_t number) const;
};

/// The filters of a chunk.
enum class Hdf5Packing { none, shuffled, deflated };

/// Reads the rest of a layout message of chunks, behind its version and class, and the index that it points to: the
/// version 1 B-tree of version 3; a single chunk, no index, a fixed array, an extensible array or a version 2 B-tree of
/// versions 4 and 5 (format specification, IV.A.2.i, III.A and VII).
/// @throws Error where a chunk lies outside of the file or shares bytes with another
Hdf5Chunking read_hdf5_chunking(const Hdf5File& file, const std::string& object, unsigned version, Hdf5Cursor message,
                                const Hdf5Shape& shape, std::uint32_t element_bytes, Hdf5Packing packing);

}  // namespace foxscope

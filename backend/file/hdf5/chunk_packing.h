#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/file/element.h"

namespace foxscope {

namespace kernels {
class Executor;
}

/// Chunk of about 128 KiB for an array in C order: whole last axes first.
std::vector<std::uint64_t> chunk_shape(const std::vector<std::uint64_t>& dims, std::size_t element_size);

/// An array that is stored in chunks.
struct ChunkedShape {
  Element element = Element::float32;
  std::vector<std::uint64_t> dims;
  std::vector<std::uint64_t> chunk;
};

/// One chunk, shuffled and compressed.
struct PackedChunk {
  std::vector<std::uint64_t> first;  ///< position of its first element
  std::vector<std::byte> bytes;
  bool deflated = true;   ///< false where compressing would not have made it shorter
  bool left_out = false;  ///< an image's chunk of NaN only, which readers supply where there is no chunk
};

/// Packs some rows of an array, places along its first axis.
/// @param first_row  begins a row of chunks
/// @param rows       ends one too, or the array
/// @param data       the rows, C order
/// @param sparse     leave out chunks of NaN only; float32
/// @param executor   null: the calling thread packs alone
std::vector<PackedChunk> pack_chunks(const ChunkedShape& shape, std::uint64_t first_row, std::uint64_t rows,
                                     const void* data, bool sparse, kernels::Executor* executor);

}  // namespace foxscope

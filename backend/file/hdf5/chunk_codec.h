#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace foxscope {

/// The two filters that every HDF5 library has, in their order: bytes of equal significance side by side (shuffle),
/// then deflate (gzip). Compressing here, and not in libhdf5, lets chunks be compressed by several threads.

/// Bytes of element n, byte b move from n * size + b to b * count + n.
void shuffle(std::span<const std::byte> data, std::size_t element_size, std::span<std::byte> shuffled);
void unshuffle(std::span<const std::byte> shuffled, std::size_t element_size, std::span<std::byte> data);

/// How hard to look for repetitions. Shuffled floating-point numbers hold runs of equal bytes and otherwise noise:
/// looking for runs only takes half the time and loses a few percent at most.
enum class Effort { runs, matches };

/// zlib stream of shuffled elements. Bytes of each significance have codes of their own. Empty if it would not be
/// shorter than the data.
std::vector<std::byte> deflate_chunk(std::span<const std::byte> shuffled, std::size_t element_size, Effort effort);

/// Fills `data` from a zlib stream of exactly that many bytes; false if it is anything else.
[[nodiscard]] bool inflate_chunk(std::span<const std::byte> stream, std::span<std::byte> data);

}  // namespace foxscope

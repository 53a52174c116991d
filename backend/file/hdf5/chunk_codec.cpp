#include "backend/file/hdf5/chunk_codec.h"

#include <zlib.h>

#include <new>

namespace foxscope {

void shuffle(std::span<const std::byte> data, std::size_t element_size, std::span<std::byte> shuffled) {
  const std::size_t count = data.size() / element_size;
  for (std::size_t byte = 0; byte < element_size; ++byte) {
    for (std::size_t n = 0; n < count; ++n) shuffled[byte * count + n] = data[n * element_size + byte];
  }
}

void unshuffle(std::span<const std::byte> shuffled, std::size_t element_size, std::span<std::byte> data) {
  const std::size_t count = data.size() / element_size;
  for (std::size_t byte = 0; byte < element_size; ++byte) {
    for (std::size_t n = 0; n < count; ++n) data[n * element_size + byte] = shuffled[byte * count + n];
  }
}

std::vector<std::byte> deflate_chunk(std::span<const std::byte> data, Effort effort) {
  constexpr int kFastest = 1;
  constexpr int kWindowBits = 15;
  constexpr int kMemoryLevel = 8;
  z_stream state{};
  if (deflateInit2(&state, kFastest, Z_DEFLATED, kWindowBits, kMemoryLevel,
                   effort == Effort::runs ? Z_RLE : Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::bad_alloc();
  }
  std::vector<std::byte> stream(data.size());
  // zlib declares its input without const and does not write to it.
  state.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(data.data()));
  state.avail_in = static_cast<uInt>(data.size());
  state.next_out = reinterpret_cast<Bytef*>(stream.data());
  state.avail_out = static_cast<uInt>(stream.size());
  const int status = deflate(&state, Z_FINISH);
  stream.resize(status == Z_STREAM_END ? state.total_out : 0);
  deflateEnd(&state);
  return stream;
}

bool inflate_chunk(std::span<const std::byte> stream, std::span<std::byte> data) {
  uLongf size = data.size();
  return uncompress(reinterpret_cast<Bytef*>(data.data()), &size, reinterpret_cast<const Bytef*>(stream.data()),
                    stream.size()) == Z_OK &&
         size == data.size();
}

}  // namespace foxscope

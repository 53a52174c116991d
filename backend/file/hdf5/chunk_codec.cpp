#include "backend/file/hdf5/chunk_codec.h"

#include <libdeflate.h>
#include <zlib.h>

#include <memory>
#include <new>

namespace foxscope {

void shuffle(std::span<const std::byte> data, std::size_t element_size, std::span<std::byte> shuffled) {
  const std::size_t count = data.size() / element_size;
  for (std::size_t byte = 0; byte < element_size; ++byte) {
    for (std::size_t n = 0; n < count; ++n) shuffled[byte * count + n] = data[n * element_size + byte];
  }
}

namespace {

/// For elements of a size that the compiler knows: it joins many of them at once.
template <std::size_t kSize>
void join_bytes(const std::byte* __restrict shuffled, std::size_t count, std::byte* __restrict data) {
  for (std::size_t n = 0; n < count; ++n) {
    for (std::size_t byte = 0; byte < kSize; ++byte) data[n * kSize + byte] = shuffled[byte * count + n];
  }
}

}  // namespace

void unshuffle(std::span<const std::byte> shuffled, std::size_t element_size, std::span<std::byte> data) {
  const std::size_t count = data.size() / element_size;
  if (element_size == 8) return join_bytes<8>(shuffled.data(), count, data.data());
  if (element_size == 4) return join_bytes<4>(shuffled.data(), count, data.data());
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
  struct Free {
    void operator()(libdeflate_decompressor* one) const { libdeflate_free_decompressor(one); }
  };
  thread_local const std::unique_ptr<libdeflate_decompressor, Free> decompressor(libdeflate_alloc_decompressor());
  if (!decompressor) throw std::bad_alloc();
  std::size_t used = 0;
  return libdeflate_zlib_decompress_ex(decompressor.get(), stream.data(), stream.size(), data.data(), data.size(),
                                       &used, nullptr) == LIBDEFLATE_SUCCESS;
}

}  // namespace foxscope

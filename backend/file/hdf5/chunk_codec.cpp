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

namespace {

/// How to compress bytes of one significance: as runs where these are long. A run costs about as much as six bytes
/// that have few values, and codes for runs make those of bytes longer.
int strategy_of(std::span<const std::byte> bytes, Effort effort) {
  if (effort == Effort::matches) return Z_DEFAULT_STRATEGY;
  constexpr std::size_t kShortest = 4;
  constexpr std::size_t kCost = 6;
  std::size_t runs = 0;
  std::size_t in_runs = 0;
  for (std::size_t begin = 0, n = 1; n <= bytes.size(); ++n) {
    if (n < bytes.size() && bytes[n] == bytes[begin]) continue;
    if (n - begin >= kShortest) {
      ++runs;
      in_runs += n - begin;
    }
    begin = n;
  }
  return in_runs > kCost * runs ? Z_RLE : Z_HUFFMAN_ONLY;
}

}  // namespace

std::vector<std::byte> deflate_chunk(std::span<const std::byte> shuffled, std::size_t element_size, Effort effort) {
  constexpr int kFastest = 1;
  constexpr int kWindowBits = 15;
  constexpr int kMemoryLevel = 8;
  z_stream state{};
  const std::size_t count = shuffled.size() / element_size;
  if (deflateInit2(&state, kFastest, Z_DEFLATED, kWindowBits, kMemoryLevel,
                   strategy_of(shuffled.first(count), effort)) != Z_OK) {
    throw std::bad_alloc();
  }
  std::vector<std::byte> stream(shuffled.size());
  state.next_out = reinterpret_cast<Bytef*>(stream.data());
  state.avail_out = static_cast<uInt>(stream.size());
  int status = Z_OK;
  for (std::size_t byte = 0; byte < element_size; ++byte) {
    const auto plane = shuffled.subspan(byte * count, count);
    deflateParams(&state, kFastest, strategy_of(plane, effort));
    // zlib declares its input without const and does not write to it.
    state.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(plane.data()));
    state.avail_in = static_cast<uInt>(plane.size());
    status = deflate(&state, byte + 1 == element_size ? Z_FINISH : Z_BLOCK);
  }
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

#include "backend/file/chunk_codec.h"

#include <zlib.h>

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

std::vector<std::byte> deflate_chunk(std::span<const std::byte> data, int level) {
  std::vector<std::byte> stream(data.size());
  uLongf size = data.size();
  const int status = compress2(reinterpret_cast<Bytef*>(stream.data()), &size,
                               reinterpret_cast<const Bytef*>(data.data()), data.size(), level);
  if (status != Z_OK || size >= data.size()) return {};
  stream.resize(size);
  return stream;
}

bool inflate_chunk(std::span<const std::byte> stream, std::span<std::byte> data) {
  uLongf size = data.size();
  return uncompress(reinterpret_cast<Bytef*>(data.data()), &size, reinterpret_cast<const Bytef*>(stream.data()),
                    stream.size()) == Z_OK &&
         size == data.size();
}

}  // namespace foxscope

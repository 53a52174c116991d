#include "app/page/packed_bytes.h"

#include <zlib.h>

#include <array>
#include <bit>
#include <limits>
#include <new>

namespace foxscope::page {
namespace {

static_assert(std::endian::native == std::endian::little);

template <typename Number>
std::string planesOf(std::span<const Number> numbers, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(numbers.data()), numbers.size_bytes());
  std::string planes;
  planes.reserve(numbers.size() * size);
  for (std::size_t part = 0; part < size; ++part) {
    for (std::size_t n = 0; n < numbers.size(); ++n) planes += bytes[n * sizeof(Number) + part];
  }
  return planes;
}

/// A stream of zlib, which lets go of its memory.
struct Deflating {
  z_stream stream{};
  explicit Deflating(Alike alike) {
    // A block of numbers ends after some thousand of them: channels differ in how large their numbers are.
    constexpr int kShortBlocks = 5;
    constexpr int kLongBlocks = 9;
    const bool letters = alike == Alike::letters;
    if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, letters ? kShortBlocks : kLongBlocks,
                     letters ? Z_HUFFMAN_ONLY : Z_DEFAULT_STRATEGY) != Z_OK) {
      throw std::bad_alloc();
    }
  }
  ~Deflating() { deflateEnd(&stream); }
  Deflating(const Deflating&) = delete;
  Deflating& operator=(const Deflating&) = delete;
};

}  // namespace

std::string base64(std::string_view bytes) {
  constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t at = 0; at < bytes.size(); at += 3) {
    const std::string_view three = bytes.substr(at, 3);
    std::uint32_t bits = 0;
    for (std::size_t n = 0; n < 3; ++n) {
      bits = bits << 8U | (n < three.size() ? static_cast<unsigned char>(three[n]) : 0U);
    }
    for (std::size_t n = 0; n < 4; ++n) {
      text += n <= three.size() ? kLetters[bits >> (18U - 6U * static_cast<std::uint32_t>(n)) & 63U] : '=';
    }
  }
  return text;
}

std::string packed(std::string_view bytes, Alike alike) {
  Deflating deflating(alike);
  z_stream& stream = deflating.stream;
  std::string out;
  std::array<char, 1 << 16> piece{};
  int state = Z_OK;
  while (state != Z_STREAM_END) {
    if (stream.avail_in == 0 && !bytes.empty()) {
      const std::string_view next = bytes.substr(0, std::numeric_limits<uInt>::max());
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(next.data()));  // zlib does not write there
      stream.avail_in = static_cast<uInt>(next.size());
      bytes.remove_prefix(next.size());
    }
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    state = deflate(&stream, bytes.empty() ? Z_FINISH : Z_NO_FLUSH);
    out.append(piece.data(), piece.size() - stream.avail_out);
  }
  return base64(out);
}

std::string bytePlanes(std::span<const double> numbers) { return planesOf(numbers, sizeof(double)); }
std::string bytePlanes(std::span<const float> numbers) { return planesOf(numbers, sizeof(float)); }
std::string bytePlanes(std::span<const std::int32_t> numbers, std::size_t size) { return planesOf(numbers, size); }

}  // namespace foxscope::page

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace foxscope::page {

/// Bytes as letters that HTML and JSON take as they are (RFC 4648, 4).
std::string base64(std::string_view bytes);

/// The kind of likeness among bytes that are deflated.
enum class Alike {
  sequences,  ///< they repeat
  letters,    ///< some values are frequent, no sequence is
};
/// Raw deflate (RFC 1951), as DecompressionStream('deflate-raw') reads it, in base64.
std::string packed(std::string_view bytes, Alike alike);

/// All first bytes of numbers, all second bytes and so on, little-endian: numbers of like size deflate better so.
/// @param size  bytes of a number that are kept, the lowest ones
std::string bytePlanes(std::span<const double> numbers);
std::string bytePlanes(std::span<const float> numbers);
std::string bytePlanes(std::span<const std::int32_t> numbers, std::size_t size);

}  // namespace foxscope::page

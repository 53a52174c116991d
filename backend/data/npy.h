#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foxscope {

/// An array in numpy's format (numpy.lib.format), C order, little-endian.
struct NpyArray {
  enum class Element { int16, uint16, int32, int64, float32, float64 };
  Element element = Element::float32;
  std::vector<std::int64_t> shape;
  std::span<const std::byte> data;  ///< inside the bytes that were parsed

  /// Number by number, whatever the format.
  [[nodiscard]] double real(std::size_t index) const;
  [[nodiscard]] std::int64_t integer(std::size_t index) const;
  [[nodiscard]] bool is_integer() const { return element <= Element::int64; }
  [[nodiscard]] std::size_t count() const;
};

/// @param name  for errors
/// @throws Error naming the array and what is wrong: no npy, Fortran order, another element, cut short
NpyArray parse_npy(std::string_view bytes, const std::string& name);

}  // namespace foxscope

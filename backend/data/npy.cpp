#include "backend/data/npy.h"

#include <charconv>
#include <cstring>
#include <map>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope {
namespace {

constexpr std::string_view kNumpyMagic = "\x93NUMPY";
constexpr std::size_t kMostAxes = 8;

std::size_t size_of(NpyArray::Element element) {
  switch (element) {
    case NpyArray::Element::int16:
    case NpyArray::Element::uint16:
      return 2;
    case NpyArray::Element::int32:
    case NpyArray::Element::float32:
      return 4;
    case NpyArray::Element::int64:
    case NpyArray::Element::float64:
      break;
  }
  return 8;
}

[[noreturn]] void refuse_array(const std::string& name, const std::string& what) {
  throw Error(fmt::format("{}: {}: save it again with numpy.save", name, what));
}

/// The text behind `'key':` in the header, a Python dictionary that numpy writes always in the same manner.
std::string_view value_of(std::string_view header, std::string_view key, const std::string& name) {
  const std::size_t found = header.find(fmt::format("'{}':", key));
  if (found == std::string_view::npos) refuse_array(name, fmt::format("the header of the array has no {}", key));
  std::string_view value = header.substr(found + key.size() + 3);
  value.remove_prefix(std::min(value.find_first_not_of(' '), value.size()));
  return value;
}

NpyArray::Element parse_element(std::string_view value, const std::string& name) {
  using Element = NpyArray::Element;
  static const std::map<std::string_view, Element> kElements = {{"<i2", Element::int16},   {"<u2", Element::uint16},
                                                                {"<i4", Element::int32},   {"<i8", Element::int64},
                                                                {"<f4", Element::float32}, {"<f8", Element::float64}};
  const std::string_view word = value.starts_with('\'') ? value.substr(1, value.find('\'', 1) - 1) : "";
  const auto found = kElements.find(word);
  if (found == kElements.end()) {
    refuse_array(name,
                 fmt::format("numbers of the kind '{}' are not read, only int16, uint16, int32, int64, float32 and "
                             "float64 in little-endian order",
                             word.size() < 20 ? word : ""));
  }
  return found->second;
}

std::vector<std::int64_t> parse_shape(std::string_view value, const std::string& name) {
  const auto bad = [&] { refuse_array(name, "the header of the array has no sound shape"); };
  if (!value.starts_with('(')) bad();
  std::vector<std::int64_t> shape;
  value.remove_prefix(1);
  while (true) {
    value.remove_prefix(std::min(value.find_first_not_of(", "), value.size()));
    if (value.starts_with(')')) return shape;
    std::int64_t extent = 0;
    const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), extent);
    if (code != std::errc() || extent < 0 || shape.size() == kMostAxes) bad();
    shape.push_back(extent);
    value.remove_prefix(static_cast<std::size_t>(end - value.data()));
  }
}

template <typename T>
T load(std::span<const std::byte> data, std::size_t index) {
  T value;
  std::memcpy(&value, data.data() + index * sizeof(T), sizeof(T));
  return value;
}

}  // namespace

std::size_t NpyArray::count() const { return data.size() / size_of(element); }

std::int64_t NpyArray::integer(std::size_t index) const {
  if (element == Element::int16) return load<std::int16_t>(data, index);
  if (element == Element::uint16) return load<std::uint16_t>(data, index);
  if (element == Element::int32) return load<std::int32_t>(data, index);
  return load<std::int64_t>(data, index);
}

double NpyArray::real(std::size_t index) const {
  if (element == Element::float32) return static_cast<double>(load<float>(data, index));
  if (element == Element::float64) return load<double>(data, index);
  return static_cast<double>(integer(index));
}

NpyArray parse_npy(std::string_view bytes, const std::string& name) {
  constexpr std::size_t kVersionEnd = 8;
  if (!bytes.starts_with(kNumpyMagic) || bytes.size() < kVersionEnd + 4)
    refuse_array(name, "is not an array in numpy's format");
  const auto byte = [&](std::size_t index) { return std::size_t{static_cast<unsigned char>(bytes[index])}; };
  const bool first_version = byte(6) == 1;
  std::size_t begin = kVersionEnd + 2;
  std::size_t size = byte(8) | byte(9) << 8U;
  if (!first_version) {
    begin += 2;
    size |= byte(10) << 16U | byte(11) << 24U;
  }
  if (size > bytes.size() - begin) refuse_array(name, "the array is cut short");
  const std::string_view header = bytes.substr(begin, size);

  NpyArray array;
  array.element = parse_element(value_of(header, "descr", name), name);
  array.shape = parse_shape(value_of(header, "shape", name), name);
  if (!value_of(header, "fortran_order", name).starts_with("False")) {
    refuse_array(name, "the array is in Fortran order: make it C order with numpy.ascontiguousarray");
  }
  std::uint64_t expected = size_of(array.element);
  for (const std::int64_t extent : array.shape) {
    if (__builtin_mul_overflow(expected, static_cast<std::uint64_t>(extent), &expected))
      refuse_array(name, "is too large");
  }
  const std::string_view data = bytes.substr(begin + size);
  if (data.size() != expected) {
    refuse_array(name, fmt::format("the array has {} bytes where its shape asks for {}", data.size(), expected));
  }
  array.data = std::as_bytes(std::span(data));
  return array;
}

}  // namespace foxscope

#pragma once

#include <cstddef>

namespace foxscope {

/// Number formats of the datasets in Foxscope's files, little-endian.
enum class Element { int32, int64, float32, float64, bfloat16 };

constexpr std::size_t size_of(Element element) {
  switch (element) {
    case Element::int32:
    case Element::float32:
      return 4;
    case Element::bfloat16:
      return 2;
    case Element::int64:
    case Element::float64:
      break;
  }
  return 8;
}

constexpr const char* to_string(Element element) {
  switch (element) {
    case Element::int32:
      return "int32";
    case Element::int64:
      return "int64";
    case Element::float32:
      return "float32";
    case Element::float64:
      return "float64";
    case Element::bfloat16:
      break;
  }
  return "bfloat16";
}

}  // namespace foxscope

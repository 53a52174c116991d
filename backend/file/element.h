#pragma once

#include <cstddef>

#include "backend/trace/trace_arrays.h"

namespace foxscope {

/// Number formats of the datasets in Foxscope's files, little-endian.
enum class Element { int32, int64, float32, float64, bfloat16, float16 };

constexpr std::size_t size_of(Element element) {
  switch (element) {
    case Element::int32:
    case Element::float32:
      return 4;
    case Element::bfloat16:
    case Element::float16:
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
    case Element::float16:
      return "float16";
    case Element::bfloat16:
      break;
  }
  return "bfloat16";
}

/// The format of an array of a run of that dtype.
constexpr Element element_of(ArrayNumber number, DType dtype) {
  if (number == ArrayNumber::float64) return Element::float64;
  if (number == ArrayNumber::float16) return Element::float16;
  if (number == ArrayNumber::int32) return Element::int32;
  return number == ArrayNumber::run && dtype == DType::bfloat16 ? Element::bfloat16 : Element::float32;
}

}  // namespace foxscope

#include "backend/trace/dtype.h"

#include <bit>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope {

const char* to_string(DType dtype) { return dtype == DType::float32 ? "float32" : "bfloat16"; }

std::size_t size_of(DType dtype) { return dtype == DType::float32 ? 4 : 2; }

DType dtype_from_string(const std::string& name) {
  if (name == "float32") return DType::float32;
  if (name == "bfloat16") return DType::bfloat16;
  throw Error(fmt::format("dtype '{}' is not known: use float32 or bfloat16", name));
}

std::optional<DType> parse_dtype(const std::string& word) {
  if (word == "auto") return std::nullopt;
  if (word == "float32") return DType::float32;
  if (word == "bfloat16") return DType::bfloat16;
  throw UsageError(fmt::format("--dtype '{}' is not known: choose auto, float32 or bfloat16", word));
}

std::uint16_t to_bfloat16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) return static_cast<std::uint16_t>((bits >> 16U) | 0x40U);
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U);
}

float from_bfloat16(std::uint16_t bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U); }

std::uint16_t to_float16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16U & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7fffffffU;
  std::uint32_t rounded = 0;
  if (magnitude > 0x7f800000U) {
    rounded = 0x7e00U;
  } else if (magnitude >= 0x477ff000U) {
    rounded = 0x7c00U;
  } else if (magnitude < 0x38800000U) {
    // Below the smallest normal number: 0.5 has its last place where theirs is, so that the sum is rounded there.
    rounded = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3f000000U;
  } else {
    rounded = (magnitude + 0xfffU + (magnitude >> 13U & 1U) - 0x38000000U) >> 13U;
  }
  return static_cast<std::uint16_t>(sign | rounded);
}

float from_float16(std::uint16_t bits) {
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16U;
  const std::uint32_t magnitude = bits & 0x7fffU;
  if (magnitude >= 0x7c00U) return std::bit_cast<float>(sign | 0x7f800000U | (magnitude & 0x3ffU) << 13U);
  // Scaling by 2^112 moves the exponent's bias from 15 to 127 and makes subnormal numbers normal.
  const float value = std::bit_cast<float>(magnitude << 13U) * 0x1p112F;
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(value));
}

}  // namespace foxscope

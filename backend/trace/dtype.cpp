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

}  // namespace foxscope

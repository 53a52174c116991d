#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace foxscope {

/// Number format that a run computes in, and keeps queries, keys and values in.
enum class DType { float32, bfloat16 };

/// "float32" or "bfloat16".
const char* to_string(DType dtype);
/// Bytes of one number.
std::size_t size_of(DType dtype);
/// @throws Error for another name
DType dtype_from_string(const std::string& name);

/// The word of --dtype, "auto", "float32" or "bfloat16"; none for auto, which is bfloat16 on a GPU, else float32.
/// @throws UsageError for another word
std::optional<DType> parse_dtype(const std::string& word);

/// Nearest bfloat16, ties to even; NaN stays NaN. Bit patterns.
std::uint16_t to_bfloat16(float value);
float from_bfloat16(std::uint16_t bits);

/// Nearest float16 (IEEE 754 binary16), ties to even: infinity from 65,520 on; NaN stays NaN. Bit patterns.
std::uint16_t to_float16(float value);
float from_float16(std::uint16_t bits);

}  // namespace foxscope

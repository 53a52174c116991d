#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace foxscope {

/// Whole numbers, little-endian, that files hold token ids as.
enum class IdType { int16, uint16, int32, int64 };

/// "int16", ...
const char* to_string(IdType type);
/// Bytes of one number.
std::size_t size_of(IdType type);

/// Takes token ids out of an array.
/// @param bytes  ids.size() numbers of `type`, at any alignment
/// @param ids    filled
/// @returns the index of the first number outside [0, vocabulary), if any
std::optional<std::size_t> take_ids(std::span<const std::byte> bytes, IdType type, std::int64_t vocabulary,
                                    std::span<std::int32_t> ids);

/// One number of an array.
std::int64_t id_at(std::span<const std::byte> bytes, IdType type, std::size_t index);

}  // namespace foxscope

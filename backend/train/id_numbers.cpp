#include "backend/train/id_numbers.h"

#include <cassert>
#include <cstring>

namespace foxscope {
namespace {

template <typename T>
T load_number(std::span<const std::byte> bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

/// The search is only made where a number is outside: the loop over all of them has no way out, and is vectorised.
template <typename T>
std::optional<std::size_t> take(std::span<const std::byte> bytes, std::int64_t vocabulary,
                                std::span<std::int32_t> ids) {
  const auto bound = static_cast<std::uint64_t>(vocabulary);
  const auto outside = [&](T value) { return static_cast<std::uint64_t>(std::int64_t{value}) >= bound; };
  bool any = false;
  for (std::size_t n = 0; n < ids.size(); ++n) {
    const T value = load_number<T>(bytes, n);
    any |= outside(value);
    ids[n] = static_cast<std::int32_t>(value);
  }
  if (!any) return std::nullopt;
  std::size_t first = 0;
  while (!outside(load_number<T>(bytes, first))) ++first;
  return first;
}

}  // namespace

const char* to_string(IdType type) {
  switch (type) {
    case IdType::int16:
      return "int16";
    case IdType::uint16:
      return "uint16";
    case IdType::int32:
      return "int32";
    case IdType::int64:
      break;
  }
  return "int64";
}

std::size_t size_of(IdType type) {
  switch (type) {
    case IdType::int16:
    case IdType::uint16:
      return 2;
    case IdType::int32:
      return 4;
    case IdType::int64:
      break;
  }
  return 8;
}

std::optional<std::size_t> take_ids(std::span<const std::byte> bytes, IdType type, std::int64_t vocabulary,
                                    std::span<std::int32_t> ids) {
  assert(bytes.size() == ids.size() * size_of(type));
  switch (type) {
    case IdType::int16:
      return take<std::int16_t>(bytes, vocabulary, ids);
    case IdType::uint16:
      return take<std::uint16_t>(bytes, vocabulary, ids);
    case IdType::int32:
      return take<std::int32_t>(bytes, vocabulary, ids);
    case IdType::int64:
      break;
  }
  return take<std::int64_t>(bytes, vocabulary, ids);
}

std::int64_t id_at(std::span<const std::byte> bytes, IdType type, std::size_t index) {
  switch (type) {
    case IdType::int16:
      return load_number<std::int16_t>(bytes, index);
    case IdType::uint16:
      return load_number<std::uint16_t>(bytes, index);
    case IdType::int32:
      return load_number<std::int32_t>(bytes, index);
    case IdType::int64:
      break;
  }
  return load_number<std::int64_t>(bytes, index);
}

}  // namespace foxscope

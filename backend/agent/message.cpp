#include "backend/agent/message.h"

#include <zstd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "backend/text/json_reading.h"

namespace foxscope::agent {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers of messages are little-endian");

using Json = nlohmann::json;

constexpr std::size_t kMostAxes = 8;
constexpr std::size_t kLeastCompressed = 128;  ///< smaller parts are sent as they are
constexpr int kLevel = 1;                      ///< faster than a network of 1 Gbit/s
constexpr std::array<std::pair<std::string_view, std::size_t>, 7> kNumbers{
    {{"uint8", 1}, {"uint16", 2}, {"bfloat16", 2}, {"int32", 4}, {"float32", 4}, {"int64", 8}, {"float64", 8}}};

template <typename T>
constexpr std::string_view name_of_number();
template <>
constexpr std::string_view name_of_number<std::uint8_t>() {
  return "uint8";
}
template <>
constexpr std::string_view name_of_number<std::uint16_t>() {
  return "uint16";
}
template <>
constexpr std::string_view name_of_number<std::int32_t>() {
  return "int32";
}
template <>
constexpr std::string_view name_of_number<std::int64_t>() {
  return "int64";
}
template <>
constexpr std::string_view name_of_number<float>() {
  return "float32";
}
template <>
constexpr std::string_view name_of_number<double>() {
  return "float64";
}

/// All first bytes of the numbers, then all second ones: neighbours have equal exponents.
std::vector<std::byte> by_bytes(std::span<const std::byte> numbers, std::size_t size) {
  std::vector<std::byte> apart(numbers.size());
  const std::size_t count = numbers.size() / size;
  for (std::size_t byte = 0; byte < size; ++byte) {
    for (std::size_t n = 0; n < count; ++n) apart[byte * count + n] = numbers[n * size + byte];
  }
  return apart;
}

std::vector<std::byte> by_numbers(std::span<const std::byte> apart, std::size_t size) {
  std::vector<std::byte> numbers(apart.size());
  const std::size_t count = apart.size() / size;
  for (std::size_t byte = 0; byte < size; ++byte) {
    for (std::size_t n = 0; n < count; ++n) numbers[n * size + byte] = apart[byte * count + n];
  }
  return numbers;
}

/// Empty where it would not be smaller.
std::vector<std::byte> compressed(std::span<const std::byte> bytes) {
  if (bytes.size() < kLeastCompressed) return {};
  std::vector<std::byte> packed(ZSTD_compressBound(bytes.size()));
  const std::size_t size = ZSTD_compress(packed.data(), packed.size(), bytes.data(), bytes.size(), kLevel);
  if (ZSTD_isError(size) != 0 || size >= bytes.size()) return {};
  packed.resize(size);
  return packed;
}

[[noreturn]] void fail_part(std::string_view problem) {
  throw ProtocolError(fmt::format("a part of a message {}", problem));
}

/// The bytes of an array, which may be no more than what is left of the bound.
std::size_t bytes_of_array(const Part& part, std::size_t left) {
  std::size_t bytes = size_of_number(part.dtype);
  if (bytes == 0) fail_part("has numbers of a type that is not known");
  const bool empty = std::ranges::find(part.shape, 0U) != part.shape.end();
  if (empty) return 0;
  for (const std::uint64_t extent : part.shape) {
    if (extent > left / bytes) fail_part(fmt::format("is larger than {} bytes", left));
    bytes *= extent;
  }
  if (bytes > left) fail_part(fmt::format("is larger than {} bytes", left));
  return bytes;
}

StoredPart read_description(const Json& json, std::size_t left) {
  if (!json.is_object()) fail_part("is described by something that is no object");
  StoredPart stored;
  const auto dtype = json.find("dtype");
  const auto shape = json.find("shape");
  const auto size = json.find("stored");
  if (dtype == json.end() || !dtype->is_string() || shape == json.end() || !shape->is_array() || size == json.end() ||
      !size->is_number_unsigned() || shape->size() > kMostAxes) {
    fail_part("lacks its dtype, shape or stored size");
  }
  stored.part.dtype = dtype->get<std::string>();
  for (const Json& extent : *shape) {
    if (!extent.is_number_unsigned()) fail_part("has an extent that is no whole number");
    stored.part.shape.push_back(extent.get<std::uint64_t>());
  }
  stored.bytes = bytes_of_array(stored.part, left);
  const auto announced = size->get<std::uint64_t>();
  const std::string codec = json.value("codec", "");
  stored.byte_by_byte = codec == "bytes+zstd";
  stored.compressed = stored.byte_by_byte || codec == "zstd";
  if (!stored.compressed && !codec.empty()) fail_part("is compressed in a way that is not known");
  if (stored.compressed ? announced >= stored.bytes : announced != stored.bytes) fail_part("has another stored size");
  stored.stored = static_cast<std::size_t>(announced);
  return stored;
}

}  // namespace

Message request_for(const char* word) {
  Message request;
  request.header["do"] = word;
  return request;
}

std::size_t size_of_number(std::string_view dtype) {
  const auto* const found = std::ranges::find(kNumbers, dtype, [](const auto& number) { return number.first; });
  return found == kNumbers.end() ? 0 : found->second;
}

template <typename T>
Part Part::of(std::span<const T> values) {
  const std::span<const std::byte> bytes = std::as_bytes(values);
  return {std::string(name_of_number<T>()), {values.size()}, {bytes.begin(), bytes.end()}};
}

Part Part::of(std::string_view text) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  return {"uint8", {text.size()}, {bytes.begin(), bytes.end()}};
}

template <typename T>
std::vector<T> Part::list() const {
  if (dtype != name_of_number<T>() || shape.size() != 1) {
    throw ProtocolError(fmt::format("a part of a message is no list of {}", name_of_number<T>()));
  }
  std::vector<T> values(shape.front());
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::string Part::text() const {
  if (dtype != "uint8" || shape.size() != 1) throw ProtocolError("a part of a message is no text");
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

template Part Part::of(std::span<const std::uint8_t>);
template Part Part::of(std::span<const std::uint16_t>);
template Part Part::of(std::span<const std::int32_t>);
template Part Part::of(std::span<const std::int64_t>);
template Part Part::of(std::span<const float>);
template Part Part::of(std::span<const double>);
template std::vector<std::uint8_t> Part::list() const;
template std::vector<std::uint16_t> Part::list() const;
template std::vector<std::int32_t> Part::list() const;
template std::vector<std::int64_t> Part::list() const;
template std::vector<float> Part::list() const;
template std::vector<double> Part::list() const;

std::vector<std::byte> encoded(const Message& message, Packing packing) {
  std::vector<std::vector<std::byte>> packed;
  Json list = Json::array();
  std::size_t all = 0;
  for (const Part& part : message.parts) {
    all += part.bytes.size();
    if (all > kMostParts) throw Error(fmt::format("a message holds at most {} bytes of arrays", kMostParts));
    const std::size_t size = size_of_number(part.dtype);
    packed.emplace_back();
    if (packing == Packing::zstd) packed.back() = compressed(size > 1 ? by_bytes(part.bytes, size) : part.bytes);
    Json described{{"dtype", part.dtype}, {"shape", part.shape}};
    described["stored"] = packed.back().empty() ? part.bytes.size() : packed.back().size();
    if (!packed.back().empty()) described["codec"] = size > 1 ? "bytes+zstd" : "zstd";
    list.push_back(std::move(described));
  }
  Json header = message.header;
  if (!list.empty()) header["parts"] = std::move(list);
  const std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kMostHeader) throw Error(fmt::format("a message's header has at most {} bytes", kMostHeader));
  std::vector<std::byte> bytes;
  bytes.reserve(sizeof(std::uint32_t) + text.size() + all);
  bytes.resize(sizeof(std::uint32_t));
  const auto length = static_cast<std::uint32_t>(text.size());
  std::memcpy(bytes.data(), &length, sizeof length);
  const auto append = [&](std::span<const std::byte> more) { bytes.insert(bytes.end(), more.begin(), more.end()); };
  append(std::as_bytes(std::span(text)));
  for (std::size_t n = 0; n < packed.size(); ++n) append(packed[n].empty() ? message.parts[n].bytes : packed[n]);
  return bytes;
}

Message decoded(std::span<const std::byte> bytes) {
  const auto cut_off = [&](std::size_t size) {
    if (size > bytes.size()) throw ProtocolError("a message is cut short");
    const auto first = bytes.first(size);
    bytes = bytes.subspan(size);
    return first;
  };
  std::uint32_t length = 0;
  std::memcpy(&length, cut_off(sizeof length).data(), sizeof length);
  if (length > kMostHeader) throw ProtocolError("a message's header is too long");
  const auto header = cut_off(length);
  Message message;
  message.header = parse_header({reinterpret_cast<const char*>(header.data()), header.size()});
  for (const StoredPart& described : take_part_list(message.header)) {
    const auto stored = cut_off(described.stored);
    message.parts.push_back(unpacked(described, {stored.begin(), stored.end()}));
  }
  if (!bytes.empty()) throw ProtocolError("a message has bytes behind its end");
  return message;
}

Json parse_header(std::string_view text) {
  Json header;
  try {
    header = parse_json(text, "header of a message");
  } catch (const Error& error) {
    throw ProtocolError(error.what());
  }
  if (!header.is_object()) throw ProtocolError("a message's header is no JSON object");
  return header;
}

std::vector<StoredPart> take_part_list(Json& header) {
  std::vector<StoredPart> parts;
  const auto list = header.find("parts");
  if (list == header.end()) return parts;
  if (!list->is_array()) throw ProtocolError("a message's list of parts is no list");
  std::size_t left = kMostParts;
  for (const Json& json : *list) {
    parts.push_back(read_description(json, left));
    left -= parts.back().bytes;
  }
  header.erase(list);
  return parts;
}

Part unpacked(const StoredPart& described, std::vector<std::byte> stored) {
  Part part = described.part;
  if (!described.compressed) {
    part.bytes = std::move(stored);
    return part;
  }
  part.bytes.resize(described.bytes);
  const std::size_t size = ZSTD_decompress(part.bytes.data(), part.bytes.size(), stored.data(), stored.size());
  if (ZSTD_isError(size) != 0 || size != part.bytes.size()) fail_part("does not unpack to its size");
  if (described.byte_by_byte) part.bytes = by_numbers(part.bytes, size_of_number(part.dtype));
  return part;
}

}  // namespace foxscope::agent

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "backend/base/error.h"

namespace foxscope::agent {

/// The version of the protocol (docs/agent.md). Two programs understand each other where it is the same.
inline constexpr int kProtocol = 4;
/// Bytes of a message's header, which is JSON.
inline constexpr std::size_t kMostHeader = std::size_t{1} << 20;
/// Bytes of all parts of a message together, as they are once they are unpacked.
inline constexpr std::size_t kMostParts = std::size_t{64} << 20;

/// The other side sent something that is no message of the protocol.
class ProtocolError : public Error {
 public:
  using Error::Error;
};

/// A run file has changed since it was opened, or has gone. It travels as an error with "changed".
class RunChanged : public Error {
 public:
  using Error::Error;
};

/// An array of a message, C order, little-endian.
struct Part {
  std::string dtype = "uint8";  ///< uint8, uint16, int32, int64, float32, float64 or bfloat16
  std::vector<std::uint64_t> shape;
  std::vector<std::byte> bytes;

  /// A list of numbers of one of these types.
  template <typename T>
  static Part of(std::span<const T> values);
  static Part of(std::string_view text);
  /// The same list. @throws ProtocolError where it has another type or number of axes
  template <typename T>
  [[nodiscard]] std::vector<T> list() const;
  [[nodiscard]] std::string text() const;
};

/// Bytes of a number of this name; 0: there is none.
std::size_t size_of_number(std::string_view dtype);

/// A message: a header, and the arrays that it speaks of by their place.
struct Message {
  nlohmann::json header = nlohmann::json::object();
  std::vector<Part> parts;
};

/// A request by its word, as docs/agent.md names it.
Message request_for(const char* word);

/// Whether parts are compressed, which the other side must have said that it takes.
enum class Packing { none, zstd };

/// The bytes of a message: four of the header's length, the header with a list "parts" of {dtype, shape, stored,
/// codec}, and the parts as they are stored: compressed by zstd where that is smaller, numbers then byte by byte (all
/// first bytes, all second bytes ...).
/// @throws Error where the message is larger than one may be
std::vector<std::byte> encoded(const Message& message, Packing packing = Packing::zstd);

/// The message of such bytes, all of them. @throws ProtocolError for what is none
Message decoded(std::span<const std::byte> bytes);

/// The description of a part that is about to come.
struct StoredPart {
  Part part;                ///< without its bytes
  std::size_t bytes = 0;    ///< of them
  std::size_t stored = 0;   ///< as they come
  bool compressed = false;  ///< by zstd
  bool byte_by_byte = false;
};

/// Takes the list of parts out of a header. All sizes are checked before anything is allocated.
/// @throws ProtocolError
std::vector<StoredPart> take_part_list(nlohmann::json& header);
/// Unpacks a part. @throws ProtocolError
Part unpacked(const StoredPart& described, std::vector<std::byte> stored);

/// A header from its bytes. @throws ProtocolError where it is no JSON object, or goes beyond the bounds
nlohmann::json parse_header(std::string_view text);

}  // namespace foxscope::agent

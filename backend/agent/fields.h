#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/agent/message.h"

namespace foxscope::agent {

// A struct that travels has one function `fields(visit, value)`, which calls visit(name, member) for each member.
// FieldWriter makes JSON of them and FieldReader reads it, so no name is written down twice. In JSON a number that is
// not finite is "NaN", "Infinity" or "-Infinity"; lists of numbers and long texts are parts of the message,
// {"part": N}.

/// Words of an enumeration, or of anything else that travels as a word: `to_word` and `from_word` for type T.
template <typename T>
struct WordOf;

template <typename T>
concept HasWords = requires(const T& value, const std::string& word) {
  { WordOf<T>::to_word(value) } -> std::convertible_to<std::string>;
  { WordOf<T>::from_word(word) } -> std::convertible_to<T>;
};

template <typename T>
concept PartNumber = std::is_same_v<T, double> || std::is_same_v<T, float> || std::is_same_v<T, std::int64_t> ||
    std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::uint16_t> || std::is_same_v<T, std::uint8_t>;

/// Texts longer than this are parts.
inline constexpr std::size_t kLongText = 4096;

[[noreturn]] inline void fail_field(const std::string& name, const char* problem) {
  throw ProtocolError(fmt::format("a message's field \"{}\" {}", name, problem));
}

class FieldWriter {
 public:
  explicit FieldWriter(std::vector<Part>& parts) : parts_(parts) {}

  template <typename T>
  void operator()(const char* name, const T& value) {
    object_[name] = json(value);
  }

  template <typename T>
  nlohmann::json json(const T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      return value;
    } else if constexpr (HasWords<T>) {
      return std::string(WordOf<T>::to_word(value));
    } else if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(value)) return "NaN";
      if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
      return static_cast<double>(value);
    } else if constexpr (std::is_integral_v<T>) {
      return value;
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (value.size() <= kLongText) return value;
      return part(Part::of(std::string_view(value)));
    } else {
      FieldWriter inner(parts_);
      fields(inner, const_cast<T&>(value));
      return std::move(inner.object_);
    }
  }
  template <typename T>
  nlohmann::json json(const std::optional<T>& value) {
    return value ? json(*value) : nlohmann::json(nullptr);
  }
  template <typename T>
  nlohmann::json json(const std::vector<T>& values) {
    if constexpr (PartNumber<T>) {
      return part(Part::of(std::span<const T>(values)));
    } else if constexpr (std::is_same_v<T, std::string>) {
      std::string all;
      std::vector<std::int64_t> lengths;
      for (const std::string& text : values) {
        all += text;
        lengths.push_back(static_cast<std::int64_t>(text.size()));
      }
      return {{"texts", part(Part::of(std::string_view(all)))}, {"lengths", json(lengths)}};
    } else {
      nlohmann::json list = nlohmann::json::array();
      for (const auto& value : values) list.push_back(json(static_cast<T>(value)));
      return list;
    }
  }
  template <typename T, std::size_t N>
  nlohmann::json json(const T (&values)[N]) {
    nlohmann::json list = nlohmann::json::array();
    for (const T& value : values) list.push_back(json(value));
    return list;
  }
  template <typename T, std::size_t N>
  nlohmann::json json(const std::array<T, N>& values) {
    nlohmann::json list = nlohmann::json::array();
    for (const T& value : values) list.push_back(json(value));
    return list;
  }

 private:
  nlohmann::json part(Part part) {
    parts_.push_back(std::move(part));
    return {{"part", parts_.size() - 1}};
  }

  nlohmann::json object_ = nlohmann::json::object();
  std::vector<Part>& parts_;
};

class FieldReader {
 public:
  FieldReader(const nlohmann::json& object, const std::vector<Part>& parts) : object_(object), parts_(parts) {
    if (!object.is_object()) throw ProtocolError("a message has something else where an object belongs");
  }

  /// A member that is absent keeps its value.
  template <typename T>
  void operator()(const char* name, T& value) {
    const auto found = object_.find(name);
    if (found != object_.end()) read(name, *found, value);
  }

  template <typename T>
  void read(const std::string& name, const nlohmann::json& json, T& value) {
    if constexpr (std::is_same_v<T, bool>) {
      if (!json.is_boolean()) fail_field(name, "is neither true nor false");
      value = json.get<bool>();
    } else if constexpr (HasWords<T>) {
      if (!json.is_string()) fail_field(name, "is no word");
      value = WordOf<T>::from_word(json.get<std::string>());
    } else if constexpr (std::is_floating_point_v<T>) {
      value = static_cast<T>(number(name, json));
    } else if constexpr (std::is_integral_v<T>) {
      if (!json.is_number_integer()) fail_field(name, "is no whole number");
      // An unsigned number beyond int64 would come out negative.
      if (json.is_number_unsigned() && json.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
        fail_field(name, "is too large a number");
      }
      if (!std::in_range<T>(json.get<std::int64_t>())) fail_field(name, "is too large a number");
      value = static_cast<T>(json.get<std::int64_t>());
    } else if constexpr (std::is_same_v<T, std::string>) {
      value = json.is_object() ? part(name, json).text() : text(name, json);
    } else {
      FieldReader inner(json, parts_);
      fields(inner, value);
    }
  }
  template <typename T>
  void read(const std::string& name, const nlohmann::json& json, std::optional<T>& value) {
    value.reset();
    if (!json.is_null()) read(name, json, value.emplace());
  }
  template <typename T>
  void read(const std::string& name, const nlohmann::json& json, std::vector<T>& values) {
    if constexpr (PartNumber<T>) {
      values = part(name, json).template list<T>();
    } else if constexpr (std::is_same_v<T, std::string>) {
      if (!json.is_object()) fail_field(name, "is no list of texts");
      std::string all;
      std::vector<std::int64_t> lengths;
      FieldReader inner(json, parts_);
      inner("texts", all);
      inner("lengths", lengths);
      values.clear();
      std::size_t begin = 0;
      for (const std::int64_t length : lengths) {
        if (length < 0 || static_cast<std::size_t>(length) > all.size() - begin) fail_field(name, "has wrong lengths");
        values.push_back(all.substr(begin, static_cast<std::size_t>(length)));
        begin += static_cast<std::size_t>(length);
      }
    } else {
      if (!json.is_array()) fail_field(name, "is no list");
      values.clear();
      for (const nlohmann::json& element : json) {
        T value{};
        read(name, element, value);
        values.push_back(std::move(value));
      }
    }
  }
  template <typename T, std::size_t N>
  void read(const std::string& name, const nlohmann::json& json, T (&values)[N]) {
    read_fixed(name, json, values, N);
  }
  template <typename T, std::size_t N>
  void read(const std::string& name, const nlohmann::json& json, std::array<T, N>& values) {
    read_fixed(name, json, values, N);
  }

 private:
  template <typename Values>
  void read_fixed(const std::string& name, const nlohmann::json& json, Values& values, std::size_t count) {
    if (!json.is_array() || json.size() != count) fail_field(name, "is no list of its length");
    for (std::size_t n = 0; n < count; ++n) read(name, json[n], values[n]);
  }
  static double number(const std::string& name, const nlohmann::json& json) {
    if (json.is_number()) return json.get<double>();
    if (json == "NaN") return std::numeric_limits<double>::quiet_NaN();
    if (json == "Infinity") return std::numeric_limits<double>::infinity();
    if (json == "-Infinity") return -std::numeric_limits<double>::infinity();
    fail_field(name, "is no number");
  }
  static std::string text(const std::string& name, const nlohmann::json& json) {
    if (!json.is_string()) fail_field(name, "is no text");
    return json.get<std::string>();
  }
  const Part& part(const std::string& name, const nlohmann::json& json) {
    const auto found = json.is_object() ? json.find("part") : json.end();
    if (!json.is_object() || found == json.end() || !found->is_number_unsigned() ||
        found->get<std::uint64_t>() >= parts_.size()) {
      fail_field(name, "names no part of its message");
    }
    return parts_[found->get<std::uint64_t>()];
  }

  const nlohmann::json& object_;
  const std::vector<Part>& parts_;
};

/// A value as a field of a message's header.
template <typename T>
void put(Message& message, const char* name, const T& value) {
  FieldWriter writer(message.parts);
  message.header[name] = writer.json(value);
}

/// A field of a message's header. @throws ProtocolError where it is absent or of another type
template <typename T>
T take(const Message& message, const char* name) {
  const auto found = message.header.find(name);
  if (found == message.header.end()) fail_field(name, "is missing");
  T value{};
  FieldReader(message.header, message.parts).read(name, *found, value);
  return value;
}
/// The same, `otherwise` where it is absent.
template <typename T>
T take(const Message& message, const char* name, T otherwise) {
  return message.header.contains(name) ? take<T>(message, name) : otherwise;
}

}  // namespace foxscope::agent

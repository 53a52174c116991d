#include "backend/text/json_reading.h"

#include <algorithm>
#include <set>
#include <vector>

#include "backend/base/error.h"
#include "backend/text/unicode/utf8.h"

namespace foxscope {

using nlohmann::json;

namespace {

json parse_bounded(std::string_view content, const std::string& name, const json::parser_callback_t& keep) {
  check_json_bounds(content, name);
  try {
    return json::parse(content, keep);
  } catch (const json::parse_error& error) {
    throw Error(not_json(name, error.byte));
  } catch (const json::exception&) {
    throw Error(name + ": holds a number that is too large; fetch the file again or repair it");
  }
}

}  // namespace

std::string not_json(const std::string& name, std::size_t byte) {
  return name + ": is not valid JSON (byte " + std::to_string(byte) + "); fetch the file again or repair it";
}

void check_json_bounds(std::string_view content, const std::string& name, std::size_t file_bytes) {
  // Bytes of nlohmann::json on a 64-bit system, with the heap's overhead of each block.
  constexpr std::size_t kValue = 16;
  constexpr std::size_t kList = 48;
  constexpr std::size_t kObject = 64;
  constexpr std::size_t kText = 48;
  constexpr std::size_t kMember = 48;  // beside its name, which is a text
  const std::size_t most =
      kFreeJsonBytes + kMaxJsonGrowth * (file_bytes == 0 ? content.size() : std::min(file_bytes, content.size()));
  const auto fail = [&](std::size_t n, const std::string& what) {
    throw Error(name + ": " + what + " (byte " + std::to_string(n + 1) + "); fetch the file again or repair it");
  };
  int depth = 0;
  std::size_t bytes = 0;
  bool in_string = false;
  for (std::size_t n = 0; n < content.size(); ++n) {
    const char c = content[n];
    if (in_string) {
      if (c == '\\') ++n;  // what it escapes ends no string
      in_string = c != '"';
      continue;
    }
    switch (c) {
      case '"':
        in_string = true;
        bytes += kText;
        break;
      case ',':
        bytes += kValue;
        break;
      case ':':
        bytes += kMember;
        break;
      case '[':
      case '{':
        if (++depth > kMaxJsonDepth) {
          fail(n, "lists and objects lie inside one another deeper than " + std::to_string(kMaxJsonDepth) + " levels");
        }
        bytes += kValue + (c == '[' ? kList : kObject);
        break;
      case ']':
      case '}':
        --depth;
        break;
      case '\0':  // where json::parse takes the text to end, whatever follows
        throw Error(not_json(name, n + 1));
      default:
        break;
    }
    if (bytes > most) fail(n, "holds more lists, objects and values than a file of its size has");
  }
}

void refuse_repeated_keys(std::string_view content, const std::string& name) {
  struct Object {
    std::set<std::string> keys;
    std::string last;
  };
  std::vector<Object> open;
  const auto look = [&](int /*depth*/, json::parse_event_t event, const json& value) {
    if (event == json::parse_event_t::object_start) open.emplace_back();
    if (event == json::parse_event_t::object_end) open.pop_back();
    if (event != json::parse_event_t::key) return true;
    open.back().last = value.get<std::string>();
    if (open.back().keys.insert(open.back().last).second) return true;
    std::string path;
    for (const Object& object : open) path += (path.empty() ? "" : ".") + object.last;
    throw Error(name + ": the key " + in_quotes(path) + " is given twice: leave one of them out");
  };
  [[maybe_unused]] const json parsed = json::parse(content, look, /*allow_exceptions=*/false);
}

json parse_json(std::string_view content, const std::string& name) { return parse_bounded(content, name, nullptr); }

json parse_plain_members(std::string_view content, const std::string& name) {
  return parse_bounded(content, name, [](int depth, json::parse_event_t event, const json& /*value*/) {
    if (event == json::parse_event_t::array_start) return false;
    return event != json::parse_event_t::object_start || depth == 0;
  });
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t longest = 60;
  std::string result = "'";
  for (std::size_t position = 0; position < text.size();) {
    const Character character = character_at(text, position);
    if (position + character.bytes > longest) {
      result += "...";
      break;
    }
    const bool control = character.code_point < 0x20 || (character.code_point >= 0x7F && character.code_point < 0xA0) ||
                         character.code_point == 0x2028 || character.code_point == 0x2029;
    result += control ? std::string("?") : std::string(text.substr(position, character.bytes));
    position += character.bytes;
  }
  return result + "'";
}

const json* member(const json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

bool flag(const json& object, const char* key, bool otherwise, const std::string& name) {
  const json* value = member(object, key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean())
    throw Error(name + ": " + key + " must be true or false; fetch the file again or repair it");
  return value->get<bool>();
}

std::string text_member(const json& object, const char* key, const std::string& name) {
  const json* value = member(object, key);
  if (value == nullptr) return {};
  if (!value->is_string()) throw Error(name + ": " + key + " must be a string; fetch the file again or repair it");
  return value->get<std::string>();
}

std::int32_t token_id(const json& value, std::string_view token, const std::string& name) {
  constexpr std::int64_t limit = std::int64_t{1} << 22;
  const bool fits = value.is_number_unsigned() && value.get<std::uint64_t>() < static_cast<std::uint64_t>(limit);
  if (!fits) {
    throw Error(name + ": the id of the token " + in_quotes(token) + " must be an integer from 0 to " +
                std::to_string(limit - 1) + "; fetch the file again or repair it");
  }
  return static_cast<std::int32_t>(value.get<std::uint64_t>());
}

}  // namespace foxscope

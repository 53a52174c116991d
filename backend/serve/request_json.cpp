#include "backend/serve/request_json.h"

#include <set>

#include <fmt/format.h>

#include "backend/serve/refused_request.h"
#include "backend/text/json_reading.h"
#include "backend/text/tokenizer.h"

namespace foxscope {
namespace {

using nlohmann::json;

/// A list of lists of ids has three levels, and as many lists as prompts; there are no more than that.
constexpr int kMostLevels = 16;
constexpr int kMostContainers = 5000;

/// Counts what is built, and looks for fields that are given twice.
class RequestBounds {
 public:
  void take(int depth, json::parse_event_t event, const json& value) {
    if (event == json::parse_event_t::array_start || event == json::parse_event_t::object_start) {
      if (depth >= kMostLevels) {
        throw RefusedRequest(400, "not_json",
                             fmt::format("the body: lists lie inside one another deeper than {} levels", kMostLevels));
      }
      if (++containers_ > kMostContainers) {
        throw RefusedRequest(400, "invalid_value",
                             fmt::format("the body: more than {} lists; send fewer prompts at once", kMostContainers));
      }
    } else if (event == json::parse_event_t::key && depth == 1) {
      const auto& name = value.get_ref<const std::string&>();
      if (!fields_.insert(name).second) {
        throw RefusedRequest(400, "invalid_value", fmt::format("{}: is given twice", shown_text(name)));
      }
    }
  }

 private:
  int containers_ = 0;
  std::set<std::string> fields_;
};

}  // namespace

json read_request_object(std::string_view body) {
  // json::parse takes the text to end there, whatever follows.
  if (const std::size_t nul = body.find('\0'); nul != std::string_view::npos) {
    throw RefusedRequest(400, "not_json", fmt::format("the body is not JSON in UTF-8 (byte {})", nul + 1));
  }
  RequestBounds bounds;
  json object;
  try {
    object = json::parse(body, [&](int depth, json::parse_event_t event, const json& value) {
      bounds.take(depth, event, value);
      return true;
    });
  } catch (const json::parse_error& error) {
    throw RefusedRequest(400, "not_json", fmt::format("the body is not JSON in UTF-8 (byte {})", error.byte));
  } catch (const json::exception&) {
    throw RefusedRequest(400, "not_json", "the body holds a number that is too large");
  }
  if (!object.is_object()) {
    throw RefusedRequest(400, "invalid_value", "the body: expected an object, got " + shown(object));
  }
  return object;
}

std::string shown(const json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return value.empty() ? "[]" : fmt::format("a list of {}", value.size());
  if (value.is_string()) return shown_text(value.get_ref<const std::string&>());
  return value.dump();
}

std::string shown_text(std::string_view text) { return in_quotes(replace_invalid_utf8(text.substr(0, 200))); }

}  // namespace foxscope

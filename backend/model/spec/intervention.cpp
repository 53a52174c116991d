#include "backend/model/spec/intervention.h"

#include <charconv>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"
#include "backend/base/nearest_name.h"

namespace foxscope {
namespace {

using Kind = Intervention::Kind;

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw UsageError(fmt::format(
      "--intervene '{}': {}; write LAYER:HEAD:KIND, where * stands for all layers or heads and KIND is one, "
      "constant=f, mean, scale=s, zero@p or cut, or with * for the head drop=e, of an expert",
      text, why));
}

template <typename Number>
std::optional<Number> parse_number(const std::string& text) {
  Number value{};
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

int parse_index(const std::string& word, const std::string& text, const char* what) {
  if (word == "*") return -1;
  const auto index = parse_number<int>(word);
  if (!index || *index < 0) refuse(text, fmt::format("{} '{}' is neither a number from 0 nor *", what, word));
  return *index;
}

/// " (did you mean scale=0.9?)" of "scael=0.9".
std::string nearest_kind(const std::string& word, const std::string& argument) {
  static const std::vector<std::string> kinds = {"one", "mean", "cut", "constant=", "scale=", "zero@", "drop="};
  const auto nearest = nearest_name(word, kinds);
  if (!nearest) return {};
  const bool takes_argument = nearest->ends_with('=') || nearest->ends_with('@');
  return fmt::format(" (did you mean {}{}?)", *nearest, takes_argument ? argument : "");
}

/// Reads KIND into a change.
/// @returns what is wrong with it; empty: nothing
std::string read_kind(const std::string& kind, Intervention& into) {
  const std::size_t sign = kind.find_first_of("=@");
  const std::string word = sign == std::string::npos ? kind : kind.substr(0, sign + 1);
  const std::string argument = sign == std::string::npos ? "" : kind.substr(sign + 1);
  if (word == "one" || word == "mean" || word == "cut") {
    into.kind = word == "one" ? Kind::one : word == "mean" ? Kind::mean : Kind::cut;
  } else if (word == "constant=" || word == "scale=") {
    into.kind = word == "scale=" ? Kind::scale : Kind::constant;
    const auto value = parse_number<double>(argument);
    const double highest = into.kind == Kind::scale ? 1e6 : 1.0;
    if (!value || !(*value >= 0 && *value <= highest)) {
      return fmt::format("'{}' is not a number from 0 to {}", argument, highest);
    }
    into.value = *value;
  } else if (word == "zero@") {
    into.kind = Kind::zero;
    const auto position = parse_number<std::int64_t>(argument);
    if (!position || *position < 0) return fmt::format("position '{}' is not a number from 0", argument);
    into.position = *position;
  } else if (word == "drop=") {
    into.kind = Kind::drop;
    const auto expert = parse_number<int>(argument);
    if (!expert || *expert < 0) return fmt::format("expert '{}' is not a number from 0", argument);
    into.expert = *expert;
  } else {
    return fmt::format("'{}' is not known{}", kind, nearest_kind(word, argument));
  }
  return {};
}

}  // namespace

Intervention Intervention::parse(const std::string& text) {
  const std::size_t first = text.find(':');
  const std::size_t second = first == std::string::npos ? first : text.find(':', first + 1);
  if (second == std::string::npos) refuse(text, "it has not three parts");
  Intervention result;
  result.layer = parse_index(text.substr(0, first), text, "layer");
  result.head = parse_index(text.substr(first + 1, second - first - 1), text, "head");
  const std::string why = read_kind(text.substr(second + 1), result);
  if (!why.empty()) refuse(text, why);
  if (result.kind == Kind::drop && result.head != -1) refuse(text, "an expert is of a layer, and of no head");
  return result;
}

Intervention Intervention::parse_change(const std::string& kind) {
  Intervention result;
  std::string why = read_kind(kind, result);
  if (why.empty() && result.kind == Kind::zero) why = "a position is of one text";
  if (why.empty() && result.kind == Kind::drop) why = "an expert is of no head";
  if (!why.empty()) {
    throw UsageError(fmt::format("--change '{}': {}; use one, cut, mean, constant=f or scale=s", kind, why));
  }
  return result;
}

std::string Intervention::kind_text() const {
  switch (kind) {
    case Kind::one:
      return "one";
    case Kind::constant:
      return fmt::format("constant={}", value);
    case Kind::mean:
      return "mean";
    case Kind::scale:
      return fmt::format("scale={}", value);
    case Kind::zero:
      return fmt::format("zero@{}", position);
    case Kind::cut:
      return "cut";
    case Kind::drop:
      return fmt::format("drop={}", expert);
  }
  return {};
}

std::string Intervention::text() const {
  const auto index = [](int number) { return number < 0 ? std::string("*") : std::to_string(number); };
  return fmt::format("{}:{}:{}", index(layer), index(head), kind_text());
}

std::string Intervention::kind_words() const {
  switch (kind) {
    case Kind::one:
      return "gate 1";
    case Kind::constant:
      return fmt::format("gate {:g}", value);
    case Kind::mean:
      return "gate at its mean";
    case Kind::scale:
      return fmt::format("log gate × {:g}", value);
    case Kind::zero:
      return fmt::format("gate 0 at {}", position);
    case Kind::cut:
      return "cut";
    case Kind::drop:
      return fmt::format("without expert {}", expert);
  }
  return {};
}

std::string Intervention::words() const {
  if (kind == Kind::drop)
    return (layer < 0 ? std::string("all layers") : fmt::format("L{}", layer)) + ", " + kind_words();
  const std::string where = layer < 0 && head < 0 ? "all heads"
                            : head < 0            ? fmt::format("L{}, all heads", layer)
                            : layer < 0           ? fmt::format("H{} of all layers", head)
                                                  : fmt::format("L{} H{}", layer, head);
  return where + ", " + kind_words();
}

}  // namespace foxscope

#include "backend/model/interventions.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <charconv>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope {
namespace {

using Kind = Intervention::Kind;

[[noreturn]] void refuse(const std::string& text, const std::string& why) {
  throw UsageError(fmt::format(
      "--intervene '{}': {}; write LAYER:HEAD:KIND, where * stands for all layers or heads and KIND is one, "
      "constant=f, mean, scale=s, zero@p or cut",
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

bool concerns(const Intervention& intervention, int layer, int head) {
  return (intervention.layer == -1 || intervention.layer == layer) &&
         (intervention.head == -1 || intervention.head == head);
}

/// log of the mean of f.
double log_mean(std::span<const double> log_gate) {
  double sum = 0;
  for (const double value : log_gate) sum += std::exp(value);
  return std::log(sum / static_cast<double>(log_gate.size()));
}

void change_head(const Intervention& intervention, std::span<double> log_gate) {
  switch (intervention.kind) {
    case Kind::one:
      std::fill(log_gate.begin(), log_gate.end(), 0.0);
      break;
    case Kind::constant:
      std::fill(log_gate.begin(), log_gate.end(), std::max(std::log(intervention.value), kLowestLogGate));
      break;
    case Kind::mean:
      std::fill(log_gate.begin(), log_gate.end(), std::max(log_mean(log_gate), kLowestLogGate));
      break;
    case Kind::scale:
      for (double& value : log_gate) value = std::max(value * intervention.value, kLowestLogGate);
      break;
    case Kind::zero:
      assert(intervention.position < static_cast<std::int64_t>(log_gate.size()));
      log_gate[static_cast<std::size_t>(intervention.position)] = kLowestLogGate;
      break;
    case Kind::cut:
      break;
  }
}

}  // namespace

Intervention Intervention::parse(const std::string& text) {
  const std::size_t first = text.find(':');
  const std::size_t second = first == std::string::npos ? first : text.find(':', first + 1);
  if (second == std::string::npos) refuse(text, "it has not three parts");
  Intervention result;
  result.layer = parse_index(text.substr(0, first), text, "layer");
  result.head = parse_index(text.substr(first + 1, second - first - 1), text, "head");
  const std::string kind = text.substr(second + 1);
  const std::size_t sign = kind.find_first_of("=@");
  const std::string word = sign == std::string::npos ? kind : kind.substr(0, sign + 1);
  const std::string argument = sign == std::string::npos ? "" : kind.substr(sign + 1);
  if (word == "one" || word == "mean" || word == "cut") {
    result.kind = word == "one" ? Kind::one : word == "mean" ? Kind::mean : Kind::cut;
  } else if (word == "constant=" || word == "scale=") {
    result.kind = word == "scale=" ? Kind::scale : Kind::constant;
    const auto value = parse_number<double>(argument);
    const double highest = result.kind == Kind::scale ? 1e6 : 1.0;
    if (!value || !(*value >= 0 && *value <= highest)) {
      refuse(text, fmt::format("'{}' is not a number from 0 to {}", argument, highest));
    }
    result.value = *value;
  } else if (word == "zero@") {
    result.kind = Kind::zero;
    const auto position = parse_number<std::int64_t>(argument);
    if (!position || *position < 0) refuse(text, fmt::format("position '{}' is not a number from 0", argument));
    result.position = *position;
  } else {
    refuse(text, fmt::format("'{}' is not known", kind));
  }
  return result;
}

std::string Intervention::text() const {
  const auto index = [](int number) { return number < 0 ? std::string("*") : std::to_string(number); };
  std::string word;
  switch (kind) {
    case Kind::one:
      word = "one";
      break;
    case Kind::constant:
      word = fmt::format("constant={}", value);
      break;
    case Kind::mean:
      word = "mean";
      break;
    case Kind::scale:
      word = fmt::format("scale={}", value);
      break;
    case Kind::zero:
      word = fmt::format("zero@{}", position);
      break;
    case Kind::cut:
      word = "cut";
      break;
  }
  return fmt::format("{}:{}:{}", index(layer), index(head), word);
}

void check_interventions(std::span<const Intervention> interventions, const ModelConfig& config, std::int64_t length) {
  for (const Intervention& intervention : interventions) {
    const auto check = [&intervention](const char* what, std::int64_t number, std::int64_t count) {
      if (number < count) return;
      throw UsageError(fmt::format("--intervene '{}': there is no {} {}: the model and text have 0 to {}",
                                   intervention.text(), what, number, count - 1));
    };
    check("layer", intervention.layer, config.layers);
    check("head", intervention.head, config.heads);
    if (intervention.kind == Kind::zero) check("position", intervention.position, length);
  }
}

bool changes_gates(std::span<const Intervention> interventions, int layer) {
  return std::any_of(interventions.begin(), interventions.end(), [layer](const Intervention& intervention) {
    return intervention.kind != Kind::cut && (intervention.layer == -1 || intervention.layer == layer);
  });
}

bool cuts_head(std::span<const Intervention> interventions, int layer, int head) {
  return std::any_of(interventions.begin(), interventions.end(), [layer, head](const Intervention& intervention) {
    return intervention.kind == Kind::cut && concerns(intervention, layer, head);
  });
}

void change_gates(std::span<const Intervention> interventions, int layer, int heads, std::int64_t length,
                  double* log_gate) {
  for (const Intervention& intervention : interventions) {
    for (int head = 0; head < heads; ++head) {
      if (!concerns(intervention, layer, head)) continue;
      change_head(intervention, {log_gate + head * length, static_cast<std::size_t>(length)});
    }
  }
}

std::vector<Intervention> interventions_before(std::span<const Intervention> interventions, std::int64_t length) {
  std::vector<Intervention> concerned;
  std::copy_if(interventions.begin(), interventions.end(), std::back_inserter(concerned),
               [length](const Intervention& intervention) {
                 return intervention.kind != Kind::zero || intervention.position < length;
               });
  return concerned;
}

double changed_gate(std::span<const Intervention> interventions, int layer, int head, std::int64_t position,
                    double log_gate) {
  for (const Intervention& intervention : interventions) {
    if (!concerns(intervention, layer, head)) continue;
    if (intervention.kind == Kind::zero) {
      if (intervention.position == position) log_gate = kLowestLogGate;
    } else {
      change_head(intervention, {&log_gate, 1});
    }
  }
  return log_gate;
}

}  // namespace foxscope

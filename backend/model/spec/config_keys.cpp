#include "backend/model/spec/config_keys.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/base/nearest_name.h"

namespace foxscope {
namespace {

using nlohmann::json;

std::string shown(const json& found) {
  if (found.is_structured()) return found.is_array() ? "a list" : "an object";
  std::string text = found.dump(-1, ' ', true, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  return text;
}

bool says_no(const json& found) {
  if (found.is_null()) return true;
  if (found.is_boolean()) return !found.get<bool>();
  if (found.is_number()) return found.get<double>() == 0;
  return (found.is_structured() && found.empty()) || found == "";
}

constexpr std::string_view kHowToAdd = "CONTRIBUTING.md (A family of models) says how to add one";

/// Words about a key that people meet.
struct KnownKey {
  std::string_view name;  ///< with * at its end: all that begin so
  std::string_view why;
};
constexpr KnownKey kKnownKeys[] = {
    {"quantization_config", "quantised weights are not read: give a checkpoint in float32, float16 or bfloat16"},
    {"auto_map", "the checkpoint brings a forward pass of its own in Python, which is not run"},
    {"alibi*", "biases of logits by distance (ALiBi) are not run here"},
    {"add_cross_attention", "attention to an encoder is not run"},
    {"is_encoder_decoder", "attention to an encoder is not run"},
};

/// Keys of mixtures of experts. The family's reader asks for one of them if its models have any.
constexpr std::string_view kOfExperts[] = {"num_experts*", "num_local_experts", "n_routed_experts", "moe_*"};
constexpr std::string_view kNoExperts = "Foxscope runs no mixtures of experts in models of this model_type";

/// Switches that are on where a file does not have them, in this family's code or in another's. Off, or null, they ask
/// for another model; a reader whose family has both asks for them.
constexpr std::string_view kOnOtherwise[] = {"is_causal", "causal", "elementwise_affine"};

/// Keys that transformers writes into any configuration, where they say no.
constexpr std::string_view kSwitches[] = {
    "pruned_heads",      "torchscript",      "is_decoder",    "tie_encoder_decoder",
    "use_bfloat16",      "tf_legacy_loss",   "bad_words_ids", "cross_attention_hidden_size",
    "diversity_penalty", "early_stopping",   "forced_*",      "exponential_decay_length_penalty",
    "encoder_*",         "no_repeat_*",      "min_length",    "begin_suppress_tokens",
    "suppress_tokens",   "remove_invalid_*", "output_scores",
};

bool matches(std::string_view key, std::string_view name) {
  return name.ends_with('*') ? key.starts_with(name.substr(0, name.size() - 1)) : key == name;
}

bool is_among(std::string_view key, std::span<const std::string_view> names) {
  return std::ranges::any_of(names, [key](std::string_view name) { return matches(key, name); });
}

/// Why a key is refused that no reader asked for; empty: nobody knows it.
std::string_view reason_against(std::string_view key, bool has_experts) {
  if (!has_experts && is_among(key, kOfExperts)) return kNoExperts;
  const auto* const known =
      std::ranges::find_if(kKnownKeys, [key](const KnownKey& entry) { return matches(key, entry.name); });
  return known == std::end(kKnownKeys) ? std::string_view() : known->why;
}

}  // namespace

ConfigKeys::ConfigKeys(const json& object, std::string_view file, std::string parent, UnknownKeys unknown)
    : object_(object), file_(file), parent_(std::move(parent)), unknown_(unknown) {}

std::string ConfigKeys::name_of(const std::string& key) const { return parent_.empty() ? key : parent_ + "." + key; }

bool ConfigKeys::has(const char* key) const {
  asked_.emplace(key);
  return object_.contains(key) && !object_.at(key).is_null();
}

bool ConfigKeys::is_null(const char* key) const {
  asked_.emplace(key);
  return object_.contains(key) && object_.at(key).is_null();
}

const json& ConfigKeys::value(const char* key) const {
  if (!has(key)) fail(key, "there");
  return object_.at(key);
}

ConfigKeys ConfigKeys::under(const char* key) const {
  if (!value(key).is_object()) fail(key, "an object");
  return {object_.at(key), file_, name_of(key), unknown_};
}

const char* ConfigKeys::either(const char* key, const char* other) const {
  if (!has(other)) return key;
  if (has(key) && object_.at(key) != object_.at(other)) {
    fail(key, fmt::format("what {} says, which is another name of it", name_of(other)));
  }
  return other;
}

std::string ConfigKeys::nearest_to(const std::string& key, std::span<const std::string_view> harmless) const {
  std::vector<std::string> known(asked_.begin(), asked_.end());
  for (const std::string_view name : harmless) {
    if (!name.ends_with('*')) known.emplace_back(name);
  }
  const auto nearest = nearest_name(key, known);
  return nearest ? fmt::format(" (did you mean \"{}\"?)", name_of(*nearest)) : "";
}

bool ConfigKeys::is_misspelt(const std::string& key) const {
  return misspelt_name(key, std::vector<std::string>(asked_.begin(), asked_.end())).has_value();
}

void ConfigKeys::refuse_others(std::span<const std::string_view> harmless) const {
  const bool has_experts =
      std::ranges::any_of(asked_, [](const std::string& asked) { return is_among(asked, kOfExperts); });
  for (const auto& [key, found] : object_.items()) {
    if (asked_.contains(key) || is_among(key, harmless)) continue;
    if (is_among(key, kOnOtherwise)) {
      if (says_no(found)) refuse(key.c_str(), "true");
      if (found == true) continue;
    }
    const std::string_view why = reason_against(key, has_experts);
    const bool has_reason = !why.empty();
    const bool any_says_no = unknown_ == UnknownKeys::refused_unless_no && !is_misspelt(key);
    if (says_no(found) && (any_says_no || has_reason || is_among(key, kSwitches))) continue;
    const std::string name = json(name_of(key).substr(0, 60)).dump(-1, ' ', true, json::error_handler_t::replace);
    if (has_reason) {
      throw Error(fmt::format("{}: {} is {}: {}", file_, name, shown(found), why));
    }
    const std::string unknown = fmt::format("{}: {} is {}, a key that Foxscope does not know for this model_type{}",
                                            file_, name, shown(found), nearest_to(key, harmless));
    if (unknown_ == UnknownKeys::refused) {
      throw Error(fmt::format("{}: another model than was meant might be trained; correct it or remove it", unknown));
    }
    if (says_no(found)) {
      throw Error(fmt::format("{}: another model than was meant might be run; correct it or remove it", unknown));
    }
    throw Error(
        fmt::format("{}: Foxscope would ignore what it changes, so it does not run the model; if it changes nothing in "
                    "a forward pass, remove it; {}",
                    unknown, kHowToAdd));
  }
}

void ConfigKeys::refuse(const char* key, const std::string& runs) const {
  throw Error(fmt::format("{}: {} is {}, which Foxscope does not run: it runs {}; {}", file_, name_of(key),
                          object_.contains(key) ? shown(object_.at(key)) : "missing", runs, kHowToAdd));
}

std::string ConfigKeys::ignored() const {
  constexpr std::size_t kMostNames = 40;
  std::size_t count = 0;
  std::string names;
  for (const auto& [key, found] : object_.items()) {
    if (found.is_null() || asked_.contains(key) || count++ >= kMostNames) continue;
    names += (names.empty() ? "" : ", ") + key;
  }
  if (count > kMostNames) names += fmt::format(" and {} more", count - kMostNames);
  return names.empty() ? "none" : names;
}

void ConfigKeys::fail(const char* key, const std::string& allowed) const {
  throw Error(fmt::format("{}: {} is {}: it must be {}", file_, name_of(key),
                          has(key) ? shown(object_.at(key)) : "missing", allowed));
}

std::int64_t ConfigKeys::integer(const char* key, std::int64_t lowest, std::int64_t highest) const {
  const std::string allowed = fmt::format("a whole number from {} to {}", lowest, highest);
  if (!has(key) || !object_.at(key).is_number_integer()) fail(key, allowed);
  const json& found = object_.at(key);
  constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();
  if (found.is_number_unsigned() && found.get<std::uint64_t>() > kLargest) fail(key, allowed);
  const auto number = found.get<std::int64_t>();
  if (number < lowest || number > highest) fail(key, allowed);
  return number;
}

std::int64_t ConfigKeys::integer(const char* key, std::int64_t lowest, std::int64_t highest,
                                 std::int64_t otherwise) const {
  return has(key) ? integer(key, lowest, highest) : otherwise;
}

double ConfigKeys::number(const char* key, double lowest, double highest) const {
  const bool given = has(key) && object_.at(key).is_number();
  const double found = given ? object_.at(key).get<double>() : std::numeric_limits<double>::quiet_NaN();
  if (!(found >= lowest && found <= highest)) fail(key, fmt::format("a number from {} to {}", lowest, highest));
  return found;
}

double ConfigKeys::number(const char* key, double lowest, double highest, double otherwise) const {
  return has(key) ? number(key, lowest, highest) : otherwise;
}

bool ConfigKeys::flag(const char* key, bool otherwise) const {
  if (!has(key)) return otherwise;
  if (!object_.at(key).is_boolean()) fail(key, "true or false");
  return object_.at(key).get<bool>();
}

bool ConfigKeys::flag_or_null(const char* key, bool otherwise) const {
  return is_null(key) ? false : flag(key, otherwise);
}

std::string ConfigKeys::word(const char* key, const std::string& otherwise) const {
  if (!has(key)) return otherwise;
  if (!object_.at(key).is_string()) fail(key, "a string");
  return object_.at(key).get<std::string>();
}

}  // namespace foxscope

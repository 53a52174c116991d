#include "backend/model/model_config.h"

#include <array>
#include <cmath>
#include <limits>
#include <set>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/command_line.h"
#include "backend/base/error.h"
#include "backend/base/log.h"
#include "backend/text/json_reading.h"

namespace foxscope {
namespace {

using nlohmann::json;

// Far beyond any published model, and small enough that no product of two of them overflows.
constexpr std::int64_t kMaxVocabulary = 1 << 24;
constexpr std::int64_t kMaxHidden = 1 << 18;
constexpr std::int64_t kMaxIntermediate = 1 << 22;
constexpr std::int64_t kMaxLayers = 1024;
constexpr std::int64_t kMaxHeadDim = 1024;
constexpr std::int64_t kIntermediateMultiple = 256;

/// The keys of one config.json; a key that is absent or null has its default.
class Keys {
 public:
  Keys(const json& object, std::string_view file) : object_(object), file_(file) {}

  [[nodiscard]] bool has(const char* key) const {
    asked_.emplace(key);
    return object_.contains(key) && !object_.at(key).is_null();
  }

  /// Keys that nobody asked for, separated by commas.
  [[nodiscard]] std::string ignored() const {
    constexpr std::size_t kMostNames = 40;
    std::size_t count = 0;
    std::string names;
    for (const auto& [key, value] : object_.items()) {
      if (value.is_null() || asked_.contains(key) || count++ >= kMostNames) continue;
      names += (names.empty() ? "" : ", ") + key;
    }
    if (count > kMostNames) names += fmt::format(" and {} more", count - kMostNames);
    return names.empty() ? "none" : names;
  }

  [[noreturn]] void fail(const char* key, const std::string& allowed) const {
    std::string value = "missing";
    if (has(key)) {
      const json& found = object_.at(key);
      value = found.is_structured() ? (found.is_array() ? "a list" : "an object") : found.dump();
      if (value.size() > 60) value = value.substr(0, 60) + "...";
    }
    throw Error(fmt::format("{}: {} is {}: it must be {}", file_, key, value, allowed));
  }

  [[nodiscard]] std::int64_t integer(const char* key, std::int64_t lowest, std::int64_t highest) const {
    const std::string allowed = fmt::format("a whole number from {} to {}", lowest, highest);
    if (!has(key) || !object_.at(key).is_number_integer()) fail(key, allowed);
    const json& value = object_.at(key);
    constexpr std::uint64_t kLargest = std::numeric_limits<std::int64_t>::max();
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > kLargest) fail(key, allowed);
    const auto number = value.get<std::int64_t>();
    if (number < lowest || number > highest) fail(key, allowed);
    return number;
  }

  [[nodiscard]] std::int64_t integer(const char* key, std::int64_t lowest, std::int64_t highest,
                                     std::int64_t otherwise) const {
    return has(key) ? integer(key, lowest, highest) : otherwise;
  }

  [[nodiscard]] double number(const char* key, double lowest, double highest, double otherwise) const {
    if (!has(key)) return otherwise;
    const json& value = object_.at(key);
    const double found = value.is_number() ? value.get<double>() : std::numeric_limits<double>::quiet_NaN();
    if (!(found >= lowest && found <= highest)) {
      fail(key, fmt::format("a number from {} to {}", lowest, highest));
    }
    return found;
  }

  [[nodiscard]] bool flag(const char* key, bool otherwise) const {
    if (!has(key)) return otherwise;
    if (!object_.at(key).is_boolean()) fail(key, "true or false");
    return object_.at(key).get<bool>();
  }

  [[nodiscard]] std::string word(const char* key, const std::string& otherwise) const {
    if (!has(key)) return otherwise;
    if (!object_.at(key).is_string()) fail(key, "a string");
    return object_.at(key).get<std::string>();
  }

 private:
  const json& object_;
  std::string_view file_;
  mutable std::set<std::string> asked_;
};

constexpr const char* kSupported =
    "forgetting_transformer-project_fox, transformer-project_fox and forgetting_transformer (the FLA library's)";

Dialect read_dialect(const std::string& model_type, std::string_view file) {
  if (model_type == "forgetting_transformer-project_fox") return Dialect::project_fox;
  if (model_type == "transformer-project_fox") return Dialect::transformer_project_fox;
  if (model_type == "forgetting_transformer") return Dialect::fla;
  for (const std::string_view recurrent : {"mamba2", "hgrn2", "delta_net", "gated_deltanet", "samba"}) {
    if (model_type == recurrent || model_type == std::string(recurrent) + "-project_fox") {
      throw Error(
          fmt::format("{}: model_type {} is a recurrent baseline without attention maps, which Foxscope does "
                      "not run; supported are {}",
                      file, model_type, kSupported));
    }
  }
  throw Error(fmt::format("{}: model_type {} is not known; supported are {}", file,
                          json(model_type.substr(0, 60)).dump(-1, ' ', true, json::error_handler_t::replace),
                          kSupported));
}

void read_sizes(const Keys& keys, std::string_view file, ModelConfig& config) {
  config.vocabulary_size = keys.integer("vocab_size", 1, kMaxVocabulary);
  config.hidden_size = keys.integer("hidden_size", 1, kMaxHidden);
  config.layers = static_cast<int>(keys.integer("num_hidden_layers", 1, kMaxLayers));
  config.heads = static_cast<int>(keys.integer("num_heads", 1, config.hidden_size));
  config.key_heads = static_cast<int>(keys.integer("num_kv_heads", 1, config.heads, config.heads));
  if (config.hidden_size % config.heads != 0) {
    throw Error(
        fmt::format("{}: num_heads is {}: it must divide hidden_size {}", file, config.heads, config.hidden_size));
  }
  if (config.heads % config.key_heads != 0) {
    throw Error(
        fmt::format("{}: num_kv_heads is {}: it must divide num_heads {}", file, config.key_heads, config.heads));
  }
  if (config.hidden_size / config.heads > kMaxHeadDim) {
    throw Error(fmt::format("{}: num_heads is {}: hidden_size {} then gives heads of {}, at most {} is supported", file,
                            config.heads, config.hidden_size, config.hidden_size / config.heads, kMaxHeadDim));
  }
  config.head_dim = static_cast<int>(config.hidden_size / config.heads);

  const double ratio = keys.number("hidden_ratio", 1e-3, 1e3, 4.0);
  const auto wanted = static_cast<std::int64_t>(static_cast<double>(config.hidden_size) * ratio * 2 / 3);
  const std::int64_t rounded = (wanted + kIntermediateMultiple - 1) / kIntermediateMultiple * kIntermediateMultiple;
  config.intermediate_size = keys.integer("intermediate_size", 1, kMaxIntermediate, rounded);
  if (config.intermediate_size < 1 || config.intermediate_size > kMaxIntermediate) {
    keys.fail("hidden_ratio", fmt::format("such that the MLP has 1 to {} units with hidden_size {}", kMaxIntermediate,
                                          config.hidden_size));
  }
}

void read_common(const Keys& keys, ModelConfig& config) {
  config.norm_epsilon = keys.number("norm_eps", 0.0, 1.0, 1e-6);
  config.tie_word_embeddings = keys.flag("tie_word_embeddings", false);
  if (keys.has("bos_token_id")) {
    config.bos_token_id = static_cast<std::int32_t>(keys.integer("bos_token_id", 0, config.vocabulary_size - 1));
  }
  const std::string activation = keys.word("hidden_act", "swish");
  if (activation != "swish" && activation != "silu") keys.fail("hidden_act", "\"swish\" (or \"silu\")");
  if (!keys.flag("elementwise_affine", true))
    keys.fail("elementwise_affine", "true: norms without weights are not read");
  config.output_gate = keys.flag("use_output_gate", false);
  if (keys.flag("qk_norm", false)) config.query_key_norm = QueryKeyNorm::per_head;
}

void read_rope(const Keys& keys, bool otherwise, ModelConfig& config) {
  config.rope = keys.flag("use_rope", otherwise);
  config.rope_base = keys.number("rope_base", 1.0, 1e15, 500000.0);
  if (config.rope && config.head_dim % 2 != 0) {
    keys.fail("use_rope", fmt::format("false where the head dimension is odd, and it is {}", config.head_dim));
  }
}

ForgetGate read_forget_gate(const Keys& keys) {
  const std::string type = keys.word("fgate_type", "full");
  if (type == "full") return ForgetGate::full;
  if (type == "bias_only") return ForgetGate::bias_only;
  if (type == "fixed") return ForgetGate::fixed;
  if (type == "none") return ForgetGate::none;
  keys.fail("fgate_type", "\"full\", \"bias_only\", \"fixed\" or \"none\"");
}

void read_project_fox(const Keys& keys, ModelConfig& config) {
  const bool plain = config.dialect == Dialect::transformer_project_fox;
  read_rope(keys, plain, config);
  config.forget_gate = plain ? ForgetGate::none : read_forget_gate(keys);
  if (config.query_key_norm != QueryKeyNorm::none) {
    // Checkpoints older than this key share the weight without saying so.
    config.query_key_norm_by_shape = !keys.has("qk_norm_share_param_across_head");
    if (keys.flag("qk_norm_share_param_across_head", false)) config.query_key_norm = QueryKeyNorm::shared;
  }
  config.window_size = keys.integer("window_size", 1, std::numeric_limits<std::int32_t>::max(), 0);
  if (plain) return;
  config.key_shift = keys.flag("use_k_shift", false);
  config.value_shift = keys.flag("use_v_shift", false);
  config.output_norm = keys.flag("use_output_norm", false);
  const std::string activation = keys.word("ogate_act", "sigmoid");
  if (activation != "sigmoid" && activation != "silu") keys.fail("ogate_act", "\"sigmoid\" or \"silu\"");
  if (activation == "silu") config.output_gate_activation = OutputGateActivation::silu;
  if (keys.has("log_pruning_tolerance")) {
    constexpr double kLargest = std::numeric_limits<double>::max();
    config.log_pruning_tolerance = keys.number("log_pruning_tolerance", -kLargest, kLargest, 0);
  }
}

void read_fla(const Keys& keys, ModelConfig& config) {
  config.query_key_value_bias = keys.flag("qkv_bias", false);
  config.query_key_norm_by_shape = config.query_key_norm != QueryKeyNorm::none;
  if (keys.has("window_size")) {
    const std::int64_t window = keys.integer("window_size", 1, std::numeric_limits<std::int32_t>::max());
    config.notes.push_back(fmt::format(
        "config.json sets window_size {}, which the FLA library's forward does not apply: neither does this run",
        window));
  }
}

/// Programs that save a model note the path it was loaded from; run files, which hold the configuration, are published.
/// @returns whether there were any paths
bool drop_folders(nlohmann::json& value) {
  bool any = false;
  if (value.is_structured()) {
    for (nlohmann::json& part : value) any = drop_folders(part) || any;
  } else if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const bool path =
        text.starts_with('/') || text.starts_with("~/") || text.starts_with("./") || text.starts_with("../");
    // "/s" may be a token.
    if (!path || text.find('/', 1) == std::string::npos) return false;
    value = without_folder(text);
    any = true;
  }
  return any;
}

}  // namespace

ModelConfig ModelConfig::from_json(std::string_view content, std::string_view name) {
  check_json_depth(content, std::string(name));
  nlohmann::json object;
  try {
    object = nlohmann::json::parse(content);
  } catch (const nlohmann::json::exception&) {
    throw Error(fmt::format("{}: is not JSON: copy or download it again", name));
  }
  if (!object.is_object()) throw Error(fmt::format("{}: is not a JSON object: copy or download it again", name));
  const Keys keys(object, name);
  ModelConfig config;
  config.json = std::string(content);
  if (nlohmann::json shorter = object; drop_folders(shorter)) config.json = shorter.dump();
  if (!keys.has("model_type")) {
    throw Error(fmt::format("{}: model_type is missing; supported are {}", name, kSupported));
  }
  config.model_type = keys.word("model_type", "");
  config.dialect = read_dialect(config.model_type, name);
  read_sizes(keys, name, config);
  read_common(keys, config);
  if (config.dialect == Dialect::fla) {
    read_fla(keys, config);
  } else {
    read_project_fox(keys, config);
  }
  log_line(LogCategory::model, [&] {
    return fmt::format("{}: {}, {} layers, {} heads of {}, ignored keys: {}", name, config.model_type, config.layers,
                       config.heads, config.head_dim, keys.ignored());
  });
  return config;
}

}  // namespace foxscope

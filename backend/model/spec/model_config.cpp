#include "backend/model/spec/model_config.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "backend/base/command_line.h"
#include "backend/base/error.h"
#include "backend/base/log.h"
#include "backend/model/spec/config_keys.h"
#include "backend/model/spec/model_family.h"
#include "backend/text/json_reading.h"

namespace foxscope {
namespace {

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

/// Python's json module writes numbers that JSON does not have as bare words. They become what transformers 5 writes in
/// their place, {"__float__": "Infinity"}.
std::string without_bare_words(std::string_view content) {
  constexpr std::string_view kWords[] = {"-Infinity", "Infinity", "NaN"};
  std::string text;
  bool quoted = false;
  for (std::size_t at = 0; at < content.size(); ++at) {
    const char letter = content[at];
    if (!quoted) {
      const auto* const word =
          std::ranges::find_if(kWords, [&](std::string_view name) { return content.substr(at).starts_with(name); });
      if (word != std::end(kWords)) {
        text += fmt::format(R"({{"__float__": "{}"}})", *word);
        at += word->size() - 1;
        continue;
      }
    }
    text += letter;
    if (quoted && letter == '\\' && at + 1 < content.size()) text += content[++at];
    if (letter == '"') quoted = !quoted;
  }
  return text;
}

/// @param bytes  of the file
nlohmann::json parse_config(const std::string& content, std::string_view name, std::size_t bytes) {
  check_json_bounds(content, std::string(name), bytes);
  refuse_repeated_keys(content, std::string(name));
  nlohmann::json object;
  try {
    object = nlohmann::json::parse(content);
  } catch (const nlohmann::json::exception&) {
    throw Error(fmt::format("{}: is not JSON: copy or download it again", name));
  }
  if (!object.is_object()) throw Error(fmt::format("{}: is not a JSON object: copy or download it again", name));
  return object;
}

}  // namespace

ModelConfig ModelConfig::from_json(std::string_view content, std::string_view name, UnknownKeys unknown) {
  const std::string json = without_bare_words(content);
  const nlohmann::json object = parse_config(json, name, content.size());
  const ConfigKeys whole(object, name, {}, unknown);
  ModelConfig config;
  config.model_type = whole.word("model_type", "");
  const std::optional<nlohmann::json> text = text_model_of(whole, config);
  const ConfigKeys keys(text ? *text : object, name, text ? "text_config" : "", unknown);
  config.json = json;
  if (nlohmann::json shorter = object; drop_folders(shorter)) config.json = shorter.dump();
  config.family = &family_of(keys);
  config.name_prefix = config.family->name_prefix;
  config.head_name = config.family->head_name;
  config.family->read(keys, config);
  config.attention.resize(index_of(config.layers));
  log_line(LogCategory::model, [&] {
    return fmt::format("{}: {}, {} layers, {} heads of {}, ignored keys: {}", name, config.model_type, config.layers,
                       config.heads, config.head_dim, keys.ignored());
  });
  return config;
}

std::string sorted_config(std::string_view content, std::string_view name) {
  return parse_config(without_bare_words(content), name, content.size()).dump();
}

int ModelConfig::attention_layers() const {
  return mixers.empty() ? layers : static_cast<int>(std::ranges::count(mixers, Mixer::attention));
}

LayerMixer ModelConfig::layer(int index) const {
  if (!has_mixer(index)) return {.mixer = Mixer::none, .decay = Decay::none};
  const LinearMixer* const mixer = linear_at(index);
  if (mixer != nullptr) return mixer->layer();
  LayerMixer attention_of_layer = attention_layer(heads, key_heads, head_dim);
  attention_of_layer.sinks = sinks;
  attention_of_layer.path = path.has_value();
  return attention_of_layer;
}

bool ModelConfig::decays(int layer) const { return is_attention(layer) ? gated() : this->layer(layer).decays(); }

std::int64_t ModelConfig::state_size(int layer) const {
  const LinearMixer* const mixer = linear_at(layer);
  return mixer != nullptr ? mixer->state_size() : 0;
}

std::int64_t ModelConfig::carried_size(int layer) const {
  const LinearMixer* const mixer = linear_at(layer);
  return mixer != nullptr ? mixer->carried_size() : 0;
}

bool ModelConfig::is_hybrid() const {
  return std::ranges::any_of(mixers, [&](Mixer kind) { return kind != mixers.front(); });
}

void ModelConfig::use_rotary(const Rotary& rotary) {
  rotaries = {rotary};
  for (AttentionLayer& layer : attention) layer.rotary = 0;
}

void ModelConfig::use_window(std::int64_t window_size) {
  for (AttentionLayer& layer : attention) layer.window_size = window_size;
}

bool ModelConfig::turns_alike(std::int64_t length, std::int64_t other) const {
  return std::ranges::all_of(rotaries, [&](const Rotary& rotary) { return rotary.turns_alike(length, other); });
}

bool ModelConfig::turns_plainly() const {
  for (int layer = 0; layer < layers; ++layer) {
    if (!is_attention(layer)) continue;
    const Rotary* const rotary = rotary_at(layer);
    if (rotaries.empty() != (rotary == nullptr)) return false;
    if (rotary != nullptr && (rotaries.size() > 1 || !rotary->is_plain(head_dim))) return false;
  }
  return true;
}

int ModelConfig::widest_rotary() const {
  int widest = 0;
  for (const Rotary& rotary : rotaries) widest = std::max(widest, rotary.dim);
  return widest;
}

std::optional<std::int64_t> ModelConfig::common_window() const {
  std::optional<std::int64_t> common;
  for (int layer = 0; layer < layers; ++layer) {
    if (!is_attention(layer)) continue;
    const std::int64_t window = attention[index_of(layer)].window_size;
    if (common && *common != window) return std::nullopt;
    common = window;
  }
  return common.value_or(0);
}

}  // namespace foxscope

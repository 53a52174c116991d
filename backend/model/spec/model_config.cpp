#include "backend/model/spec/model_config.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
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
  const ConfigKeys keys(object, name, {}, unknown);
  ModelConfig config;
  config.json = json;
  if (nlohmann::json shorter = object; drop_folders(shorter)) config.json = shorter.dump();
  config.model_type = keys.word("model_type", "");
  config.family = &family_of(keys);
  config.name_prefix = config.family->name_prefix;
  config.family->read(keys, config);
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
  const LinearMixer* const mixer = linear_at(index);
  return mixer != nullptr ? mixer->layer() : attention_layer(heads, key_heads, head_dim);
}

bool ModelConfig::decays(int layer) const {
  const LinearMixer* const mixer = linear_at(layer);
  return mixer != nullptr ? mixer->layer().decays() : gated();
}

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

std::vector<double> rotary_frequencies(const ModelConfig& config) {
  std::vector<double> frequencies;
  const RopeScaling& scaling = config.rope_scaling;
  for (int n = 0; n < config.rotary_dim / 2; ++n) {
    double frequency = std::pow(config.rope_base, -2.0 * n / config.rotary_dim);
    if (scaling.kind == RopeScaling::Kind::linear) frequency /= scaling.factor;
    if (scaling.kind == RopeScaling::Kind::llama3) {
      // How often the pair turns in the length first trained on, from few turns (stretched) to many (left alone).
      const double turns = scaling.original_length * frequency / (2 * std::numbers::pi);
      const double share =
          (turns - scaling.low_frequency_factor) / (scaling.high_frequency_factor - scaling.low_frequency_factor);
      const double kept = std::clamp(share, 0.0, 1.0);
      frequency *= (1 - kept) / scaling.factor + kept;
    }
    frequencies.push_back(frequency);
  }
  return frequencies;
}

}  // namespace foxscope

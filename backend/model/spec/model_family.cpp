#include "backend/model/spec/model_family.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/nearest_name.h"
#include "backend/model/spec/families/fox.h"
#include "backend/model/spec/families/gemma.h"
#include "backend/model/spec/families/glm.h"
#include "backend/model/spec/families/gpt2.h"
#include "backend/model/spec/families/gpt_neox.h"
#include "backend/model/spec/families/gpt_oss.h"
#include "backend/model/spec/families/granite.h"
#include "backend/model/spec/families/kimi_linear.h"
#include "backend/model/spec/families/linear_attention.h"
#include "backend/model/spec/families/llama.h"
#include "backend/model/spec/families/mamba.h"
#include "backend/model/spec/families/mamba2.h"
#include "backend/model/spec/families/mamba2_hybrid.h"
#include "backend/model/spec/families/minimax.h"
#include "backend/model/spec/families/olmo.h"
#include "backend/model/spec/families/phi3.h"
#include "backend/model/spec/families/recurrent_gemma.h"
#include "backend/model/spec/families/rwkv7.h"
#include "backend/model/spec/families/zamba2.h"

namespace foxscope {
namespace {

using nlohmann::json;

const std::array kFamilies = {&family::kFox,
                              &family::kTransformer,
                              &family::kFlaFox,
                              &family::kPath,
                              &family::kGpt2,
                              &family::kGptNeox,
                              &family::kLlama,
                              &family::kMistral,
                              &family::kQwen2,
                              &family::kQwen3,
                              &family::kMixtral,
                              &family::kQwen3Moe,
                              &family::kOlmoe,
                              &family::kGptOss,
                              &family::kGranite,
                              &family::kGraniteMoe,
                              &family::kMinistral,
                              &family::kMinistral3,
                              &family::kSmolLm3,
                              &family::kPhi3,
                              &family::kGlm,
                              &family::kGlm4,
                              &family::kOlmo2,
                              &family::kOlmo3,
                              &family::kGemma2,
                              &family::kGemma3,
                              &family::kMamba2Baseline,
                              &family::kMamba2,
                              &family::kHgrn2Baseline,
                              &family::kHgrn2,
                              &family::kGla,
                              &family::kDeltaNetBaseline,
                              &family::kDeltaNet,
                              &family::kGatedDeltaNet,
                              &family::kRetNet,
                              &family::kLinearAttention,
                              &family::kKda,
                              &family::kComba,
                              &family::kGatedDeltaProduct,
                              &family::kRwkv7,
                              &family::kOlmoHybrid,
                              &family::kBamba,
                              &family::kGraniteHybrid,
                              &family::kNemotronH,
                              &family::kFalconH1,
                              &family::kZamba2,
                              &family::kRecurrentGemma,
                              &family::kKimiLinear,
                              &family::kMiniMax,
                              &family::kFalconMamba,
                              &family::kQwen3_5,
                              &family::kQwen3_5Moe,
                              &family::kQwen3Next,
                              &family::kSambaBaseline,
                              &family::kMamba};

const ModelFamily* find_family(std::string_view model_type) {
  const auto* const found = std::ranges::find(kFamilies, model_type, &ModelFamily::model_type);
  return found == kFamilies.end() ? nullptr : *found;
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  names.reserve(kFamilies.size());
  for (const ModelFamily* family : kFamilies) names.emplace_back(family->model_type);
  return names;
}

constexpr const char* kWhichAreRead = "foxscope info --supported lists those that are read";

/// Whether a family's reader finds all that it needs and no key that it does not know.
bool knows_all_keys(const ModelFamily& family, const ConfigKeys& keys) {
  const ConfigKeys own = keys;  // a reader notes what it asked for
  ModelConfig trial;
  trial.family = &family;
  try {
    family.read(own, trial);
  } catch (const Error&) {
    return false;
  }
  return true;
}

/// A model of text and pictures, and the language model of one that does not name it.
struct Wrapper {
  std::string_view model_type;
  std::string_view text_type;
};
constexpr Wrapper kWrappers[] = {{"qwen3_5", "qwen3_5_text"},
                                 {"qwen3_5_moe", "qwen3_5_moe_text"},
                                 {"mistral3", "mistral"},
                                 {"gemma3", "gemma3_text"}};

/// Parts of such models that make numbers out of something else than text.
constexpr std::pair<const char*, const char*> kTowers[] = {
    {"visual.", "vision tower"},       {"vision_tower.", "vision tower"},
    {"vision_model.", "vision tower"}, {"multi_modal_projector.", "projector of pictures"},
    {"audio_tower.", "audio tower"},   {"mtp.", "multi-token prediction"},
};

/// Keys of the whole that say something of towers, of tokens that stand for pictures, or nothing.
constexpr auto kOfTowers =
    std::to_array<std::string_view>({"vision_*", "image_*", "video_*", "audio_*", "mm_*", "boi_*", "eoi_*", "boa_*",
                                     "eoa_*", "projector_*", "multimodal_*", "spatial_merge_size"});

/// The words of model_types that are read, models of text and pictures included.
std::vector<std::string> readable_names() {
  std::vector<std::string> names = family_names();
  for (const Wrapper& wrapper : kWrappers) names.emplace_back(wrapper.model_type);
  return names;
}

/// " (the nearest is llama, which knows all its keys)", by the name, or by the keys; empty: none is near.
std::string nearest_family(const std::string& model_type, const ConfigKeys& keys) {
  if (const auto nearest = nearest_name(model_type, readable_names())) {
    const ModelFamily* const family = find_family(*nearest);
    const bool same = family != nullptr && knows_all_keys(*family, keys);
    return fmt::format(" (the nearest is {}{})", *nearest, same ? ", which knows all its keys" : "");
  }
  const auto* const alike =
      std::ranges::find_if(kFamilies, [&](const ModelFamily* family) { return knows_all_keys(*family, keys); });
  return alike == kFamilies.end() ? "" : fmt::format(" (its keys are those of {})", (*alike)->model_type);
}

}  // namespace

const ModelFamily& family_of(const ConfigKeys& keys) {
  const std::string model_type = keys.word("model_type", "");
  if (const ModelFamily* family = find_family(model_type)) return *family;
  if (model_type.empty()) throw Error(fmt::format("{}: model_type is missing: {}", keys.file(), kWhichAreRead));
  for (const std::string_view other : {"samba", "jamba"}) {
    if (model_type != other) continue;
    throw Error(
        fmt::format("{}: model_type {} has layers of the first Mamba, but differs from the Samba and the Mamba that "
                    "Foxscope runs: {}",
                    keys.file(), model_type, kWhichAreRead));
  }
  const std::string name = json(model_type.substr(0, 60)).dump(-1, ' ', true, json::error_handler_t::replace);
  throw Error(
      fmt::format("{}: model_type {} is not known{}: {}, CONTRIBUTING.md (A family of models) says how to add one",
                  keys.file(), name, nearest_family(model_type, keys), kWhichAreRead));
}

std::vector<SupportedModel> supported_models() {
  std::vector<SupportedModel> models;
  for (const ModelFamily* family : kFamilies) models.push_back({family->model_type, family->title, {}});
  for (const Wrapper& wrapper : kWrappers) {
    models.push_back({wrapper.model_type, find_family(wrapper.text_type)->title, wrapper.text_type});
  }
  return models;
}

std::optional<json> text_model_of(const ConfigKeys& whole, ModelConfig& config) {
  const auto* const wrapper = std::ranges::find(kWrappers, config.model_type, &Wrapper::model_type);
  if (wrapper == std::end(kWrappers)) return std::nullopt;
  static_cast<void>(whole.under("text_config"));  // refuses what is no object
  json text = whole.value("text_config");
  if (!text.contains("model_type")) text["model_type"] = std::string(wrapper->text_type);
  // The whole decides whether the head is the embedding, where it says anything of that.
  config.tied_by_tensor = !text.contains("tie_word_embeddings") && !whole.has("tie_word_embeddings");
  if (whole.has("tie_word_embeddings")) text["tie_word_embeddings"] = whole.value("tie_word_embeddings");
  if (whole.has("bos_token_id") && !text.contains("bos_token_id")) text["bos_token_id"] = whole.value("bos_token_id");
  std::vector<std::string_view> harmless(kOfTowers.begin(), kOfTowers.end());
  harmless.insert(harmless.end(), family::harmless_keys().begin(), family::harmless_keys().end());
  whole.refuse_others(harmless);
  for (const auto& [name, words] : kTowers) {
    for (const char* const before : {"model.", ""}) config.unread.push_back({std::string(before) + name, words});
  }
  return text;
}

namespace family {
namespace {

constexpr double kMostStretched = 1e6;
constexpr double kLongest = 1e12;

/// The length that a model was first trained on, by the key of that name, or else by the length it is made for.
double read_original_length(const ConfigKeys& keys, const ConfigKeys& whole) {
  constexpr const char* kOriginal = "original_max_position_embeddings";
  if (keys.has(kOriginal)) return keys.number(kOriginal, 1, kLongest);
  if (whole.has(kOriginal)) return whole.number(kOriginal, 1, kLongest);
  if (!whole.has("max_position_embeddings")) keys.fail(kOriginal, fmt::format("a number from 1 to {}", kLongest));
  return whole.number("max_position_embeddings", 1, kLongest);
}

/// 0.1 m ln(s) + 1, which logits of a text that is s times as long are sharpened by (Peng et al. 2023, eq. 22).
double yarn_magnitude(double factor, double m) { return factor <= 1 ? 1 : 0.1 * m * std::log(factor) + 1; }

void read_yarn(const ConfigKeys& keys, const ConfigKeys& whole, Rotary& rotary) {
  RopeScaling& scaling = rotary.scaling;
  scaling.kind = RopeScaling::Kind::yarn;
  scaling.original_length = read_original_length(keys, whole);
  scaling.beta_fast = keys.number("beta_fast", 1e-6, kMostStretched, 32);
  scaling.beta_slow = keys.number("beta_slow", 1e-6, kMostStretched, 1);
  scaling.truncate = keys.flag_or_null("truncate", true);
  scaling.factor = keys.number("factor", 1, kMostStretched);
  if (rotary.base <= 1) keys.fail("rope_theta", "above 1 where the embedding is stretched by yarn");
  const double magnitude = keys.number("mscale", 0, kMostStretched, 0);
  const double of_all = keys.number("mscale_all_dim", 0, kMostStretched, 0);
  rotary.factor = magnitude > 0 && of_all > 0
                      ? yarn_magnitude(scaling.factor, magnitude) / yarn_magnitude(scaling.factor, of_all)
                      : yarn_magnitude(scaling.factor, 1);
  rotary.factor = keys.number("attention_factor", 1e-6, kMostStretched, rotary.factor);
}

/// Each pair's frequency is divided by one of these.
std::vector<double> read_pair_factors(const ConfigKeys& keys, const char* key, int pairs) {
  const json& list = keys.value(key);
  const auto sound = [](const json& value) {
    return value.is_number() && value.get<double>() > 0 && value.get<double>() <= kMostStretched;
  };
  if (!list.is_array() || std::ssize(list) != pairs || !std::all_of(list.begin(), list.end(), sound)) {
    keys.fail(key, fmt::format("a list of {} numbers above 0, one for each pair that turns", pairs));
  }
  return list.get<std::vector<double>>();
}

void read_longrope(const ConfigKeys& keys, const ConfigKeys& whole, Rotary& rotary) {
  RopeScaling& scaling = rotary.scaling;
  scaling.kind = RopeScaling::Kind::longrope;
  scaling.short_factors = read_pair_factors(keys, "short_factor", rotary.dim / 2);
  scaling.long_factors = read_pair_factors(keys, "long_factor", rotary.dim / 2);
  scaling.original_length = read_original_length(keys, whole);
  // As transformers has it: the factor, and without one the lengths that the model is made for.
  const double stretch = keys.has("factor")
                             ? keys.number("factor", 1e-6, kMostStretched)
                             : whole.number("max_position_embeddings", 1, kLongest) / scaling.original_length;
  if (scaling.original_length > 1 && stretch > 1) {
    rotary.factor = std::sqrt(1 + std::log(stretch) / std::log(scaling.original_length));
  }
  rotary.factor = keys.number("attention_factor", 1e-6, kMostStretched, rotary.factor);
}

/// How a text is stretched: type and factors in one object. Older files call the type `type`, some say both.
/// @param whole   of the model
/// @param rotary  whose base and dim are known
void read_scaling(const ConfigKeys& keys, const ConfigKeys& whole, Rotary& rotary) {
  const std::string older = keys.word("type", "default");
  const std::string type = keys.word("rope_type", older);
  if (keys.has("type") && older != type) keys.fail("type", "what rope_type says");
  RopeScaling& scaling = rotary.scaling;
  if (type == "default") return;
  if (type == "yarn") return read_yarn(keys, whole, rotary);
  if (type == "longrope") return read_longrope(keys, whole, rotary);
  if (type == "linear") {
    scaling.kind = RopeScaling::Kind::linear;
  } else if (type == "dynamic") {
    scaling.kind = RopeScaling::Kind::dynamic;
    if (rotary.dim <= 2) keys.fail(keys.has("rope_type") ? "rope_type" : "type", "another where one pair turns");
    // transformers takes the length that the model is made for, whatever the original length says.
    static_cast<void>(keys.has("original_max_position_embeddings"));
    if (!whole.has("max_position_embeddings")) whole.fail("max_position_embeddings", "there");
    scaling.original_length = whole.number("max_position_embeddings", 1, kLongest);
  } else if (type == "llama3") {
    scaling.kind = RopeScaling::Kind::llama3;
    scaling.low_frequency_factor = keys.number("low_freq_factor", 1e-6, kMostStretched);
    scaling.high_frequency_factor = keys.number("high_freq_factor", 1e-6, kMostStretched);
    if (scaling.high_frequency_factor <= scaling.low_frequency_factor) {
      keys.fail("high_freq_factor", "above low_freq_factor");
    }
    scaling.original_length = read_original_length(keys, whole);
  } else {
    keys.refuse(keys.has("rope_type") ? "rope_type" : "type",
                R"("default", "linear", "dynamic", "llama3", "yarn" and "longrope")");
  }
  scaling.factor = keys.number("factor", 1, kMostStretched);
}

/// How many numbers of a head turn, which must be pairs.
/// @param key  that it hangs on
int rotary_dim_of(const ConfigKeys& keys, const char* key, double fraction, int head_dim) {
  const int turning = static_cast<int>(head_dim * fraction);
  if (turning < 2 || turning % 2 != 0) {
    keys.fail(key, fmt::format("such that an even number of a head's {} numbers turn (rotary embedding), and {} would",
                               head_dim, turning));
  }
  return turning;
}

/// Notes, for a family whose heads turn whole, that rope_parameters says that a part turns.
void note_whole_heads(const ConfigKeys& rope, const Rotary& rotary, double part, ModelConfig& config) {
  if (rotary.scaling.kind != RopeScaling::Kind::none) {
    rope.refuse("partial_rotary_factor", "1 where the embedding is stretched, as transformers does");
  }
  config.notes.push_back(
      fmt::format("config.json sets rope_parameters.partial_rotary_factor {}, which transformers' {} does not apply: "
                  "heads turn whole here too",
                  part, config.family->title));
}

constexpr double kLargestBase = 1e15;
constexpr double kLeastFraction = 1e-6;
constexpr const char* kFraction = "partial_rotary_factor";
constexpr const char* kOfWindowed = "sliding_attention";

/// The part of a head that turns where the object of the embedding does not say it, and the key that it hangs on.
struct TurningPart {
  TurningPart(const ConfigKeys& keys, const RotaryKeys& names) : fraction(names.otherwise.value_or(1)) {
    key = names.fraction;
    if (key != nullptr) {
      fraction = keys.number(key, kLeastFraction, 1, fraction);
    } else {
      key = keys.has("head_dim") ? "head_dim" : "num_attention_heads";
    }
  }
  double fraction;
  const char* key;
};

/// A rotary embedding by an object that says all of it.
/// @param rotary  what it is where the object does not say
Rotary read_rope(const ConfigKeys& rope, const ConfigKeys& whole, const RotaryKeys& names, Rotary rotary,
                 ModelConfig& config) {
  const TurningPart turning(whole, names);
  rotary.base = rope.number("rope_theta", 1, kLargestBase, rotary.base);
  const double part = rope.number(kFraction, kLeastFraction, 1, turning.fraction);
  const bool said = names.otherwise && rope.has(kFraction);
  rotary.dim = said ? rotary_dim_of(rope, kFraction, part, config.head_dim)
                    : rotary_dim_of(whole, turning.key, turning.fraction, config.head_dim);
  read_scaling(rope, whole, rotary);
  if (!names.otherwise && part < 1) note_whole_heads(rope, rotary, part, config);
  if (rope.has("llama_4_scaling_beta")) {
    rotary.query_growth = rope.number("llama_4_scaling_beta", 0, kMostStretched);
    rotary.growth_length = read_original_length(rope, whole);
    static_cast<void>(rope.has("max_position_embeddings"));  // transformers writes it here too, and reads the other
  }
  // Keys about pictures; a text's positions are the same on all axes.
  static_cast<void>(rope.has("mrope_section"));
  static_cast<void>(rope.has("mrope_interleaved"));
  rope.refuse_others({});
  return rotary;
}

/// The embedding of layers without a window, where rope_parameters holds an object for each kind of layer.
Rotary read_rope_of_full(const ConfigKeys& keys, const RotaryKeys& names, const Rotary& otherwise,
                         ModelConfig& config) {
  constexpr const char* kOfFull = "full_attention";
  const ConfigKeys kinds = keys.under("rope_parameters");
  const bool of_windowed = kinds.has(kOfWindowed);  // read_windowed_rotary reads it
  if (!kinds.has(kOfFull) && !of_windowed && !keys.value("rope_parameters").empty()) {
    keys.fail("rope_parameters", fmt::format("an object for each kind of layer, {} and {}", kOfFull, kOfWindowed));
  }
  kinds.refuse_others({});
  return kinds.has(kOfFull) ? read_rope(kinds.under(kOfFull), keys, names, otherwise, config) : otherwise;
}

}  // namespace

void read_sizes(const ConfigKeys& keys, const SizeKeys& names, ModelConfig& config) {
  config.vocabulary_size = keys.integer("vocab_size", 1, kMaxVocabulary);
  config.hidden_size = keys.integer(names.hidden, 1, kMaxHidden);
  if (names.layers != nullptr) config.layers = static_cast<int>(keys.integer(names.layers, 1, kMaxLayers));
  config.attention.assign(static_cast<std::size_t>(config.layers), {});
  config.heads = static_cast<int>(names.heads_otherwise == 0
                                      ? keys.integer(names.heads, 1, config.hidden_size)
                                      : keys.integer(names.heads, 1, config.hidden_size, names.heads_otherwise));
  config.key_heads = config.heads;
  if (names.key_heads != nullptr) {
    const int otherwise = names.key_heads_otherwise == 0 ? config.heads : names.key_heads_otherwise;
    config.key_heads = static_cast<int>(keys.integer(names.key_heads, 1, config.heads, otherwise));
    if (config.heads % config.key_heads != 0) {
      keys.fail(names.key_heads, fmt::format("such that it divides {} {}", names.heads, config.heads));
    }
  }
  if (names.head_dim != nullptr && (names.head_dim_otherwise != 0 || keys.has(names.head_dim))) {
    config.head_dim = static_cast<int>(keys.integer(names.head_dim, 1, kMaxHeadDim, names.head_dim_otherwise));
    return;
  }
  if (config.hidden_size % config.heads != 0) {
    keys.fail(names.heads, fmt::format("such that it divides {} {}", names.hidden, config.hidden_size));
  }
  if (config.hidden_size / config.heads > kMaxHeadDim) {
    keys.fail(names.heads, fmt::format("such that heads of {} {} have at most {} numbers", names.hidden,
                                       config.hidden_size, kMaxHeadDim));
  }
  config.head_dim = static_cast<int>(config.hidden_size / config.heads);
}

void read_swiglu_width(const ConfigKeys& keys, ModelConfig& config, double otherwise) {
  constexpr std::int64_t kMultiple = 256;
  const double ratio = keys.number("hidden_ratio", 1e-3, 1e3, otherwise);
  const auto wanted = static_cast<std::int64_t>(static_cast<double>(config.hidden_size) * ratio * 2 / 3);
  const std::int64_t rounded = (wanted + kMultiple - 1) / kMultiple * kMultiple;
  config.intermediate_size = keys.integer("intermediate_size", 1, kMaxIntermediate, rounded);
  if (config.intermediate_size < 1 || config.intermediate_size > kMaxIntermediate) {
    keys.fail("hidden_ratio", fmt::format("such that the MLP has 1 to {} units with hidden_size {}", kMaxIntermediate,
                                          config.hidden_size));
  }
}

void read_bos(const ConfigKeys& keys, ModelConfig& config) {
  if (!keys.has("bos_token_id")) return;
  config.bos_token_id = static_cast<std::int32_t>(keys.integer("bos_token_id", 0, config.vocabulary_size - 1));
}

void read_rotary(const ConfigKeys& keys, const RotaryKeys& names, ModelConfig& config) {
  const TurningPart turning(keys, names);
  Rotary rotary;
  rotary.base = keys.number(names.base, 1, kLargestBase, names.base_otherwise);
  if (keys.has("rope_parameters") && !names.by_kind) {
    config.use_rotary(read_rope(keys.under("rope_parameters"), keys, names, rotary, config));
    return;
  }
  rotary.dim = rotary_dim_of(keys, turning.key, turning.fraction, config.head_dim);
  if (keys.has("rope_parameters")) {
    config.use_rotary(read_rope_of_full(keys, names, rotary, config));
    return;
  }
  if (keys.has("rope_scaling")) {
    const ConfigKeys scaling = keys.under("rope_scaling");
    read_scaling(scaling, keys, rotary);
    scaling.refuse_others({});
  }
  config.use_rotary(rotary);
}

void read_windowed_rotary(const ConfigKeys& keys, double base, ModelConfig& config) {
  Rotary windowed{.base = base, .dim = config.rotaries.front().dim};
  if (keys.has("rope_parameters") && keys.under("rope_parameters").has(kOfWindowed)) {
    windowed = read_rope(keys.under("rope_parameters").under(kOfWindowed), keys, {.otherwise = {}}, windowed, config);
  }
  if (windowed == config.rotaries.front()) return;
  config.rotaries.push_back(windowed);
  for (AttentionLayer& layer : config.attention) layer.rotary = layer.window_size > 0 ? 1 : 0;
}

std::int64_t read_window(const ConfigKeys& keys, std::int64_t otherwise) {
  constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();
  return keys.is_null("sliding_window") ? 0 : keys.integer("sliding_window", 1, kLargest, otherwise);
}

void read_windows(const ConfigKeys& keys, std::int64_t window, const std::function<bool(int layer)>& slides,
                  ModelConfig& config) {
  const bool said = keys.has("layer_types");
  if (said) {
    const json& types = keys.value("layer_types");
    const auto known = [](const json& type) {
      return type == "full_attention" || type == "attention" || type == "sliding_attention";
    };
    if (!types.is_array() || std::ssize(types) != config.layers || !std::all_of(types.begin(), types.end(), known)) {
      keys.fail("layer_types",
                fmt::format("\"full_attention\" or \"sliding_attention\" for each of {} layers", config.layers));
    }
  }
  for (int layer = 0; layer < config.layers; ++layer) {
    const bool slid = said ? keys.value("layer_types")[index_of(layer)] == "sliding_attention" : slides(layer);
    if (!slid) continue;
    if (window == 0 && said) {
      keys.fail("layer_types", "\"full_attention\" for every layer of a model that uses no window");
    }
    config.attention[index_of(layer)].window_size = window;
  }
}

std::optional<std::vector<Mixer>> read_mixer_words(const ConfigKeys& keys, const char* key, Mixer linear, int layers) {
  if (!keys.has(key)) return std::nullopt;
  const json& words = keys.value(key);
  std::vector<Mixer> mixers;
  for (const json& word : words) {
    if (word == "full_attention" || word == "attention") mixers.push_back(Mixer::attention);
    if (word == "linear_attention" || word == "mamba") mixers.push_back(linear);
  }
  if (!words.is_array() || std::ssize(words) != layers || std::ssize(mixers) != layers) {
    keys.fail(key, fmt::format("\"full_attention\" or \"linear_attention\" for each of {} layers", layers));
  }
  return mixers;
}

void read_gelu(const ConfigKeys& keys, const char* key, const char* otherwise, ModelConfig& config) {
  const std::string activation = keys.word(key, otherwise);
  if (activation == "gelu") {
    config.mlp = MlpKind::gelu;
  } else if (activation == "gelu_new" || activation == "gelu_fast" || activation == "gelu_pytorch_tanh") {
    config.mlp = MlpKind::gelu_tanh;
  } else {
    keys.refuse(key, "\"gelu\", \"gelu_new\", \"gelu_fast\" and \"gelu_pytorch_tanh\"");
  }
}

std::span<const std::string_view> harmless_keys() {
  // Keys about training, generation and the file, not about a forward pass.
  // clang-format off
  static constexpr std::string_view kHarmless[] = {
      "_name_or_path", "_commit_hash", "architectures", "transformers_version", "model_type", "dtype", "torch_dtype",
      "use_cache", "use_return_dict", "return_dict*", "output_attentions", "output_hidden_states",
      "initializer_range", "eos_token_id", "pad_token_id", "sep_token_id", "decoder_start_token_id", "unk_token_id",
      "mask_token_id", "max_position_embeddings", "n_ctx", "attention_dropout", "hidden_dropout", "resid_pdrop",
      "embd_pdrop", "attn_pdrop", "classifier_dropout", "summary_*", "task_specific_params",
      "gradient_checkpointing", "id2label", "label2id", "num_labels", "problem_type", "finetuning_task",
      "tokenizer_class", "prefix", "max_length", "do_sample", "temperature", "top_k", "top_p", "repetition_penalty",
      "chunk_size_feed_forward", "_attn_implementation*", "_num_labels", "num_beams", "num_beam_groups",
      "num_return_sequences", "length_penalty", "typical_p", "output_past", "predict_special_tokens",
      "max_sequence_length", "is_llama_config", "transformers.js_config", "unsloth_*"};
  // clang-format on
  return kHarmless;
}

}  // namespace family
}  // namespace foxscope

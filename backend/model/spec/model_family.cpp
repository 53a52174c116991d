#include "backend/model/spec/model_family.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/base/nearest_name.h"
#include "backend/model/spec/families/fox.h"
#include "backend/model/spec/families/gpt2.h"
#include "backend/model/spec/families/gpt_neox.h"
#include "backend/model/spec/families/linear_attention.h"
#include "backend/model/spec/families/llama.h"
#include "backend/model/spec/families/mamba.h"
#include "backend/model/spec/families/mamba2.h"

namespace foxscope {
namespace {

using nlohmann::json;

const std::array kFamilies = {
    &family::kFox,      &family::kTransformer,   &family::kFlaFox,  &family::kGpt2,      &family::kGptNeox,
    &family::kLlama,    &family::kMistral,       &family::kQwen2,   &family::kQwen3,     &family::kMamba2Baseline,
    &family::kMamba2,   &family::kHgrn2Baseline, &family::kHgrn2,   &family::kGla,       &family::kDeltaNetBaseline,
    &family::kDeltaNet, &family::kGatedDeltaNet, &family::kQwen3_5, &family::kQwen3Next, &family::kSambaBaseline,
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

std::string supported_types() { return fmt::format("supported are {}", fmt::join(family_names(), ", ")); }

/// Models of text and pictures hold their language model under text_config.
void refuse_wrapped(const ConfigKeys& keys, const std::string& model_type) {
  if (!keys.has("text_config") || !keys.value("text_config").is_object()) return;
  const std::string inner = keys.under("text_config").word("model_type", "");
  if (find_family(inner) == nullptr) return;
  throw Error(fmt::format(
      "{}: model_type {} is read without its pictures alone, as the {} under text_config: save that object as the "
      "config.json of a folder of its own, beside its tensors with \"model.language_model.\" renamed to \"model.\" "
      "(lm_head stays, model.visual goes), and open that folder",
      keys.file(), model_type, inner));
}

}  // namespace

const ModelFamily& family_of(const ConfigKeys& keys) {
  const std::string model_type = keys.word("model_type", "");
  if (const ModelFamily* family = find_family(model_type)) return *family;
  if (model_type.empty()) throw Error(fmt::format("{}: model_type is missing; {}", keys.file(), supported_types()));
  for (const std::string_view other : {"samba", "falcon_mamba", "jamba"}) {
    if (model_type != other) continue;
    throw Error(
        fmt::format("{}: model_type {} has layers of the first Mamba, but differs from the Samba and the Mamba that "
                    "Foxscope runs; {}",
                    keys.file(), model_type, supported_types()));
  }
  const std::string name = json(model_type.substr(0, 60)).dump(-1, ' ', true, json::error_handler_t::replace);
  refuse_wrapped(keys, name);
  const std::vector<std::string> known = family_names();
  const auto nearest = nearest_name(model_type, known);
  throw Error(
      fmt::format("{}: model_type {} is not known{}; {}; how another is added stands in CONTRIBUTING.md, A family "
                  "of models",
                  keys.file(), name, nearest ? fmt::format(" (the nearest is {})", *nearest) : "", supported_types()));
}

namespace family {
namespace {

/// How a text is stretched: type and factors in one object. Older files call the type `type`, some say both.
RopeScaling read_scaling(const ConfigKeys& keys) {
  const std::string older = keys.word("type", "default");
  const std::string type = keys.word("rope_type", older);
  if (keys.has("type") && older != type) keys.fail("type", "what rope_type says");
  RopeScaling scaling;
  if (type == "default") return scaling;
  constexpr double kMost = 1e6;
  if (type == "linear") {
    scaling.kind = RopeScaling::Kind::linear;
  } else if (type == "llama3") {
    scaling.kind = RopeScaling::Kind::llama3;
    scaling.low_frequency_factor = keys.number("low_freq_factor", 1e-6, kMost);
    scaling.high_frequency_factor = keys.number("high_freq_factor", 1e-6, kMost);
    if (scaling.high_frequency_factor <= scaling.low_frequency_factor) {
      keys.fail("high_freq_factor", "above low_freq_factor");
    }
    scaling.original_length = keys.number("original_max_position_embeddings", 1, 1e12);
  } else {
    keys.refuse(keys.has("rope_type") ? "rope_type" : "type", "\"default\", \"linear\" and \"llama3\"");
  }
  scaling.factor = keys.number("factor", 1, kMost);
  return scaling;
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
void note_whole_heads(const ConfigKeys& rope, double part, ModelConfig& config) {
  if (config.rope_scaling.kind != RopeScaling::Kind::none) {
    rope.refuse("partial_rotary_factor", "1 where the embedding is stretched, as transformers does");
  }
  config.notes.push_back(
      fmt::format("config.json sets rope_parameters.partial_rotary_factor {}, which transformers' {} does not apply: "
                  "heads turn whole here too",
                  part, config.family->title));
}

}  // namespace

void read_sizes(const ConfigKeys& keys, const SizeKeys& names, ModelConfig& config) {
  config.vocabulary_size = keys.integer("vocab_size", 1, kMaxVocabulary);
  config.hidden_size = keys.integer(names.hidden, 1, kMaxHidden);
  config.layers = static_cast<int>(keys.integer(names.layers, 1, kMaxLayers));
  config.heads = static_cast<int>(keys.integer(names.heads, 1, config.hidden_size));
  config.key_heads = config.heads;
  if (names.key_heads != nullptr) {
    config.key_heads = static_cast<int>(keys.integer(names.key_heads, 1, config.heads, config.heads));
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

void read_swiglu_width(const ConfigKeys& keys, ModelConfig& config) {
  constexpr std::int64_t kMultiple = 256;
  const double ratio = keys.number("hidden_ratio", 1e-3, 1e3, 4.0);
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
  constexpr double kLargestBase = 1e15;
  constexpr double kLeast = 1e-6;
  constexpr const char* kFraction = "partial_rotary_factor";
  config.rope = true;
  config.rope_base = keys.number(names.base, 1, kLargestBase, 10000);
  double fraction = names.otherwise.value_or(1);
  if (names.fraction != nullptr) fraction = keys.number(names.fraction, kLeast, 1, fraction);
  if (keys.has("rope_parameters")) {
    const ConfigKeys rope = keys.under("rope_parameters");
    config.rope_base = rope.number("rope_theta", 1, kLargestBase, config.rope_base);
    config.rope_scaling = read_scaling(rope);
    const double part = rope.number(kFraction, kLeast, 1, fraction);
    if (names.otherwise) {
      fraction = part;
      if (rope.has(kFraction)) config.rotary_dim = rotary_dim_of(rope, kFraction, fraction, config.head_dim);
    } else if (part < 1) {
      note_whole_heads(rope, part, config);
    }
    // Keys about pictures; a text's positions are the same on all axes.
    static_cast<void>(rope.has("mrope_section"));
    static_cast<void>(rope.has("mrope_interleaved"));
    rope.refuse_others({});
  } else if (keys.has("rope_scaling")) {
    const ConfigKeys scaling = keys.under("rope_scaling");
    config.rope_scaling = read_scaling(scaling);
    scaling.refuse_others({});
  }
  if (config.rotary_dim > 0) return;
  const char* key = names.fraction;
  if (key == nullptr) key = keys.has("head_dim") ? "head_dim" : "num_attention_heads";
  config.rotary_dim = rotary_dim_of(keys, key, fraction, config.head_dim);
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

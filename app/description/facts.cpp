#include "app/description/facts.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include <fmt/format.h>

#include "app/description/model_description.h"
#include "app/description/number_text.h"
#include "backend/base/count_text.h"
#include "backend/base/index.h"
#include "backend/base/number_ranges.h"
#include "backend/base/plural.h"
#include "backend/eval/experts/expert_table.h"

namespace foxscope {
namespace {

using Json = nlohmann::ordered_json;

const char* nameOf(TensorDType dtype) {
  switch (dtype) {
    case TensorDType::f64:
      return "float64";
    case TensorDType::f32:
      return "float32";
    case TensorDType::f16:
      return "float16";
    case TensorDType::bf16:
      return "bfloat16";
    case TensorDType::i64:
      return "int64";
    case TensorDType::i32:
      return "int32";
    case TensorDType::u8:
      return "uint8";
    case TensorDType::boolean:
      return "boolean";
  }
  return "unknown";
}

/// A number, a word, yes or no; of a list each.
std::string valueText(const Json& value) {
  if (value.is_array()) {
    std::string texts;
    for (const Json& one : value) texts += (texts.empty() ? "" : ", ") + valueText(one);
    return texts;
  }
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_float()) return fmt::format("{}", value.get<double>());
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// Whether whatever mixes positions is softmax attention.
bool isOfAttentionAlone(const TraceInfo& info) {
  return std::ranges::all_of(info.mixers,
                             [](const LayerMixer& mixer) { return mixer.has_softmax() || !mixer.kind().mixes; });
}

std::string layersText(const std::vector<int>& layers) {
  return fmt::format("{} {}", plural(std::ssize(layers), "layer"), ranges_text(layers));
}

/// "20 tokens in layers 0, 2": the layers of each window; "20 tokens" of all.
std::string windowsText(const Json& windows) {
  if (!windows.is_array()) return windows == 0 ? "none" : fmt::format("{} tokens", windows.get<std::int64_t>());
  std::map<std::int64_t, std::vector<int>> layers;
  for (std::size_t layer = 0; layer < windows.size(); ++layer) {
    if (windows[layer] != 0) layers[windows[layer]].push_back(static_cast<int>(layer));
  }
  std::string text;
  for (const auto& [window, those] : layers) {
    text += fmt::format("{}{} tokens in {}", text.empty() ? "" : ", ", window, layersText(those));
  }
  return text;
}

/// Describes an option for people. The text is empty where the model has no such part.
std::string optionText(const ConfigOption& option) {
  const Json& value = option.value;
  if (option.key == "bos_token_id" && value.is_null()) return "none: --bos gives one";
  if (value.is_null()) return {};
  if (option.key == "window_size") return windowsText(value);
  if (option.key == "rope" && value.is_array()) return layersText(value.get<std::vector<int>>());
  const bool size = option.key == "learned_positions" || option.key == "shared_expert_size";
  return size && value == 0 ? std::string() : valueText(value);
}

}  // namespace

std::string dtypesOf(const Checkpoint& checkpoint) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : checkpoint.tensors()) names.insert(nameOf(tensor.dtype));
  std::string joined;
  for (const std::string& name : names) joined += (joined.empty() ? "" : ", ") + name;
  return joined;
}

std::string tokenizerOf(const Checkpoint& checkpoint) {
  const auto has = [&](const char* file) { return std::filesystem::exists(checkpoint.folder() / file); };
  if (has("tokenizer.json")) return "tokenizer.json";
  if (has("vocab.json") && has("merges.txt")) return "vocab.json, merges.txt";
  return "";
}

Facts checkpointFacts(const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  Facts facts = {
      {"model", fmt::format("{} ({})", modelTitle(config), config.model_type)},
      {"parameters", fmt::format("{} in {}", count_text(checkpoint.parameter_count()), dtypesOf(checkpoint))}};
  for (const ConfigOption& option : configOptions(config)) {
    if (std::string text = optionText(option); !text.empty()) facts.emplace_back(option.label, std::move(text));
  }
  const std::string tokenizer = tokenizerOf(checkpoint);
  facts.emplace_back("tokenizer", tokenizer.empty() ? "none: only --ids can be run" : tokenizer);
  for (const auto& file : checkpoint.weight_files()) {
    facts.emplace_back("weights", fmt::format("{}, {}", file.filename().string(),
                                              sizeText(static_cast<double>(std::filesystem::file_size(file)))));
  }
  for (const auto& [prefix, words, tensors] : checkpoint.unread()) {
    facts.emplace_back("not run", fmt::format("{}, {} tensors under {}", words, tensors, prefix));
  }
  for (const std::string& note : config.notes) facts.emplace_back("note", note);
  return facts;
}

std::vector<std::string> keptWords(const Trace& trace) {
  std::vector<std::string> words;
  for (const KeepWord& word : kKeepWords) {
    // Layers of several kinds have arrays of their own.
    const auto has = [&](const ArraySpec& spec) {
      bool any = false;
      for (int index = 0; index < count_of(spec, trace.info().layers); ++index)
        any = any || trace.has(spec.array, index);
      return any;
    };
    const bool kept =
        std::ranges::any_of(kTraceArrays, [&](const ArraySpec& spec) { return spec.keep == word.keep && has(spec); });
    if (kept) words.emplace_back(word.word);
  }
  return words;
}

std::optional<double> meanOf(std::span<const float> losses) {
  if (losses.empty()) return std::nullopt;
  double sum = 0;
  for (const float loss : losses) sum += loss;
  return sum / static_cast<double>(losses.size());
}

/// "2 a token in 48 layers, 128 of them in use": experts of all layers that any position reads.
std::string expertsFact(const Trace& trace) {
  const TraceInfo& info = trace.info();
  const std::vector<std::int32_t> experts = trace.source().copy<std::int32_t>(TraceArray::expert);
  const std::size_t size = experts.size() / static_cast<std::size_t>(info.layers);
  std::set<std::int32_t> used;
  int layers = 0;
  for (std::size_t first = 0; first < experts.size(); first += size) {
    layers += experts[first] >= 0 ? 1 : 0;
    for (std::size_t n = first; n < first + size; ++n) {
      if (experts[n] >= 0) used.insert(experts[n]);
    }
  }
  return fmt::format("{} a token in {} of {} layers, {} of a layer's in use", info.chosen_experts, layers, info.layers,
                     used.size());
}

Facts runFacts(const Trace& trace) {
  const TraceInfo& info = trace.info();
  const auto loss = meanOf(trace.per_token_loss());
  std::string kept;
  for (const std::string& word : keptWords(trace)) kept += (kept.empty() ? "" : ", ") + word;
  Facts facts = {
      {"type", info.model_type},
      {"layers", fmt::format("{} with {} heads of size {}{}", info.layers, info.heads, info.head_dim,
                             info.key_heads == info.heads ? "" : fmt::format(", {} key heads", info.key_heads))},
      {"gate", !forgets(info)             ? "none"
               : isOfAttentionAlone(info) ? "forget gate"
                                          : "decay"},
      {"tokens", count_text(info.length)},
      {"mean loss", loss ? fmt::format("{:.4f} nats a token, perplexity {:.2f}", *loss, std::exp(*loss)) : "not kept"},
      {"kept", kept},
      {"computed", fmt::format("{}{}{}{}", to_string(info.dtype), info.device.empty() ? "" : " on ", info.device,
                               info.has_softmax() ? fmt::format(", pruning tolerance {:.3g}", info.pruning_tolerance)
                                                  : std::string())}};
  if (!info.mixers.empty() || has_windows_by_layer(info)) {
    const std::vector<std::string> texts = layer_texts(info);
    std::string mixers;
    for (int layer = 0; layer < info.layers; ++layer) {
      int last = layer;
      while (last + 1 < info.layers && texts[index_of(last + 1)] == texts[index_of(layer)]) ++last;
      mixers += fmt::format("{}{}{} {}", layer == 0 ? "" : ", ", layer, last > layer ? fmt::format("-{}", last) : "",
                            texts[index_of(layer)]);
      layer = last;
    }
    facts.emplace_back("mixers", "layers " + mixers);
  }
  if (trace.has(TraceArray::expert)) {
    facts.emplace_back("experts", expertsFact(trace));
  } else if (is_mixture(info).value_or(false)) {
    facts.emplace_back("experts", kExpertsNotKept);
  }
  if (info.window_size > 0) facts.emplace_back("window", fmt::format("{} tokens", info.window_size));
  if (info.logit_cap > 0) facts.emplace_back("logits", fmt::format("capped at {:.6g}", info.logit_cap));
  if (!info.intervention.empty()) facts.emplace_back("intervention", info.intervention);
  if (trace.has(TraceArray::log_forget_gradient)) facts.emplace_back("saliency", "gradient of " + info.saliency_target);
  if (!info.weights_sha256.empty()) facts.emplace_back("weights", "SHA-256 " + info.weights_sha256);
  if (info.unchecked) facts.emplace_back("unchecked", "its arrays may contradict one another");
  // Runs of other programs need not say it.
  std::erase_if(facts, [](const auto& fact) { return fact.second.empty(); });
  return facts;
}

std::string textFact(const Text* text) {
  if (text == nullptr) return "none, token ids were given";
  return fmt::format("{} bytes, SHA-256 {}", count_text(static_cast<std::int64_t>(text->content.size())), text->sha256);
}

}  // namespace foxscope

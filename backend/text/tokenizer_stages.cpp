#include "backend/text/tokenizer_stages.h"

#include <array>
#include <utility>

#include <nlohmann/json.hpp>

#include "backend/base/error.h"
#include "backend/text/json_reading.h"
#include "backend/text/oniguruma_pattern.h"
#include "backend/text/pattern.h"
#include "backend/text/unicode/utf8.h"

namespace foxscope {

using nlohmann::json;

namespace {

constexpr const char* kRepairStage = "; fetch the file again or repair it";
constexpr std::size_t kMostStages = 32;
constexpr std::size_t kLongestContent = 64;

constexpr const char* kNormalizers = "; give a checkpoint whose normalizer is made of NFC, Prepend and Replace";
constexpr const char* kPreTokenizers =
    "; give a checkpoint whose pre_tokenizer is made of Split, Digits and ByteLevel, or is Metaspace";
constexpr const char* kDecoders =
    "; give a checkpoint whose decoder is made of ByteLevel, Metaspace, Replace, ByteFallback, Fuse and Strip";
constexpr const char* kPostProcessors =
    "; give a checkpoint whose post_processor is made of ByteLevel and TemplateProcessing";

[[noreturn]] void refuse_stage(const std::string& name, const std::string& what, const char* remedy) {
  throw Error(name + ": " + what + " is not supported" + remedy);
}

/// The steps of a stage: those of a Sequence, of sequences inside it too, or the one that it is.
void collect_steps(const json& stage, const char* list, const std::string& name, std::vector<const json*>& steps) {
  if (text_member(stage, "type", name) != "Sequence") {
    if (steps.size() == kMostStages) {
      throw Error(name + ": has more than " + std::to_string(kMostStages) + " " + list + kRepairStage);
    }
    steps.push_back(&stage);
    return;
  }
  const json* parts = member(stage, list);
  if (parts == nullptr || !parts->is_array()) {
    throw Error(name + ": a Sequence must have a list of " + list + kRepairStage);
  }
  for (const json& part : *parts) collect_steps(part, list, name, steps);
}

std::vector<const json*> steps_of(const json& root, const char* stage, const char* list, const std::string& name) {
  std::vector<const json*> steps;
  if (const json* value = member(root, stage)) collect_steps(*value, list, name, steps);
  return steps;
}

/// A text that a file puts in other places many times over.
std::string short_text(const json& object, const char* key, const std::string& name) {
  std::string text = text_member(object, key, name);
  if (text.size() > kLongestContent) {
    throw Error(name + ": " + key + " of " + std::to_string(text.size()) + " bytes is not supported, only up to " +
                std::to_string(kLongestContent) + kRepairStage);
  }
  return text;
}

/// A text of one character; `otherwise` where the key is absent.
std::string one_character(const json& object, const char* key, const char* otherwise, const std::string& name) {
  const json* value = member(object, key);
  if (value == nullptr && otherwise != nullptr) return otherwise;
  std::string text = text_member(object, key, name);
  if (text.empty() || character_at(text, 0).bytes != text.size()) {
    throw Error(name + ": " + key + " must be one character" + kRepairStage);
  }
  return text;
}

std::size_t count_member(const json& object, const char* key, const std::string& name) {
  const json* value = member(object, key);
  if (value == nullptr) return 0;
  if (!value->is_number_unsigned()) {
    throw Error(name + ": " + key + " must be a number of characters" + kRepairStage);
  }
  return value->get<std::size_t>();
}

/// {"String": "..."} or {"Regex": "..."}
struct FilePattern {
  std::string text;
  bool literal = true;
};

FilePattern read_pattern(const json& step, const std::string& name) {
  const json* pattern = member(step, "pattern");
  if (pattern != nullptr && pattern->is_object() && pattern->size() == 1) {
    for (const char* kind : {"String", "Regex"}) {
      if (!pattern->contains(kind)) continue;
      FilePattern result{text_member(*pattern, kind, name), std::string_view(kind) == "String"};
      if (!result.text.empty()) return result;
    }
  }
  throw Error(name + R"(: pattern must be {"String": "..."} or {"Regex": "..."}, and not empty)" + kRepairStage);
}

std::string label_of(const FilePattern& pattern, const std::string& name) {
  return name + ": the pattern " + in_quotes(pattern.text);
}

std::string pcre2_of(const FilePattern& pattern, const std::string& name) {
  return pattern.literal ? pcre2_of_literal(pattern.text) : pcre2_of_oniguruma(pattern.text, label_of(pattern, name));
}

void read_normalizer(const json& root, TokenizerDescription& description) {
  const std::string& name = description.name;
  for (const json* one : steps_of(root, "normalizer", "normalizers", name)) {
    const std::string type = text_member(*one, "type", name);
    NormalizerStep step;
    if (type == "NFC") {
      step.kind = NormalizerStep::Kind::nfc;
    } else if (type == "Prepend") {
      step.kind = NormalizerStep::Kind::prepend;
      step.content = short_text(*one, "prepend", name);
      if (step.content.empty()) continue;
    } else if (type == "Replace") {
      const FilePattern pattern = read_pattern(*one, name);
      step.kind = pattern.literal ? NormalizerStep::Kind::replace_literal : NormalizerStep::Kind::replace_pattern;
      step.what = pattern.literal ? pattern.text : pcre2_of(pattern, name);
      step.label = label_of(pattern, name);
      step.content = short_text(*one, "content", name);
    } else {
      refuse_stage(name, "the normalizer " + in_quotes(type), kNormalizers);
    }
    description.normalizer.push_back(std::move(step));
  }
}

SplitBehavior read_behavior(const json& step, const std::string& name) {
  const std::string behavior = text_member(step, "behavior", name);
  constexpr std::array<std::pair<const char*, SplitBehavior>, 5> kBehaviors = {
      {{"Isolated", SplitBehavior::isolated},
       {"Removed", SplitBehavior::removed},
       {"MergedWithPrevious", SplitBehavior::merged_with_previous},
       {"MergedWithNext", SplitBehavior::merged_with_next},
       {"Contiguous", SplitBehavior::contiguous}}};
  for (const auto& [known, value] : kBehaviors) {
    if (behavior == known) return value;
  }
  refuse_stage(name, "the behavior " + in_quotes(behavior) + " of a Split",
               "; give a checkpoint with Isolated, Removed, MergedWithPrevious, MergedWithNext or Contiguous");
}

SplitStep read_split(const json& step, const std::string& name) {
  const FilePattern pattern = read_pattern(step, name);
  return {pcre2_of(pattern, name), label_of(pattern, name), read_behavior(step, name),
          flag(step, "invert", false, name)};
}

SplitStep read_digits(const json& step, const std::string& name) {
  const bool individual = flag(step, "individual_digits", false, name);
  return {"\\p{N}", name + ": the pattern of Digits", individual ? SplitBehavior::isolated : SplitBehavior::contiguous,
          false};
}

Metaspace::Prepend read_prepend_scheme(const json& step, const std::string& name) {
  const std::string scheme = text_member(step, "prepend_scheme", name);
  const json* older = member(step, "add_prefix_space");
  if (older != nullptr && !flag(step, "add_prefix_space", true, name)) {
    if (scheme.empty() || scheme == "never") return Metaspace::Prepend::never;
    throw Error(name + ": add_prefix_space and prepend_scheme of Metaspace contradict each other" + kRepairStage);
  }
  if (scheme.empty() || scheme == "always") return Metaspace::Prepend::always;
  if (scheme == "first") return Metaspace::Prepend::first;
  if (scheme == "never") return Metaspace::Prepend::never;
  refuse_stage(name, "the prepend_scheme " + in_quotes(scheme) + " of Metaspace",
               "; give a checkpoint with always, first or never");
}

constexpr const char* kDefaultReplacement = "\xE2\x96\x81";  // U+2581

void read_metaspace(const json& step, TokenizerDescription& description) {
  const std::string& name = description.name;
  Metaspace metaspace;
  metaspace.replacement = one_character(step, "replacement", kDefaultReplacement, name);
  metaspace.prepend = read_prepend_scheme(step, name);
  if (flag(step, "split", true, name)) {
    description.splits.push_back({pcre2_of_literal(metaspace.replacement), name + ": the pattern of Metaspace",
                                  SplitBehavior::merged_with_next, false});
  }
  description.metaspace = std::move(metaspace);
}

void read_pre_tokenizer(const json& root, TokenizerDescription& description) {
  const std::string& name = description.name;
  description.symbols = SymbolKind::characters;
  description.use_regex = false;
  const std::vector<const json*> steps = steps_of(root, "pre_tokenizer", "pretokenizers", name);
  for (const json* one : steps) {
    const std::string type = text_member(*one, "type", name);
    if (description.symbols == SymbolKind::bytes) {
      refuse_stage(name, "a pre_tokenizer behind ByteLevel", "; give a checkpoint where ByteLevel is the last");
    }
    if (type == "ByteLevel") {
      description.symbols = SymbolKind::bytes;
      description.add_prefix_space = flag(*one, "add_prefix_space", true, name);
      description.use_regex = flag(*one, "use_regex", true, name);
    } else if (type == "Split") {
      description.splits.push_back(read_split(*one, name));
    } else if (type == "Digits") {
      description.splits.push_back(read_digits(*one, name));
    } else if (type == "Metaspace") {
      if (one != steps.front()) {
        refuse_stage(name, "Metaspace behind another pre_tokenizer", "; give a checkpoint where it is the first");
      }
      read_metaspace(*one, description);
    } else {
      refuse_stage(name, "the pre_tokenizer " + in_quotes(type), kPreTokenizers);
    }
  }
  description.prefix_space_of_config = steps.size() == 1 && description.symbols == SymbolKind::bytes;
}

DecoderStep read_decoder_step(const json& one, const std::string& name) {
  using Kind = DecoderStep::Kind;
  const std::string type = text_member(one, "type", name);
  if (type == "ByteLevel") return {.kind = Kind::byte_level};
  if (type == "ByteFallback") return {.kind = Kind::byte_fallback};
  if (type == "Fuse") return {.kind = Kind::fuse};
  if (type == "Strip") {
    return {.kind = Kind::strip,
            .what = one_character(one, "content", nullptr, name),
            .at_begin = count_member(one, "start", name),
            .at_end = count_member(one, "stop", name)};
  }
  if (type == "Metaspace") {
    return {.kind = Kind::metaspace,
            .what = one_character(one, "replacement", kDefaultReplacement, name),
            .prepended = read_prepend_scheme(one, name) != Metaspace::Prepend::never};
  }
  if (type == "Replace") {
    const FilePattern pattern = read_pattern(one, name);
    if (!pattern.literal) {
      refuse_stage(name, "a decoder's Replace of a Regex", "; give a checkpoint where it replaces a String");
    }
    return {.kind = Kind::replace, .what = pattern.text, .content = short_text(one, "content", name)};
  }
  refuse_stage(name, "the decoder " + in_quotes(type), kDecoders);
}

/// Decoders of characters are used as they stand. Without one, bytes are decoded as ByteLevel does it.
void read_decoder(const json& root, TokenizerDescription& description) {
  const std::string& name = description.name;
  const std::vector<const json*> steps = steps_of(root, "decoder", "decoders", name);
  if (steps.empty()) {
    if (description.symbols == SymbolKind::bytes) return;
    refuse_stage(name, "a tokenizer without decoder and without the pre_tokenizer ByteLevel", kDecoders);
  }
  description.decoder.clear();
  bool joined = false;
  for (const json* one : steps) {
    using Kind = DecoderStep::Kind;
    DecoderStep step = read_decoder_step(*one, name);
    if (joined && step.kind != Kind::strip && step.kind != Kind::fuse) {
      refuse_stage(name, "a decoder but Strip behind Fuse or ByteLevel", kDecoders);
    }
    if (!joined && step.kind == Kind::strip) {
      refuse_stage(name, "the decoder Strip without Fuse or ByteLevel before it", kDecoders);
    }
    if (step.kind == Kind::metaspace && one != steps.front()) {
      refuse_stage(name, "Metaspace behind another decoder", kDecoders);
    }
    joined = joined || step.kind == Kind::fuse || step.kind == Kind::byte_level;
    description.decoder.push_back(std::move(step));
  }
}

/// The token before the text, of a template's list of what there is around one text.
void read_template(const json& processor, TokenizerDescription& description) {
  const std::string& name = description.name;
  const json* single = member(processor, "single");
  if (single == nullptr || !single->is_array()) {
    throw Error(name + ": single of TemplateProcessing must be a list" + kRepairStage);
  }
  std::vector<std::int32_t> ids;
  for (const json& piece : *single) {
    const json* token = member(piece, "SpecialToken");
    if (token == nullptr) break;
    const std::string content = text_member(*token, "id", name);
    const json* all = member(processor, "special_tokens");
    const json* known = all == nullptr ? nullptr : member(*all, content.c_str());
    const json* of_token = known == nullptr ? nullptr : member(*known, "ids");
    if (of_token == nullptr || !of_token->is_array()) {
      throw Error(name + ": TemplateProcessing gives no ids for " + in_quotes(content) + kRepairStage);
    }
    for (const json& id : *of_token) ids.push_back(token_id(id, content, name));
  }
  if (ids.size() > 1) {
    refuse_stage(name, "a post_processor that puts " + std::to_string(ids.size()) + " tokens before the text",
                 "; give a checkpoint with one, the BOS token, or none");
  }
  if (ids.empty()) return;
  if (description.vocabulary.spelling(ids.front()) == nullptr) {
    throw Error(name + ": the post_processor puts the token " + std::to_string(ids.front()) +
                " before the text, which the vocabulary lacks" + kRepairStage);
  }
  description.template_bos = ids.front();
}

void read_post_processor(const json& root, TokenizerDescription& description) {
  const std::string& name = description.name;
  for (const json* one : steps_of(root, "post_processor", "processors", name)) {
    const std::string type = text_member(*one, "type", name);
    if (type == "TemplateProcessing") {
      read_template(*one, description);
    } else if (type != "ByteLevel") {  // which trims spaces off places; here they cover the text
      refuse_stage(name, "the post_processor " + in_quotes(type), kPostProcessors);
    }
  }
}

}  // namespace

void read_tokenizer_stages(const json& root, TokenizerDescription& description) {
  read_normalizer(root, description);
  read_pre_tokenizer(root, description);
  read_decoder(root, description);
  read_post_processor(root, description);
}

}  // namespace foxscope

#include <charconv>

#include "backend/base/error.h"
#include "backend/text/json_reading.h"
#include "backend/text/tokenizer_description.h"

namespace foxscope {

using nlohmann::json;

namespace {

json parse_object(std::string_view content, const std::string& name) {
  json root = parse_json(content, name);
  if (!root.is_object()) throw Error(name + ": must hold a JSON object; fetch the file again or repair it");
  return root;
}

/// A special token is written as a string, or as an object with its content and flags. Empty: there is none.
std::string special_token(const json& root, const char* key, const std::string& name) {
  const json* value = member(root, key);
  return value != nullptr && value->is_object() ? text_member(*value, "content", name) : text_member(root, key, name);
}

void apply_special_tokens(const json& root, const std::string& name, SpecialTokens special,
                          TokenizerDescription& description) {
  const std::string bos = special_token(root, "bos_token", name);
  if (!bos.empty() && !description.bos_token) description.bos_token = bos;
  if (special == SpecialTokens::as_listed) return;
  for (const char* key : {"bos_token", "eos_token", "unk_token", "pad_token", "sep_token", "cls_token", "mask_token"}) {
    description.add_known_token(special_token(root, key, name));
  }
}

std::int32_t id_of_key(const std::string& key, const std::string& name) {
  std::int64_t id = -1;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
  if (error != std::errc() || end != key.data() + key.size()) id = -1;
  return token_id(id < 0 ? json(key) : json(static_cast<std::uint64_t>(id)), key, name);
}

}  // namespace

void apply_tokenizer_config(std::string_view content, const std::string& name, SpecialTokens special,
                            TokenizerDescription& description) {
  const json root = parse_object(content, name);
  const bool prefix = flag(root, "add_prefix_space", description.add_prefix_space, name);
  if (description.prefix_space_of_config) description.add_prefix_space = prefix;
  const std::string tokenizer_class = text_member(root, "tokenizer_class", name);
  if (tokenizer_class == "JSONGPT2Tokenizer" || tokenizer_class == "JSONGPT2TokenizerFast") {
    description.json_escaping = true;
    if (!description.normalizer.empty() || description.metaspace) {
      throw Error(name + ": " + tokenizer_class +
                  " with a normalizer or Metaspace is not supported; give a checkpoint with GPT-2's byte-level BPE");
    }
  }
  if (const json* decoder = member(root, "added_tokens_decoder")) {
    if (!decoder->is_object()) {
      throw Error(name + ": added_tokens_decoder must be an object; fetch the file again or repair it");
    }
    for (const auto& [key, entry] : decoder->items()) {
      description.add_token(read_added_token(entry, id_of_key(key, name), name), name);
    }
  }
  apply_special_tokens(root, name, special, description);
}

void apply_special_tokens_map(std::string_view content, const std::string& name, SpecialTokens special,
                              TokenizerDescription& description) {
  apply_special_tokens(parse_object(content, name), name, special, description);
}

void apply_added_tokens(std::string_view content, const std::string& name, TokenizerDescription& description) {
  const json root = parse_object(content, name);
  for (const auto& [token, id] : root.items()) {
    description.add_token({.content = token, .id = token_id(id, token, name), .normalized = true}, name);
  }
}

}  // namespace foxscope

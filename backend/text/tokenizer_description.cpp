#include "backend/text/tokenizer_description.h"

#include <algorithm>
#include <charconv>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/text/json_reading.h"
#include "backend/text/tokenizer.h"
#include "backend/text/tokenizer_stages.h"

namespace foxscope {

using nlohmann::json;

namespace {

constexpr const char* repair = "; fetch the file again or repair it";
constexpr const char* supported =
    " is not supported; give a checkpoint with a BPE tokenizer, of bytes or with byte_fallback";

void read_vocabulary(const json& vocab, TokenizerDescription& description) {
  if (!vocab.is_object() || vocab.empty()) {
    throw Error(description.name + ": the vocabulary must be an object of tokens and their ids" + repair);
  }
  for (const auto& [spelling, id] : vocab.items()) {
    description.vocabulary.add(spelling, token_id(id, spelling, description.name), description.name);
  }
  description.in_model.resize(static_cast<std::size_t>(description.vocabulary.size()));
  for (std::int32_t id = 0; id < description.vocabulary.size(); ++id) {
    description.in_model[index_of(id)] = description.vocabulary.spelling(id) != nullptr;
  }
}

void add_merge(const std::string& left, const std::string& right, TokenizerDescription& description) {
  const std::string spellings[] = {left, right, left + right};
  std::int32_t ids[3] = {};
  for (std::size_t i = 0; i < 3; ++i) {
    const std::optional<std::int32_t> id = description.vocabulary.find(spellings[i]);
    if (!id) {
      throw Error(description.name + ": merge " + std::to_string(description.merges.size()) + " needs the token " +
                  in_quotes(spellings[i]) + ", which the vocabulary lacks" + repair);
    }
    ids[i] = *id;
  }
  description.merges.push_back({ids[0], ids[1], ids[2]});
}

/// "a b"
void add_merge(std::string_view line, TokenizerDescription& description) {
  const std::size_t space = line.find(' ');
  if (space == std::string_view::npos || line.find(' ', space + 1) != std::string_view::npos) {
    throw Error(description.name + ": merge " + std::to_string(description.merges.size()) + ", " + in_quotes(line) +
                ", is not two tokens with a space between" + repair);
  }
  add_merge(std::string(line.substr(0, space)), std::string(line.substr(space + 1)), description);
}

void read_merges(const json& merges, TokenizerDescription& description) {
  if (!merges.is_array()) throw Error(description.name + ": model.merges must be a list" + repair);
  for (const json& merge : merges) {
    if (merge.is_string()) {
      const std::string& line = merge.get_ref<const std::string&>();
      if (!line.starts_with("#version")) add_merge(line, description);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      add_merge(merge[0].get<std::string>(), merge[1].get<std::string>(), description);
    } else {
      throw Error(description.name + ": merge " + std::to_string(description.merges.size()) +
                  " must be \"a b\" or [\"a\", \"b\"]" + repair);
    }
  }
}

void read_model(const json& root, TokenizerDescription& description) {
  const std::string& name = description.name;
  const json* model = member(root, "model");
  if (model == nullptr || !model->is_object())
    throw Error(name + ": has no model, so this is no tokenizer.json" + repair);
  const std::string type = text_member(*model, "type", name);
  if (type != "BPE" && !(type.empty() && model->contains("merges"))) {
    throw Error(name + ": the model type " + in_quotes(type) + supported);
  }
  const json* dropout = member(*model, "dropout");
  if (dropout != nullptr && !(dropout->is_number() && dropout->get<double>() == 0)) {
    throw Error(name + ": model.dropout makes tokens random and" + supported);
  }
  for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    if (!text_member(*model, key, name).empty()) throw Error(name + ": model." + key + supported);
  }
  description.byte_fallback = flag(*model, "byte_fallback", false, name);
  description.fuse_unknown = flag(*model, "fuse_unk", false, name);
  description.ignore_merges = flag(*model, "ignore_merges", false, name);
  const json* vocab = member(*model, "vocab");
  const json* merges = member(*model, "merges");
  if (vocab == nullptr || merges == nullptr) throw Error(name + ": model needs vocab and merges" + repair);
  read_vocabulary(*vocab, description);
  read_merges(*merges, description);
  const std::string unknown = text_member(*model, "unk_token", name);
  if (!unknown.empty()) description.unknown = description.model_token(unknown);
  if (!unknown.empty() && !description.unknown) description.unknown_missing = unknown;
}

/// Whether a merge takes or makes one of these tokens, which stand for no fixed characters.
void refuse_merges_of(const std::vector<std::int32_t>& sorted, const TokenizerDescription& description) {
  for (std::size_t n = 0; n < description.merges.size(); ++n) {
    const Merge& merge = description.merges[n];
    for (const std::int32_t id : {merge.left, merge.right, merge.result}) {
      if (!std::binary_search(sorted.begin(), sorted.end(), id)) continue;
      throw Error(description.name + ": merge " + std::to_string(n) + " of the token " +
                  in_quotes(*description.vocabulary.spelling(id)) + ", which stands for bytes or unknown characters," +
                  supported);
    }
  }
}

/// The model's symbols have to fit the kind of symbols that the pre-tokenizer makes.
void check_symbols(TokenizerDescription& description) {
  const std::string& name = description.name;
  if (description.symbols == SymbolKind::bytes) {
    if (description.byte_fallback) throw Error(name + ": model.byte_fallback with ByteLevel" + supported);
    return;
  }
  if (description.ignore_merges) throw Error(name + ": model.ignore_merges without ByteLevel" + supported);
  if (!description.unknown_missing.empty()) {
    throw Error(name + ": the vocabulary lacks model.unk_token, " + in_quotes(description.unknown_missing) + repair);
  }
  std::vector<std::int32_t> without_characters;
  if (description.byte_fallback) {
    std::string missing;
    for (int byte = 0; byte < 256; ++byte) {
      const std::string spelling = spell_fallback_byte(static_cast<std::uint8_t>(byte));
      if (const std::optional<std::int32_t> id = description.model_token(spelling)) {
        without_characters.push_back(*id);
      } else if (missing.empty()) {
        missing = spelling;
      }
    }
    if (!missing.empty() && !without_characters.empty()) {
      throw Error(name + ": model.byte_fallback without the token " + in_quotes(missing) + supported);
    }
    description.byte_fallback = missing.empty();
  }
  if (description.unknown) without_characters.push_back(*description.unknown);
  std::sort(without_characters.begin(), without_characters.end());
  refuse_merges_of(without_characters, description);
}

void read_added_tokens(const json& root, TokenizerDescription& description) {
  const std::string& name = description.name;
  const json* tokens = member(root, "added_tokens");
  if (tokens == nullptr) return;
  if (!tokens->is_array()) throw Error(name + ": added_tokens must be a list" + repair);
  for (const json& entry : *tokens) {
    const json* id = member(entry, "id");
    const std::string content = text_member(entry, "content", name);
    if (id == nullptr) throw Error(name + ": the added token " + in_quotes(content) + " has no id" + repair);
    description.add_token(read_added_token(entry, token_id(*id, content, name), name), name);
  }
}

}  // namespace

AddedToken read_added_token(const json& entry, std::int32_t id, const std::string& name) {
  AddedToken token;
  token.content = text_member(entry, "content", name);
  token.id = id;
  token.single_word = flag(entry, "single_word", false, name);
  token.strip_left = flag(entry, "lstrip", false, name);
  token.strip_right = flag(entry, "rstrip", false, name);
  token.normalized = flag(entry, "normalized", !flag(entry, "special", false, name), name);
  return token;
}

std::optional<std::int32_t> Vocabulary::find(const std::string& spelling) const {
  const auto found = ids_.find(spelling);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

const std::string* Vocabulary::spelling(std::int32_t id) const {
  return id < 0 || id >= size() ? nullptr : by_id_[index_of(id)];
}

void Vocabulary::add(const std::string& spelling, std::int32_t id, const std::string& name) {
  const auto [entry, added] = ids_.try_emplace(spelling, id);
  if (!added && entry->second == id) return;
  const std::string* other = this->spelling(id);
  if (!added || other != nullptr) {
    const std::string clash = added ? in_quotes(*other) + " has it" : "it has the id " + std::to_string(entry->second);
    if (added) ids_.erase(entry);
    throw Error(name + ": the token " + in_quotes(spelling) + " cannot have the id " + std::to_string(id) + ", " +
                clash + " already" + repair);
  }
  if (id >= size()) by_id_.resize(static_cast<std::size_t>(id) + 1);
  by_id_[index_of(id)] = &entry->first;
}

std::string spell_fallback_byte(std::uint8_t byte) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  return std::string("<0x") + kDigits[byte >> 4] + kDigits[byte & 0xFU] + ">";
}

std::optional<std::int32_t> TokenizerDescription::model_token(const std::string& spelling) const {
  const std::optional<std::int32_t> id = vocabulary.find(spelling);
  if (!id || static_cast<std::size_t>(*id) >= in_model.size() || !in_model[index_of(*id)]) return {};
  return id;
}

void TokenizerDescription::add_token(const AddedToken& token, const std::string& file) {
  if (token.content.empty()) return;
  vocabulary.add(token.content, token.id, file);
  added_tokens[token.content] = token;
}

void TokenizerDescription::add_known_token(const std::string& content) {
  const std::optional<std::int32_t> id = vocabulary.find(content);
  if (id && !content.empty()) added_tokens.try_emplace(content, AddedToken{.content = content, .id = *id});
}

TokenizerDescription read_tokenizer_json(std::string_view content, const std::string& name) {
  const json root = parse_json(content, name);
  if (!root.is_object()) throw Error(name + ": must hold a JSON object" + repair);
  TokenizerDescription description;
  description.name = name;
  read_model(root, description);
  read_added_tokens(root, description);
  read_tokenizer_stages(root, description);
  check_symbols(description);
  return description;
}

TokenizerDescription read_vocab_and_merges(std::string_view vocab, std::string_view merges, const std::string& name) {
  TokenizerDescription description;
  description.name = name;
  read_vocabulary(parse_json(vocab, name), description);
  if (const std::optional<std::size_t> offset = find_invalid_utf8(merges)) {
    throw Error(name + ": the merges are not UTF-8 (byte " + std::to_string(*offset) + ")" + repair);
  }
  while (!merges.empty()) {
    const std::size_t end = std::min(merges.find('\n'), merges.size());
    std::string_view line = merges.substr(0, end);
    merges.remove_prefix(std::min(end + 1, merges.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (!line.empty() && !line.starts_with("#version")) add_merge(line, description);
  }
  description.add_known_token("<|endoftext|>");
  return description;
}

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

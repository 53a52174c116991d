#include <algorithm>
#include <utility>

#include "backend/base/error.h"
#include "backend/text/json_reading.h"
#include "backend/text/tokenizer.h"
#include "backend/text/tokenizer_description.h"

namespace foxscope {

using nlohmann::json;

namespace {

constexpr const char* repair = "; fetch the file again or repair it";
constexpr const char* supported = " is not supported; give a checkpoint with GPT-2's byte-level BPE tokenizer";

void refuse_normalizer(const json& root, const std::string& name) {
  const json* normalizer = member(root, "normalizer");
  if (normalizer == nullptr) return;
  const std::string type = text_member(*normalizer, "type", name);
  const json* parts = member(*normalizer, "normalizers");
  if (type == "Sequence" && parts != nullptr && parts->empty()) return;
  throw Error(name + ": the normalizer " + in_quotes(type) + supported);
}

/// A ByteLevel pre-tokenizer, alone or as the only one of a sequence.
void read_pre_tokenizer(const json& root, TokenizerDescription& description) {
  const std::string& name = description.name;
  const json* pre_tokenizer = member(root, "pre_tokenizer");
  if (pre_tokenizer == nullptr) throw Error(name + ": a tokenizer without pre_tokenizer" + supported);
  std::string type = text_member(*pre_tokenizer, "type", name);
  if (type == "Sequence") {
    const json* parts = member(*pre_tokenizer, "pretokenizers");
    if (parts == nullptr || !parts->is_array() || parts->size() != 1) {
      throw Error(name + ": a sequence of several pre_tokenizers" + supported);
    }
    pre_tokenizer = &parts->front();
    type = text_member(*pre_tokenizer, "type", name);
  }
  if (type != "ByteLevel") throw Error(name + ": the pre_tokenizer " + in_quotes(type) + supported);
  description.add_prefix_space = flag(*pre_tokenizer, "add_prefix_space", true, name);
  description.use_regex = flag(*pre_tokenizer, "use_regex", true, name);
}

void read_vocabulary(const json& vocab, TokenizerDescription& description) {
  if (!vocab.is_object() || vocab.empty()) {
    throw Error(description.name + ": the vocabulary must be an object of tokens and their ids" + repair);
  }
  for (const auto& [spelling, id] : vocab.items()) {
    description.vocabulary.add(spelling, token_id(id, spelling, description.name), description.name);
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
  if (flag(*model, "byte_fallback", false, name)) throw Error(name + ": model.byte_fallback" + supported);
  description.ignore_merges = flag(*model, "ignore_merges", false, name);
  const json* vocab = member(*model, "vocab");
  const json* merges = member(*model, "merges");
  if (vocab == nullptr || merges == nullptr) throw Error(name + ": model needs vocab and merges" + repair);
  read_vocabulary(*vocab, description);
  read_merges(*merges, description);
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
  return id < 0 || id >= size() ? nullptr : by_id_[static_cast<std::size_t>(id)];
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
  by_id_[static_cast<std::size_t>(id)] = &entry->first;
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
  refuse_normalizer(root, name);
  read_model(root, description);
  read_pre_tokenizer(root, description);
  read_added_tokens(root, description);
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

}  // namespace foxscope

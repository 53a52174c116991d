#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "backend/text/added_tokens.h"
#include "backend/text/byte_pair.h"

namespace foxscope {

/// Tokens by their spelling and by their id.
class Vocabulary {
 public:
  Vocabulary() = default;
  Vocabulary(const Vocabulary&) = delete;
  Vocabulary& operator=(const Vocabulary&) = delete;
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = default;
  ~Vocabulary() = default;

  [[nodiscard]] std::optional<std::int32_t> find(const std::string& spelling) const;

  /// Null where no token has this id.
  [[nodiscard]] const std::string* spelling(std::int32_t id) const;

  /// Largest id plus one.
  [[nodiscard]] std::int32_t size() const { return static_cast<std::int32_t>(by_id_.size()); }

  /// A token that is there already with the same id changes nothing.
  /// @param name  the file, for errors
  /// @throws Error where the spelling or the id belongs to another token
  void add(const std::string& spelling, std::int32_t id, const std::string& name);

 private:
  std::unordered_map<std::string, std::int32_t> ids_;
  std::vector<const std::string*> by_id_;  ///< into ids_, whose nodes stay where they are; null: no token
};

/// All that a checkpoint's files say about its tokenizer.
struct TokenizerDescription {
  std::string name;  ///< the file, for errors
  Vocabulary vocabulary;
  std::vector<Merge> merges;
  std::map<std::string, AddedToken> added_tokens;  ///< by content
  bool add_prefix_space = false;                   ///< a space goes before each section that does not begin with one
  bool use_regex = true;                           ///< false: sections are not cut into words
  bool ignore_merges = false;                      ///< a word that is a token stays whole whatever the merges say
  bool json_escaping = false;
  std::optional<std::string> bos_token;

  /// Adds a token, or replaces the one with the same content. Empty ones are passed over.
  /// @throws Error where the vocabulary has it under another id, or another token under its id
  void add_token(const AddedToken& token, const std::string& file);

  /// Makes a vocabulary entry an added token unless it is one.
  void add_known_token(const std::string& content);
};

/// Reads a tokenizer.json.
/// @throws Error naming the file, and what in it is wrong or is not supported
TokenizerDescription read_tokenizer_json(std::string_view content, const std::string& name);

/// Reads vocab.json and merges.txt. "<|endoftext|>" becomes an added token, as GPT-2's tokenizer class has it.
TokenizerDescription read_vocab_and_merges(std::string_view vocab, std::string_view merges, const std::string& name);

/// Whether bos_token and its like become added tokens: vocab.json itself names none, tokenizer.json lists them all.
enum class SpecialTokens { as_listed, add };

/// What tokenizer_config.json says goes before what the tokenizer's own file says: add_prefix_space, tokenizer_class,
/// added_tokens_decoder, bos_token.
void apply_tokenizer_config(std::string_view content, const std::string& name, SpecialTokens special,
                            TokenizerDescription& description);

/// special_tokens_map.json: bos_token, where nothing else named it.
void apply_special_tokens_map(std::string_view content, const std::string& name, SpecialTokens special,
                              TokenizerDescription& description);

/// added_tokens.json: ids by content.
void apply_added_tokens(std::string_view content, const std::string& name, TokenizerDescription& description);

/// An entry of added_tokens or added_tokens_decoder.
AddedToken read_added_token(const nlohmann::json& entry, std::int32_t id, const std::string& name);

}  // namespace foxscope

#pragma once

#include <cstddef>
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

/// One change of the text before it is cut into words.
struct NormalizerStep {
  enum class Kind { nfc, prepend, replace_literal, replace_pattern };
  Kind kind = Kind::nfc;
  std::string what;     ///< of replacements: what is replaced; a pattern in PCRE2's syntax
  std::string content;  ///< what comes in its place, or in front
  std::string label;    ///< of a pattern, for errors
};

/// The fate of the matches of a Split: pieces of their own; nothing; part of the piece before or behind; one piece with
/// the matches beside them.
enum class SplitBehavior { isolated, removed, merged_with_previous, merged_with_next, contiguous };

/// Cuts pieces of the text at matches of a pattern.
struct SplitStep {
  std::string pattern;  ///< in PCRE2's syntax
  std::string label;    ///< the file and the pattern as it stands there, for errors
  SplitBehavior behavior = SplitBehavior::isolated;
  bool invert = false;  ///< what lies between matches counts as match, and the other way round
};

/// A character, U+2581 in what people publish, stands for each space.
struct Metaspace {
  enum class Prepend { always, first, never };
  std::string replacement;            ///< one character
  Prepend prepend = Prepend::always;  ///< one in front of every section that has none there; of the text; of nothing
};

/// One step from tokens to text.
struct DecoderStep {
  enum class Kind { byte_level, byte_fallback, fuse, replace, strip, metaspace };
  Kind kind = Kind::fuse;
  std::string what = {};     ///< replaced; stripped: one character; standing for a space
  std::string content = {};  ///< in place of what is replaced
  std::size_t at_begin = 0;  ///< characters that are stripped at the most
  std::size_t at_end = 0;
  bool prepended = false;  ///< a metaspace is taken out of the first token
};

/// The symbols of a word before any merge.
enum class SymbolKind { bytes, characters };

/// All that a checkpoint's files say about its tokenizer.
struct TokenizerDescription {
  std::string name;  ///< the file, for errors
  Vocabulary vocabulary;
  std::vector<Merge> merges;
  std::map<std::string, AddedToken> added_tokens;  ///< by content
  std::vector<bool> in_model;                      ///< by id, of the vocabulary: not an added token alone
  std::vector<NormalizerStep> normalizer;
  std::optional<Metaspace> metaspace;  ///< before the splits
  std::vector<SplitStep> splits;
  SymbolKind symbols = SymbolKind::bytes;
  bool add_prefix_space = false;        ///< a space goes before each piece that does not begin with one; of bytes
  bool use_regex = true;                ///< false: pieces are not cut into words; of bytes
  bool ignore_merges = false;           ///< a word that is a token stays whole whatever the merges say; of bytes
  bool byte_fallback = false;           ///< a character without a token becomes those of its bytes; of characters
  std::optional<std::int32_t> unknown;  ///< the token of other characters without one
  std::string unknown_missing;          ///< unk_token that the vocabulary lacks
  bool fuse_unknown = false;            ///< of several such characters in a row there is one
  std::vector<DecoderStep> decoder = {{.kind = DecoderStep::Kind::byte_level}};
  bool prefix_space_of_config = true;  ///< tokenizer_config.json may change add_prefix_space
  bool json_escaping = false;
  std::optional<std::string> bos_token;
  std::optional<std::int32_t> template_bos;  ///< what the post-processor puts before a text

  /// The id of a token that words can be made of.
  [[nodiscard]] std::optional<std::int32_t> model_token(const std::string& spelling) const;

  /// Adds a token, or replaces the one with the same content. Empty ones are passed over.
  /// @throws Error where the vocabulary has it under another id, or another token under its id
  void add_token(const AddedToken& token, const std::string& file);

  /// Makes a vocabulary entry an added token unless it is one.
  void add_known_token(const std::string& content);
};

/// How tokenizer.json spells the token of a byte that a character without a token is made of: <0x0A>.
std::string spell_fallback_byte(std::uint8_t byte);

/// Reads a tokenizer.json.
/// @throws Error naming the file, and what in it is wrong or is not supported
TokenizerDescription read_tokenizer_json(std::string_view content, const std::string& name);

/// Reads vocab.json and merges.txt. "<|endoftext|>" becomes an added token, as GPT-2's tokenizer class has it.
TokenizerDescription read_vocab_and_merges(std::string_view vocab, std::string_view merges, const std::string& name);

/// Whether bos_token and its like become added tokens: vocab.json itself names none, tokenizer.json lists them all.
enum class SpecialTokens { as_listed, add };

/// Applies tokenizer_config.json, which goes before the tokenizer's own file: add_prefix_space, tokenizer_class,
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

#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foxscope {

/// The files of a checkpoint folder that a tokenizer is made of; a folder has some of them.
inline constexpr std::array<const char*, 6> kTokenizerFiles = {
    "tokenizer.json",         "vocab.json", "merges.txt", "added_tokens.json", "tokenizer_config.json",
    "special_tokens_map.json"};

/// A text cut into tokens. Token t stands for the bytes [byte_start[t], byte_end[t]) of the original text.
struct Tokens {
  std::vector<std::int32_t> id;
  std::vector<std::int64_t> byte_start;
  std::vector<std::int64_t> byte_end;

  [[nodiscard]] std::size_t size() const { return id.size(); }
};

/// Byte pair encoding as Hugging Face's `tokenizers` does it. Added tokens are matched first; a normalizer may change
/// what lies between them; a pre-tokenizer cuts it into words; merges by rank make tokens of a word's bytes (byte-level
/// BPE: GPT-2, GPT-NeoX, Llama 3, Qwen) or of its characters (SentencePiece's BPE: Llama 2, Mistral). With
/// `json_escaping` the text is first escaped as Python's json.dumps(text)[1:-1] does (tokenizer class
/// JSONGPT2Tokenizer); offsets still refer to the original text.
class Tokenizer {
 public:
  /// Reads a checkpoint folder: tokenizer.json, else vocab.json + merges.txt; honours tokenizer_config.json.
  /// @throws Error naming the file and what is wrong with it
  static Tokenizer load(const std::filesystem::path& folder);
  /// Whether a folder holds a tokenizer's files.
  static bool is_in(const std::filesystem::path& folder);

  /// Reads the contents of a tokenizer.json; `name` stands in errors.
  static Tokenizer from_json(std::string_view content, std::string_view name, bool json_escaping = false);

  /// Reads the contents of vocab.json and merges.txt; `name` stands in errors.
  static Tokenizer from_vocab_and_merges(std::string_view vocab, std::string_view merges, std::string_view name,
                                         bool json_escaping = false);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Cuts UTF-8 text into tokens. Safe to call from several threads.
  /// @throws Error naming the offset of the first byte that is not UTF-8
  [[nodiscard]] Tokens encode(std::string_view text) const;

  /// Appends the ids alone, without places: a fifth of the memory.
  /// @param goes_on  asked behind each word of the text, with the number of ids so far
  /// @returns whether it came to the end of the text: not if it was not to go on
  bool encode_ids(std::string_view text, std::vector<std::int32_t>& ids,
                  const std::function<bool(std::size_t ids)>& goes_on) const;

  /// The bytes of a text that has these tokens, all of them; bytes of incomplete characters are kept as they are, and a
  /// space that encode puts in front of a text is taken off.
  /// @throws Error where an id is outside the vocabulary
  [[nodiscard]] std::string decode(const std::vector<std::int32_t>& ids) const;

  /// The same of tokens that follow others: a space at their beginning is the text's.
  [[nodiscard]] std::string decode_within(const std::vector<std::int32_t>& ids) const;

  /// The bytes that one token stands for within a text (escaping not undone).
  [[nodiscard]] std::string_view token_bytes(std::int32_t id) const;

  /// Largest id plus one.
  [[nodiscard]] std::int32_t vocabulary_size() const;

  /// The beginning-of-sequence token that the tokenizer's own files name (bos_token of tokenizer_config.json, or
  /// special_tokens_map.json, else what the post-processor of tokenizer.json puts before a text), if any.
  [[nodiscard]] std::optional<std::int32_t> bos_id() const;

 private:
  struct Implementation;
  class Encoder;
  explicit Tokenizer(std::unique_ptr<Implementation> implementation);
  std::unique_ptr<Implementation> implementation_;
};

/// Offset of the first byte that is not part of well-formed UTF-8, if any.
std::optional<std::size_t> find_invalid_utf8(std::string_view bytes);

/// Every maximal ill-formed part replaced by U+FFFD.
std::string replace_invalid_utf8(std::string_view bytes);

/// Every byte that is not part of well-formed UTF-8 spelled out, as in \xc3: a token may be a part of a character.
std::string spell_invalid_utf8(std::string_view bytes);

}  // namespace foxscope

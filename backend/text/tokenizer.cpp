#include "backend/text/tokenizer.h"

#include <algorithm>
#include <cassert>
#include <map>
#include <span>
#include <utility>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/base/log.h"
#include "backend/text/added_tokens.h"
#include "backend/text/aligned_text.h"
#include "backend/text/byte_pair.h"
#include "backend/text/file_bytes.h"
#include "backend/text/json_escape.h"
#include "backend/text/normalizer.h"
#include "backend/text/pattern.h"
#include "backend/text/pre_tokenizer.h"
#include "backend/text/token_decoder.h"
#include "backend/text/tokenizer_description.h"
#include "backend/text/unicode/byte_alphabet.h"
#include "backend/text/unicode/utf8.h"
#include "backend/text/word_cache.h"

namespace foxscope {
namespace {

constexpr std::string_view kSpaceBlock = "\xE2\x96\x81";  // U+2581, a space of SentencePiece

Symbols symbols_of(const TokenizerDescription& description) {
  Symbols symbols;
  symbols.of_bytes = description.symbols == SymbolKind::bytes;
  symbols.byte.fill(-1);
  for (std::size_t i = 0; i < symbols.byte.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(i);
    if (symbols.of_bytes) {
      symbols.byte[i] = description.model_token(spell_byte(byte)).value_or(-1);
    } else if (description.byte_fallback) {
      symbols.byte[i] = description.model_token(spell_fallback_byte(byte)).value_or(-1);
    }
  }
  if (symbols.of_bytes) return symbols;
  for (std::int32_t id = 0; id < description.vocabulary.size(); ++id) {
    const std::string* spelling = description.vocabulary.spelling(id);
    if (spelling == nullptr || spelling->empty() || !description.model_token(*spelling)) continue;
    const Character character = character_at(*spelling, 0);
    if (character.bytes == spelling->size()) symbols.character.set(character.code_point, id);
  }
  symbols.unknown = description.unknown.value_or(-1);
  symbols.fuse_unknown = description.fuse_unknown;
  return symbols;
}

/// Whether words may be cut before each U+2581 that follows something else, because no merge joins the two.
bool no_merge_crosses_blocks(const TokenizerDescription& description) {
  if (description.symbols == SymbolKind::bytes || !description.model_token(std::string(kSpaceBlock))) return false;
  return std::none_of(description.merges.begin(), description.merges.end(), [&](const Merge& merge) {
    return !description.vocabulary.spelling(merge.left)->ends_with(kSpaceBlock) &&
           description.vocabulary.spelling(merge.right)->starts_with(kSpaceBlock);
  });
}

/// Bytes of the text that each token takes, where it is made of the words' symbols.
std::vector<std::uint32_t> text_sizes(const TokenizerDescription& description) {
  std::vector<std::uint32_t> sizes;
  for (std::int32_t id = 0; id < description.vocabulary.size(); ++id) {
    const std::string* spelling = description.vocabulary.spelling(id);
    std::size_t size = spelling == nullptr ? 0 : spelling->size();
    if (spelling != nullptr && description.symbols == SymbolKind::bytes) {
      size = unspell_bytes(*spelling).value_or(*spelling).size();
    }
    sizes.push_back(static_cast<std::uint32_t>(size));
  }
  if (!description.byte_fallback) return sizes;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string spelling = spell_fallback_byte(static_cast<std::uint8_t>(byte));
    if (const auto id = description.model_token(spelling)) sizes[index_of(*id)] = 1;
  }
  return sizes;
}

/// The contents of added tokens that the normalizer changes, by their contents.
std::map<std::string, std::string> normalized_contents(const TokenizerDescription& description,
                                                       const Normalizer& normalizer) {
  std::map<std::string, std::string> contents;
  for (const auto& [content, token] : description.added_tokens) {
    if (!token.normalized || normalizer.empty()) continue;
    std::string changed = normalizer.normalize(content, 0).text;
    if (changed != content) contents.emplace(content, std::move(changed));
  }
  return contents;
}

/// Added tokens as they are looked for.
std::vector<AddedToken> sought_tokens(const TokenizerDescription& description,
                                      const std::map<std::string, std::string>& normalized) {
  std::vector<AddedToken> tokens;
  for (const auto& [content, token] : description.added_tokens) {
    tokens.push_back(token);
    const auto changed = normalized.find(content);
    if (changed != normalized.end()) tokens.back().content = changed->second;
    if (tokens.back().content.empty()) tokens.pop_back();
  }
  return tokens;
}

}  // namespace

struct Tokenizer::Implementation {
  explicit Implementation(const TokenizerDescription& description);
  void encode_sections(std::string_view text, Encoder& encoder) const;
  void check(std::int32_t id) const;

  std::string name;
  std::int32_t size;
  Normalizer normalizer;
  std::map<std::string, std::string> normalized_added;  ///< contents that the normalizer changes
  AddedTokens added_tokens;
  std::optional<Metaspace> metaspace;
  Splits splits;
  BytePairModel byte_pairs;
  TokenDecoder decoder;
  std::vector<std::uint32_t> text_size;                           ///< by id
  std::vector<std::pair<std::string, std::int32_t>> whole_words;  ///< sorted; only with ignore_merges
  std::int32_t unknown;                                           ///< -1: there is none
  bool cut_at_blocks;
  bool add_prefix_space;
  bool use_regex;
  bool json_escaping;
  std::optional<std::int32_t> bos;
};

Tokenizer::Implementation::Implementation(const TokenizerDescription& description)
    : name(description.name),
      size(description.vocabulary.size()),
      normalizer(description),
      normalized_added(normalized_contents(description, normalizer)),
      added_tokens(sought_tokens(description, normalized_added)),
      metaspace(description.metaspace),
      splits(description.splits),
      byte_pairs(symbols_of(description), description.merges, description.name),
      decoder(description, normalized_added),
      text_size(text_sizes(description)),
      unknown(description.symbols == SymbolKind::bytes ? -1 : description.unknown.value_or(-1)),
      cut_at_blocks(no_merge_crosses_blocks(description)),
      add_prefix_space(description.add_prefix_space),
      use_regex(description.use_regex),
      json_escaping(description.json_escaping),
      bos(description.template_bos) {
  if (description.bos_token) bos = description.vocabulary.find(*description.bos_token);
  for (std::int32_t id = 0; description.ignore_merges && id < size; ++id) {
    const std::string* spelling = description.vocabulary.spelling(id);
    if (spelling == nullptr || !description.model_token(*spelling)) continue;
    if (std::optional<std::string> word = unspell_bytes(*spelling)) whole_words.emplace_back(std::move(*word), id);
  }
  std::sort(whole_words.begin(), whole_words.end());
}

/// Cuts the sections of one text into tokens.
class Tokenizer::Encoder {
 public:
  Encoder(const Implementation& tokenizer, Tokens& tokens)
      : tokenizer_(tokenizer), tokens_(tokens), splitter_(tokenizer.splits) {}
  /// Encodes to ids alone.
  /// @param goes_on  asked behind each word; Ended is thrown where it says no
  Encoder(const Implementation& tokenizer, Tokens& tokens, const std::function<bool(std::size_t)>& goes_on)
      : tokenizer_(tokenizer), tokens_(tokens), goes_on_(&goes_on), splitter_(tokenizer.splits) {}
  struct Ended {};

  void put(std::int32_t id, std::size_t begin, std::size_t end) {
    tokens_.id.push_back(id);
    if (goes_on_ != nullptr) return;
    tokens_.byte_start.push_back(static_cast<std::int64_t>(begin));
    tokens_.byte_end.push_back(static_cast<std::int64_t>(end));
  }

  /// A section that is not an added token.
  /// @param begin  where in the whole text it begins
  void encode_section(std::string_view section, std::size_t begin) {
    if (!tokenizer_.normalizer.empty() || tokenizer_.metaspace) return encode_changed(section, begin);
    places_ = nullptr;
    if (!tokenizer_.added_tokens.any_normalized()) return encode_text(section, begin);
    for (const Section& part : tokenizer_.added_tokens.split_normalized(section)) {
      if (part.id >= 0) {
        put(part.id, begin + part.begin, begin + part.end);
      } else {
        encode_text(section.substr(part.begin, part.end - part.begin), begin + part.begin);
      }
    }
  }

 private:
  void encode_changed(std::string_view section, std::size_t begin) {
    AlignedText text;
    if (tokenizer_.normalizer.empty()) {
      text.text = section;
      text.original_begin = begin;
    } else {
      text = tokenizer_.normalizer.normalize(section, begin);
    }
    if (!tokenizer_.added_tokens.any_normalized()) return encode_aligned(std::move(text));
    OriginalPlaces places(text);
    for (const Section& part : tokenizer_.added_tokens.split_normalized(text.text)) {
      if (part.id >= 0) {
        const OriginalPlaces::Place place = places.of(part.begin, part.end);
        put(part.id, place.begin, place.end);
      } else {
        encode_aligned(text.part(part.begin, part.end));
      }
    }
  }

  void encode_aligned(AlignedText text) {
    if (tokenizer_.metaspace) apply_metaspace(*tokenizer_.metaspace, text);
    OriginalPlaces places(text);
    places_ = &places;
    encode_text(text.text, 0);
    places_ = nullptr;
  }

  /// @param text   of which bytes are places_', or, where there are none, lie in the whole text from `begin` on
  void encode_text(std::string_view text, std::size_t begin) {
    const char* first = text.data();
    readable_end_ = first + text.size();
    splitter_.split(text, [&](std::string_view piece) {
      encode_piece(piece, begin + static_cast<std::size_t>(piece.data() - first));
    });
  }

  void encode_piece(std::string_view piece, std::size_t begin) {
    if (!tokenizer_.add_prefix_space || piece.starts_with(' ')) return encode_words(piece, begin, 0);
    const std::string prefixed = std::string(1, ' ').append(piece);
    const char* readable_end = readable_end_;
    readable_end_ = prefixed.data() + prefixed.size();
    encode_words(prefixed, begin, 1);
    readable_end_ = readable_end;
  }

  /// @param prefix  bytes at the text's beginning that stand for nothing
  void encode_words(std::string_view text, std::size_t begin, std::size_t prefix) {
    for (std::size_t start = 0; start < text.size();) {
      const std::size_t end = end_of_word(text, start);
      const std::string_view word = text.substr(start, end - start);
      std::size_t offset = start;
      for (const std::int32_t id : tokens_of(word)) {
        const std::size_t size = id == tokenizer_.unknown
                                     ? tokenizer_.byte_pairs.unknown_size(text.substr(offset, end - offset))
                                     : tokenizer_.text_size[index_of(id)];
        const std::size_t next = offset + size;
        put_placed(id, begin + std::max(offset, prefix) - prefix, begin + std::max(next, prefix) - prefix);
        offset = next;
      }
      if (goes_on_ != nullptr && !(*goes_on_)(tokens_.id.size())) throw Ended();
      start = end;
    }
  }

  void put_placed(std::int32_t id, std::size_t begin, std::size_t end) {
    if (places_ == nullptr) return put(id, begin, end);
    // A prefixed space that is a token of its own stands for no byte.
    const OriginalPlaces::Place place = places_->of(begin, std::max(begin + 1, end));
    put(id, place.begin, begin < end ? place.end : place.begin);
  }

  std::size_t end_of_word(std::string_view text, std::size_t start) {
    if (tokenizer_.use_regex) return words_.match_end(text, start).value_or(text.size());
    if (!tokenizer_.cut_at_blocks) return text.size();
    while (text.substr(start).starts_with(kSpaceBlock)) start += kSpaceBlock.size();
    return std::min(text.find(kSpaceBlock, start), text.size());
  }

  /// Valid until the next call.
  std::span<const std::int32_t> tokens_of(std::string_view word) {
    if (word.size() > WordCache::longest_word) {
      cut(word);
      return ids_;
    }
    const auto text_bytes = static_cast<std::size_t>(readable_end_ - word.data());
    const WordCache::Key key = WordCache::key_of(word, text_bytes);
    const std::span<const std::int32_t> known = cache_.find(key);
    if (!known.empty()) return known;
    cut(word);
    cache_.insert(key, ids_);
    return ids_;
  }

  void cut(std::string_view word) {
    ids_.clear();
    const auto& words = tokenizer_.whole_words;
    const auto whole = std::lower_bound(words.begin(), words.end(), word,
                                        [](const auto& entry, std::string_view other) { return entry.first < other; });
    if (whole != words.end() && whole->first == word) {
      ids_.push_back(whole->second);
    } else {
      tokenizer_.byte_pairs.encode(word, *workspace_, ids_);
    }
  }

  const Implementation& tokenizer_;
  Tokens& tokens_;
  const std::function<bool(std::size_t)>* goes_on_ = nullptr;
  Splitter splitter_;
  Matcher words_{word_pattern()};
  OriginalPlaces* places_ = nullptr;  ///< of the text that is being encoded; null: it is part of the whole text
  const char* readable_end_ = nullptr;
  WordCache cache_;
  BytePairModel::WorkspacePointer workspace_ = BytePairModel::make_workspace();
  std::vector<std::int32_t> ids_;
};

namespace {

void require_utf8(std::string_view text) {
  if (const std::optional<std::size_t> offset = find_invalid_utf8(text)) {
    throw Error("the text is not UTF-8 at byte offset " + std::to_string(*offset) +
                "; convert it, or have such bytes replaced");
  }
}

/// Bytes of the escaped text become those of the characters that they escape.
void map_to_original(std::string_view text, Tokens& tokens) {
  EscapePosition position(text);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const auto first = static_cast<std::size_t>(tokens.byte_start[i]);
    const auto end = static_cast<std::size_t>(tokens.byte_end[i]);
    position.seek(first);
    tokens.byte_start[i] = static_cast<std::int64_t>(position.begin());
    // A prefixed space that is a token of its own stands for no byte.
    if (first < end) position.seek(end - 1);
    tokens.byte_end[i] = static_cast<std::int64_t>(first < end ? position.end() : position.begin());
  }
}

}  // namespace

void Tokenizer::Implementation::encode_sections(std::string_view text, Encoder& encoder) const {
  for (const Section& section : added_tokens.split(text)) {
    if (section.id >= 0) {
      encoder.put(section.id, section.begin, section.end);
    } else {
      encoder.encode_section(text.substr(section.begin, section.end - section.begin), section.begin);
    }
  }
}

void Tokenizer::Implementation::check(std::int32_t id) const {
  if (id >= 0 && id < size) return;
  throw Error(name + ": the token id " + std::to_string(id) + " is outside the vocabulary (0 to " +
              std::to_string(size - 1) + "); use the tokenizer of the model that the ids belong to");
}

Tokenizer::Tokenizer(std::unique_ptr<Implementation> implementation) : implementation_(std::move(implementation)) {}
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;
Tokenizer::~Tokenizer() = default;

bool Tokenizer::is_in(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / "tokenizer.json") || std::filesystem::exists(folder / "vocab.json");
}

Tokenizer Tokenizer::load(const std::filesystem::path& folder) {
  const auto present = [&](const char* file) { return std::filesystem::exists(folder / file); };
  const auto content = [&](const char* file) {
    return read_file_bytes(folder / file, "tokenizer", largest_vocabulary_file);
  };
  const auto path = [&](const char* file) { return (folder / file).string(); };
  TokenizerDescription description;
  SpecialTokens special = SpecialTokens::as_listed;
  if (present("tokenizer.json")) {
    description = read_tokenizer_json(content("tokenizer.json"), path("tokenizer.json"));
  } else if (present("vocab.json") && present("merges.txt")) {
    special = SpecialTokens::add;
    description = read_vocab_and_merges(content("vocab.json"), content("merges.txt"), path("vocab.json"));
    if (present("added_tokens.json")) {
      apply_added_tokens(content("added_tokens.json"), path("added_tokens.json"), description);
    }
  } else {
    throw Error(folder.string() +
                ": holds no tokenizer: put tokenizer.json, or vocab.json and merges.txt, of the checkpoint there");
  }
  if (present("tokenizer_config.json")) {
    apply_tokenizer_config(content("tokenizer_config.json"), path("tokenizer_config.json"), special, description);
  }
  if (present("special_tokens_map.json")) {
    apply_special_tokens_map(content("special_tokens_map.json"), path("special_tokens_map.json"), special, description);
  }
  Tokenizer tokenizer(std::make_unique<Implementation>(description));
  log_line(LogCategory::text, [&] {
    std::string files;
    for (const char* file : kTokenizerFiles) {
      const std::string_view name = file;
      const bool of_vocabulary = name == "vocab.json" || name == "merges.txt" || name == "added_tokens.json";
      const bool skipped = of_vocabulary && special == SpecialTokens::as_listed;
      if (present(file)) files += (files.empty() ? "" : ", ") + std::string(file) + (skipped ? " (skipped)" : "");
    }
    return folder.string() + ": tokenizer of " + files + ": " + std::to_string(tokenizer.vocabulary_size()) + " ids" +
           (description.json_escaping ? ", text is JSON-escaped first" : "") + ", BOS " +
           (tokenizer.bos_id() ? std::to_string(*tokenizer.bos_id()) : "not named");
  });
  return tokenizer;
}

Tokenizer Tokenizer::from_json(std::string_view content, std::string_view name, bool json_escaping) {
  TokenizerDescription description = read_tokenizer_json(content, std::string(name));
  description.json_escaping = json_escaping;
  return Tokenizer(std::make_unique<Implementation>(description));
}

Tokenizer Tokenizer::from_vocab_and_merges(std::string_view vocab, std::string_view merges, std::string_view name,
                                           bool json_escaping) {
  TokenizerDescription description = read_vocab_and_merges(vocab, merges, std::string(name));
  description.json_escaping = json_escaping;
  return Tokenizer(std::make_unique<Implementation>(description));
}

bool Tokenizer::encode_ids(std::string_view text, std::vector<std::int32_t>& ids,
                           const std::function<bool(std::size_t)>& goes_on) const {
  require_utf8(text);
  Tokens tokens;
  tokens.id.swap(ids);
  Encoder encoder(*implementation_, tokens, goes_on);
  bool whole = true;
  try {
    if (implementation_->json_escaping) {
      implementation_->encode_sections(escape_json(text), encoder);
    } else {
      implementation_->encode_sections(text, encoder);
    }
  } catch (const Encoder::Ended&) {
    whole = false;
  }
  ids.swap(tokens.id);
  return whole;
}

Tokens Tokenizer::encode(std::string_view text) const {
  require_utf8(text);
  Tokens tokens;
  // English has 4.3 bytes a token; memory that is reserved and not used costs address space only.
  tokens.id.reserve(text.size() / 4 + 16);
  tokens.byte_start.reserve(text.size() / 4 + 16);
  tokens.byte_end.reserve(text.size() / 4 + 16);
  Encoder encoder(*implementation_, tokens);
  if (implementation_->json_escaping) {
    implementation_->encode_sections(escape_json(text), encoder);
    map_to_original(text, tokens);
  } else {
    implementation_->encode_sections(text, encoder);
  }
  assert(tokens.byte_start.size() == tokens.size() && tokens.byte_end.size() == tokens.size());
  assert(tokens.size() == 0 || tokens.byte_end.back() <= static_cast<std::int64_t>(text.size()));
  return tokens;
}

std::string Tokenizer::decode(const std::vector<std::int32_t>& ids) const {
  for (const std::int32_t id : ids) implementation_->check(id);
  const std::string text = implementation_->decoder.decode(ids);
  return implementation_->json_escaping ? unescape_json(text) : text;
}

std::string Tokenizer::decode_within(const std::vector<std::int32_t>& ids) const {
  for (const std::int32_t id : ids) implementation_->check(id);
  const std::string text = implementation_->decoder.join(ids);
  return implementation_->json_escaping ? unescape_json(text) : text;
}

std::string_view Tokenizer::token_bytes(std::int32_t id) const {
  implementation_->check(id);
  return implementation_->decoder.bytes(static_cast<std::size_t>(id));
}

std::int32_t Tokenizer::vocabulary_size() const { return implementation_->size; }

std::optional<std::int32_t> Tokenizer::bos_id() const { return implementation_->bos; }

}  // namespace foxscope

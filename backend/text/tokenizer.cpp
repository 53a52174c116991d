#include "backend/text/tokenizer.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <span>
#include <utility>

#include "backend/base/error.h"
#include "backend/base/log.h"
#include "backend/text/added_tokens.h"
#include "backend/text/byte_alphabet.h"
#include "backend/text/byte_pair.h"
#include "backend/text/file_bytes.h"
#include "backend/text/json_escape.h"
#include "backend/text/pre_tokenizer.h"
#include "backend/text/tokenizer_description.h"
#include "backend/text/word_cache.h"

namespace foxscope {
namespace {

std::array<std::int32_t, 256> single_bytes(const Vocabulary& vocabulary) {
  std::array<std::int32_t, 256> ids{};
  for (std::size_t byte = 0; byte < ids.size(); ++byte) {
    ids[byte] = vocabulary.find(spell_byte(static_cast<std::uint8_t>(byte))).value_or(-1);
  }
  return ids;
}

}  // namespace

struct Tokenizer::Implementation {
  explicit Implementation(const TokenizerDescription& description);
  void encode_sections(std::string_view text, Tokens& tokens) const;
  [[nodiscard]] std::string_view bytes(std::size_t id) const {
    return std::string_view(spelled).substr(spelled_end[id], spelled_end[id + 1] - spelled_end[id]);
  }
  void check(std::int32_t id) const;

  std::string name;
  std::int32_t size;
  AddedTokens added_tokens;
  BytePairModel byte_pairs;
  std::string spelled;                   ///< bytes of all tokens, one after the other
  std::vector<std::size_t> spelled_end;  ///< [size + 1], token id's are from spelled_end[id] to spelled_end[id + 1]
  std::vector<std::pair<std::string, std::int32_t>> whole_words;  ///< sorted; only with ignore_merges
  bool add_prefix_space;
  bool use_regex;
  bool ignore_merges;
  bool json_escaping;
  std::optional<std::int32_t> bos;
};

Tokenizer::Implementation::Implementation(const TokenizerDescription& description)
    : name(description.name),
      size(description.vocabulary.size()),
      added_tokens(description.added_tokens),
      byte_pairs(single_bytes(description.vocabulary), description.merges, description.name),
      spelled_end{0},
      add_prefix_space(description.add_prefix_space),
      use_regex(description.use_regex),
      ignore_merges(description.ignore_merges),
      json_escaping(description.json_escaping) {
  if (description.bos_token) bos = description.vocabulary.find(*description.bos_token);
  for (std::int32_t id = 0; id < size; ++id) {
    if (const std::string* spelling = description.vocabulary.spelling(id)) {
      const bool is_added = description.added_tokens.contains(*spelling);
      const std::optional<std::string> bytes = is_added ? std::nullopt : unspell_bytes(*spelling);
      spelled += bytes.value_or(*spelling);
      if (ignore_merges) {
        if (std::optional<std::string> word = unspell_bytes(*spelling)) whole_words.emplace_back(std::move(*word), id);
      }
    }
    spelled_end.push_back(spelled.size());
  }
  std::sort(whole_words.begin(), whole_words.end());
}

namespace {

/// Cuts the sections of one text into tokens.
class Encoder {
 public:
  Encoder(const BytePairModel& byte_pairs, std::span<const std::size_t> spelled_end,
          std::span<const std::pair<std::string, std::int32_t>> whole_words, Tokens& tokens)
      : byte_pairs_(byte_pairs), spelled_end_(spelled_end), whole_words_(whole_words), tokens_(tokens) {}

  void put(std::int32_t id, std::size_t begin, std::size_t end) {
    tokens_.id.push_back(id);
    tokens_.byte_start.push_back(static_cast<std::int64_t>(begin));
    tokens_.byte_end.push_back(static_cast<std::int64_t>(end));
  }

  /// @param text    the words begin at its beginning
  /// @param begin   where in the whole text it begins
  /// @param prefix  bytes at its beginning that the whole text does not have
  void encode(std::string_view text, std::size_t begin, std::size_t prefix, bool use_regex) {
    Matcher words(word_pattern());
    for (std::size_t start = 0; start < text.size();) {
      const std::size_t end = use_regex ? words.match_end(text, start).value_or(text.size()) : text.size();
      const std::string_view word = text.substr(start, end - start);
      std::size_t offset = start;
      for (const std::int32_t id : tokens_of(word, text.size() - start)) {
        const auto at = static_cast<std::size_t>(id);
        const std::size_t next = offset + spelled_end_[at + 1] - spelled_end_[at];
        put(id, begin + std::max(offset, prefix) - prefix, begin + std::max(next, prefix) - prefix);
        offset = next;
      }
      start = end;
    }
  }

 private:
  /// Valid until the next call.
  std::span<const std::int32_t> tokens_of(std::string_view word, std::size_t text_bytes) {
    if (word.size() > WordCache::longest_word) {
      cut(word);
      return ids_;
    }
    const WordCache::Key key = WordCache::key_of(word, text_bytes);
    const std::span<const std::int32_t> known = cache_.find(key);
    if (!known.empty()) return known;
    cut(word);
    cache_.insert(key, ids_);
    return ids_;
  }

  void cut(std::string_view word) {
    ids_.clear();
    const auto whole = std::lower_bound(whole_words_.begin(), whole_words_.end(), word,
                                        [](const auto& entry, std::string_view other) { return entry.first < other; });
    if (whole != whole_words_.end() && whole->first == word) {
      ids_.push_back(whole->second);
    } else {
      byte_pairs_.encode(word, *workspace_, ids_);
    }
  }

  const BytePairModel& byte_pairs_;
  std::span<const std::size_t> spelled_end_;
  std::span<const std::pair<std::string, std::int32_t>> whole_words_;
  Tokens& tokens_;
  WordCache cache_;
  BytePairModel::WorkspacePointer workspace_ = BytePairModel::make_workspace();
  std::vector<std::int32_t> ids_;
};

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

void Tokenizer::Implementation::encode_sections(std::string_view text, Tokens& tokens) const {
  // English has 4.3 bytes a token; memory that is reserved and not used costs address space only.
  tokens.id.reserve(text.size() / 4 + 16);
  tokens.byte_start.reserve(text.size() / 4 + 16);
  tokens.byte_end.reserve(text.size() / 4 + 16);
  Encoder encoder(byte_pairs, spelled_end, whole_words, tokens);
  for (const Section& section : added_tokens.split(text)) {
    const std::string_view part = text.substr(section.begin, section.end - section.begin);
    if (section.id >= 0) {
      encoder.put(section.id, section.begin, section.end);
    } else if (add_prefix_space && !part.starts_with(' ')) {
      encoder.encode(std::string(1, ' ').append(part), section.begin, 1, use_regex);
    } else {
      encoder.encode(part, section.begin, 0, use_regex);
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
    for (const char* file : {"tokenizer.json", "vocab.json", "merges.txt", "added_tokens.json", "tokenizer_config.json",
                             "special_tokens_map.json"}) {
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

Tokens Tokenizer::encode(std::string_view text) const {
  if (const std::optional<std::size_t> offset = find_invalid_utf8(text)) {
    throw Error("the text is not UTF-8 at byte offset " + std::to_string(*offset) +
                "; convert it, or have such bytes replaced");
  }
  Tokens tokens;
  if (implementation_->json_escaping) {
    implementation_->encode_sections(escape_json(text), tokens);
    map_to_original(text, tokens);
  } else {
    implementation_->encode_sections(text, tokens);
  }
  assert(tokens.byte_start.size() == tokens.size() && tokens.byte_end.size() == tokens.size());
  assert(tokens.size() == 0 || tokens.byte_end.back() <= static_cast<std::int64_t>(text.size()));
  return tokens;
}

std::string Tokenizer::decode(const std::vector<std::int32_t>& ids) const {
  std::string text;
  for (const std::int32_t id : ids) text += token_bytes(id);
  return implementation_->json_escaping ? unescape_json(text) : text;
}

std::string_view Tokenizer::token_bytes(std::int32_t id) const {
  implementation_->check(id);
  return implementation_->bytes(static_cast<std::size_t>(id));
}

std::int32_t Tokenizer::vocabulary_size() const { return implementation_->size; }

std::optional<std::int32_t> Tokenizer::bos_id() const { return implementation_->bos; }

}  // namespace foxscope

#pragma once

#include <cstdint>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/file/run_file.h"

namespace foxscope {

/// A word: what stands between white space, with the tokens that begin in it or in the white space before it.
struct SurprisalWord {
  std::int64_t document = 0;
  std::int64_t index = 0;     ///< in the document, from 0
  std::int64_t sentence = 0;  ///< likewise
  std::int64_t first = 0;     ///< tokens [first, end)
  std::int64_t end = 0;
  std::int64_t byte_start = 0;  ///< in the document, UTF-8
  std::int64_t byte_end = 0;
  std::string string;
  bool cut = false;  ///< goes on beyond what was read: it has no numbers

  /// Whether it is a word: a document of white space alone has none, and its tokens belong to what has no letter.
  [[nodiscard]] bool is_word() const { return !string.empty(); }
};

/// Numbers of every token of a corpus, each document read by itself after BOS, and the words that tokens make.
struct Surprisals {
  std::string model;                               ///< NAME
  std::vector<std::string> documents;              ///< names
  std::vector<std::int64_t> document;              ///< [T] index
  std::vector<std::int64_t> token;                 ///< [T] place in its document
  std::vector<std::int64_t> word;                  ///< [T] place among `words`
  std::vector<std::int32_t> id;                    ///< [T]
  std::vector<std::int64_t> byte_start, byte_end;  ///< [T] in the document
  std::vector<std::string> string;                 ///< [T] U+FFFD where a token is part of a character
  std::vector<float> surprisal;                    ///< [T] -log p, nats
  std::vector<float> entropy;                      ///< [T] of what was predicted in the token's place, nats
  std::vector<std::int64_t> rank;                  ///< [T] 1: the likeliest; 0: not known
  std::vector<std::string> gate_names;             ///< [G] "gate", or "gate_LAYER_HEAD"; none for a model without gates
  std::vector<float> gate;                         ///< [T, G] f where the token is read
  std::vector<SurprisalWord> words;
  /// Log of the probability, nats, that what comes in a token's place begins a new word or ends the text, and the same
  /// behind the last token of each document; empty without WordEnds::counted.
  std::vector<float> boundary;      ///< [T]
  std::vector<bool> begins_word;    ///< [T] whether the token is one of these: begins with white space
  std::vector<float> boundary_end;  ///< [documents]

  [[nodiscard]] std::size_t tokens() const { return id.size(); }
  /// A line a token, or a line a word: surprisal and entropy summed, the largest rank, the mean of gates, and where
  /// boundaries are known whole_word_surprisal.
  [[nodiscard]] std::string csv_of_tokens() const;
  [[nodiscard]] std::string csv_of_words() const;
  [[nodiscard]] std::int64_t word_count() const;
};

/// The rule for words: text between white space (Unicode's White_Space), punctuation included; or what stands between
/// the word boundaries of Unicode's Standard Annex 29 and is no white space, where punctuation is a word of its own
/// (docs/evaluation.md).
enum class WordRule { white_space, unicode };

/// Words and sentences of a text in UTF-8, in order; the last one is cut where the text is the part of one that goes on
/// within it. A sentence ends with what stands between white space and ends in
/// . ! ? or an ellipsis, quotes and brackets behind it left out, and before an empty line.
std::vector<SurprisalWord> words_of(const Text& text, WordRule rule);

/// Gives words the tokens that begin in them or in the white space before them; white space at the end belongs to the
/// last word, unless text follows that was not read. The tokens of a text without words belong to a place that is none
/// (SurprisalWord::is_word).
/// @param words       of words_of; `first` and `end` are set, equal in a word that a token of the word before holds
/// @param text        of the tokens
/// @param byte_start  [T] of its tokens, in order
/// @param first       place of its first token among those of all documents
/// @returns [T] place among `words`
std::vector<std::int64_t> give_tokens(std::vector<SurprisalWord>& words, const Text& text,
                                      std::span<const std::int64_t> byte_start, std::int64_t first);

/// The numbers of a word, made of its tokens' numbers. Nothing is known of a word that is cut, or that a token of the
/// word before holds.
struct WordNumbers {
  double surprisal = 0;      ///< sum, nats: of the text going on with these tokens, whatever follows; NaN: not known
  double entropy = 0;        ///< sum, nats; NaN: not known
  std::int64_t rank = 0;     ///< the largest; 0: not known
  std::vector<double> gate;  ///< [G] mean; NaN: not known
  /// -log p of the word itself, that is of the tokens and of a new word, or the text's end, behind them, after a word
  /// that has ended (Pimentel & Meister, How to Compute the Probability of a Word, 2024; Oh & Schuler, 2024):
  ///     sum of -log p(token) - log B(behind the last token) + log B(in the first token's place),
  /// B being what `boundary` holds the log of, and 1 - B for a text's first word that no white space stands before.
  /// NaN without boundaries, where a token reaches out of the word, and where the first does not begin with white
  /// space.
  double whole_word_surprisal = std::numeric_limits<double>::quiet_NaN();
};
WordNumbers numbers_of(const Surprisals& table, const SurprisalWord& word);

/// Writes /tokens and /words, a dataset a column.
void write_surprisal_file(const std::filesystem::path& path, const Surprisals& surprisals, const Provenance& provenance,
                          Overwrite overwrite);

/// Two sentences, of which one should be the likelier.
struct MinimalPair {
  std::string name;  ///< of what it tests, "UID"; may be empty
  std::string good;
  std::string bad;
};
struct ScoredPair {
  double good = 0;  ///< log p of the whole sentence after BOS, nats
  double bad = 0;
  std::int64_t good_tokens = 0;
  std::int64_t bad_tokens = 0;
  [[nodiscard]] bool right() const { return good > bad; }
};
struct MinimalPairs {
  std::string model;
  std::vector<MinimalPair> pairs;
  std::vector<ScoredPair> scores;  ///< [pairs]
  [[nodiscard]] std::string csv() const;
};

/// Reads BLiMP's form: an object a line with sentence_good and sentence_bad, and perhaps UID.
/// @throws Error naming the file and the line
std::vector<MinimalPair> read_minimal_pairs(const std::filesystem::path& file);

}  // namespace foxscope

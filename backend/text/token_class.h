#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foxscope {

/// The class of a token in its text. The first seven exclude each other and every token is one of them; rare_word is
/// said of a token beside its class. A word is a run of letters, marks and digits (Unicode's L, M, N), apostrophes ('
/// or U+2019) inside it included. A token is what its first character that is not white space makes it:
/// - newline, space: white space alone, with and without a line break
/// - punctuation: any other character outside words (symbols too)
/// - sentence_start: the first token of a word that begins a sentence: the text's first word; a word after a blank
/// line;
///   a word after . ! ? or an ellipsis and white space, or after the wide marks of Chinese and Japanese; other marks
///   than comma, semicolon and colon may stand between. Not so where it begins with a lower-case letter, or the word
///   before a single full stop is a title (Mr, Dr...) or one capital letter. One line break alone is no end: texts are
///   often broken into lines.
/// - word_first, word_later: the first token of any other word; all that follow, a token that begins within a character
///   included ("don" and "'t" are first and later)
/// - rare_word: any token of a rare word (WordCounts)
enum class TokenClass : std::uint8_t {
  bos,  ///< the token that begins the sequence, which is not part of the text
  newline,
  space,
  punctuation,
  sentence_start,
  word_first,
  word_later,
  rare_word
};
inline constexpr std::size_t kTokenClasses = 8;

/// "sentence_start" and so on, as files and tables name them.
const char* to_string(TokenClass token_class);

/// Classes of one token: bit n is the class of number n.
using TokenClassSet = std::uint8_t;
constexpr TokenClassSet set_of(TokenClass token_class) {
  return static_cast<TokenClassSet>(1U << static_cast<unsigned>(token_class));
}

/// How often each word of a text, or of a corpus, occurs; capital letters of ASCII count as small ones. The text and
/// not a tokenizer decides which words are rare, so that models with different tokenizers speak of the same words.
class WordCounts {
 public:
  /// @param text  well-formed UTF-8
  void add(std::string_view text);
  /// A word is rare if it occurs once in every 100,000 words or less, or only once; numbers never are.
  [[nodiscard]] bool is_rare(std::string_view word) const;
  [[nodiscard]] std::int64_t words() const { return words_; }

 private:
  std::map<std::string, std::int64_t, std::less<>> count_;
  std::int64_t words_ = 0;
};

/// Where the tokens of a text lie in it.
struct TokenBytes {
  std::span<const std::int64_t> start;  ///< [T] non-decreasing; may lie within a character
  std::span<const std::int64_t> end;    ///< [T]
};

/// Classes of a text's tokens, [T].
/// @param text    well-formed UTF-8
/// @param counts  of this text or of the corpus that it is part of
std::vector<TokenClassSet> token_classes(std::string_view text, const TokenBytes& tokens, const WordCounts& counts);

}  // namespace foxscope

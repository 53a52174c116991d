#include "backend/text/token_class.h"

#include <algorithm>
#include <optional>

#include "backend/base/index.h"
#include "backend/text/pattern.h"
#include "backend/text/unicode/utf8.h"

namespace foxscope {
namespace {

constexpr std::int64_t kRareAmong = 100'000;
constexpr std::array kTitles = {"Mr", "Mrs",  "Ms",  "Messrs", "Dr", "Prof", "Rev", "Hon",
                                "St", "Capt", "Col", "Gen",    "Lt", "Sgt",  "Mme", "Mlle"};

struct Word {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool begins_sentence = false;
};

const Pattern& word_with_apostrophes() {
  static const Pattern pattern("[\\p{L}\\p{M}\\p{N}]+(?:['\\x{2019}][\\p{L}\\p{M}\\p{N}]+)*");
  return pattern;
}

bool begins_with_small_letter(std::string_view text) {
  static const Pattern pattern("\\p{Ll}");
  return Matcher(pattern).match_end(text, 0).has_value();
}

bool is_one_capital_letter(std::string_view word) {
  static const Pattern pattern("\\p{Lu}");
  return Matcher(pattern).match_end(word, 0) == word.size();
}

bool is_line_break(char32_t c) {
  return c == '\n' || c == '\r' || c == 0x0B || c == 0x0C || c == 0x85 || c == 0x2028 || c == 0x2029;
}

/// Ends of sentences that white space has to follow, and those that it need not.
bool is_end_mark(char32_t c) { return c == '.' || c == '!' || c == '?' || c == 0x2026; }
bool is_wide_end_mark(char32_t c) { return c == 0x3002 || c == 0xFF01 || c == 0xFF1F; }

bool is_title_or_initial(std::string_view word) {
  return std::find(kTitles.begin(), kTitles.end(), word) != kTitles.end() || is_one_capital_letter(word);
}

/// The gap between two words.
struct Gap {
  bool blank_line = false;
  bool ends_sentence = false;  ///< the last end mark is followed by white space, or needs none
  bool only_stop = false;      ///< of end marks there is one, a full stop right after the word
};

Gap read_gap(std::string_view gap) {
  Gap result;
  bool marked = false;
  bool broken = false;
  int marks = 0;
  bool carriage_return = false;
  for (std::size_t at = 0; at < gap.size();) {
    const Character character = character_at(gap, at);
    const char32_t c = character.code_point;
    if (is_end_mark(c) || is_wide_end_mark(c)) {
      ++marks;
      marked = true;
      result.ends_sentence = is_wide_end_mark(c);
    } else if (is_white_space(c)) {
      result.ends_sentence = result.ends_sentence || marked;
    } else if (c == ',' || c == ';' || c == ':') {
      marked = false;
      result.ends_sentence = false;
    }
    if (is_line_break(c)) {
      // "\r\n" is one break.
      if (broken && !(c == '\n' && carriage_return)) result.blank_line = true;
      broken = true;
    } else if (!is_white_space(c)) {
      broken = false;
    }
    carriage_return = c == '\r';
    at += character.bytes;
  }
  result.only_stop = marks == 1 && gap.front() == '.';
  return result;
}

bool begins_sentence(std::string_view text, const Word* before, std::size_t begin) {
  if (before == nullptr) return true;
  const Gap gap = read_gap(text.substr(before->end, begin - before->end));
  if (gap.blank_line) return true;
  if (!gap.ends_sentence || begins_with_small_letter(text.substr(begin))) return false;
  return !(gap.only_stop && is_title_or_initial(text.substr(before->begin, before->end - before->begin)));
}

/// Calls body(begin, end) for every word.
template <typename Body>
void for_each_word(std::string_view text, const Body& body) {
  Matcher matcher(word_with_apostrophes());
  for (std::size_t at = 0; at < text.size();) {
    if (const std::optional<std::size_t> end = matcher.match_end(text, at)) {
      body(at, *end);
      at = *end;
    } else {
      at += character_at(text, at).bytes;
    }
  }
}

std::vector<Word> find_words(std::string_view text) {
  std::vector<Word> words;
  for_each_word(text, [&](std::size_t begin, std::size_t end) {
    const bool starts = begins_sentence(text, words.empty() ? nullptr : &words.back(), begin);
    words.push_back({begin, end, starts});
  });
  return words;
}

std::string small(std::string_view word) {
  std::string result(word);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return result;
}

bool is_number(std::string_view word) {
  return std::all_of(word.begin(), word.end(), [](char c) { return (c >= '0' && c <= '9') || c == '\''; });
}

/// A token of white space alone.
TokenClass white_class(std::string_view text, std::size_t begin, std::size_t end) {
  for (std::size_t at = begin; at < end; at += character_at(text, at).bytes) {
    if (is_line_break(character_at(text, at).code_point)) return TokenClass::newline;
  }
  return TokenClass::space;
}

}  // namespace

const char* to_string(TokenClass token_class) {
  constexpr std::array<const char*, kTokenClasses> kNames = {
      "bos", "newline", "space", "punctuation", "sentence_start", "word_first", "word_later", "rare_word"};
  return kNames[index_of(token_class)];
}

void WordCounts::add(std::string_view text) {
  for_each_word(text, [&](std::size_t begin, std::size_t end) {
    ++count_[small(text.substr(begin, end - begin))];
    ++words_;
  });
}

bool WordCounts::is_rare(std::string_view word) const {
  if (is_number(word)) return false;
  const auto found = count_.find(small(word));
  return found == count_.end() || found->second <= std::max<std::int64_t>(1, words_ / kRareAmong);
}

std::vector<TokenClassSet> token_classes(std::string_view text, const TokenBytes& tokens, const WordCounts& counts) {
  const std::vector<Word> words = find_words(text);
  std::vector<TokenClassSet> classes;
  classes.reserve(tokens.start.size());
  auto word = words.begin();
  std::size_t head_before = text.size();
  for (std::size_t n = 0; n < tokens.start.size(); ++n) {
    const auto start = static_cast<std::size_t>(tokens.start[n]);
    const auto end = static_cast<std::size_t>(tokens.end[n]);
    // A token that begins within a character is counted with that character.
    const std::size_t first = start < end ? previous_character(text, start + 1) : start;
    std::size_t head = first;
    while (head < end && is_white_space(character_at(text, head).code_point)) head += character_at(text, head).bytes;
    if (head >= end) {
      classes.push_back(set_of(white_class(text, first, end)));
      continue;
    }
    const bool same_character = head == head_before;
    head_before = head;
    while (word != words.end() && word->end <= head) ++word;
    if (word == words.end() || head < word->begin) {
      classes.push_back(set_of(TokenClass::punctuation));
      continue;
    }
    const bool begins = head == word->begin && start <= head && !same_character;
    const TokenClass own = !begins                 ? TokenClass::word_later
                           : word->begins_sentence ? TokenClass::sentence_start
                                                   : TokenClass::word_first;
    const bool rare = counts.is_rare(text.substr(word->begin, word->end - word->begin));
    classes.push_back(
        static_cast<TokenClassSet>(set_of(own) | (rare ? set_of(TokenClass::rare_word) : TokenClassSet{0})));
  }
  return classes;
}

}  // namespace foxscope

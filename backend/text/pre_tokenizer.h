#pragma once

#include <cstddef>
#include <optional>
#include <string_view>

namespace foxscope {

/// A compiled regular expression over UTF-8. Constant, so threads can share it.
class Pattern {
 public:
  /// @throws Error when PCRE2 cannot compile it
  explicit Pattern(std::string_view expression);
  ~Pattern();
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  [[nodiscard]] const void* code() const { return code_; }

 private:
  void* code_;
};

/// Matches a pattern at given places of a text. Each thread needs its own.
class Matcher {
 public:
  explicit Matcher(const Pattern& pattern);
  ~Matcher();
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  /// End of what the pattern matches exactly from `start` on (a character's beginning), none where it does not match.
  /// The text must be well-formed UTF-8: it is not checked.
  std::optional<std::size_t> match_end(std::string_view text, std::size_t start);

 private:
  const Pattern& pattern_;
  void* match_data_;
};

/// GPT-2's pattern (Radford et al. 2019), which cuts text into the words that byte pair merges never cross:
///   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
/// Every character of a text belongs to exactly one word.
const Pattern& word_pattern();

/// Whether a text begins with a character of Unicode's \w (UTS 18, annex C): alphabetic, mark, decimal digit,
/// connector punctuation or join control.
bool begins_with_word_character(std::string_view text);

}  // namespace foxscope

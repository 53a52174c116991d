#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace foxscope {

/// A compiled regular expression over UTF-8. Constant, so threads can share it.
class Pattern {
 public:
  /// One of the program's own, in PCRE2's syntax, for Matcher::match_end.
  /// @throws Error when PCRE2 cannot compile it
  explicit Pattern(std::string_view expression);

  /// One that a file gives, for Matcher::find.
  /// @param expression  in PCRE2's syntax (pcre2_of_oniguruma)
  /// @param label       the file and the pattern as it stands there, for errors
  /// @throws Error when PCRE2 cannot compile it
  Pattern(std::string_view expression, std::string label);

  ~Pattern();
  Pattern(const Pattern&) = delete;
  Pattern& operator=(const Pattern&) = delete;

  [[nodiscard]] const void* code() const { return code_; }
  [[nodiscard]] const std::string& label() const { return label_; }

 private:
  void* code_;
  std::string label_;
};

/// Matches a pattern in a text. Each thread needs its own. Texts must be well-formed UTF-8: they are not checked.
class Matcher {
 public:
  struct Match {
    std::size_t begin = 0;
    std::size_t end = 0;
  };

  explicit Matcher(const Pattern& pattern);
  ~Matcher();
  Matcher(const Matcher&) = delete;
  Matcher& operator=(const Matcher&) = delete;

  /// End of what one of the program's own patterns matches exactly from `start` on (a character's beginning), none
  /// where it does not match.
  std::optional<std::size_t> match_end(std::string_view text, std::size_t start);

  /// The first match of a file's pattern that begins at `start` or later; none: there is none.
  /// @throws Error where finding it takes too long or too much memory
  std::optional<Match> find(std::string_view text, std::size_t start);

 private:
  /// Whether it matches; the match is in match_data_ then.
  bool match(std::string_view text, std::size_t start);

  const Pattern& pattern_;
  void* match_data_;
};

/// All matches of a file's pattern in a text, as Oniguruma's bindings count them: an empty one does not follow another
/// match at once.
class MatchesOf {
 public:
  MatchesOf(Matcher& matcher, std::string_view text) : matcher_(matcher), text_(text) {}
  std::optional<Matcher::Match> next();

 private:
  Matcher& matcher_;
  std::string_view text_;
  std::size_t from_ = 0;
  std::optional<std::size_t> last_end_;
};

/// Whether a text begins with a character of Unicode's \w (UTS 18, annex C): alphabetic, mark, decimal digit,
/// connector punctuation or join control.
bool begins_with_word_character(std::string_view text);

}  // namespace foxscope

#include "backend/text/oniguruma_pattern.h"

#include <algorithm>

#include "backend/base/error.h"
#include "backend/text/json_reading.h"

namespace foxscope {
namespace {

constexpr std::size_t kLongestPattern = 4096;

// PCRE2's own \s takes in U+180E, which lost that property in Unicode 6.3.
constexpr std::string_view kWhiteSpaceRanges = "\\t-\\r\\x{85}\\p{Z}";

constexpr bool is_ascii_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr bool is_ascii_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_ascii_punctuation(char c) {
  return c > ' ' && c < '\x7F' && !is_ascii_letter(c) && !is_ascii_digit(c);
}

/// Rewrites one pattern, from left to right.
class PatternTranslation {
 public:
  PatternTranslation(std::string_view pattern, const std::string& label) : pattern_(pattern), label_(label) {}

  std::string result() {
    if (pattern_.size() > kLongestPattern) {
      throw Error(label_ + " is longer than " + std::to_string(kLongestPattern) +
                  " bytes, which is not supported; give a checkpoint with a shorter one");
    }
    while (at_ < pattern_.size()) part();
    return result_;
  }

 private:
  [[nodiscard]] bool at_text(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }

  [[noreturn]] void refuse(std::size_t size) const {
    throw Error(label_ + " uses " + in_quotes(pattern_.substr(at_, size)) +
                ", which is not supported; give a checkpoint whose pattern does without");
  }

  void copy(std::size_t size) {
    result_ += pattern_.substr(at_, size);
    at_ += size;
  }

  void part() {
    const char c = pattern_[at_];
    switch (c) {
      case '\\':
        return escape(false);
      case '[':
        return character_class();
      case '(':
        return open_group();
      case '*':
      case '+':
      case '?':
        return copy_quantifier();
      case '{':
        return count();
      case '^':
      case '$':  // ends of lines in one, of the text in the other
      case '.':
      case ']':
      case '}':
        refuse(1);
      default:
        return copy(1);
    }
  }

  void open_group() {
    if (!at_text("(?")) return copy(1);
    for (const std::string_view plain : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>"}) {
      if (at_text(plain)) return copy(plain.size());
    }
    if (!at_text("(?i:")) refuse(std::min<std::size_t>(4, pattern_.size() - at_));
    letters_of_any_case();
  }

  /// Only where no two letters together are one character of another case, as ss is U+00DF for Oniguruma.
  void letters_of_any_case() {
    const std::size_t end = pattern_.find(')', at_);
    if (end == std::string_view::npos) refuse(4);
    const std::string_view inside = pattern_.substr(at_ + 4, end - at_ - 4);
    const auto plain = [](char c) { return is_ascii_letter(c) || c == '\'' || c == '|'; };
    if (!std::all_of(inside.begin(), inside.end(), plain)) refuse(end + 1 - at_);
    for (std::size_t i = 0; i + 1 < inside.size(); ++i) {
      const std::string pair = {static_cast<char>(inside[i] | 0x20), static_cast<char>(inside[i + 1] | 0x20)};
      for (const char* one : {"ss", "st", "ff", "fi", "fl"}) {
        if (pair == one) refuse(end + 1 - at_);
      }
    }
    copy(end + 1 - at_);
  }

  void copy_quantifier() {
    copy(1);
    // A lazy or possessive one means the same in both.
    if (at_ < pattern_.size() && (pattern_[at_] == '?' || pattern_[at_] == '+')) copy(1);
  }

  /// {n}, {n,} or {n,m}; what may follow it means different things.
  void count() {
    std::size_t end = at_ + 1;
    const auto digits = [&] {
      const std::size_t first = end;
      while (end < pattern_.size() && is_ascii_digit(pattern_[end])) ++end;
      return end - first;
    };
    const std::size_t least = digits();
    if (end < pattern_.size() && pattern_[end] == ',') {
      ++end;
      digits();
    }
    if (least == 0 || end >= pattern_.size() || pattern_[end] != '}') refuse(std::min(end + 1, pattern_.size()) - at_);
    const std::size_t next = end + 1;
    if (next < pattern_.size() && std::string_view("?+*{").find(pattern_[next]) != std::string_view::npos) {
      refuse(next + 1 - at_);
    }
    copy(end + 1 - at_);
  }

  void character_class() {
    copy(1);
    if (at_text("^")) copy(1);
    if (at_text("]")) refuse(1);
    while (at_ < pattern_.size() && pattern_[at_] != ']') {
      if (pattern_[at_] == '\\') {
        escape(true);
      } else if (pattern_[at_] == '[' || at_text("&&")) {
        refuse(pattern_[at_] == '[' ? 1 : 2);
      } else {
        copy(1);
      }
    }
    if (at_ == pattern_.size()) {
      throw Error(label_ + " has a [ without its ]; fetch the file again or repair it");
    }
    copy(1);
  }

  void escape(bool in_class) {
    if (at_ + 1 == pattern_.size()) refuse(1);
    const char c = pattern_[at_ + 1];
    if (c == 'r' || c == 'n' || c == 't' || c == 'f' || is_ascii_punctuation(c)) return copy(2);
    if (c == 'p' || c == 'P') return property();
    if (c == 's' && in_class) return put(kWhiteSpaceRanges);
    if (c == 's') return put("[" + std::string(kWhiteSpaceRanges) + "]");
    if (c == 'S' && !in_class) return put("[^" + std::string(kWhiteSpaceRanges) + "]");
    if (c == 'd') return put("\\p{Nd}");
    if (c == 'u') return code_point();
    refuse(2);
  }

  void put(std::string_view instead) {
    result_ += instead;
    at_ += 2;
  }

  /// \uHHHH
  void code_point() {
    const std::string_view digits = pattern_.substr(at_ + 2, 4);
    const auto is_hexadecimal = [](char c) {
      return is_ascii_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
    };
    if (digits.size() != 4 || !std::all_of(digits.begin(), digits.end(), is_hexadecimal)) refuse(2 + digits.size());
    result_ += "\\x{" + std::string(digits) + "}";
    at_ += 6;
  }

  /// \p{Name}: one or two letters are a general category. Others are scripts; PCRE2 would take in their extensions.
  void property() {
    const std::size_t end = pattern_.find('}', at_);
    if (!pattern_.substr(at_ + 2).starts_with('{') || end == std::string_view::npos) refuse(2);
    std::string_view name = pattern_.substr(at_ + 3, end - at_ - 3);
    const bool negated = name.starts_with('^');
    if (negated) name.remove_prefix(1);
    const auto of_name = [](char c) { return is_ascii_letter(c) || c == '_'; };
    if (name.empty() || !std::all_of(name.begin(), name.end(), of_name)) refuse(end + 1 - at_);
    result_ += pattern_.substr(at_, 2);
    result_ += negated ? "{^" : "{";
    if (name.size() > 2) result_ += "sc:";
    result_ += name;
    result_ += '}';
    at_ = end + 1;
  }

  std::string_view pattern_;
  const std::string& label_;
  std::size_t at_ = 0;
  std::string result_;
};

}  // namespace

std::string pcre2_of_oniguruma(std::string_view pattern, const std::string& label) {
  return PatternTranslation(pattern, label).result();
}

std::string pcre2_of_literal(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (is_ascii_punctuation(c)) pattern += '\\';
    pattern += c;
  }
  return pattern;
}

}  // namespace foxscope

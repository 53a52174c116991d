#include "backend/text/pattern.h"

#include <array>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "backend/base/error.h"
#include "backend/text/unicode/utf8.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace foxscope {
namespace {

constexpr std::uint32_t kPatternHeapKibibytes = 64 * 1024;

PCRE2_SPTR as_units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

std::string pcre2_message(int code) {
  std::array<PCRE2_UCHAR, 128> message{};
  pcre2_get_error_message(code, message.data(), message.size());
  return reinterpret_cast<const char*>(message.data());
}

[[noreturn]] void fail(int code, std::string_view what) {
  throw Error("cannot cut the text into words: PCRE2 failed to " + std::string(what) + ": " + pcre2_message(code) +
              "; install libpcre2-8 10.40 or newer");
}

/// The limits of a file's pattern. One for all: it is never changed.
pcre2_match_context* file_match_context() {
  static const std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> context = [] {
    std::unique_ptr<pcre2_match_context, decltype(&pcre2_match_context_free)> made(pcre2_match_context_create(nullptr),
                                                                                   &pcre2_match_context_free);
    if (made == nullptr) throw std::bad_alloc();
    pcre2_set_heap_limit(made.get(), kPatternHeapKibibytes);
    return made;
  }();
  return context.get();
}

pcre2_code* compile_pattern(std::string_view expression, std::uint32_t options, int& error) {
  PCRE2_SIZE offset = 0;
  pcre2_code* code =
      pcre2_compile(as_units(expression), expression.size(), PCRE2_UTF | PCRE2_UCP | options, &error, &offset, nullptr);
  // Where machine code is not allowed, matching falls back to PCRE2's interpreter: the same words, slower.
  if (code != nullptr) static_cast<void>(pcre2_jit_compile(code, PCRE2_JIT_COMPLETE));
  return code;
}

}  // namespace

Pattern::Pattern(std::string_view expression) {
  int error = 0;
  code_ = compile_pattern(expression, PCRE2_ANCHORED, error);
  if (code_ == nullptr) fail(error, "compile a pattern");
}

Pattern::Pattern(std::string_view expression, std::string label) : label_(std::move(label)) {
  int error = 0;
  code_ = compile_pattern(expression, PCRE2_NEVER_BACKSLASH_C, error);
  if (code_ == nullptr) {
    throw Error(label_ + " is not supported (" + pcre2_message(error) +
                "); give a checkpoint with a pattern that PCRE2 takes");
  }
}

Pattern::~Pattern() { pcre2_code_free(static_cast<pcre2_code*>(code_)); }

Matcher::Matcher(const Pattern& pattern) : pattern_(pattern), match_data_(pcre2_match_data_create(1, nullptr)) {
  if (match_data_ == nullptr) throw std::bad_alloc();
}

Matcher::~Matcher() { pcre2_match_data_free(static_cast<pcre2_match_data*>(match_data_)); }

bool Matcher::match(std::string_view text, std::size_t start) {
  auto* data = static_cast<pcre2_match_data*>(match_data_);
  const auto* code = static_cast<const pcre2_code*>(pattern_.code());
  const bool of_file = !pattern_.label().empty();
  pcre2_match_context* context = of_file ? file_match_context() : nullptr;
  // The caller has checked the text once; PCRE2 would check the rest of it again for each word.
  int matched = pcre2_match(code, as_units(text), text.size(), start, PCRE2_NO_UTF_CHECK, data, context);
  if (matched == PCRE2_ERROR_JIT_STACKLIMIT) {
    matched = pcre2_match(code, as_units(text), text.size(), start, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, context);
  }
  if (matched == PCRE2_ERROR_NOMATCH) return false;
  if (matched >= 0) return true;
  if (!of_file) fail(matched, "match");
  throw Error(pattern_.label() + " cannot be matched against the text (" + pcre2_message(matched) +
              "); put line breaks into the text, or give a checkpoint with a simpler pattern");
}

std::optional<std::size_t> Matcher::match_end(std::string_view text, std::size_t start) {
  if (!match(text, start)) return std::nullopt;
  return pcre2_get_ovector_pointer(static_cast<pcre2_match_data*>(match_data_))[1];
}

std::optional<Matcher::Match> Matcher::find(std::string_view text, std::size_t start) {
  if (!match(text, start)) return std::nullopt;
  const PCRE2_SIZE* place = pcre2_get_ovector_pointer(static_cast<pcre2_match_data*>(match_data_));
  return Match{place[0], place[1]};
}

std::optional<Matcher::Match> MatchesOf::next() {
  while (from_ <= text_.size()) {
    const std::optional<Matcher::Match> match = matcher_.find(text_, from_);
    if (!match) break;
    if (match->begin == match->end && last_end_ == match->end) {
      from_ += from_ < text_.size() ? character_at(text_, from_).bytes : 1;
      continue;
    }
    from_ = match->end;
    last_end_ = match->end;
    return match;
  }
  return std::nullopt;
}

bool begins_with_word_character(std::string_view text) {
  static const Pattern pattern("[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}]");
  return Matcher(pattern).match_end(text, 0).has_value();
}

}  // namespace foxscope

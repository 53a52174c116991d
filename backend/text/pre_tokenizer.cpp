#include "backend/text/pre_tokenizer.h"

#include <array>
#include <cstdint>
#include <new>
#include <string>

#include "backend/base/error.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace foxscope {
namespace {

PCRE2_SPTR as_units(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

[[noreturn]] void fail(int code, std::string_view what) {
  std::array<PCRE2_UCHAR, 128> message{};
  pcre2_get_error_message(code, message.data(), message.size());
  throw Error("cannot cut the text into words: PCRE2 failed to " + std::string(what) + ": " +
              reinterpret_cast<const char*>(message.data()) + "; install libpcre2-8 10.40 or newer");
}

}  // namespace

Pattern::Pattern(std::string_view expression) {
  int error = 0;
  PCRE2_SIZE offset = 0;
  constexpr std::uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED;
  pcre2_code* code = pcre2_compile(as_units(expression), expression.size(), options, &error, &offset, nullptr);
  if (code == nullptr) fail(error, "compile a pattern");
  // Where machine code is not allowed, matching falls back to PCRE2's interpreter: the same words, slower.
  static_cast<void>(pcre2_jit_compile(code, PCRE2_JIT_COMPLETE));
  code_ = code;
}

Pattern::~Pattern() { pcre2_code_free(static_cast<pcre2_code*>(code_)); }

Matcher::Matcher(const Pattern& pattern) : pattern_(pattern), match_data_(pcre2_match_data_create(1, nullptr)) {
  if (match_data_ == nullptr) throw std::bad_alloc();
}

Matcher::~Matcher() { pcre2_match_data_free(static_cast<pcre2_match_data*>(match_data_)); }

std::optional<std::size_t> Matcher::match_end(std::string_view text, std::size_t start) {
  auto* data = static_cast<pcre2_match_data*>(match_data_);
  // The caller has checked the text once; PCRE2 would check the rest of it again for each word.
  const int matched = pcre2_match(static_cast<const pcre2_code*>(pattern_.code()), as_units(text), text.size(), start,
                                  PCRE2_NO_UTF_CHECK, data, nullptr);
  if (matched == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (matched < 0) fail(matched, "match");
  return pcre2_get_ovector_pointer(data)[1];
}

const Pattern& word_pattern() {
  // White space is spelled out: PCRE2's own \s takes in U+180E, which lost that property in Unicode 6.3.
  static const Pattern pattern(
      "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\t-\\r\\x{85}\\p{Z}\\p{L}\\p{N}]+"
      "|[\\t-\\r\\x{85}\\p{Z}]+(?![^\\t-\\r\\x{85}\\p{Z}])|[\\t-\\r\\x{85}\\p{Z}]+");
  return pattern;
}

bool begins_with_word_character(std::string_view text) {
  static const Pattern pattern("[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200C}\\x{200D}]");
  return Matcher(pattern).match_end(text, 0).has_value();
}

}  // namespace foxscope

#include "backend/text/unicode/nfc.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/text/aligned_text.h"
#include "backend/text/unicode/utf8.h"

namespace foxscope {
namespace {

/// No character below this one is changed, and none composes with one before it.
constexpr char32_t kFirstMark = 0x300;
constexpr std::uint8_t kFirstMarkByte = 0xCC;
/// A character has at most this many in its decomposition (UAX 15, table 10).
constexpr std::size_t kMostParts = 18;

bool is_mark(const utf8proc_property_t& property) {
  return property.combining_class != 0 || property.category == UTF8PROC_CATEGORY_MN ||
         property.category == UTF8PROC_CATEGORY_MC || property.category == UTF8PROC_CATEGORY_ME;
}

/// Vowels and final consonants that compose with what is before them. U+11A7 does not; utf8proc 2.8 swallows it where
/// it is in the same run.
bool is_later_jamo(char32_t c) { return (c >= 0x1161 && c <= 0x1175) || (c >= 0x11A8 && c <= 0x11C2); }

/// Whether a character may be composed with, or ordered among, those before it. All that compose are marks or jamo.
bool may_join(char32_t c) {
  if (c < kFirstMark) return false;
  return is_later_jamo(c) || is_mark(*utf8proc_get_property(static_cast<utf8proc_int32_t>(c)));
}

/// Whether form C has something else for a character that stands alone.
bool changes_alone(char32_t c) {
  if (c < kFirstMark || (c >= 0xAC00 && c <= 0xD7A3)) return false;
  const utf8proc_property_t& property = *utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
  return property.decomp_seqindex != UINT16_MAX && property.decomp_type == 0;
}

/// Form C of one run, a character and what may join it.
class RunComposer {
 public:
  std::string_view compose(std::string_view run) {
    constexpr auto kForm = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
    parts_.clear();
    for (std::size_t at = 0; at < run.size();) {
      const Character character = character_at(run, at);
      at += character.bytes;
      std::array<utf8proc_int32_t, kMostParts> parts{};
      const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(character.code_point),
                                                             parts.data(), kMostParts, kForm, nullptr);
      require_success(count);
      for (utf8proc_ssize_t i = 0; i < count; ++i) parts_.push_back(parts[index_of(i)]);
    }
    order_marks();
    const utf8proc_ssize_t count =
        utf8proc_normalize_utf32(parts_.data(), static_cast<utf8proc_ssize_t>(parts_.size()), kForm);
    require_success(count);
    text_.clear();
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      std::array<utf8proc_uint8_t, 4> bytes{};
      const auto size = static_cast<std::size_t>(utf8proc_encode_char(parts_[index_of(i)], bytes.data()));
      text_.append(reinterpret_cast<const char*>(bytes.data()), size);
    }
    return text_;
  }

 private:
  static void require_success(utf8proc_ssize_t count) {
    if (count < 0) throw Error(std::string("cannot normalize the text: ") + utf8proc_errmsg(count) + "; shorten it");
  }

  /// Canonical order. utf8proc_decompose would take a time that grows with the square of their number.
  void order_marks() {
    const auto combining_class = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
    for (auto begin = parts_.begin(); begin != parts_.end();) {
      const auto end = std::find_if(begin, parts_.end(), [&](utf8proc_int32_t c) { return combining_class(c) == 0; });
      std::stable_sort(begin, end, [&](utf8proc_int32_t one, utf8proc_int32_t other) {
        return combining_class(one) < combining_class(other);
      });
      begin = end == parts_.end() ? end : end + 1;
    }
  }

  std::vector<utf8proc_int32_t> parts_;
  std::string text_;
};

/// First byte from `position` on that may belong to U+0300 or a later character.
std::size_t find_late_character(std::string_view text, std::size_t position) {
  while (position < text.size() && static_cast<std::uint8_t>(text[position]) < kFirstMarkByte) ++position;
  return position;
}

}  // namespace

void normalize_nfc(std::string_view source, Rewriting& rewriting) {
  RunComposer composer;
  std::size_t run = 0;  // where the character begins that a mark would join
  for (std::size_t at = find_late_character(source, 0); at < source.size();) {
    // A mark behind earlier characters joins the last of them.
    run = at;
    const Character first = character_at(source, at);
    bool joined = false;
    if (may_join(first.code_point) && at > 0) {
      run = previous_character(source, at);
      joined = true;
    }
    at += first.bytes;
    while (at < source.size()) {
      if (static_cast<std::uint8_t>(source[at]) < kFirstMarkByte) break;
      const Character next = character_at(source, at);
      if (!may_join(next.code_point)) break;
      joined = true;
      at += next.bytes;
    }
    if (joined || changes_alone(first.code_point)) {
      const std::string_view before = source.substr(run, at - run);
      const std::string_view after = composer.compose(before);
      if (after != before) rewriting.change(run, at, after);
    }
    if (at < source.size() && static_cast<std::uint8_t>(source[at]) < kFirstMarkByte) {
      at = find_late_character(source, at);
    }
  }
}

}  // namespace foxscope

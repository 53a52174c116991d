#include "backend/eval/window_classes.h"

#include <algorithm>
#include <optional>

#include "backend/text/json_escape.h"

namespace foxscope {
namespace {

/// A window may begin within a character, which `text` then lacks: so many bytes at most, as an escaped pair.
constexpr std::size_t kLongestCharacter = 12;

/// Where `text` begins in what the tokens spell.
std::optional<std::size_t> find_near_begin(const std::string& spelled, const std::string& text) {
  for (std::size_t at = 0; at < std::min(kLongestCharacter, spelled.size()); ++at) {
    if (spelled.compare(at, text.size(), text) == 0) return at;
  }
  return std::nullopt;
}

}  // namespace

std::vector<TokenClassSet> window_classes(const Window& window, const Tokenizer& tokenizer, const WordCounts& counts) {
  if (window.text.empty()) return {};
  std::string spelled;
  std::vector<std::size_t> end;
  for (const std::int32_t id : window.ids) {
    spelled += tokenizer.token_bytes(id);
    end.push_back(spelled.size());
  }
  std::optional<std::size_t> begin = find_near_begin(spelled, window.text);
  std::optional<EscapePosition> escaped;
  std::size_t size = window.text.size();
  if (!begin) {
    const std::string escaped_text = escape_json(window.text);
    begin = find_near_begin(spelled, escaped_text);
    size = escaped_text.size();
    if (begin) escaped.emplace(window.text);
  }
  if (!begin) return {};
  std::vector<std::int64_t> starts, ends;
  std::size_t before = 0;
  for (const std::size_t next : end) {
    const auto inside = [&](std::size_t place) { return std::min(size, std::max(place, *begin) - *begin); };
    std::size_t first = inside(before);
    std::size_t last = inside(next);
    before = next;
    if (escaped && first < last) {
      escaped->seek(first);
      first = escaped->begin();
      escaped->seek(last - 1);
      last = escaped->end();
    } else if (escaped) {
      first = last = ends.empty() ? 0 : static_cast<std::size_t>(ends.back());
    }
    starts.push_back(static_cast<std::int64_t>(first));
    ends.push_back(static_cast<std::int64_t>(last));
  }
  return token_classes(window.text, {starts, ends}, counts);
}

}  // namespace foxscope

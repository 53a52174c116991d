#include "app/gui/document/places.h"

#include <algorithm>

namespace foxscope::gui {
namespace {

template <typename Number>
bool shareStart(const std::vector<Number>& a, const std::vector<Number>& b) {
  const auto common = static_cast<std::ptrdiff_t>(std::min(a.size(), b.size()));
  return std::equal(a.begin(), a.begin() + common, b.begin());
}

}  // namespace

bool beginAlike(const TokenTable& a, const TokenTable& b) {
  return &a == &b || (shareStart(a.id, b.id) && a.byte_start.empty() == b.byte_start.empty() &&
                      shareStart(a.byte_start, b.byte_start));
}

PlaceMap::PlaceMap(std::shared_ptr<const TokenTable> from, std::shared_ptr<const TokenTable> to)
    : m_from(std::move(from)), m_to(std::move(to)) {
  m_identical = beginAlike(*m_from, *m_to);
  m_byText = !m_identical && !m_from->byte_start.empty() && !m_to->byte_start.empty();
  const auto from_length = static_cast<std::int64_t>(m_from->id.size());
  const auto to_length = static_cast<std::int64_t>(m_to->id.size());
  m_covered = std::min(from_length, to_length);
  if (!m_byText) return;
  // Places rise with positions: the first one that the other run has not read is found by halving.
  std::int64_t read = 0;
  for (std::int64_t unread = from_length; read < unread;) {
    const std::int64_t middle = read + (unread - read) / 2;
    if (byBytes(middle) < to_length) {
      read = middle + 1;
    } else {
      unread = middle;
    }
  }
  m_covered = read;
}

std::int64_t PlaceMap::byBytes(std::int64_t position) const {
  if (position <= 0) return 0;
  const std::vector<std::int64_t>& starts = m_to->byte_start;
  // The last token that begins at or before the byte; the position that reads it is one further.
  const std::int64_t byte = m_from->byte_start[static_cast<std::size_t>(position) - 1];
  return std::upper_bound(starts.begin(), starts.end(), byte) - starts.begin();
}

std::optional<std::int64_t> PlaceMap::operator()(std::int64_t position) const {
  if (position >= m_covered) return std::nullopt;
  return m_byText ? byBytes(position) : position;
}

Range PlaceMap::part(const Range& range) const {
  const std::int64_t end = std::min(range.end, m_covered);
  if (range.begin >= end) return {0, 0};
  return m_byText ? Range{byBytes(range.begin), byBytes(end - 1) + 1} : Range{range.begin, end};
}

}  // namespace foxscope::gui

#include "app/gui/document/places.h"

#include <algorithm>

namespace foxscope::gui {
PlaceMap::PlaceMap(std::shared_ptr<const TokenTable> from, std::shared_ptr<const TokenTable> to)
    : m_from(std::move(from)), m_to(std::move(to)) {
  m_identical = m_from == m_to || (m_from->id == m_to->id && m_from->byte_start == m_to->byte_start);
  m_byText = !m_identical && !m_from->byte_start.empty() && !m_to->byte_start.empty();
}

std::int64_t PlaceMap::operator()(std::int64_t position) const {
  if (m_identical) return position;
  const auto last = static_cast<std::int64_t>(m_to->id.size()) - 1;
  if (position <= 0) return 0;
  if (!m_byText) return std::min(position, last);
  const std::vector<std::int64_t>& starts = m_to->byte_start;
  const auto read = std::min(static_cast<std::size_t>(position), m_from->byte_start.size()) - 1;
  // The last token that begins at or before the byte; the position that reads it is one further.
  const auto after = std::upper_bound(starts.begin(), starts.end(), m_from->byte_start[read]);
  return std::clamp<std::int64_t>(after - starts.begin(), 0, last);
}

}  // namespace foxscope::gui

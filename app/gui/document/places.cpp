#include "app/gui/document/places.h"

#include <algorithm>

namespace foxscope::gui {
namespace {

QString madeVisible(const QString& text) {
  QString shown;
  for (const QChar character : text) {
    if (character == ' ') {
      shown += QChar(0x2423);
    } else if (character == '\n') {
      shown += QChar(0x23ce);
    } else if (character == '\t') {
      shown += QChar(0x21e5);
    } else if (!character.isPrint() && !character.isSurrogate()) {
      shown += QStringLiteral("\\x%1").arg(character.unicode(), 2, 16, QLatin1Char('0'));
    } else {
      shown += character;
    }
  }
  return shown;
}

QString byId(std::int32_t id) { return QStringLiteral("⟨%1⟩").arg(id); }

}  // namespace

QString predictedText(const TokenTable& tokens, std::int64_t position, Whitespace whitespace) {
  const auto index = static_cast<std::size_t>(position);
  if (index >= tokens.string.size()) return byId(tokens.id[index]);
  const QString text = QString::fromStdString(tokens.string[index]);
  return whitespace == Whitespace::visible ? madeVisible(text) : text;
}

QString readText(const TokenTable& tokens, std::int64_t position, Whitespace whitespace) {
  const std::int32_t read = tokens.input_id[static_cast<std::size_t>(position)];
  // Position p reads the token that p - 1 predicts, but for what stands before the text.
  if (position > 0 && tokens.id[static_cast<std::size_t>(position - 1)] == read) {
    return predictedText(tokens, position - 1, whitespace);
  }
  return position == 0 ? QStringLiteral("⟨BOS⟩") : byId(read);
}

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

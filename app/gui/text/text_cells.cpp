#include "app/gui/text/text_cells.h"

#include <algorithm>

#include "app/gui/document/places.h"
#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

/// Where token `index` ends and the next begins. Both may claim the bytes between the next one's start and this one's
/// end; then these are cut into as many slices as there are tokens that claim them. Starts and ends never decrease.
double edgeAfter(const TokenTable& tokens, std::size_t index) {
  const std::int64_t begin = tokens.byte_start[index + 1];
  const std::int64_t end = tokens.byte_end[index];
  if (end <= begin) return static_cast<double>(begin);
  const auto& starts = tokens.byte_start;
  const auto& ends = tokens.byte_end;
  const auto next = static_cast<std::ptrdiff_t>(index) + 1;
  const auto first = std::upper_bound(ends.begin(), ends.begin() + next, begin) - ends.begin();
  const auto last = std::lower_bound(starts.begin() + next, starts.end(), end) - starts.begin();
  const double share = static_cast<double>(next - first) / static_cast<double>(last - first);
  return static_cast<double>(begin) + static_cast<double>(end - begin) * share;
}

QString tokenOfCell(const TokenTable& tokens, std::int64_t cell) {
  const auto length = static_cast<std::int64_t>(tokens.id.size());
  const bool isRead = cell < length;
  QString text =
      isRead ? readText(tokens, cell, Whitespace::visible) : predictedText(tokens, length - 1, Whitespace::visible);
  const bool isKnown = isRead || tokens.id.back() >= 0;
  if (!text.isEmpty() || !isKnown) return text;
  return QStringLiteral("⟨%1⟩").arg(isRead ? tokens.input_id[index_of(cell)] : tokens.id.back());
}

TextCells cellsOfTokens(const TokenTable& tokens) {
  TextCells cells;
  for (std::size_t cell = 0; cell <= tokens.id.size(); ++cell) {
    const double begin = static_cast<double>(cells.shown.size());
    cells.shown += tokenOfCell(tokens, static_cast<std::int64_t>(cell)).toStdString();
    cells.cell.push_back({begin, static_cast<double>(cells.shown.size())});
    cells.shown += ' ';
  }
  return cells;
}

}  // namespace

std::optional<std::int64_t> TextCells::at(double byte) const {
  const auto after =
      std::upper_bound(cell.begin(), cell.end(), byte, [](double place, const Stretch& s) { return place < s.begin; });
  if (after == cell.begin() || byte >= (after - 1)->end) return std::nullopt;
  return after - cell.begin() - 1;
}

TextCells cellsOf(const Trace& trace) {
  const TokenTable& tokens = *trace.tokens();
  if (!trace.text() || tokens.byte_start.empty()) return cellsOfTokens(tokens);
  const std::string& content = trace.text()->content;
  // A run that was cut off inside a character shows the whole of it.
  auto end = static_cast<std::size_t>(tokens.byte_end.back());
  while (end < content.size() && continuesCharacter(content[end])) ++end;

  TextCells cells;
  cells.hasText = true;
  cells.shown = tokenOfCell(tokens, 0).toStdString();
  cells.cell.push_back({0, static_cast<double>(cells.shown.size())});
  cells.shown += ' ';
  cells.textBegin = static_cast<std::int64_t>(cells.shown.size());
  cells.shown.append(content, 0, end);
  cells.unread = static_cast<std::int64_t>(content.size() - end) + trace.text()->unread_bytes;
  const auto offset = static_cast<double>(cells.textBegin);
  double begin = 0;
  for (std::size_t token = 0; token < tokens.id.size(); ++token) {
    const bool isLast = token + 1 == tokens.id.size();
    const double edge = std::max(begin, isLast ? static_cast<double>(end) : edgeAfter(tokens, token));
    cells.cell.push_back({offset + begin, offset + edge});
    begin = edge;
  }
  return cells;
}

}  // namespace foxscope::gui

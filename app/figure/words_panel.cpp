#include "app/figure/words_panel.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "app/figure/page/axis_drawing.h"

namespace foxscope::figure {
namespace {

constexpr double kWordLine = 1.4;    ///< from line to line, font sizes
constexpr double kGapBefore = 0.8;   ///< between number and words
constexpr double kMostToken = 0.45;  ///< share of the width that a token may take

QString numberOf(double value) {
  return (value < 0 ? QStringLiteral("−") : QStringLiteral("+")) + QString::number(std::abs(value), 'f', 2);
}

/// The end of a text that has this room, with … where something is left out; empty where nothing has.
QString endOf(const QString& text, const TextStyle& style, double room) {
  if (textWidth(text, style) <= room) return text;
  for (qsizetype left = 1; left < text.size(); ++left) {
    if (text[left].isLowSurrogate()) continue;
    const QString shown = QChar(0x2026) + text.mid(left);
    if (textWidth(shown, style) <= room) return shown;
  }
  return {};
}

QString beginningOf(const QString& text, const TextStyle& style, double room) {
  if (textWidth(text, style) <= room) return text;
  for (qsizetype kept = text.size() - 1; kept > 0; --kept) {
    if (text[kept].isLowSurrogate()) continue;
    const QString shown = text.left(kept) + QChar(0x2026);
    if (textWidth(shown, style) <= room) return shown;
  }
  return {};
}

}  // namespace

ParagraphPanel::ParagraphPanel(const FigureFormat& format, std::string text)
    : m_text(std::move(text)), m_style(textStyleOf(format)) {}

std::optional<double> ParagraphPanel::heightFor(double width) const {
  return static_cast<double>(wrapped(m_text, m_style, width).size()) * em::kLine * m_style.size;
}

void ParagraphPanel::draw(Canvas& canvas, const QRectF& inner) const {
  const auto lines = wrapped(m_text, m_style, inner.width());
  const TextStyle style = fitted(m_style, lines, inner.width());
  double baseline = inner.top() + 0.95 * m_style.size;
  for (const QString& line : lines) {
    canvas.text(line, {{inner.left(), baseline}}, style);
    baseline += em::kLine * m_style.size;
  }
}

WordsPanel::WordsPanel(const FigureFormat& format, Content content)
    : m_content(std::move(content)),
      m_style(textStyleOf(format).scaled(em::kSmallFont)),
      m_titleStyle(textStyleOf(format)) {
  m_style.markup = Markup::none;
}

Margins WordsPanel::margins(const QSizeF& inner) const {
  Margins margins;
  const std::string title = lettered(m_content.title);
  if (title.empty()) return margins;
  const auto lines = static_cast<double>(titleLinesOf(title, m_titleStyle, inner.width()).size());
  margins.top = (lines * em::kLine + 0.5) * m_titleStyle.size;
  return margins;
}

std::optional<double> WordsPanel::heightFor(double /*width*/) const {
  return static_cast<double>(std::max<std::size_t>(1, m_content.words.size())) * kWordLine * m_style.size;
}

void WordsPanel::draw(Canvas& canvas, const QRectF& inner) const {
  const auto lines = titleLinesOf(lettered(m_content.title), m_titleStyle, inner.width());
  const TextStyle title = fitted(m_titleStyle, lines, inner.width());
  double baseline =
      inner.top() - 0.6 * m_titleStyle.size - (static_cast<double>(lines.size()) - 1) * em::kLine * title.size;
  for (const QString& line : lines) {
    canvas.text(line, {{inner.left(), baseline}}, title);
    baseline += em::kLine * title.size;
  }
  double numbers = 0;
  for (const Word& word : m_content.words) numbers = std::max(numbers, textWidth(numberOf(word.value), m_style));
  const double left = inner.left() + numbers + kGapBefore * m_style.size;
  const double room = inner.right() - left;
  const QColor tint(m_content.tint.red, m_content.tint.green, m_content.tint.blue);
  double y = inner.top();
  for (const Word& word : m_content.words) {
    const double line = y + (kWordLine + 2 * kHalfDigit) / 2 * m_style.size;
    canvas.text(numberOf(word.value), {{inner.left() + numbers, line}, Align::right}, m_style);
    const QString token = beginningOf(word.token, m_style, kMostToken * room);
    const double width = textWidth(token, m_style);
    const QString before = endOf(word.before, m_style, room - width - 0.4 * m_style.size);
    const double start = left + textWidth(before, m_style) + 0.2 * m_style.size;
    canvas.text(before, {{left, line}}, m_style);
    canvas.fill({start - 0.1 * m_style.size, y + 0.1 * m_style.size, width + 0.2 * m_style.size,
                 (kWordLine - 0.2) * m_style.size},
                tint);
    canvas.text(token, {{start, line}}, m_style);
    y += kWordLine * m_style.size;
  }
}

void WordsPanel::addNumbers(NumberTable& numbers) const {
  numbers.setQuantity(m_content.quantity);
  for (const Word& word : m_content.words) {
    numbers.add({m_content.series, word.token.toStdString(), std::to_string(word.position), word.value});
  }
}

}  // namespace foxscope::figure

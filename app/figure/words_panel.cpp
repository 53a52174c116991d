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
constexpr double kTintHeight = 1.2;  ///< of words in a line, font sizes
const double kNoTint = std::numeric_limits<double>::quiet_NaN();
constexpr double kBeforeToken = 0.5;  ///< share of the width that the words before a token and half of it have

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

/// Room for a title above words, which begins where they do.
Margins titleMargins(const std::string& title, double width, const TextStyle& style) {
  Margins margins;
  if (title.empty()) return margins;
  const auto lines = static_cast<double>(titleLinesOf(title, style, width).size());
  margins.top = (lines * em::kLine + 0.5) * style.size;
  return margins;
}

void drawTitle(Canvas& canvas, const std::string& title, const QRectF& inner, const TextStyle& style) {
  const auto lines = titleLinesOf(title, style, inner.width());
  const TextStyle own = fitted(style, lines, inner.width());
  double baseline = inner.top() - 0.6 * style.size - (static_cast<double>(lines.size()) - 1) * em::kLine * own.size;
  for (const QString& line : lines) {
    canvas.text(line, {{inner.left(), baseline}}, own);
    baseline += em::kLine * own.size;
  }
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
  return titleMargins(lettered(m_content.title), inner.width(), m_titleStyle);
}

std::optional<double> WordsPanel::heightFor(double /*width*/) const {
  return static_cast<double>(std::max<std::size_t>(1, m_content.words.size())) * kWordLine * m_style.size;
}

void WordsPanel::draw(Canvas& canvas, const QRectF& inner) const {
  drawTitle(canvas, lettered(m_content.title), inner, m_titleStyle);
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

ConcordancePanel::ConcordancePanel(const FigureFormat& format, Content content)
    : m_content(std::move(content)),
      m_style(textStyleOf(format).scaled(em::kSmallFont)),
      m_titleStyle(textStyleOf(format)) {
  m_style.markup = Markup::none;
}

Margins ConcordancePanel::margins(const QSizeF& inner) const {
  return titleMargins(lettered(m_content.title), inner.width(), m_titleStyle);
}

std::optional<double> ConcordancePanel::heightFor(double /*width*/) const {
  return static_cast<double>(std::max<std::size_t>(1, m_content.places.size())) * kWordLine * m_style.size;
}

void ConcordancePanel::drawPiece(Canvas& canvas, const Piece& piece, const QRectF& box) const {
  if (!std::isnan(piece.tint)) {
    const Rgb colour = m_content.colours.colour(piece.tint);
    canvas.fill(box, QColor(colour.red, colour.green, colour.blue));
  }
  canvas.text(piece.text, {{box.left(), box.top() + (kTintHeight / 2 + kHalfDigit) * m_style.size}}, m_style);
}

void ConcordancePanel::draw(Canvas& canvas, const QRectF& inner) const {
  drawTitle(canvas, lettered(m_content.title), inner, m_titleStyle);
  const auto numberText = [](const Place& place) { return QString::fromStdString(place.number); };
  double numbers = 0;
  for (const Place& place : m_content.places) numbers = std::max(numbers, textWidth(numberText(place), m_style));
  const double left = inner.left() + numbers + kGapBefore * m_style.size;
  const double room = inner.right() - left;
  const double height = kTintHeight * m_style.size;
  double y = inner.top() + (kWordLine - kTintHeight) / 2 * m_style.size;
  for (const Place& place : m_content.places) {
    const double baseline = y + (kTintHeight / 2 + kHalfDigit) * m_style.size;
    canvas.text(numberText(place), {{inner.left() + numbers, baseline}, Align::right}, m_style);
    Piece token = place.token;
    token.text = beginningOf(token.text, m_style, kMostToken * room);
    const double width = textWidth(token.text, m_style);
    const QRectF middle(left + kBeforeToken * room - width / 2, y, width, height);
    const double gap = 0.15 * m_style.size;
    // Outwards from the token, as far as there is room.
    double end = middle.left() - gap;
    for (auto piece = place.before.rbegin(); piece != place.before.rend(); ++piece) {
      const QString shown = endOf(piece->text, m_style, end - left);
      const double wide = textWidth(shown, m_style);
      drawPiece(canvas, {shown, shown.isEmpty() ? kNoTint : piece->tint}, {end - wide, y, wide, height});
      end -= wide;
      if (shown != piece->text) break;
    }
    double start = middle.right() + gap;
    for (const Piece& piece : place.after) {
      const QString shown = beginningOf(piece.text, m_style, inner.right() - start);
      const double wide = textWidth(shown, m_style);
      drawPiece(canvas, {shown, shown.isEmpty() ? kNoTint : piece.tint}, {start, y, wide, height});
      start += wide;
      if (shown != piece.text) break;
    }
    drawPiece(canvas, token, middle);
    canvas.frame(middle, 0.08 * m_style.size, Qt::black);
    y += kWordLine * m_style.size;
  }
}

void ConcordancePanel::addNumbers(NumberTable& numbers) const {
  numbers.setQuantity(m_content.quantity);
  for (const Place& place : m_content.places) {
    numbers.add({m_content.series, place.token.text.toStdString(), place.where, place.value});
  }
}

}  // namespace foxscope::figure

#include "app/figure/words_panel.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "app/figure/page/axis_drawing.h"
#include "backend/base/index.h"

namespace foxscope::figure {
namespace {

constexpr double kWordLine = 1.4;    ///< from line to line, font sizes
constexpr double kGapBefore = 0.8;   ///< between number and words
constexpr double kMostToken = 0.45;  ///< share of the width that a token may take
constexpr double kTintHeight = 1.2;  ///< of words in a line, font sizes
constexpr double kMiddle = 0.5;      ///< share of the width that lies before the centre of a place's middle
constexpr double kTokenGap = 0.15;   ///< on both sides of a token in a frame, font sizes
constexpr double kFoundLine = 0.1;   ///< below what was found, font sizes
constexpr QChar kEllipsis(0x2026);

QString numberOf(double value) {
  return (value < 0 ? QStringLiteral("−") : QStringLiteral("+")) + QString::number(std::abs(value), 'f', 2);
}

/// … and as much of a text's end as has room behind it; empty where … has none.
QString cutBefore(const QString& text, const TextStyle& style, double room) {
  for (qsizetype left = 0; left <= text.size(); ++left) {
    if (left < text.size() && text[left].isLowSurrogate()) continue;
    const QString shown = kEllipsis + text.mid(left);
    if (textWidth(shown, style) <= room) return shown;
  }
  return {};
}

/// As much of a text's beginning as has room with … behind it; empty where … has none.
QString cutBehind(const QString& text, const TextStyle& style, double room) {
  for (qsizetype kept = text.size(); kept >= 0; --kept) {
    if (kept < text.size() && text[kept].isLowSurrogate()) continue;
    const QString shown = text.left(kept) + kEllipsis;
    if (textWidth(shown, style) <= room) return shown;
  }
  return {};
}

/// The end of a text that has this room, with … where something is left out.
QString endOf(const QString& text, const TextStyle& style, double room) {
  return textWidth(text, style) <= room ? text : cutBefore(text, style, room);
}

QString beginningOf(const QString& text, const TextStyle& style, double room) {
  return textWidth(text, style) <= room ? text : cutBehind(text, style, room);
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

std::vector<ConcordancePanel::Shown> ConcordancePanel::shownBeside(const Place& place, int step, double room) const {
  const auto token = static_cast<std::ptrdiff_t>(place.token);
  const auto gapOf = [&](std::ptrdiff_t at) {
    return at == token || at - step == token ? kTokenGap * m_style.size : 0;
  };
  std::vector<Shown> shown;
  const std::ptrdiff_t end = step > 0 ? std::ssize(place.pieces) : -1;
  auto at = static_cast<std::ptrdiff_t>(place.middle) + step;
  for (; at != end; at += step) {
    const QString& text = place.pieces[index_of(at)].text;
    const double width = textWidth(text, m_style);
    if (gapOf(at) + width > room) break;
    room -= gapOf(at) + width;
    shown.push_back({index_of(at), text, gapOf(at), width});
  }
  if (at == end) return shown;
  // … stands where words are left out, if need be in the place of words that had room.
  while (true) {
    const QString& text = place.pieces[index_of(at)].text;
    const QString cut =
        step > 0 ? cutBehind(text, m_style, room - gapOf(at)) : cutBefore(text, m_style, room - gapOf(at));
    if (!cut.isEmpty()) {
      shown.push_back({index_of(at), cut, gapOf(at), textWidth(cut, m_style)});
      return shown;
    }
    if (shown.empty()) return shown;
    room += shown.back().gap + shown.back().width;
    shown.pop_back();
    at -= step;
  }
}

void ConcordancePanel::drawPiece(Canvas& canvas, const Place& place, const Shown& shown, const QRectF& box) const {
  const Piece& piece = place.pieces[shown.piece];
  const bool words = shown.text != kEllipsis;
  if (words && !std::isnan(piece.tint)) {
    const Rgb colour = m_content.colours.colour(piece.tint);
    canvas.fill(box, QColor(colour.red, colour.green, colour.blue));
  }
  canvas.text(shown.text, {{box.left(), box.top() + (kTintHeight / 2 + kHalfDigit) * m_style.size}}, m_style);
  if (words && piece.found) {
    const double line = kFoundLine * m_style.size;
    canvas.fill({box.left(), box.bottom() - line, box.width(), line}, Qt::black);
  }
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
    Shown middle{place.middle, beginningOf(place.pieces[place.middle].text, m_style, kMostToken * room)};
    middle.width = textWidth(middle.text, m_style);
    const QRectF centre(left + kMiddle * room - middle.width / 2, y, middle.width, height);
    QRectF frame;
    const auto put = [&](const Shown& shown, const QRectF& box) {
      drawPiece(canvas, place, shown, box);
      if (shown.piece == place.token && shown.text != kEllipsis) frame = box;
    };
    put(middle, centre);
    double end = centre.left();
    for (const Shown& shown : shownBeside(place, -1, centre.left() - left)) {
      end -= shown.gap + shown.width;
      put(shown, {end, y, shown.width, height});
    }
    double start = centre.right();
    for (const Shown& shown : shownBeside(place, 1, inner.right() - centre.right())) {
      put(shown, {start + shown.gap, y, shown.width, height});
      start += shown.gap + shown.width;
    }
    if (!frame.isEmpty()) canvas.frame(frame, 0.08 * m_style.size, Qt::black);
    y += kWordLine * m_style.size;
  }
}

void ConcordancePanel::addNumbers(NumberTable& numbers) const {
  numbers.setQuantity(m_content.quantity);
  for (const Place& place : m_content.places) {
    DrawnNumber number{m_content.series, place.pieces[place.token].text.toStdString(), std::to_string(place.position),
                       place.value};
    number.more = place.more;
    numbers.add(number);
  }
}

}  // namespace foxscope::figure

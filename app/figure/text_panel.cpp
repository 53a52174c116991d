#include "app/figure/text_panel.h"

#include <algorithm>
#include <cmath>

namespace foxscope::figure {
namespace {

constexpr double kLine = 1.5;      ///< from one line to the next, font sizes
constexpr double kSide = 0.6;      ///< left and right of the text
constexpr double kTintTop = 0.98;  ///< of a tint above the baseline
constexpr double kTintBottom = 0.3;

// Line ends break lines, and are seen as well: they are tokens like others. Other controls have no width.
QString printable(const QString& text) {
  QString result;
  for (const QChar character : text) {
    if (character == '\n') {
      result += u"\u21b5";
      result += QChar(QChar::LineSeparator);
    } else if (character == '\t' || character == '\r') {
      result += ' ';
    } else if (character.category() != QChar::Other_Control) {
      result += character;
    }
  }
  return result;
}

}  // namespace

TextPanel::TextPanel(const FigureFormat& format, std::vector<TintedPiece> pieces, const ScaledColours& colours)
    : m_style(textStyleOf(format)), m_pieces(std::move(pieces)), m_quantity(colours.label) {
  QString text;
  for (const TintedPiece& piece : m_pieces) {
    Place place;
    place.begin = text.size();
    text += printable(piece.text);
    place.end = text.size();
    if (!std::isnan(piece.value)) {
      const Rgb colour = colours.colour(piece.value);
      place.colour = QColor(colour.red, colour.green, colour.blue);
    }
    place.outlined = piece.outlined;
    m_places.push_back(place);
  }
  m_layout.setText(text);
  m_layout.setFont(layoutFont(m_style));
  QTextOption option;
  option.setWrapMode(QTextOption::WrapAtWordBoundaryOrAnywhere);
  m_layout.setTextOption(option);
}

void TextPanel::layOut(double width) const {
  if (width == m_width) return;
  m_width = width;
  m_layout.beginLayout();
  for (QTextLine line = m_layout.createLine(); line.isValid(); line = m_layout.createLine()) {
    line.setLineWidth(width * scale());
  }
  m_layout.endLayout();
}

Margins TextPanel::margins(const QSizeF& /*inner*/) const {
  return {kSide * m_style.size, kSide * m_style.size, 0.2 * m_style.size, 0.3 * m_style.size};
}

std::optional<double> TextPanel::heightFor(double width) const {
  layOut(width);
  return m_layout.lineCount() * kLine * m_style.size;
}

void TextPanel::drawTints(Canvas& canvas, const QTextLine& line, const QPointF& corner, double width) const {
  const double baseline = corner.y() + line.ascent() / scale();
  const QString text = m_layout.text();
  qsizetype lineEnd = line.textStart() + line.textLength();
  // A space at which a line was wrapped is not seen.
  while (lineEnd > line.textStart() && text[lineEnd - 1] == ' ' && lineEnd < text.size()) --lineEnd;
  for (const Place& place : m_places) {
    const qsizetype begin = std::max<qsizetype>(place.begin, line.textStart());
    const qsizetype end = std::min(place.end, lineEnd);
    if (begin >= end || (!place.colour.isValid() && !place.outlined)) continue;
    const auto at = [&](qsizetype cursor) {
      return corner.x() + std::clamp(line.cursorToX(static_cast<int>(cursor)) / scale(), 0.0, width);
    };
    const double from = std::min(at(begin), at(end));
    const double to = std::max(at(begin), at(end));
    const QRectF rect(from, baseline - kTintTop * m_style.size, to - from, (kTintTop + kTintBottom) * m_style.size);
    if (place.colour.isValid()) canvas.fill(rect, place.colour);
    if (place.outlined) canvas.frame(rect, 0.09 * m_style.size, Qt::black);
  }
}

void TextPanel::addNumbers(NumberTable& numbers) const {
  numbers.setQuantity(m_quantity);
  for (const TintedPiece& piece : m_pieces) {
    numbers.add({printable(piece.text).toStdString(), "", std::to_string(piece.position), piece.value});
  }
}

void TextPanel::draw(Canvas& canvas, const QRectF& inner) const {
  layOut(inner.width());
  for (int index = 0; index < m_layout.lineCount(); ++index) {
    const QTextLine line = m_layout.lineAt(index);
    const QPointF corner(inner.left(), inner.top() + index * kLine * m_style.size);
    drawTints(canvas, line, corner, inner.width());
  }
  for (int index = 0; index < m_layout.lineCount(); ++index) {
    canvas.textLine(m_layout.lineAt(index), {inner.left(), inner.top() + index * kLine * m_style.size}, scale());
  }
}

}  // namespace foxscope::figure

#include <algorithm>
#include <cmath>

#include <QLocale>
#include <QPaintEvent>
#include <QPainter>
#include <QPainterPath>

#include "app/gui/text/text_page.h"
#include "app/gui/views/theme.h"

namespace foxscope::gui {
namespace {

constexpr double kPinPen = 2;  // pixels
constexpr double kHoverPen = 1;
constexpr double kRangeBar = 3;  // width of the bars in the margin
constexpr double kTintGap = 2;   // between the tints of two lines

void paintLineEnd(QPainter& painter, const QRectF& cell) {
  const double unit = cell.width() / 6;
  const QPointF centre = cell.center();
  QPainterPath path(centre + QPointF(2 * unit, -2.2 * unit));
  path.lineTo(centre + QPointF(2 * unit, unit));
  path.lineTo(centre + QPointF(-2 * unit, unit));
  path.moveTo(centre + QPointF(-0.5 * unit, -0.6 * unit));
  path.lineTo(centre + QPointF(-2 * unit, unit));
  path.lineTo(centre + QPointF(-0.5 * unit, 2.6 * unit));
  painter.drawPath(path);
}

void paintTab(QPainter& painter, const QRectF& cell) {
  const double inset = cell.width() / 8;
  const double tip = cell.height() / 10;
  const QPointF end(cell.right() - inset, cell.center().y());
  painter.drawLine(QPointF(cell.left() + inset, end.y()), end);
  painter.drawLine(end, end + QPointF(-tip, -tip));
  painter.drawLine(end, end + QPointF(-tip, tip));
}

void paintUnseen(QPainter& painter, const QRectF& cell) {
  const double side = cell.width() * 0.7;
  QRectF box(0, 0, side, side * 1.6);
  box.moveCenter(cell.center());
  painter.drawRect(box);
}

}  // namespace

struct TextPage::Colours {
  explicit Colours(const QPalette& palette)
      : ground(palette.color(QPalette::Base)),
        text(palette.color(QPalette::Text)),
        muted(mutedTextColour(palette)),
        sign(lineColour(palette)),
        hit(palette.color(QPalette::Highlight)) {}
  QColor ground;
  QColor text;
  QColor muted;
  QColor sign;
  QColor hit;
};

void TextPage::paintEvent(QPaintEvent* event) {
  QPainter painter(viewport());
  const Colours colours(palette());
  painter.fillRect(event->rect(), colours.ground);
  if (!m_layout) return;
  painter.setFont(m_layout->shape().font);
  painter.translate(origin());
  const QRectF wanted = QRectF(event->rect()).translated(-origin());
  const double height = m_layout->lineHeight();
  const auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(wanted.top() / height)));
  const auto last = std::min<std::int64_t>(m_layout->lineCount() - 1,
                                           static_cast<std::int64_t>(std::floor(wanted.bottom() / height)));
  for (std::int64_t line = first; line <= last; ++line) paintLine(painter, colours, line);
  paintUnread(painter, colours);

  painter.setRenderHint(QPainter::Antialiasing);
  paintOutline(painter, m_hover.key, QPen(hoverColour(palette()), kHoverPen, Qt::DashLine));
  paintOutline(painter, m_hover.query, QPen(hoverColour(palette()), kHoverPen));
  paintOutline(painter, m_pin.key, QPen(pinnedKeyColour(palette()), kPinPen));
  paintOutline(painter, m_pin.query, QPen(pinnedQueryColour(palette()), kPinPen));
}

void TextPage::paintLine(QPainter& painter, const Colours& colours, std::int64_t line) const {
  const double top = static_cast<double>(line) * m_layout->lineHeight();
  paintRange(painter, line, top);
  paintTints(painter, line, top);
  paintHits(painter, colours, line, top);
  paintText(painter, colours, line, top);
}

void TextPage::paintTints(QPainter& painter, std::int64_t line, double top) const {
  if (!m_tint || m_tint->kind == TintKind::none) return;
  for (const TextLayout::Span& span : m_layout->spans(line)) {
    const QColor colour = tintColour(span.cell);
    if (!colour.isValid()) continue;
    painter.fillRect(QRectF(span.left, top + kTintGap / 2, span.right - span.left, m_layout->lineHeight() - kTintGap),
                     colour);
  }
}

void TextPage::paintHits(QPainter& painter, const Colours& colours, std::int64_t line, double top) const {
  if (m_hits.place.empty()) return;
  const TextShape& shape = m_layout->shape();
  const std::vector<TextLayout::Piece> pieces = m_layout->pieces(line);
  const double begin = shape.cluster[static_cast<std::size_t>(pieces.front().begin)].byte;
  const double end = shape.cluster[static_cast<std::size_t>(pieces.back().end)].byte;
  auto hit = std::lower_bound(m_hits.place.begin(), m_hits.place.end(), begin,
                              [](const Stretch& place, double byte) { return place.end <= byte; });
  constexpr double kUnderline = 3;
  constexpr int kVeil = 60;
  for (; hit != m_hits.place.end() && hit->begin < end; ++hit) {
    const bool isCurrent = hit - m_hits.place.begin() == m_hits.current;
    QColor veil = colours.hit;
    veil.setAlpha(kVeil);
    for (const QRectF& rect : m_layout->rects(*hit)) {
      if (rect.top() < top - 1 || rect.top() > top + 1) continue;
      painter.fillRect(rect.adjusted(0, 1, 0, -1), veil);
      painter.fillRect(QRectF(rect.left(), rect.bottom() - kUnderline, rect.width(), kUnderline), colours.hit);
      if (!isCurrent) continue;
      painter.setPen(QPen(colours.hit, kPinPen));
      painter.drawRect(rect.adjusted(-1, 1, 1, -1));
    }
  }
}

void TextPage::paintText(QPainter& painter, const Colours& colours, std::int64_t line, double top) const {
  const TextShape& shape = m_layout->shape();
  for (const TextLayout::Piece& piece : m_layout->pieces(line)) {
    const Atom& atom = shape.atom[static_cast<std::size_t>(piece.atom)];
    if (atom.kind == Atom::Kind::word) {
      paintWord(painter, colours, piece, top);
      continue;
    }
    const QRectF cell(piece.left, top, piece.right - piece.left, m_layout->lineHeight());
    const QChar character = shape.text[shape.cluster[static_cast<std::size_t>(piece.begin)].character];
    if (atom.kind == Atom::Kind::blank && character != '\t') continue;
    painter.setPen(QPen(colours.sign, 1));
    painter.setRenderHint(QPainter::Antialiasing, true);
    if (atom.kind == Atom::Kind::lineEnd) {
      paintLineEnd(painter, cell);
    } else if (atom.kind == Atom::Kind::blank) {
      paintTab(painter, cell);
    } else {
      paintUnseen(painter, cell);
    }
    painter.setRenderHint(QPainter::Antialiasing, false);
  }
}

void TextPage::paintWord(QPainter& painter, const Colours& colours, const TextLayout::Piece& piece, double top) const {
  const TextShape& shape = m_layout->shape();
  const Cluster& begin = shape.cluster[static_cast<std::size_t>(piece.begin)];
  const Cluster& end = shape.cluster[static_cast<std::size_t>(piece.end)];
  const QString word = shape.text.mid(begin.character, end.character - begin.character);
  const QPointF baseline(piece.left, top + shape.ascent);
  // What a row's query does not see is muted, as are the signs that are no text.
  const std::int64_t lastRead = m_tint ? m_tint->lastReadCell : -1;
  const double seenEnd = lastRead < 0 ? end.byte : m_layout->cells().cell[static_cast<std::size_t>(lastRead)].end;
  const bool isText = !m_layout->cells().hasText || begin.byte >= m_layout->cells().textBegin;
  painter.setPen(isText && begin.byte < seenEnd ? colours.text : colours.muted);
  painter.setLayoutDirection(shape.atom[static_cast<std::size_t>(piece.atom)].paragraph);
  painter.drawText(baseline, word);
  if (!isText || begin.byte >= seenEnd || end.byte <= seenEnd) return;
  // The query's cell ends inside the word: the rest of it again, in the other colour.
  painter.save();
  for (const QRectF& rect : m_layout->rects({seenEnd, static_cast<double>(end.byte)})) {
    if (std::abs(rect.top() - top) > 1) continue;
    painter.setClipRect(rect);
    painter.fillRect(rect, colours.ground);
    painter.setPen(colours.muted);
    painter.drawText(baseline, word);
  }
  painter.restore();
}

void TextPage::paintRange(QPainter& painter, std::int64_t line, double top) const {
  const std::int64_t length = m_layout->cells().length();
  const Range cells{m_layout->firstCell(line), m_layout->firstCell(line + 1)};
  const auto paintBar = [&](const Range& range, double x, const QColor& colour) {
    const bool whole = range.begin <= 0 && range.end >= length;
    if (whole || range.begin >= std::max(cells.end, cells.begin + 1) || range.end <= cells.begin) return;
    painter.fillRect(QRectF(x, top, kRangeBar, m_layout->lineHeight()), colour);
  };
  paintBar(m_view.rows, 2 - margin(), pinnedQueryColour(palette()));
  paintBar(m_view.columns, 3 + kRangeBar - margin(), pinnedKeyColour(palette()));
}

void TextPage::paintOutline(QPainter& painter, std::optional<std::int64_t> cell, const QPen& pen) const {
  if (!cell || *cell < 0 || *cell > m_layout->cells().length()) return;
  painter.setPen(pen);
  painter.setBrush(Qt::NoBrush);
  for (const QRectF& rect : m_layout->cellRects(*cell)) {
    painter.drawRoundedRect(rect.adjusted(-0.5, 1, 0.5, -1), 2, 2);
  }
}

void TextPage::paintUnread(QPainter& painter, const Colours& colours) const {
  if (m_layout->cells().unread == 0) return;
  const double top = static_cast<double>(m_layout->lineCount()) * m_layout->lineHeight();
  painter.setPen(colours.muted);
  const QString bytes = QLocale().toString(static_cast<qlonglong>(m_layout->cells().unread));
  const QString whole = tr("The run ends here; %1 more bytes of the text were not read.").arg(bytes);
  const double room = viewport()->width() - 2 * margin();
  const bool fits = painter.fontMetrics().horizontalAdvance(whole) <= room;
  painter.drawText(QPointF(0, top + m_layout->shape().ascent), fits ? whole : tr("%1 more bytes not read").arg(bytes));
}

}  // namespace foxscope::gui

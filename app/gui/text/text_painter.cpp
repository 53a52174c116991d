#include "app/gui/text/text_painter.h"

#include <algorithm>
#include <cmath>

#include <QLocale>
#include <QPainter>
#include <QPainterPath>

#include "app/gui/views/theme.h"
#include "backend/base/index.h"

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

/// Paints one page, with the viewport's painter moved to where the text begins.
class PagePainting {
 public:
  PagePainting(QPainter& painter, const TextPage& page)
      : m_painter(painter),
        m_page(page),
        m_layout(*page.textLayout()),
        m_ground(page.palette().color(QPalette::Base)),
        m_text(page.palette().color(QPalette::Text)),
        m_muted(mutedTextColour(page.palette())),
        m_sign(lineColour(page.palette())),
        m_hit(page.palette().color(QPalette::Highlight)) {}

  void paintLine(std::int64_t line);
  void paintUnread();
  void paintOutline(std::optional<std::int64_t> cell, const QPen& pen);

 private:
  void paintTints(std::int64_t line, double top);
  void paintHits(std::int64_t line, double top);
  void paintText(std::int64_t line, double top);
  void paintWord(const TextLayout::Piece& piece, double top);
  void paintRange(std::int64_t line, double top);

  QPainter& m_painter;
  const TextPage& m_page;
  const TextLayout& m_layout;
  QColor m_ground;
  QColor m_text;
  QColor m_muted;
  QColor m_sign;
  QColor m_hit;
};

void PagePainting::paintLine(std::int64_t line) {
  const double top = static_cast<double>(line) * m_layout.lineHeight();
  paintRange(line, top);
  paintTints(line, top);
  paintHits(line, top);
  paintText(line, top);
}

void PagePainting::paintTints(std::int64_t line, double top) {
  if (m_page.tint() == nullptr || m_page.tint()->kind == TintKind::none) return;
  for (const TextLayout::Span& span : m_layout.spans(line)) {
    const QColor colour = m_page.tintColour(span.cell);
    if (!colour.isValid()) continue;
    m_painter.fillRect(QRectF(span.left, top + kTintGap / 2, span.right - span.left, m_layout.lineHeight() - kTintGap),
                       colour);
  }
}

void PagePainting::paintHits(std::int64_t line, double top) {
  const SearchHits& hits = m_page.hits();
  if (hits.place.empty()) return;
  const TextShape& shape = m_layout.shape();
  const std::vector<TextLayout::Piece> pieces = m_layout.pieces(line);
  const double begin = shape.cluster[index_of(pieces.front().begin)].byte;
  const double end = shape.cluster[index_of(pieces.back().end)].byte;
  auto hit = std::lower_bound(hits.place.begin(), hits.place.end(), begin,
                              [](const Stretch& place, double byte) { return place.end <= byte; });
  constexpr double kUnderline = 3;
  constexpr int kVeil = 60;
  for (; hit != hits.place.end() && hit->begin < end; ++hit) {
    const bool isCurrent = hit - hits.place.begin() == hits.current;
    QColor veil = m_hit;
    veil.setAlpha(kVeil);
    for (const QRectF& rect : m_layout.rects(*hit)) {
      if (rect.top() < top - 1 || rect.top() > top + 1) continue;
      m_painter.fillRect(rect.adjusted(0, 1, 0, -1), veil);
      m_painter.fillRect(QRectF(rect.left(), rect.bottom() - kUnderline, rect.width(), kUnderline), m_hit);
      if (!isCurrent) continue;
      m_painter.setPen(QPen(m_hit, kPinPen));
      m_painter.drawRect(rect.adjusted(-1, 1, 1, -1));
    }
  }
}

void PagePainting::paintText(std::int64_t line, double top) {
  const TextShape& shape = m_layout.shape();
  for (const TextLayout::Piece& piece : m_layout.pieces(line)) {
    const Atom& atom = shape.atom[index_of(piece.atom)];
    if (atom.kind == Atom::Kind::word) {
      paintWord(piece, top);
      continue;
    }
    const QRectF cell(piece.left, top, piece.right - piece.left, m_layout.lineHeight());
    const QChar character = shape.text[shape.cluster[index_of(piece.begin)].character];
    if (atom.kind == Atom::Kind::blank && character != '\t') continue;
    m_painter.setPen(QPen(m_sign, 1));
    m_painter.setRenderHint(QPainter::Antialiasing, true);
    if (atom.kind == Atom::Kind::lineEnd) {
      paintLineEnd(m_painter, cell);
    } else if (atom.kind == Atom::Kind::blank) {
      paintTab(m_painter, cell);
    } else {
      paintUnseen(m_painter, cell);
    }
    m_painter.setRenderHint(QPainter::Antialiasing, false);
  }
}

void PagePainting::paintWord(const TextLayout::Piece& piece, double top) {
  const TextShape& shape = m_layout.shape();
  const Cluster& begin = shape.cluster[index_of(piece.begin)];
  const Cluster& end = shape.cluster[index_of(piece.end)];
  const QString word = shape.text.mid(begin.character, end.character - begin.character);
  const QPointF baseline(piece.left, top + shape.ascent);
  // Text that a row's query does not see is muted, as are the signs that are no text.
  const std::int64_t lastRead = m_page.tint() != nullptr ? m_page.tint()->lastReadCell : -1;
  const double seenEnd = lastRead < 0 ? end.byte : m_layout.cells().cell[index_of(lastRead)].end;
  const bool isText = !m_layout.cells().hasText || begin.byte >= m_layout.cells().textBegin;
  m_painter.setPen(isText && begin.byte < seenEnd ? m_text : m_muted);
  m_painter.setLayoutDirection(shape.atom[index_of(piece.atom)].paragraph);
  m_painter.drawText(baseline, word);
  if (!isText || begin.byte >= seenEnd || end.byte <= seenEnd) return;
  // The query's cell ends inside the word: the rest of it again, in the other colour.
  m_painter.save();
  for (const QRectF& rect : m_layout.rects({seenEnd, static_cast<double>(end.byte)})) {
    if (std::abs(rect.top() - top) > 1) continue;
    m_painter.setClipRect(rect);
    m_painter.fillRect(rect, m_ground);
    m_painter.setPen(m_muted);
    m_painter.drawText(baseline, word);
  }
  m_painter.restore();
}

void PagePainting::paintRange(std::int64_t line, double top) {
  const std::int64_t length = m_layout.cells().length();
  const Range cells{m_layout.firstCell(line), m_layout.firstCell(line + 1)};
  const auto paintBar = [&](const Range& range, double x, const QColor& colour) {
    const bool whole = range.begin <= 0 && range.end >= length;
    if (whole || range.begin >= std::max(cells.end, cells.begin + 1) || range.end <= cells.begin) return;
    m_painter.fillRect(QRectF(x, top, kRangeBar, m_layout.lineHeight()), colour);
  };
  paintBar(m_page.view().rows, 2 - m_page.margin(), pinnedQueryColour(m_page.palette()));
  paintBar(m_page.view().columns, 3 + kRangeBar - m_page.margin(), pinnedKeyColour(m_page.palette()));
}

void PagePainting::paintOutline(std::optional<std::int64_t> cell, const QPen& pen) {
  if (!cell || *cell < 0 || *cell > m_layout.cells().length()) return;
  m_painter.setPen(pen);
  m_painter.setBrush(Qt::NoBrush);
  for (const QRectF& rect : m_layout.cellRects(*cell)) {
    m_painter.drawRoundedRect(rect.adjusted(-0.5, 1, 0.5, -1), 2, 2);
  }
}

void PagePainting::paintUnread() {
  if (m_layout.cells().unread == 0) return;
  const double top = static_cast<double>(m_layout.lineCount()) * m_layout.lineHeight();
  m_painter.setPen(m_muted);
  const QString bytes = QLocale().toString(static_cast<qlonglong>(m_layout.cells().unread));
  const QString whole = TextPage::tr("The run ends here; %1 more bytes of the text were not read.").arg(bytes);
  const double room = m_page.viewport()->width() - 2 * m_page.margin();
  const bool fits = m_painter.fontMetrics().horizontalAdvance(whole) <= room;
  m_painter.drawText(QPointF(0, top + m_layout.shape().ascent),
                     fits ? whole : TextPage::tr("%1 more bytes not read").arg(bytes));
}

}  // namespace

void paintPage(QPainter& painter, const TextPage& page, const QRect& part) {
  const QPalette& palette = page.palette();
  painter.fillRect(part, palette.color(QPalette::Base));
  if (page.textLayout() == nullptr) return;
  const TextLayout& layout = *page.textLayout();
  painter.setFont(layout.shape().font);
  painter.translate(page.origin());
  const QRectF wanted = QRectF(part).translated(-page.origin());
  const double height = layout.lineHeight();
  const auto first = std::max<std::int64_t>(0, static_cast<std::int64_t>(std::floor(wanted.top() / height)));
  const auto last =
      std::min<std::int64_t>(layout.lineCount() - 1, static_cast<std::int64_t>(std::floor(wanted.bottom() / height)));
  PagePainting painting(painter, page);
  for (std::int64_t line = first; line <= last; ++line) painting.paintLine(line);
  painting.paintUnread();

  painter.setRenderHint(QPainter::Antialiasing);
  painting.paintOutline(page.hover().key, QPen(hoverColour(palette), kHoverPen, Qt::DashLine));
  painting.paintOutline(page.hover().query, QPen(hoverColour(palette), kHoverPen));
  painting.paintOutline(page.pin().key, QPen(pinnedKeyColour(palette), kPinPen));
  painting.paintOutline(page.pin().query, QPen(pinnedQueryColour(palette), kPinPen));
}

}  // namespace foxscope::gui

#include "app/gui/atlas/passage_list.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <QHelpEvent>
#include <QLocale>
#include <QPainter>
#include <QToolTip>

#include "app/gui/document/number_text.h"
#include "app/gui/text/tint_ramp.h"
#include "app/gui/views/cell_table.h"
#include "app/gui/views/theme.h"
#include "backend/base/index.h"

namespace foxscope::gui::atlas {
namespace {

constexpr int kPassageGap = 6;
constexpr double kPlaceShare = 0.55;  ///< of the width that lies before the place
constexpr double kOutlineGap = 4;     ///< between an outline and its token: a full stop is seen
constexpr double kFoundLine = 2;      ///< below what was found
constexpr int kOpenedLine = 3;        ///< at the left of the passage whose trace is shown
constexpr int kFewestRows = 3;        ///< that a list asks for

/// The text of a piece; blanks that a place reads are seen.
QString pieceText(const PassagePiece& piece) {
  QString text = piece.text;
  if (piece.marked && text.trimmed().isEmpty()) text.replace(' ', QChar(0x2423));
  return text;
}

}  // namespace

PassageList::PassageList(QWidget* parent) : RowList(parent) {
  viewport()->setCursor(Qt::PointingHandCursor);
  setAccessibleName(tr("Passages"));
  describeCells(*this, {[this] { return QSize(1, count()); },
                        [this](int row, int) {
                          const QString words =
                              heading(row) + QStringLiteral(": ") + m_answer.rows[index_of(row)].text();
                          return row == m_openedRow ? tr("opened, %1").arg(words) : words;
                        },
                        [this](int row, int) { return place(row); },
                        [this](int row, int) { return row == pointedRow(); }, [this](int row, int) { choose(row); },
                        [](int row) { return QString::number(row + 1); }, [](int) { return tr("passage"); }});
}

void PassageList::setAnswer(PassageAnswer answer, const AtlasModel& model) {
  m_answer = std::move(answer);
  m_model = model;
  m_openedRow = -1;
  showRows();
  findOpened();
}

void PassageList::setOpened(std::optional<PassagePlace> place) {
  m_opened = place;
  findOpened();
}

void PassageList::findOpened() {
  const auto found = std::ranges::find_if(m_answer.rows, [this](const PassageRow& row) {
    return m_opened == PassagePlace{row.head, row.place.window, row.place.position};
  });
  m_openedRow = found == m_answer.rows.end() ? -1 : static_cast<int>(found - m_answer.rows.begin());
  if (m_openedRow >= 0) bringIntoSight(m_openedRow);
  viewport()->update();
}

QString PassageList::heading(int number) const {
  const PassageRow& row = m_answer.rows[index_of(number)];
  const AtlasFacts& facts = m_model.facts();
  const AtlasPassageKind& kind = facts.passages[row.kind];
  const auto value = static_cast<double>(row.place.value);
  const QString unit = kind.unit == "1" || kind.unit.empty() ? QString() : ' ' + QString::fromStdString(kind.unit);
  // Lists by log f say f, which is what a head does.
  const QString told = isOfGate(kind) ? tr("f %1").arg(numberOf(std::exp(value), 3)) : numberOf(value, 3) + unit;
  QString words =
      tr("%1 · %2 · position %3 of window %4")
          .arg(headName(facts, row.head), told, QLocale().toString(static_cast<qlonglong>(row.place.position)),
               QLocale().toString(static_cast<qlonglong>(row.place.window)));
  if (!row.document.isEmpty()) words += QStringLiteral(" · ") + row.document;
  return words;
}

QString PassageList::wordsOf(int row) const {
  // One line: what else is to be said stands in the row.
  const PassageRow& shown = m_answer.rows[index_of(row)];
  const auto number = [](std::int64_t count) { return QLocale().toString(static_cast<qlonglong>(count)); };
  return tr("%1, position %2 of window %3: a click opens its trace")
      .arg(headName(m_model.facts(), shown.head), number(shown.place.position), number(shown.place.window));
}

QSize PassageList::minimumSizeHint() const { return {160, kFewestRows * rowHeight()}; }

QRect PassageList::textLine(int row) const {
  const int line = fontMetrics().height();
  const QRect at = place(row);
  return {kPassageGap, at.top() + line + 4, at.width() - 2 * kPassageGap, line};
}

double PassageList::widthOf(const PassagePiece& piece) const {
  return QFontMetricsF(font()).horizontalAdvance(pieceText(piece)) + (piece.marked ? 2 * kOutlineGap : 0);
}

QRectF PassageList::pieceBox(int row, std::size_t piece) const {
  const PassageRow& shown = m_answer.rows[index_of(row)];
  const QRectF line = textLine(row);
  double left = line.left() + kPlaceShare * line.width();
  for (std::size_t n = shown.middle; n < piece; ++n) left += widthOf(shown.pieces[n]);
  for (std::size_t n = piece; n < shown.middle; ++n) left -= widthOf(shown.pieces[n]);
  return {left, line.top(), widthOf(shown.pieces[piece]), line.height()};
}

void PassageList::paintText(QPainter& painter, int row) const {
  const PassageRow& shown = m_answer.rows[index_of(row)];
  const TintRamp ramp(palette(), TintRamp::Course::sequential);
  const double range = std::max(1e-6, 1.0 - static_cast<double>(m_answer.least));
  const bool ofGate = isOfGate(m_model.facts().passages[shown.kind]);
  const QRectF line = textLine(row);
  for (std::size_t n = 0; n < shown.pieces.size(); ++n) {
    const PassagePiece& piece = shown.pieces[n];
    const QRectF box = pieceBox(row, n);
    if (!box.intersects(line)) continue;
    const double own =
        piece.marked && ofGate ? std::exp(static_cast<double>(shown.place.value)) : static_cast<double>(piece.gate);
    if (std::isfinite(own)) painter.fillRect(box, ramp.at((1 - own) / range));
    painter.setPen(palette().color(QPalette::Text));
    painter.drawText(box, Qt::AlignHCenter | Qt::AlignVCenter | Qt::TextDontClip, pieceText(piece));
    if (piece.found) {
      painter.fillRect(QRectF(box.left(), box.bottom() - kFoundLine, box.width(), kFoundLine),
                       palette().color(QPalette::Highlight));
    }
    if (!piece.marked) continue;
    painter.setPen(QPen(pinnedQueryColour(palette()), 1.5));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(box.adjusted(0.5, 0.5, -0.5, -0.5));
  }
}

void PassageList::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(viewport());
  painter.fillRect(viewport()->rect(), palette().color(QPalette::Base));
  const auto [first, last] = rowsInSight();
  for (int number = first; number <= last; ++number) {
    const QRect at = place(number);
    if (number == pointedRow()) painter.fillRect(at, palette().color(QPalette::AlternateBase));
    const int line = fontMetrics().height();
    const QRect heads(kPassageGap, at.top() + 2, at.width() - 2 * kPassageGap, line);
    const bool opened = number == m_openedRow;
    painter.setPen(opened ? palette().color(QPalette::Text) : mutedTextColour(palette()));
    painter.drawText(heads, Qt::AlignLeft | Qt::AlignVCenter,
                     fontMetrics().elidedText(heading(number), Qt::ElideRight, heads.width()));
    painter.save();
    painter.setClipRect(textLine(number));
    paintText(painter, number);
    painter.restore();
    painter.setPen(lineColour(palette()));
    painter.drawLine(at.bottomLeft(), at.bottomRight());
    if (opened) {
      painter.fillRect(at.left(), at.top(), kOpenedLine, at.height(), palette().color(QPalette::Highlight));
    }
  }
}

bool PassageList::viewportEvent(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return RowList::viewportEvent(event);
  const QPoint place = static_cast<const QHelpEvent*>(event)->globalPos();
  QToolTip::showText(place, pointedRow() < 0 ? QString() : heading(pointedRow()), viewport());
  return true;
}

}  // namespace foxscope::gui::atlas

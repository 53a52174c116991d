#include "app/gui/atlas/passage_list.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <QLocale>
#include <QPainter>

#include "app/gui/document/number_text.h"
#include "app/gui/text/tint_ramp.h"
#include "app/gui/views/cell_table.h"
#include "app/gui/views/theme.h"
#include "backend/base/index.h"

namespace foxscope::gui::atlas {
namespace {

constexpr int kPassageGap = 6;
constexpr double kPlaceShare = 0.55;  ///< of the width that lies before the place

}  // namespace

PassageList::PassageList(QWidget* parent) : RowList(parent) {
  viewport()->setCursor(Qt::PointingHandCursor);
  setAccessibleName(tr("Passages"));
  describeCells(*this, {[this] { return QSize(1, count()); },
                        [this](int row, int) {
                          return heading(row) + QStringLiteral(": ") + m_answer.rows[index_of(row)].text();
                        },
                        [this](int row, int) { return place(row); },
                        [this](int row, int) { return row == pointedRow(); }, [this](int row, int) { choose(row); },
                        [](int row) { return QString::number(row + 1); }, [](int) { return tr("passage"); }});
}

void PassageList::setAnswer(PassageAnswer answer, const AtlasModel& model) {
  m_answer = std::move(answer);
  m_model = model;
  showRows();
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

QSize PassageList::minimumSizeHint() const { return {160, rowHeight()}; }

void PassageList::paintText(QPainter& painter, const QRect& line, const PassageRow& row) const {
  const TintRamp ramp(palette(), TintRamp::Course::sequential);
  const double range = std::max(1e-6, 1.0 - static_cast<double>(m_answer.least));
  const bool ofGate = isOfGate(m_model.facts().passages[row.kind]);
  const auto marked = std::ranges::find(row.pieces, true, &PassagePiece::marked);
  const auto at = marked - row.pieces.begin();
  const double middle = line.left() + kPlaceShare * line.width();
  const auto paintPiece = [&](const PassagePiece& piece, double left, double width) {
    const double own =
        piece.marked && ofGate ? std::exp(static_cast<double>(row.place.value)) : static_cast<double>(piece.gate);
    const QRectF box(left, line.top(), width, line.height());
    if (std::isfinite(own)) painter.fillRect(box, ramp.at((1 - own) / range));
    painter.setPen(palette().color(QPalette::Text));
    painter.drawText(box, Qt::AlignLeft | Qt::AlignVCenter | Qt::TextDontClip, piece.text);
    if (!piece.marked) return;
    painter.setPen(QPen(pinnedQueryColour(palette()), 1.5));
    painter.setBrush(Qt::NoBrush);
    painter.drawRect(box.adjusted(0.5, 0.5, -0.5, -0.5));
  };
  const QFontMetricsF metrics(font());
  double x = middle;
  for (auto n = at; n < std::ssize(row.pieces) && x < line.right(); ++n) {
    const PassagePiece& piece = row.pieces[index_of(n)];
    const double width = metrics.horizontalAdvance(piece.text);
    paintPiece(piece, x, width);
    x += width;
  }
  x = middle;
  for (auto n = at; n-- > 0 && x > line.left();) {
    const PassagePiece& piece = row.pieces[index_of(n)];
    const double width = metrics.horizontalAdvance(piece.text);
    x -= width;
    paintPiece(piece, x, width);
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
    painter.setPen(mutedTextColour(palette()));
    painter.drawText(heads, Qt::AlignLeft | Qt::AlignVCenter,
                     fontMetrics().elidedText(heading(number), Qt::ElideRight, heads.width()));
    const QRect text = heads.translated(0, line + 2);
    painter.save();
    painter.setClipRect(text);
    paintText(painter, text, m_answer.rows[index_of(number)]);
    painter.restore();
    painter.setPen(lineColour(palette()));
    painter.drawLine(at.bottomLeft(), at.bottomRight());
  }
}

}  // namespace foxscope::gui::atlas

#include "app/gui/atlas/token_bars.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <QHelpEvent>
#include <QLocale>
#include <QPainter>
#include <QScrollBar>
#include <QTextLayout>
#include <QToolTip>

#include "app/gui/atlas/atlas_model.h"
#include "app/gui/document/number_text.h"
#include "app/gui/views/cell_table.h"
#include "app/gui/views/theme.h"
#include "backend/base/index.h"

namespace foxscope::gui::atlas {
namespace {

constexpr int kTokenGap = 6;
constexpr int kTokenLetters = 14;  ///< room for a token
constexpr int kTitleLines = 2;
constexpr int kFewestLetters = 5;  ///< of a token in a narrow list
constexpr int kUsualBar = 30;      ///< pixels of the longest bar, for which tokens are shortened
constexpr int kLeastBar = 8;

}  // namespace

TokenBars::TokenBars(QWidget* parent) : RowList(parent) {
  describeCells(*this, {[this] { return QSize(1, count()); }, [this](int row, int) { return description(row); },
                        [this](int row, int) { return rowPlace(row); },
                        [this](int row, int) { return row == pointedRow(); }, [this](int row, int) { choose(row); },
                        [](int row) { return QString::number(row + 1); }, [](int) { return tr("token"); }});
}

void TokenBars::setList(TokenList list) {
  m_list = std::move(list);
  m_longestValue.clear();
  m_longestCount.clear();
  for (const TokenBar& bar : m_list.bars) {
    if (const QString value = valueOf(bar); value.size() > m_longestValue.size()) m_longestValue = value;
    if (const QString count = countOf(bar); count.size() > m_longestCount.size()) m_longestCount = count;
  }
  setAccessibleName(m_list.title);
  updateGeometry();
  showRows();
}

QString TokenBars::description(int row) const {
  const TokenBar& bar = m_list.bars[index_of(row)];
  QString words = tr("“%1”: mean log f %2 nats (f %3), %4 % resets, read %5 times")
                      .arg(bar.text, withError(std::log(bar.gate), bar.error), numberOf(bar.gate, 3),
                           numberOf(100 * bar.resets, 3), QLocale().toString(static_cast<qlonglong>(bar.count)));
  if (bar.isRare()) words += tr(": too few to say anything");
  if (m_list.hasDiscoveries) words += bar.discovered ? tr("; log f beyond chance") : tr("; log f not beyond chance");
  return words;
}

QSize TokenBars::minimumSizeHint() const {
  constexpr int kFewestBars = 4;
  const int letters = kFewestLetters * fontMetrics().averageCharWidth();
  const int across = 2 * kTokenGap + letters + kLeastBar + valueRoom() + countRoom() + verticalScrollBar()->width();
  return {std::max(140, across), kTitleLines * fontMetrics().height() + 4 + kFewestBars * rowHeight()};
}

QStringList TokenBars::titleLines() const {
  const int room = std::max(1, viewport()->width() - 2 * kTokenGap);
  QTextLayout words(m_list.title, font());
  words.beginLayout();
  QTextLine line = words.createLine();
  if (line.isValid()) line.setLineWidth(room);
  words.endLayout();
  const int end = line.isValid() ? line.textLength() : 0;
  QStringList lines{m_list.title.left(end)};
  if (end < m_list.title.size()) lines += fontMetrics().elidedText(m_list.title.mid(end), Qt::ElideRight, room);
  return lines;
}

int TokenBars::titleHeight() const { return static_cast<int>(titleLines().size()) * fontMetrics().height() + 4; }

QString TokenBars::valueOf(const TokenBar& bar) {
  return (bar.discovered ? QStringLiteral("• ") : QString()) + numberOf(bar.value, 3);
}

QString TokenBars::countOf(const TokenBar& bar) {
  return QStringLiteral("×%1").arg(QLocale().toString(static_cast<qlonglong>(bar.count)));
}

int TokenBars::valueRoom() const { return fontMetrics().horizontalAdvance(m_longestValue) + 2 * kTokenGap; }

int TokenBars::countRoom() const { return fontMetrics().horizontalAdvance(m_longestCount) + kTokenGap; }

// Tokens give way to bars, and both to numbers.
int TokenBars::tokenRoom(int width) const {
  const int letter = fontMetrics().averageCharWidth();
  const int most = std::min(kTokenLetters * letter, width / 3);
  const int left = width - valueRoom() - countRoom() - 2 * kTokenGap - kUsualBar;
  return kTokenGap + std::clamp(left, std::min(kFewestLetters * letter, most), most);
}

int TokenBars::barRoom(int width) const {
  return std::max(kLeastBar, width - tokenRoom(width) - valueRoom() - countRoom() - kTokenGap);
}

void TokenBars::paintBar(QPainter& painter, const QRect& place, const TokenBar& bar) const {
  const int token = tokenRoom(place.width());
  const int numbers = valueRoom() + countRoom();
  QColor text = palette().color(QPalette::Text);
  QColor fill = runColour(0, palette());
  if (bar.isRare()) {
    text = palette().color(QPalette::Disabled, QPalette::Text);
    fill = lineColour(palette());
  }
  painter.setPen(text);
  painter.drawText(QRect(place.left() + kTokenGap, place.top(), token - kTokenGap, place.height()),
                   Qt::AlignRight | Qt::AlignVCenter,
                   fontMetrics().elidedText(bar.text, Qt::ElideRight, token - kTokenGap));
  const QRectF room(place.left() + token + kTokenGap, place.top() + 3, barRoom(place.width()), place.height() - 6);
  const double most = m_list.most > 0 ? m_list.most : 1;
  const auto across = [&](double number) { return room.left() + std::clamp(number / most, 0.0, 1.0) * room.width(); };
  painter.fillRect(QRectF(room.topLeft(), QPointF(std::max(room.left() + 1, across(bar.value)), room.bottom())), fill);
  if (std::isfinite(bar.error)) {
    painter.setPen(QPen(text, 1));
    const double middle = room.center().y();
    painter.drawLine(QPointF(across(bar.value - bar.error), middle), QPointF(across(bar.value + bar.error), middle));
  }
  if (std::isfinite(m_list.mean)) {
    painter.setPen(QPen(mutedTextColour(palette()), 1, Qt::DotLine));
    painter.drawLine(QPointF(across(m_list.mean), place.top()), QPointF(across(m_list.mean), place.bottom()));
  }
  painter.setPen(text);
  const QRect end(place.right() + 1 - numbers + kTokenGap, place.top(), numbers - 2 * kTokenGap, place.height());
  painter.drawText(end, Qt::AlignLeft | Qt::AlignVCenter, valueOf(bar));
  painter.setPen(bar.isRare() ? text : mutedTextColour(palette()));
  painter.drawText(end, Qt::AlignRight | Qt::AlignVCenter, countOf(bar));
}

void TokenBars::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(viewport());
  painter.fillRect(viewport()->rect(), palette().color(QPalette::Base));
  const auto [first, last] = rowsInSight();
  for (int row = first; row <= last; ++row) {
    const QRect place = rowPlace(row);
    if (row == pointedRow()) painter.fillRect(place, palette().color(QPalette::AlternateBase));
    paintBar(painter, place, m_list.bars[index_of(row)]);
  }
  const QRect title(0, 0, viewport()->width(), titleHeight());
  painter.fillRect(title, palette().color(QPalette::Base));
  painter.setPen(mutedTextColour(palette()));
  painter.drawText(title.adjusted(kTokenGap, 0, 0, 0), Qt::AlignLeft | Qt::AlignVCenter, titleLines().join('\n'));
}

bool TokenBars::viewportEvent(QEvent* event) {
  if (event->type() != QEvent::ToolTip) return RowList::viewportEvent(event);
  const auto* help = static_cast<QHelpEvent*>(event);
  QToolTip::showText(help->globalPos(), help->pos().y() < titleHeight() ? m_list.title : QString(), viewport());
  return true;
}

void TokenBars::choose(int row) {
  point(row);
  emit tokenChosen(m_list.bars[index_of(row)].text);
}

}  // namespace foxscope::gui::atlas

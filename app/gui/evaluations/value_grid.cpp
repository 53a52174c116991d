#include "app/gui/evaluations/value_grid.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <QKeyEvent>
#include <QMouseEvent>
#include <QPainter>

#include "app/gui/views/cell_table.h"
#include "app/gui/views/theme.h"

namespace foxscope::gui::evaluations {
namespace {

constexpr double kGap = 6;  // pixels between names and cells
constexpr double kNarrow = 6;
constexpr int kLeastCell = 4;

int widest(const QStringList& names, const QFontMetrics& metrics) {
  int width = 0;
  for (const QString& name : names) width = std::max(width, metrics.horizontalAdvance(name));
  return width;
}

/// Decimals that leave a number three digits that count.
int decimalsOf(float value) {
  const float size = std::abs(value);
  if (!(size > 0) || std::isinf(size)) return 0;  // an infinite one has none
  return std::clamp(2 - static_cast<int>(std::floor(std::log10(size))), 0, 4);
}

/// A true minus sign; a zero has none; what is not known, or never ends, is left out.
QString cellText(float value, int decimals) {
  if (!std::isfinite(value)) return {};
  QString text = QString::number(std::abs(static_cast<double>(value)), 'f', decimals);
  const bool zero = std::all_of(text.begin(), text.end(), [](QChar letter) { return letter == '0' || letter == '.'; });
  return value < 0 && !zero ? QStringLiteral("−") + text : text;
}

}  // namespace

ValueGrid::ValueGrid(QWidget* parent) : QWidget(parent) {
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
  describeCells(
      *this,
      {[this] { return QSize(columnCount(), rowCount()); },
       [this](int row, int column) { return m_content.reading ? m_content.reading(row, column) : QString(); },
       [this](int row, int column) { return cell(row, column).toRect(); },
       [this](int row, int column) { return row == m_row && column == m_column; },
       [this](int row, int column) { choose(row, column); }, [this](int row) { return m_content.rows.value(row); },
       [this](int column) { return m_content.columns.value(column); }});
}

void ValueGrid::setContent(GridContent content) {
  m_content = std::move(content);
  m_row = m_column = -1;
  setAccessibleName(m_content.title);
  announceCells(*this);
  updateGeometry();
  update();
}

QSize ValueGrid::minimumSizeHint() const {
  const int left = fontMetrics().height() + widest(m_content.rows, fontMetrics()) + static_cast<int>(3 * kGap);
  const int top = 3 * fontMetrics().height() + static_cast<int>(3 * kGap);
  return kLeast.expandedTo({left + columnCount() * kLeastCell, top + rowCount() * kLeastCell});
}

// Title and names of columns above, titles of rows and their names at the left.
QRectF ValueGrid::area() const {
  const double line = fontMetrics().height();
  const double left = line + kGap + widest(m_content.rows, fontMetrics()) + kGap;
  const double top = 3 * line + 2 * kGap;
  return {left, top, std::max(1.0, width() - left - kGap), std::max(1.0, height() - top - kGap)};
}

QRectF ValueGrid::cell(int row, int column) const {
  const QRectF all = area();
  const double wide = all.width() / std::max(1, columnCount());
  const double high = all.height() / std::max(1, rowCount());
  return {all.x() + column * wide, all.y() + row * high, wide, high};
}

QStringList ValueGrid::cellTexts() const {
  float largest = 0;
  for (const float value : m_content.values) {
    if (std::isfinite(value)) largest = std::max(largest, std::abs(value));
  }
  constexpr double kBeside = 4;
  const QRectF box = cell(0, 0);
  const bool high = fontMetrics().height() <= box.height();
  // So many digits in every cell, or in none: numbers in some of them would look like a finding. Values that spread
  // over decades have three digits that count in each.
  const bool spread = m_content.colours.scale == figure::ColourScale::logarithmic;
  const int most = decimalsOf(largest);
  for (const auto& [decimals, least] : {std::pair{most, 0.0F}, {2, 0.1F}, {1, 1.0F}}) {
    if (!high || largest < least || decimals > most) continue;
    QStringList texts;
    for (std::size_t place = 0; place < m_content.values.size(); ++place) {
      const float value = m_content.values[place];
      texts += cellText(value, spread && decimals == most ? decimalsOf(value) : decimals);
      if (place < m_content.dots.size() && m_content.dots[place]) texts.back() += QStringLiteral(" •");
    }
    if (widest(texts, fontMetrics()) + kBeside <= box.width()) return texts;
  }
  QStringList dots;
  for (std::size_t place = 0; place < m_content.values.size(); ++place) {
    const bool dot = high && place < m_content.dots.size() && m_content.dots[place];
    dots += dot ? QStringLiteral("•") : QString();
  }
  return dots;
}

void ValueGrid::paintCell(QPainter& painter, int row, int column, const QString& text) const {
  const auto place = static_cast<std::size_t>(std::int64_t{row} * columnCount() + column);
  const figure::Rgb colour = m_content.colours.colour(static_cast<double>(m_content.values[place]));
  const QRectF box = cell(row, column);
  // Small cells have no room for a gap between them.
  const double gap = box.width() < kNarrow ? 0 : 0.5;
  const QRectF inner = box.adjusted(gap, gap, -gap, -gap);
  // A head that never forgets has no gate that it could forget by: there is no number to colour.
  if (std::isinf(m_content.values[place])) {
    QColor hatch = mutedTextColour(palette());
    hatch.setAlphaF(0.4F);
    return painter.fillRect(inner, QBrush(hatch, Qt::BDiagPattern));
  }
  painter.fillRect(inner, QColor(colour.red, colour.green, colour.blue));
  const bool lightGround = 0.3 * colour.red + 0.59 * colour.green + 0.11 * colour.blue > 140;
  painter.setPen(lightGround ? Qt::black : Qt::white);
  painter.drawText(box, Qt::AlignCenter, text);
}

void ValueGrid::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  painter.fillRect(rect(), palette().color(QPalette::Base));
  if (m_content.values.empty()) return;
  const QRectF all = area();
  const double line = fontMetrics().height();
  QFont bold = font();
  bold.setWeight(QFont::DemiBold);
  painter.setPen(palette().color(QPalette::Text));
  painter.setFont(bold);
  painter.drawText(QRectF(kGap, kGap / 2, width() - 2 * kGap, line), Qt::AlignLeft,
                   painter.fontMetrics().elidedText(m_content.title, Qt::ElideRight, width() - 12));
  painter.setFont(font());
  painter.setPen(mutedTextColour(palette()));
  painter.drawText(QRectF(all.x(), kGap + line, all.width(), line), Qt::AlignCenter, m_content.columnTitle);
  painter.save();
  painter.translate(0, all.bottom());
  painter.rotate(-90);
  painter.drawText(QRectF(0, 0, all.height(), line), Qt::AlignCenter, m_content.rowTitle);
  painter.restore();
  painter.setPen(palette().color(QPalette::Text));
  // Names that would touch are left out, from the second on.
  const int step = std::max(1, static_cast<int>(std::ceil((widest(m_content.columns, fontMetrics()) + kGap) /
                                                          std::max(1.0, cell(0, 0).width()))));
  for (int column = 0; column < columnCount(); column += step) {
    const QRectF box = cell(0, column);
    painter.drawText(QRectF(box.center().x() - 100, kGap + 2 * line, 200, line), Qt::AlignCenter,
                     m_content.columns[column]);
  }
  const int rowStep = std::max(1, static_cast<int>(std::ceil(line / std::max(1.0, cell(0, 0).height()))));
  for (int row = 0; row < rowCount(); row += rowStep) {
    const QRectF box = cell(row, 0);
    painter.drawText(QRectF(0, box.center().y() - line / 2, all.x() - kGap, line), Qt::AlignRight | Qt::AlignVCenter,
                     m_content.rows[row]);
  }
  const QStringList texts = cellTexts();
  for (int row = 0; row < rowCount(); ++row) {
    for (int column = 0; column < columnCount(); ++column) {
      paintCell(painter, row, column, texts[row * columnCount() + column]);
    }
  }
  if (m_row < 0) return;
  painter.setPen(QPen(palette().color(QPalette::Text), 2));
  painter.setBrush(Qt::NoBrush);
  painter.drawRect(cell(m_row, m_column).adjusted(1, 1, -1, -1));
}

void ValueGrid::choose(int row, int column) {
  m_row = row;
  m_column = column;
  update();
  announceCell(*this, row, column);
  if (m_content.reading) emit told(m_content.reading(row, column));
}

bool ValueGrid::choose(const QPointF& place) {
  const QRectF all = area();
  if (m_content.values.empty() || !all.contains(place)) return false;
  const auto part = [](double inside, double size, int count) {
    return std::clamp(static_cast<int>(inside / size * count), 0, count - 1);
  };
  choose(part(place.y() - all.y(), all.height(), rowCount()), part(place.x() - all.x(), all.width(), columnCount()));
  return true;
}

void ValueGrid::mouseMoveEvent(QMouseEvent* event) { choose(event->position()); }

void ValueGrid::mouseDoubleClickEvent(QMouseEvent* event) {
  if (choose(event->position())) emit opened(m_row, m_column);
}

void ValueGrid::keyPressEvent(QKeyEvent* event) {
  if (m_content.values.empty()) return;
  const int row = std::max(0, m_row);
  const int column = std::max(0, m_column);
  switch (event->key()) {
    case Qt::Key_Up:
      return choose(std::max(0, row - 1), column);
    case Qt::Key_Down:
      return choose(std::min(rowCount() - 1, row + 1), column);
    case Qt::Key_Left:
      return choose(row, std::max(0, column - 1));
    case Qt::Key_Right:
      return choose(row, std::min(columnCount() - 1, column + 1));
    case Qt::Key_Return:
    case Qt::Key_Enter:
      if (m_row >= 0) emit opened(m_row, m_column);
      return;
    default:
      QWidget::keyPressEvent(event);
  }
}

}  // namespace foxscope::gui::evaluations

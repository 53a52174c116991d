#include "app/gui/text/text_overview.h"

#include <algorithm>
#include <cmath>

#include <QMouseEvent>
#include <QPainter>

#include "app/gui/views/theme.h"
#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

constexpr double kBar = 3;  // width of the bars of the range, and of a hit
constexpr double kMarkHeight = 2;
/// Up to so many tokens a line the strongest stands for all; of more, nearly every line would have a strong one.
constexpr std::int64_t kStrongestOf = 8;

/// The mean of colours.
class MeanColour {
 public:
  void add(QRgb colour) {
    m_red += qRed(colour);
    m_green += qGreen(colour);
    m_blue += qBlue(colour);
    ++m_count;
  }
  [[nodiscard]] QRgb value() const {
    const auto mean = [this](std::int64_t sum) { return static_cast<int>((sum + m_count / 2) / m_count); };
    return qRgb(mean(m_red), mean(m_green), mean(m_blue));
  }

 private:
  std::int64_t m_red = 0;
  std::int64_t m_green = 0;
  std::int64_t m_blue = 0;
  std::int64_t m_count = 0;
};

}  // namespace

TextOverview::TextOverview(TextPage& page, QWidget* parent) : QWidget(parent), m_page(page) {
  setAccessibleName(tr("Overview of the text"));
  setToolTip(
      tr("The whole text: the tint of its lines (the mean of long ones), the pinned query and key, the range of the "
         "maps,\nsearch "
         "hits. Click or drag to scroll."));
  setSizePolicy(QSizePolicy::Fixed, QSizePolicy::Ignored);
  connect(&page, &TextPage::changed, this, qOverload<>(&QWidget::update));
}

QSize TextOverview::sizeHint() const { return {fontMetrics().height() * 3 / 2, 0}; }

double TextOverview::yOfLine(double line) const {
  const auto lines = static_cast<double>(std::max<std::int64_t>(1, m_page.textLayout()->lineCount()));
  // A short text keeps its own line height, so that strip and page lie side by side.
  const double perLine = std::min(m_page.textLayout()->lineHeight(), height() / lines);
  return line * perLine;
}

double TextOverview::yOfCell(std::int64_t cell) const {
  if (m_page.textLayout() == nullptr) return 0;
  return yOfLine(static_cast<double>(m_page.textLayout()->lineOfCell(cell)));
}

QRgb TextOverview::colourOfCells(const Range& cells, QRgb ground) const {
  if (cells.size() > kStrongestOf) {
    MeanColour mean;
    for (std::int64_t cell = cells.begin; cell < cells.end; ++cell) {
      const QColor colour = m_page.tintColour(cell);
      mean.add(colour.isValid() ? colour.rgb() : ground);
    }
    return mean.value();
  }
  const Tint& tint = *m_page.tint();
  std::int64_t strongest = -1;
  float size = -1;
  for (std::int64_t cell = cells.begin; cell < cells.end; ++cell) {
    const float value = std::abs(tint.value[index_of(cell)]);
    if (!(value > size)) continue;
    size = value;
    strongest = cell;
  }
  const QColor colour = m_page.tintColour(strongest);
  return colour.isValid() ? colour.rgb() : ground;
}

void TextOverview::drawTint(int rows) {
  const Drawn wanted{m_page.revision(), rows};
  if (wanted == m_drawn) return;
  m_drawn = wanted;
  const QRgb ground = palette().color(QPalette::Base).rgb();
  m_tint = QImage(1, rows, QImage::Format_RGB32);
  m_tint.fill(ground);
  if (m_page.tint() == nullptr) return;
  const TextLayout& layout = *m_page.textLayout();
  const std::int64_t lines = layout.lineCount();
  const double filled = yOfLine(static_cast<double>(lines)) / height() * rows;
  const auto lineOfRow = [&](int row) {
    return std::min(lines, static_cast<std::int64_t>(std::floor(row * static_cast<double>(lines) / filled)));
  };
  for (int row = 0; row < rows && row < filled; ++row) {
    const std::int64_t first = lineOfRow(row);
    const std::int64_t last = std::max(first + 1, lineOfRow(row + 1));
    if (first >= lines) break;
    const Range cells{layout.firstCell(first), layout.firstCell(std::min(last, lines))};
    m_tint.setPixel(0, row, colourOfCells({cells.begin, std::max(cells.end, cells.begin + 1)}, ground));
  }
}

void TextOverview::paintMarks(QPainter& painter) const {
  const TextLayout& layout = *m_page.textLayout();
  const std::int64_t length = layout.cells().length();
  const auto paintRange = [&](const Range& range, double x, const QColor& colour) {
    if (range.size() <= 0 || range.end > length || (range.begin <= 0 && range.end >= length)) return;
    const double top = yOfCell(range.begin);
    const double bottom = yOfLine(static_cast<double>(layout.lineOfCell(range.end - 1) + 1));
    painter.fillRect(QRectF(x, top, kBar, std::max(kMarkHeight, bottom - top)), colour);
  };
  paintRange(m_page.view().rows, 1, pinnedQueryColour(palette()));
  paintRange(m_page.view().columns, 2 + kBar, pinnedKeyColour(palette()));
  const QColor hit = palette().color(QPalette::Highlight);
  double last = -1;
  for (const Stretch& place : m_page.hits().place) {
    const double y = std::floor(yOfLine(static_cast<double>(layout.lineOfByte(place.begin))));
    if (y == last) continue;
    painter.fillRect(QRectF(width() - 2 * kBar, y, 2 * kBar, kMarkHeight), hit);
    last = y;
  }
  const auto paintPin = [&](const std::optional<std::int64_t>& cell, const QColor& colour) {
    if (cell && *cell <= length) painter.fillRect(QRectF(0, yOfCell(*cell), width(), kMarkHeight), colour);
  };
  paintPin(m_page.pin().key, pinnedKeyColour(palette()));
  paintPin(m_page.pin().query, pinnedQueryColour(palette()));
}

void TextOverview::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  painter.fillRect(rect(), palette().color(QPalette::Base));
  if (m_page.textLayout() == nullptr || height() < 1) return;
  drawTint(static_cast<int>(std::lround(height() * devicePixelRatioF())));
  painter.drawImage(QRectF(rect()), m_tint);
  painter.fillRect(QRectF(0, 0, 1, height()), lineColour(palette()));
  paintMarks(painter);
  const Range lines = m_page.visibleLines();
  if (lines.size() >= m_page.textLayout()->lineCount()) return;
  const double top = yOfLine(static_cast<double>(lines.begin));
  const double bottom = yOfLine(static_cast<double>(lines.end));
  painter.setRenderHint(QPainter::Antialiasing);
  painter.setPen(QPen(mutedTextColour(palette()), 1));
  painter.drawRoundedRect(QRectF(1.5, top + 0.5, width() - 2.0, std::max(4.0, bottom - top - 1)), 2, 2);
}

void TextOverview::scrollTo(double y) {
  if (m_page.textLayout() == nullptr || height() < 1) return;
  m_page.centreLine(static_cast<std::int64_t>(std::floor(y / std::max(1e-9, yOfLine(1)))));
}

void TextOverview::mousePressEvent(QMouseEvent* event) {
  if (event->button() == Qt::LeftButton) scrollTo(event->position().y());
}

void TextOverview::mouseMoveEvent(QMouseEvent* event) {
  if (event->buttons().testFlag(Qt::LeftButton)) scrollTo(event->position().y());
}

}  // namespace foxscope::gui

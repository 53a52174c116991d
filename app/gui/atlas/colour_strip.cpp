#include "app/gui/atlas/colour_strip.h"

#include <algorithm>

#include <QPainter>

#include "app/gui/document/number_text.h"
#include "app/gui/views/theme.h"

namespace foxscope::gui::atlas {

ColourStrip::ColourStrip(QWidget* parent) : QWidget(parent) {
  setSizePolicy(QSizePolicy::Expanding, QSizePolicy::Fixed);
}

void ColourStrip::setColours(const figure::ScaledColours& colours, const QString& title) {
  m_colours = colours;
  m_title = title;
  update();
}

void ColourStrip::setWords(const QString& words) { setColours({}, words); }

void ColourStrip::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  constexpr int kGap = 6;
  constexpr int kMostBar = 160;
  const QRect line = rect().adjusted(kGap, 0, -kGap, 0);
  painter.setPen(mutedTextColour(palette()));
  if (m_colours.map == nullptr) {
    painter.drawText(line, Qt::AlignLeft | Qt::AlignVCenter,
                     fontMetrics().elidedText(m_title, Qt::ElideRight, line.width()));
    return;
  }
  const QString lower = numberOf(m_colours.lower, 3);
  const QString upper = numberOf(m_colours.upper, 3);
  const int numbers = fontMetrics().horizontalAdvance(lower) + fontMetrics().horizontalAdvance(upper) + 4 * kGap;
  const int bar = std::clamp(line.width() - numbers - fontMetrics().horizontalAdvance(m_title), 40, kMostBar);
  const QString title = fontMetrics().elidedText(m_title, Qt::ElideRight, std::max(0, line.width() - numbers - bar));
  int x = line.left();
  const auto write = [&](const QString& text) {
    painter.drawText(QRect(x, 0, line.right() - x, height()), Qt::AlignLeft | Qt::AlignVCenter, text);
    x += fontMetrics().horizontalAdvance(text) + kGap;
  };
  write(title);
  write(lower);
  const int high = fontMetrics().height() * 2 / 3;
  const QRect place(x, (height() - high) / 2, bar, high);
  for (int column = 0; column < bar; ++column) {
    const figure::Rgb colour = figure::colourAt(*m_colours.map, column / (bar - 1.0));
    painter.fillRect(place.left() + column, place.top(), 1, high, QColor(colour.red, colour.green, colour.blue));
  }
  x += bar + kGap;
  write(upper);
}

}  // namespace foxscope::gui::atlas

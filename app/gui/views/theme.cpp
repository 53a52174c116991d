#include "app/gui/views/theme.h"

#include <QPainter>
#include <QPixmap>

#include "app/figure/curves/curve_palette.h"

namespace foxscope::gui {
namespace {

QColor mixed(const QColor& a, const QColor& b, double share) {
  return QColor::fromRgbF(static_cast<float>(a.redF() + (b.redF() - a.redF()) * share),
                          static_cast<float>(a.greenF() + (b.greenF() - a.greenF()) * share),
                          static_cast<float>(a.blueF() + (b.blueF() - a.blueF()) * share));
}

QPalette made(const QColor& window, const QColor& base, const QColor& text, const QColor& accent) {
  QPalette palette;
  palette.setColor(QPalette::Window, window);
  palette.setColor(QPalette::Base, base);
  palette.setColor(QPalette::AlternateBase, mixed(base, text, 0.04));
  palette.setColor(QPalette::Button, mixed(window, text, 0.05));
  palette.setColor(QPalette::ToolTipBase, mixed(base, text, 0.08));
  for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText, QPalette::ToolTipText}) {
    palette.setColor(role, text);
  }
  palette.setColor(QPalette::PlaceholderText, mixed(base, text, 0.5));
  palette.setColor(QPalette::BrightText, Qt::white);
  palette.setColor(QPalette::Highlight, accent);
  palette.setColor(QPalette::HighlightedText, Qt::white);
  palette.setColor(QPalette::Link, accent);
  palette.setColor(QPalette::LinkVisited, accent);
  palette.setColor(QPalette::Light, mixed(window, Qt::white, 0.3));
  palette.setColor(QPalette::Midlight, mixed(window, text, 0.1));
  palette.setColor(QPalette::Mid, mixed(window, text, 0.25));
  palette.setColor(QPalette::Dark, mixed(window, text, 0.35));
  palette.setColor(QPalette::Shadow, mixed(window, Qt::black, 0.6));
  for (const auto role : {QPalette::WindowText, QPalette::Text, QPalette::ButtonText}) {
    palette.setColor(QPalette::Disabled, role, mixed(window, text, 0.45));
  }
  palette.setColor(QPalette::Disabled, QPalette::Highlight, mixed(window, text, 0.3));
  return palette;
}

}  // namespace

bool isDark(const QPalette& palette) {
  return palette.color(QPalette::Window).lightness() < palette.color(QPalette::WindowText).lightness();
}

QColor runColour(int index, const QPalette& palette) {
  const figure::Rgb colour = figure::curveColour(index, isDark(palette) ? figure::Ground::dark : figure::Ground::light);
  return {colour.red, colour.green, colour.blue};
}

Qt::PenStyle penStyle(figure::LineStyle line) {
  switch (line) {
    case figure::LineStyle::dashed:
      return Qt::DashLine;
    case figure::LineStyle::dotted:
      return Qt::DotLine;
    case figure::LineStyle::dashDotted:
      return Qt::DashDotLine;
    default:
      return Qt::SolidLine;
  }
}

Qt::PenStyle runLine(int change) { return penStyle(figure::curveLine(0, change)); }

QPixmap runMark(int colour, int change, int side, const QPalette& palette) {
  constexpr int kScale = 3;  // sharp on dense screens
  QPixmap mark(side * kScale, side * kScale);
  mark.setDevicePixelRatio(kScale);
  mark.fill(Qt::transparent);
  QPainter painter(&mark);
  painter.setRenderHint(QPainter::Antialiasing);
  const QRectF box(0.5, 0.5, side - 1, side - 1);
  painter.setPen(QPen(runColour(colour, palette), 1));
  if (change == 0) painter.setBrush(runColour(colour, palette));
  painter.drawRoundedRect(box, 1.5, 1.5);
  if (change > 0) {
    painter.setBrush(runColour(colour, palette));
    painter.drawPolygon(QPolygonF({box.bottomLeft(), box.topRight(), box.bottomRight()}));
  }
  return mark;
}

QColor pinnedQueryColour(const QPalette& palette) { return isDark(palette) ? QColor(0xff4fb0) : QColor(0xc2185b); }

QColor pinnedKeyColour(const QPalette& palette) { return isDark(palette) ? QColor(0x35d0ff) : QColor(0x0091b8); }

QColor hoverColour(const QPalette& palette) { return isDark(palette) ? QColor(0xd0d0d0) : QColor(0x555555); }

const figure::ColourMap& divergingColours(const QPalette& palette) {
  static const figure::ColourMap onDark = {{0x9e, 0xcb, 0xf5}, {0x5f, 0xa3, 0xdf}, {0x2f, 0x7c, 0xc0},
                                           {0x21, 0x53, 0x7f}, {0x2a, 0x2c, 0x30}, {0x7a, 0x2f, 0x2b},
                                           {0xb9, 0x47, 0x3c}, {0xe5, 0x7b, 0x63}, {0xff, 0xbf, 0xa6}};
  return isDark(palette) ? onDark : figure::diverging();
}

QColor lineColour(const QPalette& palette) {
  return mixed(palette.color(QPalette::Base), palette.color(QPalette::Text), 0.25);
}

QColor mutedTextColour(const QPalette& palette) {
  return mixed(palette.color(QPalette::Base), palette.color(QPalette::Text), 0.72);
}

void muteText(QWidget& label, const QPalette& palette) {
  QPalette muted = palette;
  muted.setColor(QPalette::WindowText, mutedTextColour(palette));
  label.setPalette(muted);
}

QPalette lightPalette() { return made(QColor(0xf5f5f3), Qt::white, QColor(0x1f2328), QColor(0x2563a8)); }

QPalette darkPalette() { return made(QColor(0x202225), QColor(0x17181a), QColor(0xe3e3e0), QColor(0x3f7fc4)); }

}  // namespace foxscope::gui

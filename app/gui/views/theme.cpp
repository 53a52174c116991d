#include "app/gui/views/theme.h"

#include <array>
#include <cstddef>

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
  // Differ in lightness as well as in hue, on white and on near black.
  static constexpr std::array<QRgb, 6> kOnLight{0xff0b6e99, 0xffd1495b, 0xff3d7a37, 0xff8d5fb0, 0xffc77b00, 0xff4a4a4a};
  static constexpr std::array<QRgb, 6> kOnDark{0xff56b9e6, 0xffff8a80, 0xff8fd18a, 0xffc6a5e6, 0xffffc14d, 0xffc8c8c8};
  const auto& colours = isDark(palette) ? kOnDark : kOnLight;
  return QColor(colours[static_cast<std::size_t>(index) % colours.size()]);
}

QColor pinnedQueryColour(const QPalette& palette) { return isDark(palette) ? QColor(0xff9f43) : QColor(0xe8590c); }

QColor pinnedKeyColour(const QPalette& palette) { return isDark(palette) ? QColor(0x4cd9c0) : QColor(0x0b7f72); }

QColor hoverColour(const QPalette& palette) { return isDark(palette) ? QColor(0xd0d0d0) : QColor(0x555555); }

QColor lineColour(const QPalette& palette) {
  return mixed(palette.color(QPalette::Base), palette.color(QPalette::Text), 0.25);
}

QColor mutedTextColour(const QPalette& palette) {
  return mixed(palette.color(QPalette::Base), palette.color(QPalette::Text), 0.72);
}

QPalette lightPalette() { return made(QColor(0xf5f5f3), Qt::white, QColor(0x1f2328), QColor(0x2563a8)); }

QPalette darkPalette() { return made(QColor(0x202225), QColor(0x17181a), QColor(0xe3e3e0), QColor(0x3f7fc4)); }

}  // namespace foxscope::gui

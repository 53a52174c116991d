#include "app/gui/text/tint_ramp.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "app/figure/colour_map.h"
#include "app/gui/views/theme.h"
#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

QRgb mixed(const QColor& a, const QColor& b, double share) {
  const auto mix = [share](int from, int to) { return static_cast<int>(std::lround(from + (to - from) * share)); };
  return qRgb(mix(a.red(), b.red()), mix(a.green(), b.green()), mix(a.blue(), b.blue()));
}

std::vector<QColor> stops(const QPalette& palette, TintRamp::Course course) {
  const QColor ground = palette.color(QPalette::Base);
  const bool dark = isDark(palette);
  const bool sequential = course == TintRamp::Course::sequential;
  if (dark && sequential) return {ground, QColor(0x3d2a5c), QColor(0x5d3791), QColor(0x8447b8)};
  if (dark) return {QColor(0x1f66b0), QColor(0x1f3f63), ground, QColor(0x632d2a), QColor(0xa83f33)};
  // As on paper, whose ground is white.
  std::vector<QColor> colours;
  for (const figure::Rgb& colour : sequential ? figure::tint() : figure::signedTint()) {
    colours.emplace_back(colour.red, colour.green, colour.blue);
  }
  colours[sequential ? 0 : colours.size() / 2] = ground;
  return colours;
}

}  // namespace

TintRamp::TintRamp(const QPalette& palette, Course course) {
  const std::vector<QColor> colours = stops(palette, course);
  for (std::size_t step = 0; step < kSteps; ++step) {
    const double place =
        static_cast<double>(step) / static_cast<double>(kSteps - 1) * static_cast<double>(colours.size() - 1);
    const auto below = std::min(static_cast<std::size_t>(place), colours.size() - 2);
    m_colour[step] = mixed(colours[below], colours[below + 1], place - static_cast<double>(below));
  }
}

QColor TintRamp::at(double position) const {
  const double step = std::clamp(position, 0.0, 1.0) * static_cast<double>(kSteps - 1);
  return QColor(m_colour[index_of(std::lround(step))]);
}

}  // namespace foxscope::gui

#include "app/figure/figure_format.h"

#include <fmt/format.h>

#include "backend/base/error.h"

namespace foxscope::figure {
namespace {

constexpr double kMostMillimetres = 1000;
constexpr int kLeastDpi = 36;
constexpr int kMostDpi = 2400;
constexpr double kLeastFont = 4;
constexpr double kMostFont = 48;
constexpr double kNarrowMm = 4 * kMillimetresPerInch;
constexpr double kUsualFont = 9;
constexpr double kNarrowFont = 7.25;
constexpr double kMostLineWidth = 10;

void requireLength(const char* name, double millimetres) {
  // Written so that NaN fails.
  if (!(millimetres > 0 && millimetres <= kMostMillimetres)) {
    throw UsageError(
        fmt::format("figure {} {:g} mm: use more than 0 and at most {:g} mm", name, millimetres, kMostMillimetres));
  }
}

void requireDots(const char* name, double millimetres, int dpi) {
  const double dots = millimetres / kMillimetresPerInch * dpi;
  if (dots > kMostDots) {
    throw UsageError(fmt::format("figure {} {:g} mm at {} dpi: {:.0f} dots are more than {:.0f}: use fewer dpi", name,
                                 millimetres, dpi, dots, kMostDots));
  }
}

}  // namespace

void requireValid(const FigureFormat& format) {
  requireLength("width", format.widthMm);
  if (format.heightMm) requireLength("height", *format.heightMm);
  if (format.dpi < kLeastDpi || format.dpi > kMostDpi) {
    throw UsageError(fmt::format("figure resolution {} dpi: use {} to {}", format.dpi, kLeastDpi, kMostDpi));
  }
  const double font = fontSize(format);
  if (!(font >= kLeastFont && font <= kMostFont)) {
    throw UsageError(fmt::format("figure font size {:g} pt: use {:g} to {:g}", font, kLeastFont, kMostFont));
  }
  if (format.lineWidthPt && !(*format.lineWidthPt > 0 && *format.lineWidthPt <= kMostLineWidth)) {
    throw UsageError(fmt::format("figure line width {:g} pt: use more than 0 and at most {:g}", *format.lineWidthPt,
                                 kMostLineWidth));
  }
  requireDots("width", format.widthMm, format.dpi);
  if (format.heightMm) requireDots("height", *format.heightMm, format.dpi);
}

double fontSize(const FigureFormat& format) {
  return format.fontSizePt.value_or(format.widthMm < kNarrowMm ? kNarrowFont : kUsualFont);
}

double widthInPoints(const FigureFormat& format) { return format.widthMm / kMillimetresPerInch * kPointsPerInch; }

double dotsPerPoint(const FigureFormat& format) { return format.dpi / kPointsPerInch; }

}  // namespace foxscope::figure

#include "app/gui/views/time_text.h"

#include <algorithm>
#include <cmath>

#include <QCoreApplication>

namespace foxscope::gui {
namespace {

QString timeWords(const char* text) { return QCoreApplication::translate("foxscope::gui::TimeText", text); }

}  // namespace

QString timeText(double seconds) {
  constexpr double kDecimalsBelow = 9.95;
  constexpr qint64 kMinute = 60;
  constexpr qint64 kHour = 3600;
  constexpr qint64 kSecondsBelow = 10 * kMinute;
  if (seconds < kDecimalsBelow) return timeWords("%1 s").arg(std::max(0.0, seconds), 0, 'f', 1);
  const qint64 whole = std::llround(std::min(seconds, 1e15));
  if (whole < kMinute) return timeWords("%1 s").arg(whole);
  if (whole < kSecondsBelow && whole % kMinute != 0) {
    return timeWords("%1 min %2 s").arg(whole / kMinute).arg(whole % kMinute);
  }
  const qint64 minutes = (whole + kMinute / 2) / kMinute;
  if (whole < kHour && minutes < kHour / kMinute) return timeWords("%1 min").arg(minutes);
  const qint64 hours = minutes * kMinute / kHour;
  const qint64 rest = minutes - hours * (kHour / kMinute);
  return rest == 0 ? timeWords("%1 h").arg(hours) : timeWords("%1 h %2 min").arg(hours).arg(rest);
}

QString timeLeftText(double seconds) { return timeWords("%1 left").arg(timeText(seconds)); }

}  // namespace foxscope::gui

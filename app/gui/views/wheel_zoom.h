#pragma once

#include <Qt>

namespace foxscope::gui {

/// A notch of the wheel in eighths of a degree, as QWheelEvent::angleDelta counts.
inline constexpr double kWheelNotch = 120;

/// The factor by which a notch zooms: finer with Ctrl, faster with Shift.
inline double zoomOfNotch(Qt::KeyboardModifiers modifiers) {
  constexpr double kUsual = 1.25;
  constexpr double kFine = 1.05;
  constexpr double kFast = 2;
  if (modifiers.testFlag(Qt::ControlModifier)) return kFine;
  return modifiers.testFlag(Qt::ShiftModifier) ? kFast : kUsual;
}

}  // namespace foxscope::gui

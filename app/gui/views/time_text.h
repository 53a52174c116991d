#pragma once

#include <QString>

namespace foxscope::gui {

/// "4.2 s", "12 s", "2 min 5 s", "34 min", "2 h 5 min": no more digits than an estimate has.
QString timeText(double seconds);
/// "34 min left"
QString timeLeftText(double seconds);

}  // namespace foxscope::gui

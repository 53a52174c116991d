#pragma once

class QStyle;

namespace foxscope::gui {

/// Qt's Fusion, whose boxes to tick are drawn with an outline that is seen on dark ground too, and whose tool buttons
/// show that they are switched on. Owned by the caller.
QStyle* makeStyle();

}  // namespace foxscope::gui

#pragma once

class QStyle;

namespace foxscope::gui {

/// Qt's Fusion, whose boxes to tick are drawn with an outline that is seen on dark ground too. Owned by the caller.
QStyle* makeStyle();

}  // namespace foxscope::gui

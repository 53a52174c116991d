#pragma once

#include <QIcon>

namespace foxscope::gui {

/// One of resources/icons by its name without ending, its lines in the text colour of the palette of the moment, so
/// that it follows a change of theme.
QIcon themedIcon(const QString& name);

/// The program's own icon, in its colours.
QIcon programIcon();

}  // namespace foxscope::gui

#pragma once

#include <QString>
#include <QStringList>

namespace foxscope::gui {

/// "L3 H0, gate 1", as Intervention::words says it; what cannot be read stays as it is.
/// @param intervention  as on the command line, LAYER:HEAD:KIND
QString interventionText(const QString& intervention);

/// "fox, L3 H0, gate 1; L5, all heads, cut"
QString changedName(const QString& base, const QStringList& interventions);

}  // namespace foxscope::gui

#include "app/gui/document/runs/intervention_text.h"

#include "backend/base/error.h"
#include "backend/model/spec/intervention.h"

namespace foxscope::gui {

QString interventionText(const QString& intervention) {
  try {
    return QString::fromStdString(Intervention::parse(intervention.toStdString()).words());
  } catch (const Error&) {
    return intervention;
  }
}

QString changedName(const QString& base, const QStringList& interventions) {
  QStringList changes;
  for (const QString& intervention : interventions) changes += interventionText(intervention);
  return base + QStringLiteral(", ") + changes.join(QStringLiteral("; "));
}

}  // namespace foxscope::gui

#include "app/gui/document/intervention_text.h"

#include <QCoreApplication>

#include "backend/base/error.h"
#include "backend/model/causal_lm.h"

namespace foxscope::gui {
namespace {

QString tr(const char* text) { return QCoreApplication::translate("foxscope::gui::Intervention", text); }

QString placeOf(const Intervention& intervention) {
  const QString head = QStringLiteral("H%1").arg(intervention.head);
  if (intervention.layer < 0) return intervention.head < 0 ? tr("all heads") : tr("%1 of all layers").arg(head);
  const QString layer = QStringLiteral("L%1").arg(intervention.layer);
  return intervention.head < 0 ? layer : layer + QLatin1Char(' ') + head;
}

QString changeOf(const Intervention& intervention) {
  switch (intervention.kind) {
    case Intervention::Kind::one:
      return tr("gate 1");
    case Intervention::Kind::mean:
      return tr("gate at its mean");
    case Intervention::Kind::constant:
      return tr("gate %1").arg(intervention.value);
    case Intervention::Kind::scale:
      return tr("log f × %1").arg(intervention.value);
    case Intervention::Kind::zero:
      return tr("gate 0 at %1").arg(intervention.position);
    case Intervention::Kind::cut:
      return tr("cut");
  }
  return {};
}

}  // namespace

QString interventionText(const QString& intervention) {
  try {
    const Intervention parsed = Intervention::parse(intervention.toStdString());
    return placeOf(parsed) + QStringLiteral(": ") + changeOf(parsed);
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

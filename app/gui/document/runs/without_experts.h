#pragma once

#include <QCoreApplication>
#include <QString>

#include "app/gui/document/runs/run.h"
#include "backend/eval/experts/expert_table.h"

namespace foxscope::gui {

/// Why a run that holds no experts has none, and what to do.
inline QString withoutExperts(const Run& run) {
  const auto words = [&run](const char* text) {
    return QCoreApplication::translate("foxscope::gui", text).arg(run.name);
  };
  if (is_mixture(run.trace->info()) == false) return words("%1 is no mixture of experts");
  if (!run.model.isEmpty()) return words("%1 did not keep its experts: run it again (F5)");
  return words("the file of %1 holds no experts: write it with foxscope run --keep experts");
}

}  // namespace foxscope::gui

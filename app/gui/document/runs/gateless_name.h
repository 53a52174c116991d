#pragma once

#include <QCoreApplication>
#include <QString>

#include "backend/trace/trace.h"

namespace foxscope::gui {

/// The name of a thing without a forget gate, for a message about a head in a layer that does not forget: the run where
/// no layer of it forgets, else the layer.
inline QString gatelessName(const QString& run, const TraceInfo& info, int layer) {
  if (!forgets(info)) return run;
  return QCoreApplication::translate("foxscope::gui", "layer %1 of %2").arg(layer).arg(run);
}

/// Where F of a head without a gate is 1: "everywhere", or as far as the window goes.
inline QString everywhereSeen(const TraceInfo& info, int layer) {
  const std::int64_t window = window_of(info, layer);
  if (window == 0) return QCoreApplication::translate("foxscope::gui", "everywhere");
  return QCoreApplication::translate("foxscope::gui", "everywhere inside the window of %1 tokens").arg(window);
}

}  // namespace foxscope::gui

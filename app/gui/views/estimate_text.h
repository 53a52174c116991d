#pragma once

#include <QString>

#include "backend/eval/estimate.h"

namespace foxscope::gui {

/// "+0.0123 ± 0.0011"; digits by the error.
QString estimateText(const Estimate& estimate);

}  // namespace foxscope::gui

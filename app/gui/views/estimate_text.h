#pragma once

#include <QString>

#include "backend/eval/estimate.h"

namespace foxscope::gui {

/// "+0.0123 ± 0.0011"; digits by the error.
QString estimateText(const Estimate& estimate);
/// Whether an estimate is beyond chance: "0 is in its 95 % interval, over 64 blocks of 32 tokens", or why its error is
/// not known.
QString chanceText(const Estimate& estimate);
/// "+0.12", "−3.40": with its sign, a true minus.
QString signedText(double value, int digits);

}  // namespace foxscope::gui

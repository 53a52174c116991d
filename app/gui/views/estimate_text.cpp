#include "app/gui/views/estimate_text.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace foxscope::gui {

QString estimateText(const Estimate& estimate) {
  const bool known = std::isfinite(estimate.error) && estimate.error > 0;
  const int digits = known ? std::clamp(1 - static_cast<int>(std::floor(std::log10(estimate.error))), 2, 8) : 5;
  const QString sign = estimate.value < 0 ? QStringLiteral("−") : QStringLiteral("+");
  const double error = known ? estimate.error : std::numeric_limits<double>::quiet_NaN();
  return sign + QString::fromStdString(estimate_text({std::abs(estimate.value), error, estimate.over}, digits));
}

}  // namespace foxscope::gui

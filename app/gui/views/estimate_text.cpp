#include "app/gui/views/estimate_text.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include <QObject>

namespace foxscope::gui {
namespace {

QString signOf(double value) { return value < 0 ? QStringLiteral("−") : QStringLiteral("+"); }

}  // namespace

QString estimateText(const Estimate& estimate) {
  const bool known = std::isfinite(estimate.error) && estimate.error > 0;
  const int digits = known ? std::clamp(1 - static_cast<int>(std::floor(std::log10(estimate.error))), 2, 8) : 5;
  const double error = known ? estimate.error : std::numeric_limits<double>::quiet_NaN();
  return signOf(estimate.value) +
         QString::fromStdString(estimate_text({std::abs(estimate.value), error, estimate.over}, digits));
}

QString chanceText(const Estimate& estimate) {
  if (!estimate.over.suffice()) return QString::fromStdString(errors_text(estimate.over));
  return (beyond_chance(estimate) ? QObject::tr("0 is outside its 95 % interval, over %1")
                                  : QObject::tr("0 is in its 95 % interval, over %1"))
      .arg(QString::fromStdString(groups_text(estimate.over)));
}

QString signedText(double value, int digits) { return signOf(value) + QString::number(std::abs(value), 'f', digits); }

}  // namespace foxscope::gui

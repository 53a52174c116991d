#include "app/gui/document/stage_clock.h"

namespace foxscope::gui {

double StageClock::secondsLeft(const QString& stage, double fraction) {
  constexpr double kMilliseconds = 1000;
  if (!m_time.isValid() || stage != m_stage) {
    m_stage = stage;
    m_time.start();
  }
  return fraction > 0 ? static_cast<double>(m_time.elapsed()) / kMilliseconds * (1 - fraction) / fraction : -1;
}

}  // namespace foxscope::gui

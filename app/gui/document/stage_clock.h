#pragma once

#include <QElapsedTimer>
#include <QString>

namespace foxscope::gui {

/// Tells how long a stage of work still takes, from how long it took so far.
class StageClock {
 public:
  /// @param fraction  of the stage's work, 0 to 1; negative: not known
  /// @returns seconds; negative: not known
  double secondsLeft(const QString& stage, double fraction);

 private:
  QString m_stage;
  QElapsedTimer m_time;
};

}  // namespace foxscope::gui

#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include <QObject>
#include <QString>
#include <QTimer>

#include "app/gui/document/trainings.h"

namespace foxscope::gui {

/// Plays the checkpoints of the training that is shown, one after the other, and follows its newest. Runs of the
/// checkpoints to come are made in the background while it plays; it waits for one that is not there yet.
class FilmPlayer : public QObject {
  Q_OBJECT

 public:
  static constexpr int kStepMs = 250;  ///< from one checkpoint to the next that is known

  explicit FilmPlayer(Trainings& trainings, QObject* parent = nullptr);

  /// From the chosen checkpoint to the last one; from the first where the last one is chosen.
  void setPlaying(bool playing);
  [[nodiscard]] bool playing() const { return m_clock.isActive(); }
  /// Whether it waits for the run of the checkpoint that comes next.
  [[nodiscard]] bool waiting() const;
  /// Whether a checkpoint that a running training adds is chosen when it comes: so where the newest one is chosen,
  /// until another one is, or somebody says no.
  void setFollowing(bool following);
  [[nodiscard]] bool following() const { return m_following; }
  /// It waits for this before it goes on: that what shows a checkpoint shows it. Without it, for the run alone.
  void setReady(std::function<bool()> ready) { m_ready = std::move(ready); }

 signals:
  void changed();

 private:
  void advance();
  void follow();

  Trainings& m_trainings;
  QTimer m_clock;
  std::function<bool()> m_ready;
  bool m_following = false;
  // As they were seen last.
  QString m_folder;
  std::int64_t m_newest = -1;
  std::int64_t m_chosen = -1;
};

}  // namespace foxscope::gui

#include "app/gui/training/film_player.h"

#include <utility>

namespace foxscope::gui {
namespace {

std::size_t lastOf(const OpenTraining& training) { return training.record->checkpoints.size() - 1; }

}  // namespace

FilmPlayer::FilmPlayer(Trainings& trainings, QObject* parent) : QObject(parent), m_trainings(trainings) {
  m_clock.setInterval(kStepMs);
  connect(&m_clock, &QTimer::timeout, this, &FilmPlayer::advance);
  connect(&m_trainings, &Trainings::changed, this, &FilmPlayer::follow);
  follow();
}

void FilmPlayer::setPlaying(bool playing) {
  const OpenTraining* training = m_trainings.shown();
  if (training == nullptr || lastOf(*training) == 0) playing = false;
  if (playing == this->playing()) return;
  if (playing) {
    m_clock.start();
    if (training->wanted == lastOf(*training)) m_trainings.choose(0);
  } else {
    m_clock.stop();
  }
  m_trainings.setAhead(playing);
  emit changed();
}

bool FilmPlayer::waiting() const {
  const OpenTraining* training = m_trainings.shown();
  return playing() && training != nullptr && training->wanted < lastOf(*training) &&
         !m_trainings.known(training->wanted + 1);
}

// A step that could not run is chosen all the same: whoever watches is told why, and the film ends there.
void FilmPlayer::advance() {
  const OpenTraining* training = m_trainings.shown();
  if (training == nullptr || training->wanted == lastOf(*training)) return setPlaying(false);
  if (m_trainings.computing() || training->shown != training->wanted) return;
  if (m_ready && !m_ready()) return;
  const std::size_t next = training->wanted + 1;
  const bool failed = m_trainings.failed(next);
  if (!failed && !m_trainings.known(next)) return;
  if (failed) setPlaying(false);
  m_trainings.choose(next);
}

void FilmPlayer::setFollowing(bool following) {
  if (following == m_following) return;
  m_following = following;
  const OpenTraining* training = m_trainings.shown();
  if (following && training != nullptr) m_trainings.choose(lastOf(*training));
  emit changed();
}

void FilmPlayer::follow() {
  const OpenTraining* training = m_trainings.shown();
  if (training == nullptr) {
    m_folder.clear();
    m_following = false;
    return setPlaying(false);
  }
  const bool another = std::exchange(m_folder, training->folder) != training->folder;
  const std::int64_t newest = training->record->checkpoints.back().step;
  const bool grew = std::exchange(m_newest, newest) < newest && !another;
  const std::int64_t chosen = training->chosen().step;
  const bool moved = std::exchange(m_chosen, chosen) != chosen;
  if (grew && m_following) return m_trainings.choose(lastOf(*training));
  if ((another || moved) && m_following != (chosen == newest)) {
    m_following = chosen == newest;
    emit changed();
  }
}

}  // namespace foxscope::gui

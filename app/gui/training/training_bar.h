#pragma once

#include <QBoxLayout>
#include <QComboBox>
#include <QSlider>
#include <QToolButton>
#include <QWidget>

#include "app/gui/document/trainings.h"
#include "app/gui/training/film_player.h"
#include "app/gui/views/elided_label.h"

namespace foxscope::gui {

/// The slider over the checkpoints of the training that is shown, what plays them, and what the chosen one is: step,
/// tokens, loss. Out of sight where no training is open.
class TrainingBar : public QWidget {
  Q_OBJECT

 public:
  TrainingBar(Trainings& trainings, FilmPlayer& player, QWidget* parent = nullptr);

  [[nodiscard]] QSlider& slider() { return *m_slider; }
  [[nodiscard]] QComboBox& choice() { return *m_choice; }
  [[nodiscard]] QToolButton& playButton() { return *m_play; }
  [[nodiscard]] QToolButton& followButton() { return *m_follow; }
  [[nodiscard]] QString words() const { return m_words->text(); }
  /// Goes by so many checkpoints later or earlier, as far as there are some.
  void step(int by);

 protected:
  void resizeEvent(QResizeEvent* event) override;

 private:
  void follow();
  void fillChoice();
  void followPlayer();

  Trainings& m_trainings;
  FilmPlayer& m_player;
  QBoxLayout* m_rows;
  QComboBox* m_choice;
  QToolButton* m_play;
  QToolButton* m_back;
  QSlider* m_slider;
  QToolButton* m_forth;
  QToolButton* m_follow;
  ElidedLabel* m_words;
};

/// "step 40 of 50 · 327,680 tokens · loss 6.120 · held-out 6.200 ± 0.020"; of a training that goes on, "step 20 · 44 of
/// 60 trained, 2 min left".
QString wordsOf(const OpenTraining& training, const TrainingCheckpoint& checkpoint);
/// The same without how far the training is, for a picture that stays: "step 40 · 327,680 tokens · loss 6.120".
QString captionOf(const OpenTraining& training, const TrainingCheckpoint& checkpoint);

}  // namespace foxscope::gui

#pragma once

#include <QComboBox>
#include <QSlider>
#include <QToolButton>
#include <QWidget>

#include "app/gui/document/trainings.h"
#include "app/gui/views/elided_label.h"

namespace foxscope::gui {

/// The slider over the checkpoints of the training that is shown, and what its chosen one is: step, tokens, loss. Out
/// of sight where no training is open.
class TrainingBar : public QWidget {
  Q_OBJECT

 public:
  explicit TrainingBar(Trainings& trainings, QWidget* parent = nullptr);

  [[nodiscard]] QSlider& slider() { return *m_slider; }
  [[nodiscard]] QComboBox& choice() { return *m_choice; }
  [[nodiscard]] QString words() const { return m_words->text(); }
  /// Goes by so many checkpoints later or earlier, as far as there are some.
  void step(int by);

 private:
  void follow();
  void fillChoice();

  Trainings& m_trainings;
  QComboBox* m_choice;
  QToolButton* m_back;
  QSlider* m_slider;
  QToolButton* m_forth;
  ElidedLabel* m_words;
};

}  // namespace foxscope::gui

#include "app/gui/training/training_bar.h"

#include <cmath>

#include <QFileInfo>
#include <QHBoxLayout>
#include <QLocale>
#include <QSignalBlocker>

#include "app/gui/views/elided_combo.h"
#include "app/gui/views/icon.h"
#include "app/gui/views/time_text.h"
#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

/// Width from which slider and words stand in one line, in average characters.
constexpr int kOneLine = 170;

/// The step, and how far the training is: not of how many steps it has now, which would look like its end.
QString stepText(const TrainingRecord& record, std::int64_t step) {
  const auto number = [locale = QLocale()](std::int64_t value) {
    return locale.toString(static_cast<qlonglong>(value));
  };
  const std::int64_t done = record.steps.back().step;
  const std::int64_t planned = record.planned_steps;
  if (planned > 0 && done >= planned) return TrainingBar::tr("step %1 of %2").arg(number(step), number(planned));
  const QString here = TrainingBar::tr("step %1").arg(number(step));
  if (planned <= 0) return here + TrainingBar::tr(" · %1 trained").arg(number(done));
  QString trained = here + TrainingBar::tr(" · %1 of %2 trained").arg(number(done), number(planned));
  const double seconds = record.seconds_left();
  if (seconds > 0) trained += QStringLiteral(", ") + timeLeftText(seconds);
  return trained;
}

/// "327,680 tokens · loss 6.120 · held-out 6.200 ± 0.020"
QString numbersOf(const OpenTraining& training, const TrainingCheckpoint& checkpoint) {
  const TrainingRecord& record = *training.record;
  const auto tokens = static_cast<qlonglong>(training.tokensAt(checkpoint));
  QStringList words{TrainingBar::tr("%1 tokens").arg(QLocale().toString(tokens))};
  constexpr int kDigits = 3;
  if (const TrainingStep* step = record.step(checkpoint.step)) {
    words += TrainingBar::tr("loss %1").arg(step->loss, 0, 'f', kDigits);
  }
  const TrainingMeasures* measured = record.measured(checkpoint.step);
  if (measured != nullptr && measured->loss) {
    words +=
        TrainingBar::tr("held-out %1").arg(QString::fromStdString(estimate_text(measured->held_out_loss(), kDigits)));
  }
  return words.join(QStringLiteral(" · "));
}

QToolButton* makeButton(const QString& name, const QString& tip) {
  auto* button = new QToolButton;
  button->setAutoRaise(true);
  button->setAccessibleName(name);
  button->setToolTip(tip);
  return button;
}

QToolButton* makeArrow(Qt::ArrowType arrow, const QString& name, const QString& tip) {
  QToolButton* button = makeButton(name, tip);
  button->setArrowType(arrow);
  button->setAutoRepeat(true);
  return button;
}

}  // namespace

QString wordsOf(const OpenTraining& training, const TrainingCheckpoint& checkpoint) {
  return stepText(*training.record, checkpoint.step) + QStringLiteral(" · ") + numbersOf(training, checkpoint);
}

QString captionOf(const OpenTraining& training, const TrainingCheckpoint& checkpoint) {
  return TrainingBar::tr("step %1 · %2")
      .arg(QLocale().toString(static_cast<qlonglong>(checkpoint.step)), numbersOf(training, checkpoint));
}

TrainingBar::TrainingBar(Trainings& trainings, FilmPlayer& player, QWidget* parent)
    : QWidget(parent),
      m_trainings(trainings),
      m_player(player),
      m_rows(new QBoxLayout(QBoxLayout::LeftToRight, this)),
      m_choice(new ElidedCombo),
      m_play(makeButton(tr("Play"), {})),
      m_back(makeArrow(Qt::LeftArrow, tr("Previous checkpoint"), tr("Previous checkpoint (Alt+Left)"))),
      m_slider(new QSlider(Qt::Horizontal)),
      m_forth(makeArrow(Qt::RightArrow, tr("Next checkpoint"), tr("Next checkpoint (Alt+Right)"))),
      m_follow(makeButton(tr("Follow the newest checkpoint"),
                          tr("Follow the newest: a checkpoint that the training adds is shown when it comes. Lit while "
                             "the newest one is shown; Alt+End goes there"))),
      m_words(new ElidedLabel) {
  m_rows->setContentsMargins(8, 3, 8, 3);
  m_rows->setSpacing(2);
  auto* line = new QHBoxLayout;
  m_choice->setAccessibleName(tr("Training"));
  m_choice->setToolTip(tr("The training whose checkpoints are chosen"));
  m_choice->setSizeAdjustPolicy(QComboBox::AdjustToContents);
  m_slider->setAccessibleName(tr("Checkpoint"));
  m_slider->setToolTip(
      tr("Shows the model at another step of its training; maps, heads and curves follow. Step with Left and Right, or "
         "with Alt+Left and Alt+Right from anywhere; Alt+P plays"));
  m_slider->setPageStep(5);
  m_slider->setMinimumWidth(fontMetrics().averageCharWidth() * 12);
  m_follow->setIcon(themedIcon(QStringLiteral("newest")));
  m_follow->setCheckable(true);
  line->addWidget(m_choice);
  line->addWidget(m_play);
  line->addWidget(m_back);
  // Shares of the room, whatever the words are: the slider stays under the mouse that drags it.
  line->addWidget(m_slider, 1);
  line->addWidget(m_forth);
  line->addWidget(m_follow);
  m_rows->addLayout(line, 1);
  m_rows->addWidget(m_words, 1);
  connect(m_choice, &QComboBox::activated, this,
          [this](int index) { m_trainings.show(m_choice->itemData(index).toString()); });
  connect(m_slider, &QSlider::valueChanged, this,
          [this](int place) { m_trainings.choose(static_cast<std::size_t>(place)); });
  connect(m_play, &QToolButton::clicked, this, [this] { m_player.setPlaying(!m_player.playing()); });
  connect(m_back, &QToolButton::clicked, this, [this] { step(-1); });
  connect(m_forth, &QToolButton::clicked, this, [this] { step(1); });
  connect(m_follow, &QToolButton::clicked, this, [this](bool on) { m_player.setFollowing(on); });
  connect(&m_trainings, &Trainings::changed, this, &TrainingBar::follow);
  connect(&m_player, &FilmPlayer::changed, this, &TrainingBar::follow);
  follow();
}

void TrainingBar::step(int by) { m_slider->setValue(m_slider->value() + by); }

// One line or two go by the width alone: else the slider would move while it is dragged.
void TrainingBar::resizeEvent(QResizeEvent* event) {
  QWidget::resizeEvent(event);
  const bool wide = width() >= kOneLine * fontMetrics().averageCharWidth();
  m_rows->setDirection(wide ? QBoxLayout::LeftToRight : QBoxLayout::TopToBottom);
}

void TrainingBar::fillChoice() {
  const auto& open = m_trainings.open();
  const QSignalBlocker blocker(m_choice);
  bool same = m_choice->count() == static_cast<int>(open.size());
  for (int index = 0; same && index < m_choice->count(); ++index) {
    const OpenTraining& training = open[index_of(index)];
    same = m_choice->itemData(index).toString() == training.folder && m_choice->itemText(index) == training.title;
  }
  if (!same) {
    m_choice->clear();
    for (const OpenTraining& training : open) m_choice->addItem(training.title, training.folder);
  }
  m_choice->setCurrentIndex(m_choice->findData(m_trainings.shown()->folder));
  m_choice->setVisible(open.size() > 1);
}

void TrainingBar::followPlayer() {
  const bool playing = m_player.playing();
  m_play->setIcon(themedIcon(playing ? QStringLiteral("pause") : QStringLiteral("play")));
  m_play->setAccessibleName(playing ? tr("Pause") : tr("Play"));
  m_play->setToolTip(playing ? tr("Pause (Alt+P)")
                             : tr("Play the checkpoints from here, or from the first where the last one is shown "
                                  "(Alt+P). Those to come are run in the background"));
  m_follow->setChecked(m_player.following());
}

void TrainingBar::follow() {
  const OpenTraining* training = m_trainings.shown();
  setVisible(training != nullptr);
  if (training == nullptr) return;
  fillChoice();
  const auto& checkpoints = training->record->checkpoints;
  const int last = static_cast<int>(checkpoints.size()) - 1;
  const int chosen = static_cast<int>(training->wanted);
  {
    const QSignalBlocker blocker(m_slider);
    m_slider->setRange(0, last);
    m_slider->setValue(chosen);
  }
  m_slider->setEnabled(last > 0);
  m_play->setEnabled(last > 0);
  m_back->setEnabled(chosen > 0);
  m_forth->setEnabled(chosen < last);
  followPlayer();
  QString words = wordsOf(*training, training->chosen());
  m_slider->setAccessibleDescription(words);
  if (m_trainings.computing()) {
    const JobProgress& progress = m_trainings.progress();
    words += QStringLiteral(" · ") + progress.stage;
    constexpr double kPercent = 100;
    if (progress.fraction > 0) words += tr(" %1 %").arg(std::lround(kPercent * progress.fraction));
    words += QStringLiteral(" …");
  } else if (m_player.waiting()) {
    words += tr(" · running the next checkpoint …");
  }
  m_words->setFullText(words);
}

}  // namespace foxscope::gui

#include "app/gui/training/training_bar.h"

#include <cmath>

#include <QFileInfo>
#include <QHBoxLayout>
#include <QLocale>
#include <QSignalBlocker>

#include "app/gui/views/elided_combo.h"
#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

/// "step 40 of 50 · 327,680 tokens · loss 6.120 · held-out 6.200 ± 0.020"
QString wordsOf(const OpenTraining& training, const TrainingCheckpoint& checkpoint) {
  const TrainingRecord& record = *training.record;
  const QLocale locale;
  QStringList words;
  words += TrainingBar::tr("step %1 of %2")
               .arg(locale.toString(static_cast<qlonglong>(checkpoint.step)),
                    locale.toString(static_cast<qlonglong>(record.steps.back().step)));
  words += TrainingBar::tr("%1 tokens").arg(locale.toString(static_cast<qlonglong>(training.tokensAt(checkpoint))));
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

QToolButton* makeButton(Qt::ArrowType arrow, const QString& name, const QString& tip) {
  auto* button = new QToolButton;
  button->setArrowType(arrow);
  button->setAutoRaise(true);
  button->setAutoRepeat(true);
  button->setAccessibleName(name);
  button->setToolTip(tip);
  return button;
}

}  // namespace

TrainingBar::TrainingBar(Trainings& trainings, QWidget* parent)
    : QWidget(parent),
      m_trainings(trainings),
      m_choice(new ElidedCombo),
      m_back(makeButton(Qt::LeftArrow, tr("Previous checkpoint"), tr("Previous checkpoint (Alt+Left)"))),
      m_slider(new QSlider(Qt::Horizontal)),
      m_forth(makeButton(Qt::RightArrow, tr("Next checkpoint"), tr("Next checkpoint (Alt+Right)"))),
      m_words(new ElidedLabel) {
  auto* layout = new QHBoxLayout(this);
  layout->setContentsMargins(8, 3, 8, 3);
  m_choice->setAccessibleName(tr("Training"));
  m_choice->setToolTip(tr("The training whose checkpoints are chosen"));
  m_choice->setSizeAdjustPolicy(QComboBox::AdjustToContents);
  m_slider->setAccessibleName(tr("Checkpoint"));
  m_slider->setToolTip(
      tr("The model at another step of its training: maps, heads and curves follow. Left and Right, "
         "or from anywhere Alt+Left and Alt+Right, step"));
  m_slider->setPageStep(5);
  m_slider->setMinimumWidth(fontMetrics().averageCharWidth() * 12);
  layout->addWidget(m_choice);
  layout->addWidget(m_back);
  // Shares of the room, whatever the words are: the slider stays under the mouse that drags it.
  layout->addWidget(m_slider, 1);
  layout->addWidget(m_forth);
  layout->addWidget(m_words, 1);
  connect(m_choice, &QComboBox::activated, this,
          [this](int index) { m_trainings.show(m_choice->itemData(index).toString()); });
  connect(m_slider, &QSlider::valueChanged, this,
          [this](int place) { m_trainings.choose(static_cast<std::size_t>(place)); });
  connect(m_back, &QToolButton::clicked, this, [this] { step(-1); });
  connect(m_forth, &QToolButton::clicked, this, [this] { step(1); });
  connect(&m_trainings, &Trainings::changed, this, &TrainingBar::follow);
  follow();
}

void TrainingBar::step(int by) { m_slider->setValue(m_slider->value() + by); }

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
  m_back->setEnabled(chosen > 0);
  m_forth->setEnabled(chosen < last);
  QString words = wordsOf(*training, training->chosen());
  m_slider->setAccessibleDescription(words);
  if (m_trainings.computing()) {
    const JobProgress& progress = m_trainings.progress();
    words += QStringLiteral(" · ") + progress.stage;
    constexpr double kPercent = 100;
    if (progress.fraction > 0) words += tr(" %1 %").arg(std::lround(kPercent * progress.fraction));
    words += QStringLiteral(" …");
  }
  m_words->setFullText(words);
}

}  // namespace foxscope::gui

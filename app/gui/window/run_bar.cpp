#include "app/gui/window/run_bar.h"

#include <algorithm>

#include <QEvent>
#include <QFileInfo>
#include <QFrame>
#include <QHBoxLayout>
#include <QLabel>
#include <QLocale>
#include <QPixmap>
#include <QProgressBar>
#include <QPushButton>
#include <QSpinBox>
#include <QToolButton>

#include "app/gui/views/theme.h"

namespace foxscope::gui {
namespace {

constexpr int kMostTokens = 100'000'000;
constexpr int kProgressSteps = 1000;
constexpr const char* kRunProperty = "run";  // of a chip
constexpr int kMark = 10;                    // pixels of a chip's colour
constexpr int kNameInCharacters = 24;

QString nameOf(const TextInput& text, const Document& document) {
  if (!text.file.isEmpty()) return QFileInfo(text.file).fileName();
  for (const Run& run : document.runs()) {
    const auto& read = run.trace->text();
    if (run.file.isEmpty() || !read || read->content != text.content) continue;
    return RunBar::tr("the text of %1").arg(QFileInfo(run.file).fileName());
  }
  return RunBar::tr("typed text");
}

/// A model, a run, or a model and its run: a colour, a name that chooses the run, and the x that takes it out.
QWidget* makeChip(const QString& name, const QString& tip) {
  auto* chip = new QFrame;
  chip->setFrameShape(QFrame::StyledPanel);
  chip->setToolTip(tip);
  auto* row = new QHBoxLayout(chip);
  row->setContentsMargins(4, 0, 0, 0);
  row->setSpacing(0);
  auto* mark = new QLabel;
  mark->setObjectName(QStringLiteral("mark"));
  row->addWidget(mark);
  auto* button = new QToolButton;
  button->setObjectName(QStringLiteral("name"));
  button->setAutoRaise(true);
  button->setText(button->fontMetrics().elidedText(name, Qt::ElideMiddle,
                                                   kNameInCharacters * button->fontMetrics().averageCharWidth()));
  button->setAccessibleName(name);
  row->addWidget(button);
  auto* remove = new QToolButton;
  remove->setObjectName(QStringLiteral("remove"));
  remove->setAutoRaise(true);
  remove->setText(QStringLiteral("×"));
  remove->setAccessibleName(RunBar::tr("Remove %1").arg(name));
  remove->setToolTip(RunBar::tr("Take %1 out of the window (Ctrl+Z brings it back)").arg(name));
  row->addWidget(remove);
  return chip;
}

}  // namespace

QString timeLeftText(double seconds) {
  if (seconds < 60) return RunBar::tr("%1 s left").arg(seconds, 0, 'f', seconds < 10 ? 1 : 0);
  return RunBar::tr("%1 min %2 s left").arg(static_cast<int>(seconds) / 60).arg(static_cast<int>(seconds) % 60);
}

RunBar::RunBar(Document& document, QWidget* parent) : QWidget(parent), m_document(document) {
  auto* layout = new QHBoxLayout(this);
  layout->setContentsMargins(8, 3, 8, 3);
  m_chips = new QHBoxLayout;
  m_chips->setSpacing(4);
  layout->addLayout(m_chips);
  m_text = new QLabel;
  m_text->setTextFormat(Qt::PlainText);
  layout->addWidget(m_text);
  layout->addWidget(new QLabel(tr("first")));
  m_limit = new QSpinBox;
  m_limit->setRange(0, kMostTokens);
  m_limit->setSingleStep(1024);
  m_limit->setSpecialValueText(tr("all"));
  m_limit->setSuffix(tr(" tokens"));
  m_limit->setToolTip(tr("How many tokens of the text are read; 0 is all of them"));
  m_limit->setAccessibleName(tr("Number of tokens"));
  m_limit->setKeyboardTracking(false);
  m_limit->setFocusPolicy(Qt::ClickFocus);
  layout->addWidget(m_limit);
  m_run = new QPushButton;
  m_run->setFocusPolicy(Qt::TabFocus);
  layout->addWidget(m_run);
  m_progress = new QProgressBar;
  m_progress->setRange(0, kProgressSteps);
  m_progress->setTextVisible(true);
  m_progress->setMinimumWidth(fontMetrics().averageCharWidth() * 44);
  m_progress->hide();
  layout->addWidget(m_progress, 1);
  layout->addStretch(1);

  connect(m_limit, &QSpinBox::valueChanged, this, [this](int limit) {
    RunSettings settings = m_document.settings();
    settings.limit = limit;
    m_document.setSettings(settings);
  });
  connect(m_run, &QPushButton::clicked, this, [this] {
    if (m_document.runStatus().running) {
      m_document.cancelRun();
    } else {
      m_document.startRun();
    }
  });
  connect(&m_document, &Document::inputsChanged, this, &RunBar::followInputs);
  connect(&m_document, &Document::runsChanged, this, &RunBar::followInputs);
  connect(&m_document, &Document::runStatusChanged, this, &RunBar::followStatus);
  connect(&m_document, &Document::referenceChanged, this, &RunBar::fillChips);
  connect(&m_document.selection(), &Selection::headChanged, this, &RunBar::followHead);
  followInputs();
  followStatus();
}

void RunBar::addChip(const QString& name, const QString& tip, const Run* run, const std::function<void()>& remove) {
  QWidget* chip = makeChip(name, tip);
  auto* button = chip->findChild<QToolButton*>(QStringLiteral("name"));
  button->setCheckable(true);
  button->setEnabled(run != nullptr);
  // Later, as the chip may go while its button is pressed.
  if (run != nullptr) {
    chip->setProperty(kRunProperty, run->id);
    connect(
        button, &QToolButton::clicked, this, [this, id = run->id] { choose(id); }, Qt::QueuedConnection);
  }
  connect(chip->findChild<QToolButton*>(QStringLiteral("remove")), &QToolButton::clicked, &m_document, remove,
          Qt::QueuedConnection);
  m_chips->addWidget(chip);
}

void RunBar::choose(RunId id) {
  const HeadChoice now = m_document.selection().head();
  const Run* run = m_document.run(id);
  if (run == nullptr) return;
  HeadChoice wanted{id, now.layer, now.head};
  if (!m_document.headOf(wanted)) wanted = {id, run->telling.layer, run->telling.head};
  m_document.selection().setHead(wanted);
  followHead();
}

void RunBar::followHead() {
  for (int index = 0; index < m_chips->count(); ++index) {
    QWidget* chip = m_chips->itemAt(index)->widget();
    const QVariant run = chip->property(kRunProperty);
    chip->findChild<QToolButton*>(QStringLiteral("name"))
        ->setChecked(run.isValid() && run.toInt() == m_document.selection().head().run);
  }
}

void RunBar::fillChips() {
  while (QLayoutItem* item = m_chips->takeAt(0)) {
    delete item->widget();
    delete item;
  }
  const auto& models = m_document.models();
  const auto modelOf = [&](const Run& run) {
    return std::find_if(models.begin(), models.end(), [&](const ModelInput& model) { return run.isOf(model); });
  };
  for (int index = 0; index < static_cast<int>(models.size()); ++index) {
    const ModelInput& model = models[static_cast<std::size_t>(index)];
    const auto& runs = m_document.runs();
    const auto run = std::find_if(runs.begin(), runs.end(), [&](const Run& made) { return made.isOf(model); });
    const QString changed = model.interventions.isEmpty() ? QString() : "\n" + model.interventions.join("\n");
    addChip(m_document.shownName(model), model.path + changed, run == runs.end() ? nullptr : &*run,
            [this, index] { m_document.removeModel(index); });
  }
  for (const Run& run : m_document.runs()) {
    if (modelOf(run) != models.end()) continue;
    const QString other =
        m_document.isOnText(run.id) ? QString() : tr("\nread another text than the run that is shown");
    addChip(run.name, run.file + other, &run, [this, id = run.id] { m_document.removeRun(id); });
  }
  colourChips();
  followHead();
}

void RunBar::colourChips() {
  const auto& runs = m_document.runs();
  for (int index = 0; index < m_chips->count(); ++index) {
    QWidget* chip = m_chips->itemAt(index)->widget();
    const QVariant id = chip->property(kRunProperty);
    const auto run =
        std::find_if(runs.begin(), runs.end(), [&](const Run& made) { return id.isValid() && id.toInt() == made.id; });
    QPixmap square(kMark, kMark);
    square.fill(run == runs.end() ? QColor(Qt::transparent)
                                  : runColour(static_cast<int>(run - runs.begin()), palette()));
    chip->findChild<QLabel*>(QStringLiteral("mark"))->setPixmap(square);
  }
}

// The chips stay: Qt is on its way through the list of all widgets.
void RunBar::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange && m_chips != nullptr) colourChips();
}

void RunBar::followInputs() {
  fillChips();
  const auto& models = m_document.models();
  const TextInput& text = m_document.text();
  QString words = models.empty() && m_document.runs().empty() ? tr("no model") : QString();
  if (text.empty()) {
    words += words.isEmpty() ? tr("on: no text") : tr(", no text");
  } else {
    const QString size =
        QLocale().formattedDataSize(static_cast<qint64>(text.content.size()), 1, QLocale::DataSizeSIFormat);
    words += QStringLiteral("%1%2 (%3)").arg(words.isEmpty() ? tr("on ") : ", ", nameOf(text, m_document), size);
  }
  m_text->setText(words);
  m_text->setToolTip(text.file);
  const QSignalBlocker blocker(m_limit);
  m_limit->setValue(static_cast<int>(m_document.settings().limit));
  followStatus();
}

void RunBar::followStatus() {
  const RunStatus& status = m_document.runStatus();
  m_run->setText(status.running ? tr("Cancel") : tr("Run"));
  m_run->setToolTip(status.running ? tr("Stop; what is there already stays (Shift+F5)")
                                   : tr("Run the models on the text (F5)"));
  m_run->setEnabled(status.running || m_document.canRun());
  m_limit->setEnabled(!status.running);
  m_progress->setVisible(status.running);
  if (!status.running) return;
  QString text = tr("%1 (%2 of %3): %4").arg(status.model).arg(status.index + 1).arg(status.count).arg(status.stage);
  if (status.secondsLeft >= 0) text += QStringLiteral(", ") + timeLeftText(status.secondsLeft);
  if (status.fraction < 0) {
    m_progress->setRange(0, 0);
  } else {
    m_progress->setRange(0, kProgressSteps);
    m_progress->setValue(static_cast<int>(status.fraction * kProgressSteps));
  }
  m_progress->setFormat(text);
  m_progress->setToolTip(text);
}

}  // namespace foxscope::gui

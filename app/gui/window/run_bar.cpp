#include "app/gui/window/run_bar.h"

#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QLocale>
#include <QProgressBar>
#include <QPushButton>
#include <QSpinBox>
#include <QToolButton>

namespace foxscope::gui {
namespace {

constexpr int kMostTokens = 100'000'000;
constexpr int kProgressSteps = 1000;

QString secondsText(double seconds) {
  if (seconds < 60) return RunBar::tr("%1 s left").arg(seconds, 0, 'f', seconds < 10 ? 1 : 0);
  return RunBar::tr("%1 min %2 s left").arg(static_cast<int>(seconds) / 60).arg(static_cast<int>(seconds) % 60);
}

QString nameOf(const TextInput& text, const Document& document) {
  if (!text.file.isEmpty()) return QFileInfo(text.file).fileName();
  const Run* run = document.reference();
  const bool read = run != nullptr && run->trace->text() && run->trace->text()->content == text.content;
  return read && !run->file.isEmpty() ? RunBar::tr("the text of %1").arg(QFileInfo(run->file).fileName())
                                      : RunBar::tr("typed text");
}

}  // namespace

RunBar::RunBar(Document& document, QWidget* parent) : QWidget(parent), m_document(document) {
  auto* layout = new QHBoxLayout(this);
  layout->setContentsMargins(8, 3, 8, 3);
  m_models = new QHBoxLayout;
  m_models->setSpacing(4);
  layout->addLayout(m_models);
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
  followInputs();
  followStatus();
}

void RunBar::followInputs() {
  while (QLayoutItem* item = m_models->takeAt(0)) {
    delete item->widget();
    delete item;
  }
  const auto& models = m_document.models();
  for (int index = 0; index < static_cast<int>(models.size()); ++index) {
    const ModelInput& model = models[static_cast<std::size_t>(index)];
    auto* chip = new QToolButton;
    chip->setText(model.name + QStringLiteral("  ×"));
    const QString changed = model.interventions.isEmpty() ? QString() : "\n" + model.interventions.join("\n");
    chip->setToolTip(tr("%1%2\nClick takes the model out of the next run").arg(model.path, changed));
    chip->setAccessibleName(tr("Remove model %1").arg(model.name));
    connect(
        chip, &QToolButton::clicked, &m_document, [this, index] { m_document.removeModel(index); },
        Qt::QueuedConnection);
    m_models->addWidget(chip);
  }
  const TextInput& text = m_document.text();
  QString words = models.empty() ? tr("no model") : QString();
  if (text.empty()) {
    words += words.isEmpty() ? tr("on: no text") : tr(", no text");
  } else {
    const QString size =
        QLocale().formattedDataSize(static_cast<qint64>(text.content.size()), 1, QLocale::DataSizeSIFormat);
    words += QStringLiteral("%1%2 (%3)").arg(models.empty() ? ", " : tr("on "), nameOf(text, m_document), size);
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
  if (status.secondsLeft >= 0) text += QStringLiteral(", ") + secondsText(status.secondsLeft);
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

#include "app/gui/window/run_bar.h"

#include <algorithm>
#include <utility>

#include <QAction>
#include <QEvent>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QLocale>
#include <QPainter>
#include <QProgressBar>
#include <QPushButton>
#include <QSpinBox>
#include <QToolButton>

#include "app/gui/document/remote/remote_place.h"
#include "app/gui/views/host_chip.h"
#include "app/gui/views/theme.h"
#include "app/gui/views/time_text.h"
#include "app/gui/window/run_list_view.h"
#include "backend/base/index.h"

namespace foxscope::gui {
namespace {

constexpr int kMostTokens = 100'000'000;
constexpr int kProgressSteps = 1000;
constexpr int kTextInCharacters = 40;
constexpr int kLeastTextInCharacters = 12;
constexpr int kProgressInCharacters = 16;    // at least; its tooltip has all of its words
constexpr const char* kRunProperty = "run";  // of a chip
constexpr const char* kColourProperty = "colour";
constexpr const char* kChangeProperty = "change";
constexpr const char* kStateProperty = "state";  // what is to be said of its run beside its numbers
constexpr int kMark = 10;                        // pixels of a chip's colour

QString nameOf(const TextInput& text, const RunList& runs) {
  if (!text.file.isEmpty()) return QFileInfo(text.file).fileName();
  if (!text.name.isEmpty()) return text.name;
  for (const Run& run : runs) {
    const auto& read = run.trace->text();
    if (run.file.isEmpty() || !read || !is_read_of(*read, text.content)) continue;
    return textNameOf(run);
  }
  return RunBar::tr("typed text");
}

/// Names share what the rest of the bar leaves: the list has them in full.
int nameWidth(int room, int chips, const QFontMetrics& metrics) {
  constexpr int kLongName = 24;
  constexpr int kShortName = 5;
  constexpr int kAround = 4;  // of a chip, beside its name
  const int share = room / metrics.averageCharWidth() / chips - kAround;
  return std::clamp(share, kShortName, kLongName) * metrics.averageCharWidth();
}

/// Shows a text, without its middle where there is little room.
class RunText : public QLabel {
 public:
  RunText() { setTextFormat(Qt::PlainText); }
  [[nodiscard]] QSize minimumSizeHint() const override {
    const QSize least = QLabel::minimumSizeHint();
    return {std::min(least.width(), kLeastTextInCharacters * fontMetrics().averageCharWidth()), least.height()};
  }

 protected:
  void paintEvent(QPaintEvent* /*event*/) override {
    QPainter painter(this);
    painter.setPen(palette().color(foregroundRole()));
    painter.drawText(rect(), Qt::AlignLeft | Qt::AlignVCenter,
                     fontMetrics().elidedText(text(), Qt::ElideMiddle, width()));
  }
};

}  // namespace

/// Where there is little room it says the stage alone, or as much of it as there is room for.
class RunBar::Progress : public QProgressBar {
 public:
  void setBrief(const QString& brief) { m_brief = brief; }
  [[nodiscard]] QString text() const override {
    const int room = width() - fontMetrics().averageCharWidth();
    const bool fits = fontMetrics().horizontalAdvance(format()) <= room;
    return fits ? format() : fontMetrics().elidedText(m_brief, Qt::ElideRight, room);
  }

 private:
  QString m_brief;
};

/// A chip with the machine beside its name, of a run that lies elsewhere.
class RunBar::Chip : public QToolButton {
 public:
  explicit Chip(QString host) : m_host(std::move(host)) {}
  [[nodiscard]] int hostWidth() const { return hostChipWidth(m_host, fontMetrics()); }
  [[nodiscard]] QSize sizeHint() const override { return QToolButton::sizeHint() + QSize(hostWidth(), 0); }
  [[nodiscard]] QSize minimumSizeHint() const override { return sizeHint(); }

 protected:
  void paintEvent(QPaintEvent* event) override {
    QToolButton::paintEvent(event);
    QPainter painter(this);
    paintHostChip(painter, rect(), m_host, palette());
  }

 private:
  QString m_host;
};

RunBar::RunBar(RunList& runs, ModelRuns& modelRuns, const RunNumbers& numbers, QAction* list, QWidget* parent)
    : QWidget(parent), m_runs(runs), m_modelRuns(modelRuns), m_numbers(numbers) {
  auto* layout = new QHBoxLayout(this);
  layout->setContentsMargins(8, 3, 8, 3);
  auto* open = new QToolButton;
  open->setObjectName(QStringLiteral("list"));
  open->setAutoRaise(true);
  open->setDefaultAction(list);
  open->setFocusPolicy(Qt::TabFocus);
  layout->addWidget(open);
  m_chips = new QHBoxLayout;
  m_chips->setSpacing(4);
  layout->addLayout(m_chips);
  m_text = new RunText;
  layout->addWidget(m_text);
  m_limit = new QSpinBox;
  m_limit->setRange(0, kMostTokens);
  m_limit->setSingleStep(1024);
  m_limit->setSpecialValueText(tr("all tokens"));
  m_limit->setPrefix(tr("first "));
  m_limit->setSuffix(tr(" tokens"));
  m_limit->setToolTip(tr("How many tokens of the text are read; 0 is all of them"));
  m_limit->setAccessibleName(tr("Number of tokens"));
  m_limit->setKeyboardTracking(false);
  m_limit->setFocusPolicy(Qt::ClickFocus);
  layout->addWidget(m_limit);
  m_run = new QPushButton;
  m_run->setFocusPolicy(Qt::TabFocus);
  layout->addWidget(m_run);
  m_progress = new Progress;
  m_progress->setRange(0, kProgressSteps);
  m_progress->setTextVisible(true);
  m_progress->setMinimumWidth(fontMetrics().averageCharWidth() * kProgressInCharacters);
  m_progress->hide();
  layout->addWidget(m_progress, 3);
  layout->addStretch(1);

  connect(m_limit, &QSpinBox::valueChanged, this, [this](int limit) {
    RunSettings settings = m_modelRuns.settings();
    settings.limit = limit;
    m_modelRuns.setSettings(settings);
  });
  connect(m_run, &QPushButton::clicked, this, [this] {
    if (m_modelRuns.runStatus().running) {
      m_modelRuns.cancelRun();
    } else {
      m_modelRuns.startRun();
    }
  });
  connect(&m_modelRuns, &ModelRuns::inputsChanged, this, &RunBar::followInputs);
  connect(&m_runs, &RunList::runsChanged, this, &RunBar::followInputs);
  connect(&m_modelRuns, &ModelRuns::runStatusChanged, this, &RunBar::followStatus);
  connect(&m_runs, &RunList::referenceChanged, this, &RunBar::followInputs);
  connect(&m_numbers, &RunNumbers::changed, this, &RunBar::tellNumbers);
  connect(&m_runs.selection(), &Selection::headChanged, this, &RunBar::followHead);
  followInputs();
  followStatus();
}

void RunBar::addChip(const ListRow& row) {
  const QString name = m_runs.nameOf(row);
  const Run* run = m_runs.run(row.run);
  const QString host = run != nullptr ? run->host : hostOf(m_runs.models()[index_of(*row.model)].path);
  auto* chip = new Chip(host);
  chip->setObjectName(QStringLiteral("chip"));
  chip->setAutoRaise(true);
  chip->setToolButtonStyle(Qt::ToolButtonTextBesideIcon);
  chip->setIconSize({kMark, kMark});
  chip->setAccessibleName(name);
  chip->setCheckable(true);
  chip->setEnabled(run != nullptr);
  QStringList tip;
  if (!host.isEmpty()) tip += tr("on the machine %1").arg(host);
  if (run == nullptr) tip += tr("has not run yet (F5)");
  if (run != nullptr && run->look.hidden) tip += tr("hidden: in no curve and no comparison");
  if (run != nullptr && !m_runs.isOnText(run->id)) tip += tr("read another text than the run that is shown");
  chip->setProperty(kStateProperty, tip.join('\n'));
  const RunLook& look = m_runs.lookOf(row);
  chip->setProperty(kRunProperty, row.run);
  chip->setProperty(kColourProperty, look.colour);
  chip->setProperty(kChangeProperty, look.change);
  // Later, as the chip may go while it is pressed.
  connect(
      chip, &QToolButton::clicked, this,
      [this, id = row.run] {
        showRun(m_runs, id);
        followHead();
      },
      Qt::QueuedConnection);
  m_chips->addWidget(chip);
}

void RunBar::followHead() {
  for (int index = 0; index < m_chips->count(); ++index) {
    auto* chip = qobject_cast<QToolButton*>(m_chips->itemAt(index)->widget());
    const int run = chip->property(kRunProperty).toInt();
    chip->setChecked(run != kNoRun && run == m_runs.selection().head().run);
  }
}

void RunBar::fillChips() {
  while (QLayoutItem* item = m_chips->takeAt(0)) {
    delete item->widget();
    delete item;
  }
  for (const ListRow& row : m_runs.listRows()) addChip(row);
  tellNumbers();
  colourChips();
  fitNames();
  followHead();
}

void RunBar::tellNumbers() {
  for (int index = 0; index < m_chips->count(); ++index) {
    auto* chip = qobject_cast<QToolButton*>(m_chips->itemAt(index)->widget());
    QStringList lines{chip->accessibleName()};
    lines += m_numbers.textOf(chip->property(kRunProperty).toInt());
    lines += chip->property(kStateProperty).toString();
    lines.removeAll(QString());
    chip->setToolTip(lines.join('\n'));
  }
}

// The bar asks for no more than the window has: a tool bar hides what is wider.
void RunBar::fitNames() {
  int others = layout()->minimumSize().width() - m_chips->minimumSize().width();
  for (int index = 0; index < m_chips->count(); ++index) {
    others += static_cast<Chip*>(m_chips->itemAt(index)->widget())->hostWidth();
  }
  for (int index = 0; index < m_chips->count(); ++index) {
    auto* chip = qobject_cast<QToolButton*>(m_chips->itemAt(index)->widget());
    const int width = nameWidth(window()->width() - others, m_chips->count(), fontMetrics());
    chip->setText(fontMetrics().elidedText(chip->accessibleName(), Qt::ElideMiddle, width));
  }
}

void RunBar::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  window()->installEventFilter(this);
  fitNames();
}

bool RunBar::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::Resize) fitNames();
  return QWidget::eventFilter(watched, event);
}

void RunBar::colourChips() {
  for (int index = 0; index < m_chips->count(); ++index) {
    auto* chip = qobject_cast<QToolButton*>(m_chips->itemAt(index)->widget());
    chip->setIcon(
        runMark(chip->property(kColourProperty).toInt(), chip->property(kChangeProperty).toInt(), kMark, palette()));
  }
}

// The chips stay: Qt is on its way through the list of all widgets.
void RunBar::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange && m_chips != nullptr) colourChips();
}

void RunBar::followInputs() {
  fillChips();
  const TextInput& text = m_modelRuns.text();
  const QString size =
      QLocale().formattedDataSize(static_cast<qint64>(text.content.size()), 1, QLocale::DataSizeSIFormat);
  const Run* shown = std::as_const(m_runs).reference();
  QString words = m_runs.models().empty() && m_runs.empty() ? tr("no model") : QString();
  const bool next = shown != nullptr && !text.empty() && !m_modelRuns.isTextOf(*shown);
  if (next) {
    // The pictures are of another text than the one that is to be run.
    words = tr("on %1; next: %2 (%3)").arg(textNameOf(*shown), nameOf(text, m_runs), size);
  } else if (text.empty()) {
    words += words.isEmpty() ? tr("no text") : tr(", no text");
  } else {
    words += QStringLiteral("%1%2 (%3)").arg(words.isEmpty() ? tr("on ") : ", ", nameOf(text, m_runs), size);
  }
  m_text->setText(fontMetrics().elidedText(words, Qt::ElideMiddle,
                                           (next ? 2 : 1) * kTextInCharacters * fontMetrics().averageCharWidth()));
  m_text->setToolTip(text.file.isEmpty() || next ? words : text.file);
  const QSignalBlocker blocker(m_limit);
  m_limit->setValue(static_cast<int>(m_modelRuns.settings().limit));
  followStatus();
}

void RunBar::followStatus() {
  const RunStatus& status = m_modelRuns.runStatus();
  m_run->setText(status.running ? tr("Cancel") : tr("Run"));
  m_run->setToolTip(status.running ? tr("Stop; the results so far stay (Shift+F5)")
                                   : tr("Run the models on the text (F5)"));
  m_run->setEnabled(status.running || m_modelRuns.canRun());
  m_limit->setEnabled(!status.running);
  if (m_progress->isHidden() == status.running) {
    m_progress->setVisible(status.running);
    fitNames();
  }
  if (!status.running) return;
  QString brief = status.stage;
  if (status.secondsLeft >= 0) brief += QStringLiteral(", ") + timeLeftText(status.secondsLeft);
  const QString text = tr("%1 (%2 of %3): %4").arg(status.model).arg(status.index + 1).arg(status.count).arg(brief);
  if (status.fraction < 0) {
    m_progress->setRange(0, 0);
  } else {
    m_progress->setRange(0, kProgressSteps);
    m_progress->setValue(static_cast<int>(status.fraction * kProgressSteps));
  }
  m_progress->setBrief(brief);
  m_progress->setFormat(text);
  m_progress->setToolTip(text);
}

}  // namespace foxscope::gui

#include "app/gui/window/new_text_card.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <QEvent>
#include <QFileInfo>
#include <QHBoxLayout>
#include <QLabel>
#include <QLocale>
#include <QPainter>
#include <QPushButton>
#include <QVBoxLayout>

namespace foxscope::gui {
namespace {

constexpr int kVeil = 190;              // of 255
constexpr int kNewTextCharacters = 64;  // width
constexpr double kTokensRounded = 3;    // digits of a number of tokens

/// Lies over a widget and lets the mouse through.
class Veil : public QWidget {
 public:
  explicit Veil(QWidget* under) : QWidget(under) {
    setAttribute(Qt::WA_TransparentForMouseEvents);
    under->installEventFilter(this);
    resize(under->size());
    hide();
  }

 protected:
  void paintEvent(QPaintEvent* /*event*/) override {
    QColor ground = palette().color(QPalette::Window);
    ground.setAlpha(kVeil);
    QPainter(this).fillRect(rect(), ground);
  }
  bool eventFilter(QObject* watched, QEvent* event) override {
    if (event->type() == QEvent::Resize) resize(parentWidget()->size());
    return QWidget::eventFilter(watched, event);
  }
};

/// Operations of the layers of a run of n tokens, but for a factor: 12 D^2 weights a layer, each multiplied once a
/// token, and n / 2 keys of a query on average. Gates let attention skip most of these.
double workOf(const TraceInfo& info, double tokens) {
  const double width = static_cast<double>(info.heads) * info.head_dim;
  const double keys = forgets(info) ? 0 : tokens / 2;
  return tokens * (12 * width * width + 2 * keys * width);
}

QString aboutSeconds(double seconds) {
  if (seconds < 60) return NewTextCard::tr("%1 s").arg(std::max(1L, std::lround(seconds)));
  return NewTextCard::tr("%1 min").arg(std::lround(seconds / 60));
}

}  // namespace

QString estimateOfRun(const RunList& runs, const ModelRuns& modelRuns) {
  const auto cut = std::find_if(runs.begin(), runs.end(), [](const Run& run) {
    return !run.trace->tokens()->byte_end.empty() && run.trace->tokens()->byte_end.back() > 0;
  });
  if (cut == runs.end()) return {};
  const double bytes = static_cast<double>(cut->trace->tokens()->byte_end.back());
  double tokens =
      static_cast<double>(modelRuns.text().content.size()) * static_cast<double>(cut->trace->info().length) / bytes;
  if (modelRuns.settings().limit > 0) tokens = std::min(tokens, static_cast<double>(modelRuns.settings().limit));
  const double round = std::max(1.0, std::pow(10, std::floor(std::log10(std::max(1.0, tokens))) + 1 - kTokensRounded));
  QStringList times;
  for (const ModelInput& model : runs.models()) {
    const auto made = std::find_if(runs.begin(), runs.end(), [&](const Run& run) { return run.isOf(model); });
    if (made == runs.end() || made->forwardSeconds <= 0) continue;
    const TraceInfo& info = made->trace->info();
    const double longer = workOf(info, tokens) / workOf(info, static_cast<double>(info.length));
    times += NewTextCard::tr("%1 about %2").arg(made->name, aboutSeconds(made->forwardSeconds * longer));
  }
  QString text =
      NewTextCard::tr("about %1 tokens").arg(QLocale().toString(std::llround(tokens / round) * std::llround(round)));
  if (!times.isEmpty()) text += QStringLiteral("; ") + times.join(QStringLiteral(", "));
  return text;
}

NewTextCard::NewTextCard(RunList& runs, ModelRuns& modelRuns, QWidget& maps, const QList<QWidget*>& others)
    : QFrame(&maps), m_runs(runs), m_modelRuns(modelRuns), m_text(new QLabel) {
  m_veils += new Veil(&maps);
  for (QWidget* other : others) m_veils += new Veil(other);
  setObjectName(QStringLiteral("newText"));
  setFrameShape(QFrame::StyledPanel);
  setAutoFillBackground(true);
  setBackgroundRole(QPalette::Base);  // not that of the veil
  m_text->setTextFormat(Qt::PlainText);
  m_text->setWordWrap(true);
  m_text->setMinimumWidth(fontMetrics().averageCharWidth() * kNewTextCharacters);
  auto* run = new QPushButton(tr("Run (F5)"));
  run->setDefault(true);
  auto* keep = new QPushButton(tr("Look at the Runs"));
  keep->setToolTip(tr("Close this card: maps and curves stay those of the text before"));
  auto* buttons = new QHBoxLayout;
  buttons->addStretch(1);
  buttons->addWidget(keep);
  buttons->addWidget(run);
  auto* column = new QVBoxLayout(this);
  column->addWidget(m_text);
  column->addLayout(buttons);
  connect(run, &QPushButton::clicked, &m_modelRuns, &ModelRuns::startRun);
  connect(keep, &QPushButton::clicked, this, [this] {
    m_dismissed = m_modelRuns.text().content;
    follow();
  });
  maps.installEventFilter(this);
  connect(&m_runs, &RunList::runsChanged, this, &NewTextCard::follow);
  connect(&m_modelRuns, &ModelRuns::inputsChanged, this, &NewTextCard::follow);
  connect(&m_modelRuns, &ModelRuns::runStatusChanged, this, &NewTextCard::follow);
  follow();
}

QString NewTextCard::text() const { return m_text->text(); }

// A text that is typed says so beside itself: the pictures need no card for each letter.
void NewTextCard::follow() {
  const TextInput& text = m_modelRuns.text();
  const bool isNew = !text.file.isEmpty() && text.content != m_dismissed && m_modelRuns.isTextNew();
  const bool running = m_modelRuns.runStatus().running;
  for (QWidget* veil : m_veils) {
    veil->setVisible(isNew);
    veil->raise();
  }
  setVisible(isNew && !running);
  if (!isNew || running) return;
  const QString size =
      QLocale().formattedDataSize(static_cast<qint64>(text.content.size()), 0, QLocale::DataSizeSIFormat);
  QString words = QStringLiteral("%1, %2").arg(QFileInfo(text.file).fileName(), size);
  const QString estimate = estimateOfRun(m_runs, m_modelRuns);
  if (!estimate.isEmpty()) words += QStringLiteral(", ") + estimate;
  m_text->setText(tr("%1. Maps and curves are those of the text before.").arg(words));
  place();
}

void NewTextCard::place() {
  adjustSize();
  const QSize room = parentWidget()->size();
  resize(std::min(width(), room.width()), std::min(height(), room.height()));
  move((room.width() - width()) / 2, (room.height() - height()) / 2);
  raise();
}

bool NewTextCard::eventFilter(QObject* watched, QEvent* event) {
  if (event->type() == QEvent::Resize && isVisible()) place();
  return QFrame::eventFilter(watched, event);
}

}  // namespace foxscope::gui

#include "app/gui/window/help/answer_bar.h"

#include <cmath>

#include <QHBoxLayout>
#include <QPainter>

#include "app/gui/document/shown_choices.h"
#include "app/gui/views/theme.h"
#include "app/gui/window/help/question_answer.h"

namespace foxscope::gui {
namespace {

constexpr QLatin1String kOfLosses("wins");
constexpr int kAnswerEdge = 3;  // width of the accent's strip at the left

}  // namespace

AnswerBar::AnswerBar(RunList& runs, const HeadTable& table, const EvaluationList& evaluations, QWidget* parent)
    : QWidget(parent),
      m_runs(runs),
      m_table(table),
      m_evaluations(evaluations),
      m_text(new QLabel),
      m_close(new QToolButton) {
  auto* row = new QHBoxLayout(this);
  row->setContentsMargins(kAnswerEdge + 9, 5, 4, 5);
  m_text->setWordWrap(true);
  m_text->setTextFormat(Qt::PlainText);
  m_text->setTextInteractionFlags(Qt::TextSelectableByMouse | Qt::TextSelectableByKeyboard);
  m_text->setFocusPolicy(Qt::ClickFocus);
  m_text->setAccessibleName(tr("Answer"));
  m_close->setText(QStringLiteral("×"));
  m_close->setAutoRaise(true);
  m_close->setToolTip(tr("Close the answer"));
  m_close->setAccessibleName(m_close->toolTip());
  row->addWidget(m_text, 1);
  row->addWidget(m_close, 0, Qt::AlignTop);
  connect(m_close, &QToolButton::clicked, this, [this] { ask({}); });
  connect(&m_runs, &RunList::runsChanged, this, [this] {
    // The runs that it is about were closed. A question that waits for its runs is not shown yet.
    if (m_runs.empty() && !isHidden()) return ask({});
    follow();
  });
  connect(&m_table, &HeadTable::valuesChanged, this, [this] {
    if (m_question != kOfLosses) follow();
  });
  connect(&m_evaluations, &EvaluationList::evaluationsChanged, this, &AnswerBar::follow);
  hide();
}

void AnswerBar::ask(const QString& question) {
  m_question = question;
  m_runs.quickJobs().cancel(this, kComparison);
  hide();
  follow();
}

void AnswerBar::answer(const QString& text) {
  if (text.isEmpty()) return;
  m_text->setText(text);
  show();
}

void AnswerBar::follow() {
  if (m_question.isEmpty() || m_runs.empty()) return;
  if (m_question == kOfLosses) return compare();
  const QString text = m_question == QStringLiteral("remembers") ? held()
                       : m_question == QStringLiteral("forgets") ? forgotten()
                                                                 : QString();
  if (text.isEmpty()) return;
  m_question.clear();
  answer(text);
}

// Empty until the pinned pair is known in every head.
QString AnswerBar::held() const {
  const Run* run = m_runs.run(m_runs.selection().head().run);
  const Cursor pin = m_runs.selection().pin();
  if (run == nullptr || !pin.query || !pin.key) return {};
  std::vector<HeldShare> heads;
  bool known = true;
  forShownHeads(*run, [&](const HeadChoice& head) {
    if (!forgets(run->trace->info(), head.layer)) return;
    heads.push_back({head, m_table.value(head, HeadQuantity::pinnedForget)});
    known = known && !std::isnan(heads.back().forget);
  });
  return known && !heads.empty() ? heldAnswer(run->name, *pin.query - *pin.key, heads) : QString();
}

QString AnswerBar::forgotten() const {
  const HeadChoice head = m_runs.selection().head();
  const Run* run = m_runs.run(head.run);
  const HeadStatistics* statistics = m_table.statistics(head);
  const bool known = run != nullptr && statistics != nullptr && forgets(run->trace->info(), head.layer);
  return known ? forgottenAnswer(*run, head, *statistics) : QString();
}

// Evaluations may come after the runs: the answer then says more.
void AnswerBar::compare() {
  std::vector<const Run*> runs;
  for (const Run* run : m_runs.runsOnText()) {
    if (!run->trace->per_token_loss().empty()) runs.push_back(run);
  }
  if (runs.size() < 2 || runs[0]->trace->tokens()->id != runs[1]->trace->tokens()->id) return;
  std::shared_ptr<const LossEvaluation> losses;
  for (const Evaluation& evaluation : m_evaluations) {
    const auto* held = std::get_if<std::shared_ptr<const LossEvaluation>>(&evaluation.content);
    if (held != nullptr) losses = *held;
  }
  JobRunner::Request<QString> request;
  request.work = [model = *runs[0], minus = *runs[1], losses](const Job&) {
    const Range all{0, model.trace->info().length};
    QString text = comparedAnswer(model.name, minus.name,
                                  compare_losses(model.trace->per_token_loss(), minus.trace->per_token_loss(), all));
    const QString longer = losses ? evaluatedAnswer(*losses) : QString();
    if (!longer.isEmpty()) text += QLatin1Char('\n') + longer;
    return std::optional(text);
  };
  request.done = [this](const QString& text) { answer(text); };
  request.failed = [](const QString&) {};  // losses that are no numbers: the card of the comparison says so
  m_runs.quickJobs().submit(this, kComparison, std::move(request));
}

void AnswerBar::paintEvent(QPaintEvent* /*event*/) {
  QPainter painter(this);
  const QColor accent = palette().color(QPalette::Highlight);
  QColor ground = accent;
  ground.setAlphaF(isDark(palette()) ? 0.22F : 0.1F);
  painter.fillRect(rect(), palette().color(QPalette::Base));
  painter.fillRect(rect(), ground);
  painter.fillRect(QRect(0, 0, kAnswerEdge, height()), accent);
}

}  // namespace foxscope::gui

#include "app/gui/predictions/predictions_view.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <QEvent>
#include <QHBoxLayout>
#include <QLocale>
#include <QScrollArea>
#include <QVBoxLayout>

#include "app/figure/token_text.h"
#include "app/gui/document/runs/gateless_name.h"
#include "app/gui/document/runs/sweeps.h"
#include "app/gui/views/theme.h"
#include "backend/base/index.h"
#include "backend/eval/predictions/predictions.h"
#include "backend/trace/run_origin.h"
#include "backend/trace/token_strings.h"

namespace foxscope::gui {
namespace {

constexpr int kLikeliest = 10;
constexpr int kPanelLetters = 30;  ///< least width of a list
constexpr int kContextWords = 8;

double probabilityOf(float logProbability) { return std::exp(static_cast<double>(logProbability)); }

/// The place of a token by its log p, 1 for the likeliest; of equals the lowest id first, as TokenChoice has it.
qint64 rankOf(const std::vector<float>& logProbability, std::int32_t id) {
  const float own = logProbability[index_of(id)];
  qint64 before = 0;
  for (std::size_t other = 0; other < logProbability.size(); ++other) {
    const bool equal = logProbability[other] == own && static_cast<std::int32_t>(other) < id;
    before += logProbability[other] > own || equal ? 1 : 0;
  }
  return before + 1;
}

/// Whether a change takes nothing but gates away.
bool isWithoutGate(const Run& run) {
  const std::vector<Intervention> changes = interventionsOf(run.trace->info());
  return !changes.empty() && std::ranges::all_of(changes, [](const Intervention& change) {
    return change.kind == Intervention::Kind::one;
  });
}

}  // namespace

/// A run as its predictions are asked for on another thread.
struct PredictionsView::Asked {
  RunId run = kNoRun;
  std::shared_ptr<const Trace> trace;
  std::optional<std::int64_t> position;  ///< nothing: the run has not read it
  ModelRuns::FindHead findHead;
  QString unread;    ///< problem without a position
  QString headless;  ///< problem without a head
  QString unkept;    ///< problem without anything to make predictions of
  int base = -1;     ///< place of the run that it is a changed copy of
};

PredictionsView::PredictionsView(RunList& runs, ModelRuns& modelRuns, QWidget* parent)
    : QWidget(parent), m_runs(runs), m_modelRuns(modelRuns), m_caption(new ElidedLabel), m_gate(new QToolButton) {
  auto* answer = new QWidget;
  auto* layout = new QVBoxLayout(answer);
  layout->setContentsMargins(8, 6, 8, 6);
  auto* tools = new QHBoxLayout;
  tools->addWidget(m_caption, 1);
  tools->addWidget(m_gate);
  layout->addLayout(tools);
  auto* scroll = new QScrollArea;
  scroll->setWidgetResizable(true);
  scroll->setFrameShape(QFrame::NoFrame);
  scroll->setFocusPolicy(Qt::NoFocus);
  scroll->setVerticalScrollBarPolicy(Qt::ScrollBarAlwaysOff);
  auto* lists = new QWidget;
  m_lists = new QHBoxLayout(lists);
  m_lists->setContentsMargins(0, 0, 0, 0);
  m_lists->setSpacing(12);
  scroll->setWidget(lists);
  layout->addWidget(scroll, 1);
  m_pages = new MessagePages(answer, this);
  m_gate->setAutoRaise(true);
  connect(m_gate, &QToolButton::clicked, this, &PredictionsView::askForGate);
  connect(&m_runs, &RunList::runsChanged, this, &PredictionsView::followRuns);
  connect(&m_runs, &RunList::modelsChanged, this, &PredictionsView::outdate);
  connect(&m_modelRuns, &ModelRuns::noRunTextChanged, this, &PredictionsView::outdate);
  connect(&m_modelRuns, &ModelRuns::runStatusChanged, this, &PredictionsView::followGate);
  connect(&m_runs.selection(), &Selection::pinChanged, this, &PredictionsView::outdate);
  connect(&m_runs.selection(), &Selection::headChanged, this, &PredictionsView::followGate);
  connect(&m_runs, &RunList::referenceChanged, this, &PredictionsView::outdate);
  followRuns();
}

PredictionsView::Panel PredictionsView::makePanel() {
  Panel panel{new QWidget, new QLabel, new ElidedLabel, new ElidedLabel, new QLabel, new PredictionTable};
  panel.whole->setMinimumWidth(kPanelLetters * fontMetrics().averageCharWidth());
  auto* column = new QVBoxLayout(panel.whole);
  column->setContentsMargins(0, 0, 0, 0);
  column->setSpacing(2);
  auto* head = new QHBoxLayout;
  QFont font = panel.title->font();
  font.setBold(true);
  panel.title->setFont(font);
  head->addWidget(panel.mark);
  head->addWidget(panel.title, 1);
  column->addLayout(head);
  column->addWidget(panel.summary);
  panel.problem->setWordWrap(true);
  panel.problem->setAlignment(Qt::AlignTop);
  panel.problem->setTextInteractionFlags(Qt::TextSelectableByMouse);
  column->addWidget(panel.problem, 1);
  column->addWidget(panel.table, 1);
  m_lists->addWidget(panel.whole, 1);
  return panel;
}

int PredictionsView::lists() const {
  return static_cast<int>(std::ranges::count_if(m_panels, [](const Panel& panel) { return !panel.whole->isHidden(); }));
}

void PredictionsView::showEvent(QShowEvent* event) {
  QWidget::showEvent(event);
  if (m_asked) refresh();
}

void PredictionsView::changeEvent(QEvent* event) {
  QWidget::changeEvent(event);
  if (event->type() == QEvent::PaletteChange && m_answer) showAnswer();
}

void PredictionsView::followRuns() {
  const RunList& runs = m_runs;
  const bool any = std::any_of(runs.begin(), runs.end(), [](const Run& run) { return keeps_predictions(*run.trace); });
  if (any && !std::exchange(m_any, any)) emit available();
  m_any = any;
  followGate();
  outdate();
}

void PredictionsView::outdate() {
  m_asked = true;
  if (isVisible()) refresh();
}

void PredictionsView::showMessage(const QString& message) {
  m_runs.quickJobs().cancel(this, kAnswer);
  m_asked = false;
  m_answer.reset();
  m_pages->showMessage(message);
}

// Says what a run lacks to tell its predictions, before its model is looked for.
QString PredictionsView::obstacleOf(const Run& run) const {
  const TraceInfo& info = run.trace->info();
  if (origin_of(info) == RunOrigin::recorded) {
    return tr("%1 did not keep what predictions are made of: %2.")
        .arg(run.name, QString::fromStdString(keep_remedy(info, Keep::predictions)));
  }
  return run.file.isEmpty() || !run.model.isEmpty()
             ? tr("%1 did not keep what predictions are made of: run it again (F5).").arg(run.name)
             : tr("The file of %1 holds no predictions: write it with foxscope run --keep predictions, or open the "
                  "model (Ctrl+O) and run it on this text (F5).")
                   .arg(run.name);
}

void PredictionsView::refresh() {
  const std::optional<std::int64_t> query = m_runs.selection().pin().query;
  const std::vector<const Run*> runs = m_runs.runsOnText();
  if (m_runs.empty()) return showMessage(m_modelRuns.noRunText() + '.');
  if (runs.empty()) return showMessage(tr("All runs on this text are hidden: the eye in the list of runs shows them."));
  if (!query) {
    return showMessage(
        tr("Pin a position, by a click into the text or a map, to see here which tokens the models expected there."));
  }
  std::vector<Asked> asked;
  for (const Run* run : runs) {
    Asked one;
    one.run = run->id;
    one.trace = run->trace;
    one.position = m_runs.positionIn(run->id, *query);
    one.findHead = m_modelRuns.headOf(*run);
    one.unread = tr("%1 has not read this position.").arg(run->name);
    one.headless =
        run->model.isEmpty()
            ? tr("%1 comes from a file, and predictions need the head of its model: open its checkpoint folder "
                 "(Ctrl+O).")
                  .arg(run->name)
            : tr("The checkpoint that made %1 is gone, or has changed: open it (Ctrl+O) and run it again (F5).")
                  .arg(run->name);
    one.unkept = obstacleOf(*run);
    const Run* base = m_runs.baseOf(*run);
    const auto place = base == nullptr ? runs.end() : std::ranges::find(runs, base);
    if (place != runs.end()) one.base = static_cast<int>(place - runs.begin());
    asked.push_back(std::move(one));
  }
  JobRunner::Request<Answer> request;
  request.work = [asked = std::move(asked), query = *query](const Job& job) -> std::optional<Answer> {
    Answer answer = answerTo(asked, query, job);
    if (job.stopped()) return std::nullopt;
    return answer;
  };
  request.done = [this](Answer answer) { take(std::move(answer)); };
  request.failed = [this](const QString& message) { showMessage(message); };
  m_asked = true;
  m_runs.quickJobs().submit(this, kAnswer, std::move(request));
}

PredictionsView::Answer PredictionsView::answerTo(const std::vector<Asked>& asked, std::int64_t query, const Job& job) {
  struct Found {
    std::shared_ptr<const OutputHead> head;
    std::optional<Prediction> prediction;
  };
  Answer answer{query, {}};
  std::vector<Found> found(asked.size());
  for (std::size_t n = 0; n < asked.size(); ++n) {
    const Asked& one = asked[n];
    Told& told = answer.runs.emplace_back();
    told.run = one.run;
    if (!one.position) {
      told.problem = one.unread;
    } else if (!keeps_predictions(*one.trace)) {
      told.problem = one.unkept;
    } else {
      found[n].head = one.findHead(job);
      if (prediction_source(*one.trace, found[n].head != nullptr) == PredictionSource::none) {
        told.problem = one.headless;
      } else {
        found[n].prediction = predict(*one.trace, found[n].head.get(), *one.position, kLikeliest, job);
      }
    }
    if (job.stopped()) return answer;
  }
  for (std::size_t n = 0; n < asked.size(); ++n) {
    if (!found[n].prediction) continue;
    Told& told = answer.runs[n];
    const Prediction& own = *found[n].prediction;
    const Prediction* const base = asked[n].base < 0 || !found[index_of(asked[n].base)].prediction
                                       ? nullptr
                                       : &*found[index_of(asked[n].base)].prediction;
    told.changed = base != nullptr && base->log_probability.size() == own.log_probability.size();
    const std::int32_t came = asked[n].trace->tokens()->id[index_of(own.position)];
    std::vector<std::int32_t> ids;
    const auto add = [&ids](std::int32_t id) {
      if (std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
    };
    for (const ScoredToken& token : own.scored.top) add(token.id);
    if (told.changed) {
      // The list also has the tokens that the change took out of it.
      for (const ScoredToken& token : base->scored.top) add(token.id);
      const auto larger = [&](std::int32_t id) {
        return std::max(own.log_probability[index_of(id)], base->log_probability[index_of(id)]);
      };
      std::ranges::stable_sort(ids, std::greater<>(), larger);
      ids.resize(std::min(ids.size(), static_cast<std::size_t>(kLikeliest)));
    }
    add(came);
    for (const std::int32_t id : ids) {
      PredictionTable::Row row;
      row.rank = rankOf(own.log_probability, id);
      row.token =
          figure::tokenText(token_string(*asked[n].trace, found[n].head.get(), id), figure::Whitespace::visible);
      row.p = probabilityOf(own.log_probability[index_of(id)]);
      if (told.changed) row.unchanged = probabilityOf(base->log_probability[index_of(id)]);
      row.came = id == came;
      told.rows.push_back(std::move(row));
    }
    told.p = probabilityOf(own.scored.log_probability);
    told.nats = -static_cast<double>(own.scored.log_probability);
    told.entropy = own.scored.entropy;
    told.rank = own.scored.rank;
  }
  return answer;
}

void PredictionsView::take(Answer answer) {
  m_asked = false;
  m_answer = std::move(answer);
  showAnswer();
}

void PredictionsView::showAnswer() {
  const Run* reference = m_runs.reference();
  if (reference == nullptr || m_answer->query >= reference->trace->info().length) return;
  const TokenTable& tokens = *reference->trace->tokens();
  const QString before = QString::fromStdString(words_before(tokens, m_answer->query, kContextWords)).simplified();
  m_caption->setFullText(tr("Position %1, after “…%2”, where %3 came")
                             .arg(QLocale(QLocale::English).toString(static_cast<qlonglong>(m_answer->query)), before,
                                  figure::predictedText(tokens, m_answer->query, figure::Whitespace::visible)));
  double longest = 0;
  for (const Told& told : m_answer->runs) {
    for (const PredictionTable::Row& row : told.rows) {
      longest = std::max({longest, row.p, std::isnan(row.unchanged) ? 0 : row.unchanged});
    }
  }
  while (m_panels.size() < m_answer->runs.size()) m_panels.push_back(makePanel());
  for (std::size_t n = 0; n < m_panels.size(); ++n) {
    const bool used = n < m_answer->runs.size() && m_runs.run(m_answer->runs[n].run) != nullptr;
    m_panels[n].whole->setVisible(used);
    if (used) showRun(m_panels[n], m_answer->runs[n], longest);
  }
  m_pages->showContent();
}

void PredictionsView::showRun(Panel& panel, const Told& told, double longest) {
  const Run& run = *m_runs.run(told.run);
  panel.mark->setPixmap(runMark(run.look.colour, run.look.change, fontMetrics().ascent(), palette()));
  panel.title->setFullText(run.name);
  panel.table->setAccessibleName(tr("Tokens that %1 expected").arg(run.name));
  const bool known = told.problem.isEmpty();
  panel.summary->setVisible(known);
  panel.table->setVisible(known);
  panel.problem->setVisible(!known);
  if (!known) return panel.problem->setText(told.problem);
  panel.summary->setFullText(tr("came: rank %1, p %2, %3 nats; entropy %4 nats")
                                 .arg(QLocale(QLocale::English).toString(told.rank), QString::number(told.p, 'g', 3),
                                      QString::number(told.nats, 'f', 2), QString::number(told.entropy, 'f', 2)));
  PredictionTable::Shares shares{runColour(run.look.colour, palette()), tr("p")};
  if (told.changed) {
    const Run* base = m_runs.baseOf(run);
    const bool gate = isWithoutGate(run);
    shares.title = gate ? tr("p without the gate") : tr("p changed");
    shares.unchangedTitle = gate ? tr("p with the gate") : tr("p unchanged");
    shares.unchanged = mutedTextColour(palette());
    if (base != nullptr && base->look.colour != run.look.colour) {
      shares.unchanged = runColour(base->look.colour, palette());
    }
  }
  panel.table->setRows(told.rows, shares, longest);
}

// ---- The gate's part

void PredictionsView::followGate() {
  const HeadChoice& head = m_runs.selection().head();
  const Run* run = m_runs.run(head.run);
  m_gate->setVisible(run != nullptr);
  if (run == nullptr) return;
  m_gate->setText(tr("Without the gate of L%1 H%2").arg(head.layer).arg(head.head));
  QString why;
  const RunList& runs = m_runs;
  const bool made = std::any_of(runs.begin(), runs.end(), [&](const Run& other) {
    if (m_runs.baseOf(other) != run) return false;
    const std::vector<Intervention> changes = interventionsOf(other.trace->info());
    return changes.size() == 1 && changes.front().kind == Intervention::Kind::one &&
           changes.front().layer == head.layer && changes.front().head == head.head;
  });
  if (!forgets(run->trace->info(), head.layer)) {
    why = tr("%1 has no forget gate").arg(gatelessName(run->name, run->trace->info(), head.layer));
  } else if (made) {
    why = tr("That run is shown already");
  } else if (m_modelRuns.runStatus().running) {
    why = tr("A run is in progress …");
  }
  m_gate->setEnabled(why.isEmpty());
  m_gate->setToolTip(why.isEmpty() ? tr("Runs %1 once more with this gate at 1, and shows beside it what the model "
                                        "expected with the gate and without")
                                         .arg(run->name)
                                   : why);
}

void PredictionsView::askForGate() {
  const HeadChoice& head = m_runs.selection().head();
  m_awaited = true;
  m_modelRuns.startDerivedRun(head.run, {QStringLiteral("%1:%2:one").arg(head.layer).arg(head.head)});
  if (!m_modelRuns.runStatus().running) m_awaited = false;
}

}  // namespace foxscope::gui

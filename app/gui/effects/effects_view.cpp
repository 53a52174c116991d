#include "app/gui/effects/effects_view.h"

#include <algorithm>

#include <QFileDialog>
#include <QHBoxLayout>
#include <QStyle>
#include <QVBoxLayout>

#include "app/figure/kinds/sweep.h"
#include "app/figure/token_text.h"
#include "app/gui/document/file_writer.h"
#include "app/gui/views/elided_combo.h"
#include "app/gui/views/time_text.h"
#include "backend/base/atomic_file.h"
#include "backend/base/index.h"
#include "backend/trace/token_strings.h"

namespace foxscope::gui {
namespace {

figure::FigureFormat::Kind figureKindOf(const QString& path) {
  if (path.endsWith(QStringLiteral(".svg"))) return figure::FigureFormat::Kind::svg;
  if (path.endsWith(QStringLiteral(".png"))) return figure::FigureFormat::Kind::png;
  return figure::FigureFormat::Kind::pdf;
}

void writeBytes(const std::string& path, const std::string& bytes) {
  AtomicFile file(path, true);
  file.write(bytes.data(), bytes.size());
  file.commit();
}

/// The words before the token that a position predicts.
QString contextOf(const TokenTable& tokens, std::int64_t position) {
  return QString::fromStdString(words_before(tokens, position)).simplified();
}

}  // namespace

EffectsView::EffectsView(RunList& runs, FileWriter& files, Sweeps& sweeps, QWidget* parent)
    : QWidget(parent),
      m_runs(runs),
      m_files(files),
      m_sweeps(sweeps),
      m_choice(new ElidedCombo),
      m_caption(new ElidedLabel),
      m_progress(new QProgressBar),
      m_stop(new QPushButton),
      m_export(new QPushButton(tr("Export…"))),
      m_close(new QToolButton),
      m_tools(new QWidget),
      m_grid(new SweepGrid),
      m_card(new ChangeCard) {
  auto* layout = new QVBoxLayout(this);
  layout->setContentsMargins(8, 6, 8, 6);
  makeTools();
  layout->addWidget(m_tools);
  auto* both = new QSplitter;
  both->setChildrenCollapsible(false);
  both->addWidget(m_grid);
  both->addWidget(m_card);
  both->setStretchFactor(0, 1);
  both->setStretchFactor(1, 1);
  layout->addWidget(both, 1);
  connect(m_grid, &SweepGrid::headChosen, this, &EffectsView::choose);
  connect(m_card, &ChangeCard::positionChosen, this, [this](qint64 position) { m_runs.goTo(m_spokenOf, position); });
  connect(&m_sweeps, &Sweeps::changed, this, &EffectsView::followSweeps);
  connect(&m_runs, &RunList::runsChanged, this, &EffectsView::followRuns);
  connect(&m_runs, &RunList::runsChanged, this, &EffectsView::forgetGone);
  connect(&m_runs, &RunList::modelsChanged, this, &EffectsView::forgetGone);
  connect(&m_runs.selection(), &Selection::headChanged, this, &EffectsView::followHead);
  connect(&m_sweeps, &Sweeps::added, this, &EffectsView::followHead);
  followSweeps();
}

void EffectsView::makeTools() {
  auto* layout = new QHBoxLayout(m_tools);
  layout->setContentsMargins(0, 0, 0, 0);
  m_choice->setAccessibleName(tr("Sweep"));
  m_choice->setToolTip(tr("The sweep that is shown"));
  m_choice->setSizeAdjustPolicy(QComboBox::AdjustToContents);
  layout->addWidget(m_choice);
  layout->addWidget(m_caption, 2);
  m_progress->setTextVisible(true);
  m_progress->setRange(0, 1000);
  layout->addWidget(m_progress, 1);
  layout->addWidget(m_stop);
  m_export->setToolTip(tr("Save this sweep as a figure, as a table, or as a file that can be opened again"));
  layout->addWidget(m_export);
  m_close->setText(QStringLiteral("×"));
  m_close->setAutoRaise(true);
  m_close->setToolTip(tr("Remove this sweep from the window"));
  layout->addWidget(m_close);
  connect(m_choice, &QComboBox::activated, this,
          [this](int index) { m_sweeps.show(m_choice->itemData(index).toInt()); });
  connect(m_stop, &QPushButton::clicked, this, [this] {
    const HeadSweep* sweep = m_sweeps.shown();
    if (sweep == nullptr) return;
    sweep->state == HeadSweep::State::running ? m_sweeps.stop() : m_sweeps.resume();
  });
  connect(m_export, &QPushButton::clicked, this, &EffectsView::choosePath);
  connect(m_close, &QToolButton::clicked, &m_sweeps, &Sweeps::close);
}

std::optional<std::pair<int, int>> EffectsView::chosenIn(const HeadSweep& sweep) const {
  const HeadChoice head = m_runs.selection().head();
  if (sweep.run != kNoRun && head.run == sweep.run) return std::pair{head.layer, head.head};
  return sweep.run == kNoRun ? m_chosen : std::nullopt;
}

void EffectsView::showTools(const HeadSweep* sweep) {
  m_tools->setVisible(sweep != nullptr);
  m_grid->setVisible(sweep != nullptr);
  if (sweep == nullptr) return;
  const QSignalBlocker blocker(m_choice);
  // Each head that comes to be known is a change; the list, which may be open, is filled anew only with new sweeps.
  const auto visible = m_sweeps.visible();
  bool same = m_choice->count() == static_cast<int>(visible.size());
  for (int index = 0; same && index < m_choice->count(); ++index) {
    same = m_choice->itemData(index).toInt() == visible[index_of(index)]->id;
  }
  if (!same) {
    m_choice->clear();
    for (const HeadSweep* each : visible) {
      // The texts tell sweeps of one model and one change apart.
      const bool alone = std::ranges::count(visible, each->name, &HeadSweep::name) == 1;
      m_choice->addItem(alone ? each->name : each->name + tr(", ") + each->place(), each->id);
    }
  }
  m_caption->setFullText(sweep->place());
  m_choice->setCurrentIndex(m_choice->findData(sweep->id));
  const bool running = sweep->state == HeadSweep::State::running;
  m_progress->setVisible(sweep->state != HeadSweep::State::whole);
  const int heads = sweep->total();
  m_progress->setValue(static_cast<int>(
      1000 * (running && sweep->fraction >= 0 ? sweep->fraction : sweep->known() / std::max(1.0, double(heads)))));
  QString words = tr("%1 of %2 heads").arg(sweep->known()).arg(heads);
  if (running && sweep->secondsLeft >= 0) words += tr(", about %1").arg(timeLeftText(sweep->secondsLeft));
  m_progress->setFormat(words);
  m_stop->setVisible(sweep->state != HeadSweep::State::whole);
  const bool begun = sweep->known() > 0;
  m_stop->setText(running ? tr("Cancel") : begun ? tr("Go On") : tr("Begin"));
  m_stop->setToolTip(running ? tr("Stop; the results so far stay")
                     : begun ? tr("Continue with the heads that are missing")
                             : tr("Change every head in turn"));
  m_stop->setEnabled(running || !m_sweeps.running());
  m_export->setEnabled(sweep->whole != nullptr);
}

void EffectsView::followSweeps() {
  const HeadSweep* sweep = m_sweeps.shown();
  showTools(sweep);
  if (sweep != nullptr) m_grid->setSweep(*sweep, chosenIn(*sweep));
  showCard();
}

// A changed model that is gone and made once more is new.
void EffectsView::forgetGone() {
  const auto gone = [this](const Seen& seen) {
    const auto same = [&seen](const ModelInput& model) {
      return model.path == seen.input.path && model.name == seen.input.name;
    };
    return m_runs.run(seen.id) == nullptr && std::ranges::none_of(m_runs.models(), same);
  };
  std::erase_if(m_seen, gone);
}

// A changed run that is new is answered at once; one that takes the place of an earlier one leaves in front what is.
void EffectsView::followRuns() {
  for (const Run& run : m_runs) {
    const Run* base = m_runs.baseOf(run);
    if (base == nullptr || std::ranges::find(m_seen, run.id, &Seen::id) != m_seen.end()) continue;
    const bool again = std::ranges::any_of(
        m_seen, [this, &run](const Seen& seen) { return m_runs.run(seen.id) == nullptr && run.isOf(seen.input); });
    m_seen.push_back({run.id, {run.plainName(), run.model}});
    m_headIsNewer = false;
    if (!again && !run.ofSession && isCompared(run)) emit answered();
  }
  followSweeps();
}

void EffectsView::followHead() {
  m_headIsNewer = true;
  followSweeps();
}

bool EffectsView::isCompared(const Run& run) const {
  const Run* base = m_runs.baseOf(run);
  return base != nullptr && !run.look.hidden && !base->look.hidden;
}

const Run* EffectsView::answeredRun() const {
  const auto answered = [this](RunId id) {
    const Run* run = m_runs.run(id);
    return run != nullptr && isCompared(*run) ? run : nullptr;
  };
  const Run* run = m_headIsNewer ? answered(m_runs.selection().head().run) : nullptr;
  for (auto seen = m_seen.rbegin(); run == nullptr && seen != m_seen.rend(); ++seen) run = answered(seen->id);
  return run;
}

// A changed run that has nothing to be compared with, the chosen one first.
const Run* EffectsView::changedAlone() const {
  const auto isAlone = [this](const Run& run) {
    return !run.look.hidden && !interventionsOf(run.trace->info()).empty() && m_runs.baseOf(run) == nullptr;
  };
  const Run* chosen = m_runs.run(m_runs.selection().head().run);
  if (chosen != nullptr && isAlone(*chosen)) return chosen;
  const RunList& runs = m_runs;
  const auto found = std::find_if(runs.begin(), runs.end(), isAlone);
  return found == runs.end() ? nullptr : &*found;
}

void EffectsView::showCard() {
  const HeadSweep* sweep = m_sweeps.shown();
  const Run* changed = answeredRun();
  if (sweep != nullptr && (m_headIsNewer || changed == nullptr)) {
    if (const auto chosen = chosenIn(*sweep)) return showSweptHead(*sweep, chosen->first, chosen->second);
  }
  if (changed != nullptr) return ask(*changed, *m_runs.baseOf(*changed));
  m_spokenOf = kNoRun;
  if (sweep != nullptr) return m_card->showHint(tr("Choose a head of the sweep to see its tokens."));
  const RunList& runs = m_runs;
  if (const Run* alone = changedAlone()) {
    return m_card->showHint(
        tr("%1 is changed (%2), and the run without that change is not open: open a run file of the same weights and "
           "the same text, or make one, to see here what the change did to the loss.")
            .arg(alone->name, wordsOf(interventionsOf(alone->trace->info()))));
  }
  const bool changes = std::any_of(runs.begin(), runs.end(), [this](const Run& run) { return m_runs.baseOf(run); });
  m_card->showHint(changes || m_sweeps.anyHidden()
                       ? tr("The changed runs are hidden: the eye in the list of runs shows them.")
                       : tr("Change a head (Run with a Change…), or each head in turn (Sweep over All Heads…), to see "
                            "here what that does to the loss."));
}

void EffectsView::showSweptHead(const HeadSweep& sweep, int layer, int head) {
  m_spokenOf = sweep.run;
  const LossChange* effect = sweep.effect(layer, head);
  if (effect == nullptr) return m_card->showHint(m_grid->description(layer, head));
  Intervention change = sweep.change;
  change.layer = layer;
  change.head = head;
  const Run* run = m_runs.run(sweep.run);
  const auto whole = sweep.whole;
  ChangeCard::Words words;
  words.token = [run, whole](std::int64_t position) {
    if (run != nullptr) return figure::predictedText(*run->trace->tokens(), position, figure::Whitespace::visible);
    if (whole && !whole->token.empty()) return QString::fromStdString(whole->token[index_of(position)]);
    return QString::number(position);
  };
  words.before = [run](std::int64_t position) {
    return run == nullptr ? QString() : contextOf(*run->trace->tokens(), position);
  };
  std::vector<Estimate> heads;
  for (const auto& each : sweep.effects) {
    if (each) heads.push_back(each->mean);
  }
  m_card->show(QString::fromStdString(change.words()), *effect, sweep.text, words,
               QString::fromStdString(beyond_chance_text(heads)));
}

void EffectsView::ask(const Run& run, const Run& base) {
  m_spokenOf = run.id;
  ChangeCard::Words words;
  words.token = [this](std::int64_t position) {
    return figure::predictedText(*m_answer->tokens, position, figure::Whitespace::visible);
  };
  words.before = [this](std::int64_t position) { return contextOf(*m_answer->tokens, position); };
  if (m_answer && m_answer->run == run.id) {
    return m_card->show(m_answer->name, m_answer->change, textNameOf(run), words);
  }
  if (run.trace->per_token_loss().empty() ||
      base.trace->per_token_loss().size() != run.trace->per_token_loss().size()) {
    return m_card->showHint(tr("%1 and %2 do not have losses of the same tokens.").arg(run.name, base.name));
  }
  JobRunner::Request<Answer> request;
  // A run from a file has the name that it was given there, which need not tell the change.
  const QString name = run.file.isEmpty() || !run.base.isEmpty()
                           ? run.name
                           : run.name + tr(", ") + wordsOf(interventionsOf(run.trace->info()));
  request.work = [answer = Answer{run.id, name, run.trace->tokens(), {}}, changed = run.trace,
                  unchanged = base.trace](const Job&) -> std::optional<Answer> {
    Answer made = answer;
    made.change = loss_change(changed->per_token_loss(), unchanged->per_token_loss());
    return made;
  };
  request.done = [this](Answer answer) {
    m_answer = std::move(answer);
    showCard();
  };
  request.failed = [this](const QString& message) { m_card->showHint(message); };
  m_runs.quickJobs().submit(this, kAnswer, std::move(request));
}

void EffectsView::choose(int layer, int head) {
  const HeadSweep* sweep = m_sweeps.shown();
  if (sweep == nullptr) return;
  m_chosen = {layer, head};
  if (sweep->run != kNoRun) {
    const HeadChoice wanted{sweep->run, layer, head};
    if (wanted != m_runs.selection().head()) return m_runs.selection().setHead(wanted);
  }
  followHead();
}

void EffectsView::choosePath() {
  const QString path = QFileDialog::getSaveFileName(
      this, tr("Export sweep"), QStringLiteral("sweep.pdf"),
      tr("Figure (*.pdf *.svg *.png);;Table, a line a head (*.csv);;Sweep that can be opened again (*.h5)"));
  if (!path.isEmpty()) write(path);
}

void EffectsView::write(const QString& path) {
  const HeadSweep* sweep = m_sweeps.shown();
  if (sweep == nullptr || !sweep->whole) return;
  const auto work = [whole = sweep->whole, path](const Job&) -> std::optional<bool> {
    const std::string file = path.toStdString();
    if (path.endsWith(QStringLiteral(".csv"))) {
      writeBytes(file, whole->csv());
    } else if (path.endsWith(QStringLiteral(".h5"))) {
      write_sweep_file(file, *whole, {"foxscope", ""}, Overwrite::force);
    } else {
      figure::FigureStyle style;
      style.format.kind = figureKindOf(path);
      writeBytes(file, figure::drawSweep({whole.get(), 1}, style).file);
    }
    return true;
  };
  m_files.writeFile(path, work);
}

}  // namespace foxscope::gui

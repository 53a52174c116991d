#include "app/gui/document/runs/sweeps.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include <QDir>
#include <QFileInfo>
#include <QJsonArray>
#include <QJsonDocument>
#include <QLocale>

#include "app/gui/document/opened_path.h"
#include "app/gui/document/remote/remote_place.h"
#include "backend/base/error.h"
#include "backend/base/index.h"
#include "backend/eval/sweep/sweep.h"

namespace foxscope::gui {

/// The state of a sweep on the thread of sweeps; the heads that are new are handed over under the mutex.
struct Sweeps::Work {
  Engine engine;
  ModelRequest model;
  SweepRequest request;
  std::optional<SweepPlan> plan;  ///< made by the thread when it begins
  QString folder;                 ///< of what is kept; empty: nothing is
  std::mutex mutex;
  std::vector<HeadChange> fresh;
  QStringList notes;

  void tell(const SweepEvaluation& known, int layer, int head) {
    HeadChange change{layer, head, known.change_of(layer, head)};
    const std::lock_guard lock(mutex);
    fresh.push_back(std::move(change));
  }
  /// Heads that an earlier window had computed.
  void tellKnown() {
    const SweepEvaluation& known = plan->evaluation;
    for (int layer = 0; layer < known.info.layers; ++layer) {
      for (int head = 0; head < known.info.mixer(layer).heads; ++head) {
        if (known.knows(layer, head)) tell(known, layer, head);
      }
    }
  }
};

namespace {

constexpr int kMostKept = 16;  ///< sweeps whose work is kept

/// The name that a sweep's work has in the folder, without ".partial".
std::filesystem::path keptPath(const QString& folder, const SweepPlan& plan) {
  return std::filesystem::path(folder.toStdString()) / fingerprint(plan);
}

std::vector<int> headsOfLayers(const TraceInfo& info) {
  std::vector<int> heads;
  for (int layer = 0; layer < info.layers; ++layer) heads.push_back(info.mixer(layer).heads);
  return heads;
}

/// Makes the folder, and leaves the newest of what is in it.
void tidy(const QString& folder) {
  QDir().mkpath(folder);
  const QFileInfoList kept = QDir(folder).entryInfoList({QStringLiteral("*.partial")}, QDir::Files, QDir::Time);
  for (qsizetype n = kMostKept - 1; n < kept.size(); ++n) QFile::remove(kept[n].filePath());
}

}  // namespace

QString HeadSweep::place() const {
  const QString count = QLocale(QLocale::English).toString(static_cast<qlonglong>(tokens));
  return text.isEmpty() ? Sweeps::tr("on %1 tokens").arg(count) : Sweeps::tr("on %1 (%2 tokens)").arg(text, count);
}

bool HeadSweep::has(int layer, int head) const {
  return layer >= 0 && layer < layers && head >= 0 && head < headsOfLayer[index_of(layer)];
}

int HeadSweep::total() const { return std::accumulate(headsOfLayer.begin(), headsOfLayer.end(), 0); }

const LossChange* HeadSweep::effect(int layer, int head) const {
  if (!has(layer, head)) return nullptr;
  const auto& entry = effects[index_of(std::int64_t{layer} * heads + head)];
  return entry ? &*entry : nullptr;
}

int HeadSweep::known() const {
  return static_cast<int>(
      std::count_if(effects.begin(), effects.end(), [](const auto& entry) { return entry.has_value(); }));
}

std::vector<Intervention> interventionsOf(const TraceInfo& info) {
  std::vector<Intervention> list;
  const QJsonDocument json = QJsonDocument::fromJson(QByteArray::fromStdString(info.intervention));
  for (const auto& entry : json.array()) {
    try {
      list.push_back(Intervention::parse(entry.toString().toStdString()));
    } catch (const Error&) {
      // A file may say anything there: what is no change of ours is left out.
    }
  }
  return list;
}

QString wordsOf(const std::vector<Intervention>& interventions) {
  QStringList words;
  for (const Intervention& intervention : interventions) words += QString::fromStdString(intervention.words());
  return words.join(QStringLiteral("; "));
}

Sweeps::Sweeps(RunList& runs, const ModelRuns& modelRuns, QObject* parent)
    : QObject(parent), m_runs(runs), m_modelRuns(modelRuns), m_runner(Threads::own, kBehindPictures) {
  connect(&m_runs, &RunList::runsChanged, this, &Sweeps::followRuns);
}

Sweeps::~Sweeps() = default;

HeadSweep* Sweeps::find(int id) {
  const auto found = std::find_if(m_sweeps.begin(), m_sweeps.end(), [id](const auto& sweep) { return sweep.id == id; });
  return found == m_sweeps.end() ? nullptr : &*found;
}

std::vector<const HeadSweep*> Sweeps::visible() const {
  std::vector<const HeadSweep*> list;
  for (const HeadSweep& sweep : m_sweeps) {
    const Run* run = m_runs.run(sweep.run);
    const bool hidden = run != nullptr && run->look.hidden;
    if (!hidden || sweep.state == HeadSweep::State::running) list.push_back(&sweep);
  }
  return list;
}

// The newest sweep stands in the place of one that is hidden, until it can be seen again.
const HeadSweep* Sweeps::shown() const {
  const auto list = visible();
  const auto found = std::find_if(list.begin(), list.end(), [this](const auto* sweep) { return sweep->id == m_shown; });
  if (found != list.end()) return *found;
  return list.empty() ? nullptr : list.back();
}

void Sweeps::show(int id) {
  if (id == m_shown || find(id) == nullptr) return;
  m_shown = id;
  emit changed();
}

bool Sweeps::running() const { return m_running != 0; }

void Sweeps::warn(const QString& text) { emit m_runs.messageRaised({Message::Kind::warning, text}); }

void Sweeps::start(RunId run, const Intervention& change) {
  if (m_runs.run(run) == nullptr) return warn(m_modelRuns.noRunText());
  if (running()) return warn(tr("A sweep is in progress: wait for it, or cancel it"));
  const auto same = std::find_if(m_sweeps.begin(), m_sweeps.end(), [&](const HeadSweep& sweep) {
    return sweep.run == run && sweep.change.kind_text() == change.kind_text();
  });
  if (same != m_sweeps.end()) {
    show(same->id);
    emit added();
    return resume();
  }
  HeadSweep* sweep = add(run, change);
  if (sweep == nullptr) return;
  emit added();
  submit(*sweep);
}

HeadSweep* Sweeps::add(RunId run, const Intervention& change) {
  const Run* from = m_runs.run(run);
  if (from->model.isEmpty()) {
    warn(tr("%1 comes from a file, and changing its heads needs its model: open the checkpoint folder (Ctrl+O), "
            "the text, and press F5 first")
             .arg(from->name));
    return nullptr;
  }
  if (isRemote(from->model)) {
    warn(
        tr("The model of %1 lies on %2, and a sweep runs models of this machine: foxscope eval sweep --model %3 sweeps "
           "there, and its file opens here")
            .arg(from->name, hostOf(from->model), from->model));
    return nullptr;
  }
  if (!from->trace->text()) {
    warn(tr("%1 was run without a text").arg(from->name));
    return nullptr;
  }
  const TraceInfo& info = from->trace->info();
  const auto work = std::make_shared<Work>();
  work->request.change = change;
  work->folder = m_folder;
  work->engine = m_modelRuns.engine();
  work->model = m_modelRuns.settings().requestOf(QString::fromStdString(info.name), from->model);
  work->model.interventions = interventionsOf(info);
  SweepRequest& wanted = work->request;
  wanted.input.text = from->trace->text();
  wanted.input.name = (from->textFile.isEmpty() ? textNameOf(*from) : from->textFile).toStdString();
  wanted.limit = info.length;

  HeadSweep sweep;
  sweep.id = ++m_last;
  sweep.name = QStringLiteral("%1, %2").arg(from->name, QString::fromStdString(change.kind_words()));
  sweep.text = textNameOf(*from);
  sweep.run = run;
  sweep.change = change;
  sweep.layers = info.layers;
  sweep.heads = info.heads;
  sweep.headsOfLayer = headsOfLayers(info);
  sweep.tokens = info.length;
  sweep.effects.resize(static_cast<std::size_t>(std::int64_t{info.layers} * info.heads));
  m_works.emplace_back(sweep.id, work);
  m_sweeps.push_back(std::move(sweep));
  m_shown = m_last;
  return &m_sweeps.back();
}

void Sweeps::resume() {
  if (shown() == nullptr || running()) return;
  HeadSweep* sweep = find(shown()->id);
  if (sweep->state == HeadSweep::State::stopped) submit(*sweep);
}

void Sweeps::submit(HeadSweep& sweep, Effort effort) {
  const auto entry =
      std::find_if(m_works.begin(), m_works.end(), [&](const auto& one) { return one.first == sweep.id; });
  if (entry == m_works.end()) return;
  const std::shared_ptr<Work> work = entry->second;
  m_running = sweep.id;
  sweep.state = HeadSweep::State::running;
  sweep.stage = tr("starting");
  sweep.fraction = sweep.secondsLeft = -1;
  m_clock = {};
  using Whole = std::shared_ptr<const SweepEvaluation>;
  JobRunner::Request<Whole> request;
  request.work = [work, effort](const Job& job) -> std::optional<Whole> {
    if (!work->plan) work->plan = plan_sweep(work->engine.open(work->model), work->request, job);
    if (!work->plan) return std::nullopt;
    SweepEvents events;
    events.head = [&work](const SweepEvaluation& known, int layer, int head) { work->tell(known, layer, head); };
    std::optional<KeptSweep> kept;
    if (!work->folder.isEmpty()) {
      tidy(work->folder);
      const auto note = [&work](const std::string& text) {
        const std::lock_guard lock(work->mutex);
        work->notes.push_back(QString::fromStdString(text));
      };
      kept.emplace(keptPath(work->folder, *work->plan), *work->plan, false, note);
      events = kept->events(std::move(events));
      work->tellKnown();
    }
    const bool known = work->plan->evaluation.whole();
    if (effort == Effort::readKept && !known) return Whole();
    if (!known && !run_sweep(*work->plan, events, job)) return std::nullopt;
    return std::make_shared<const SweepEvaluation>(work->plan->evaluation);
  };
  const int id = sweep.id;
  request.progress = [this, id, work](const JobProgress& progress) {
    HeadSweep* moved = find(id);
    if (moved == nullptr || moved->state != HeadSweep::State::running) return;
    moved->stage = progress.stage;
    moved->fraction = progress.fraction;
    moved->secondsLeft = m_clock.secondsLeft(progress.stage, progress.fraction);
    takeKnown(*moved, *work);
    emit changed();
  };
  request.done = [this, id, work](Whole whole) {
    if (HeadSweep* done = find(id)) takeKnown(*done, *work);
    finish(id, std::move(whole));
    bringBack();
  };
  request.failed = [this, id](const QString& message) {
    emit m_runs.messageRaised({Message::Kind::error, message});
    finish(id, nullptr);
    const HeadSweep* failed = find(id);
    if (failed == nullptr || failed->known() > 0) return;
    m_shown = id;
    takeOut();  // nothing came of it
  };
  m_runner.submit(this, kSweep, std::move(request));
  emit changed();
}

void Sweeps::takeKnown(HeadSweep& sweep, Work& work) {
  std::vector<HeadChange> fresh;
  QStringList notes;
  {
    const std::lock_guard lock(work.mutex);
    fresh.swap(work.fresh);
    notes.swap(work.notes);
  }
  for (const QString& note : notes) warn(note);
  for (HeadChange& head : fresh) {
    sweep.effects[index_of(std::int64_t{head.layer} * sweep.heads + head.head)] = std::move(head.change);
  }
}

void Sweeps::finish(int id, std::shared_ptr<const SweepEvaluation> whole) {
  m_running = 0;
  if (HeadSweep* sweep = find(id)) {
    sweep->state = whole ? HeadSweep::State::whole : HeadSweep::State::stopped;
    sweep->whole = std::move(whole);
  }
  emit changed();
}

// Heads that the thread still finishes are shown when the sweep goes on.
void Sweeps::stop() {
  if (!running()) return;
  m_runner.cancel(this, kSweep);
  finish(m_running, nullptr);
}

void Sweeps::close() {
  if (shown() == nullptr) return;
  m_shown = shown()->id;
  if (m_running == m_shown) stop();
  forgetKept(m_shown);
  takeOut();
}

void Sweeps::takeOut() {
  std::erase_if(m_works, [this](const auto& entry) { return entry.first == m_shown; });
  std::erase_if(m_sweeps, [this](const HeadSweep& sweep) { return sweep.id == m_shown; });
  m_shown = m_sweeps.empty() ? 0 : m_sweeps.back().id;
  emit changed();
}

// A sweep that the user takes out of the window does not come back. The thread may still write it: it goes behind that.
void Sweeps::forgetKept(int id) {
  const auto entry = std::find_if(m_works.begin(), m_works.end(), [&](const auto& one) { return one.first == id; });
  if (entry == m_works.end() || entry->second->folder.isEmpty()) return;
  JobRunner::Request<bool> request;
  request.work = [work = entry->second](const Job&) {
    if (work->plan) QFile::remove(QString::fromStdString(partial_path(keptPath(work->folder, *work->plan)).string()));
    return std::optional(true);
  };
  request.done = [](bool) {};
  request.failed = [](const QString&) {};
  m_runner.submit(this, kForget + id, std::move(request));
}

QJsonArray Sweeps::saveState() const {
  QJsonArray all = m_wanted;
  for (const HeadSweep& sweep : m_sweeps) {
    const Run* run = m_runs.run(sweep.run);
    const bool made =
        std::any_of(m_works.begin(), m_works.end(), [&](const auto& one) { return one.first == sweep.id; });
    if (run == nullptr || !made) continue;
    all.append(QJsonObject{{"run", run->name}, {"change", QString::fromStdString(sweep.change.kind_text())}});
  }
  return all;
}

void Sweeps::restoreState(const QJsonArray& sweeps) {
  m_wanted = sweeps;
  bringBack();
}

// One after the other: their work is read on the thread that makes sweeps.
void Sweeps::bringBack() {
  if (running() || m_folder.isEmpty()) return;
  for (qsizetype n = 0; n < m_wanted.size(); ++n) {
    const QJsonObject wanted = m_wanted[n].toObject();
    const Run* run = m_runs.runNamed(wanted["run"].toString());
    if (run == nullptr || run->model.isEmpty() || isRemote(run->model)) continue;
    m_wanted.removeAt(n);
    try {
      const Intervention change = Intervention::parse_change(wanted["change"].toString().toStdString());
      const bool there = std::any_of(m_sweeps.begin(), m_sweeps.end(), [&](const HeadSweep& sweep) {
        return sweep.run == run->id && sweep.change.kind_text() == change.kind_text();
      });
      HeadSweep* sweep = there ? nullptr : add(run->id, change);
      if (sweep != nullptr) return submit(*sweep, Effort::readKept);
      --n;
    } catch (const Error&) {
      --n;  // a session may say anything there
    }
  }
}

RunId Sweeps::runOf(const SweepEvaluation& evaluation) const {
  for (const Run& run : m_runs) {
    const TraceInfo& info = run.trace->info();
    const bool same = info.weights_sha256 == evaluation.info.weights_sha256 &&
                      info.intervention == evaluation.info.intervention && info.layers == evaluation.info.layers &&
                      info.heads == evaluation.info.heads && run.trace->tokens()->id == evaluation.token_id;
    if (same) return run.id;
  }
  return kNoRun;
}

void Sweeps::open(const OpenedSweep& opened) {
  const std::shared_ptr<const SweepEvaluation>& evaluation = opened.evaluation;
  HeadSweep sweep;
  sweep.id = ++m_last;
  sweep.name = QStringLiteral("%1, %2").arg(QString::fromStdString(evaluation->info.name),
                                            QString::fromStdString(evaluation->change.kind_words()));
  sweep.text = QString::fromStdString(evaluation->source);
  sweep.run = runOf(*evaluation);
  sweep.change = evaluation->change;
  sweep.layers = evaluation->info.layers;
  sweep.heads = evaluation->info.heads;
  sweep.headsOfLayer = headsOfLayers(evaluation->info);
  sweep.tokens = evaluation->info.length;
  sweep.effects.resize(evaluation->changed_loss.size());
  for (const HeadChange& head : opened.changes) {
    sweep.effects[evaluation->place_of(head.layer, head.head)] = head.change;
  }
  sweep.whole = evaluation;
  sweep.state = HeadSweep::State::whole;
  m_sweeps.push_back(std::move(sweep));
  m_shown = m_last;
  emit added();
  emit changed();
}

// A run that is made again has another number; with the last of all the sweeps go too.
void Sweeps::followRuns() {
  if (m_runs.empty() && m_runs.models().empty()) {
    stop();
    m_works.clear();
    m_sweeps.clear();
  }
  for (HeadSweep& sweep : m_sweeps) {
    if (m_runs.run(sweep.run) != nullptr) continue;
    sweep.run = sweep.whole ? runOf(*sweep.whole) : kNoRun;
  }
  bringBack();
  emit changed();
}

}  // namespace foxscope::gui

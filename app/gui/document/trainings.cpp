#include "app/gui/document/trainings.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <QFileInfo>

#include "app/gui/document/remote/remote_model.h"
#include "app/gui/document/remote/remote_place.h"
#include "app/gui/document/session_store.h"
#include "backend/agent/remote.h"
#include "backend/agent/remote_files.h"
#include "backend/model/session/engine.h"
#include "backend/model/session/run.h"
#include "backend/train/remote_training.h"

namespace foxscope::gui {
namespace {

constexpr std::size_t kCheckpointsKept = 2;
constexpr int kSlowly = 5;               ///< looks at a training that nobody trains are so much rarer
constexpr int kPatienceMs = 500;         ///< a training adds to its folder several times a second
constexpr double kShareOfMemory = 0.25;  ///< of what is free, for runs of checkpoints that are not shown
constexpr double kDiskThere = 16e9;      ///< bytes of such runs on another machine

QString pathOf(const TrainingCheckpoint& checkpoint) { return QString::fromStdString(checkpoint.folder.string()); }

/// Reads a folder here or on another machine.
OpenTraining::Read readerFor(const QString& folder) {
  if (!isRemote(folder)) {
    return [reader = std::make_shared<TrainingReader>(folder.toStdString())](const Job&) { return reader->read(); };
  }
  const auto reader = std::make_shared<RemoteTrainingReader>(agent::parse_remote_path(folder.toStdString()));
  return [reader](const Job& job) { return reader->read(job); };
}

/// Whether one record goes on where another one ended.
bool goesOn(const TrainingRecord& record, const TrainingRecord& before) {
  const TrainingStep& last = before.steps.back();
  const TrainingStep* same = record.step(last.step);
  return same != nullptr && same->loss == last.loss;
}

}  // namespace

std::int64_t OpenTraining::tokensAt(const TrainingCheckpoint& checkpoint) const {
  if (const TrainingStep* step = record->step(checkpoint.step)) return step->tokens;
  // The steps before it say how many tokens a step has.
  const TrainingStep& last = record->steps.back();
  constexpr double kMostTokens = 9e18;
  const double tokens = static_cast<double>(last.tokens) / static_cast<double>(last.step);
  return static_cast<std::int64_t>(std::min(kMostTokens, std::round(static_cast<double>(checkpoint.step) * tokens)));
}

/// The run of a checkpoint, as it comes from the thread that makes it.
struct Trainings::Made {
  QString folder;
  QString checkpoint;
  Run run;
  std::vector<std::string> notes;
  double bytes = 0;
  double free = 0;
};

Trainings::Trainings(RunList& runs, const ModelRuns& modelRuns, Machines* machines, QObject* parent)
    : QObject(parent),
      m_runs(runs),
      m_modelRuns(modelRuns),
      m_machines(machines),
      m_engine(std::make_unique<Engine>(kCheckpointsKept)),
      m_runner(Threads::own) {
  m_changed.setSingleShot(true);
  m_changed.setInterval(kPatienceMs);
  connect(&m_modelRuns, &ModelRuns::inputsChanged, this, &Trainings::followInputs);
  connect(&m_runs, &RunList::runsChanged, this, &Trainings::followInputs);
  connect(&m_modelRuns, &ModelRuns::runStatusChanged, this, &Trainings::proceed);
  connect(&m_runs.selection(), &Selection::headChanged, this, &Trainings::followHead);
  for (const auto signal : {&QFileSystemWatcher::directoryChanged, &QFileSystemWatcher::fileChanged}) {
    connect(&m_watcher, signal, this, [this] {
      if (!m_changed.isActive()) m_changed.start();
    });
  }
  connect(&m_changed, &QTimer::timeout, this, &Trainings::readChanged);
  m_look.setSingleShot(true);
  connect(&m_look, &QTimer::timeout, this, [this] {
    for (const OpenTraining& training : m_open) {
      if (isRemote(training.folder)) read(training.folder);
    }
  });
}

Trainings::~Trainings() = default;

void Trainings::tell(Message::Kind kind, const QString& text) { emit m_runs.messageRaised({kind, text}); }

void Trainings::tellFailure(const QString& folder, const QString& message) {
  if (!isRemote(folder) && !QFileInfo::exists(folder)) m_lacked += folder;
  if (!m_quiet) return tell(Message::Kind::error, message);
  if (m_failure.isEmpty()) m_failure = message;
}

void Trainings::setQuiet(bool quiet) {
  m_quiet = quiet;
  m_failure.clear();
}

void Trainings::readAgain(const QString& path) {
  m_lacked.removeAll(path);
  if (m_refused.removeAll(path) > 0 || find(path) != nullptr) read(path);
}

OpenTraining* Trainings::find(const QString& folder) {
  const auto found = std::ranges::find(m_open, folder, &OpenTraining::folder);
  return found == m_open.end() ? nullptr : &*found;
}

const OpenTraining* Trainings::shown() const {
  const auto found = std::ranges::find(m_open, m_shown, &OpenTraining::folder);
  if (found != m_open.end()) return &*found;
  return m_open.empty() ? nullptr : &m_open.back();
}

void Trainings::show(const QString& folder) {
  if (folder == m_shown || find(folder) == nullptr) return;
  m_shown = folder;
  emit changed();
}

const Run* Trainings::runOf(const OpenTraining& training) const {
  const auto& models = m_runs.models();
  const auto model = std::ranges::find(models, training.model, &ModelInput::name);
  if (model == models.end()) return nullptr;
  const auto run = std::ranges::find_if(m_runs, [&](const Run& each) { return each.isOf(*model); });
  return run == m_runs.end() ? nullptr : &*run;
}

void Trainings::followInputs() {
  const auto modelOf = [this](const QString& folder) {
    return std::ranges::find(m_runs.models(), folder, &ModelInput::training);
  };
  const std::size_t before = m_open.size();
  bool renamed = false;
  std::erase_if(m_open, [&](const OpenTraining& each) { return modelOf(each.folder) == m_runs.models().end(); });
  for (const ModelInput& model : m_runs.models()) {
    if (model.training.isEmpty()) continue;
    OpenTraining* open = find(model.training);
    if (open == nullptr && !m_refused.contains(model.training)) read(model.training);
    if (open == nullptr) continue;
    const bool asShown = open->shown == open->wanted;
    open->model = model.name;
    renamed = renamed || open->title != shownName(model);
    open->title = shownName(model);
    open->shown = placeOfModel(*open);
    if (asShown) open->wanted = open->shown.value_or(open->wanted);
  }
  RunSettings settings = m_modelRuns.settings();
  settings.limit = 0;
  if (settings != m_settings || m_open.empty()) {
    forget([](const Kept&) { return true; });
    m_failedAhead.clear();
  }
  m_settings = settings;
  if (m_open.size() != before) watch();
  if (m_open.size() != before || renamed) emit changed();
}

std::optional<std::size_t> Trainings::placeOfModel(const OpenTraining& training) const {
  const auto& models = m_runs.models();
  const auto model = std::ranges::find(models, training.model, &ModelInput::name);
  const auto& checkpoints = training.record->checkpoints;
  const auto at = std::ranges::find_if(checkpoints, [&](const auto& each) { return pathOf(each) == model->path; });
  if (at == checkpoints.end()) return std::nullopt;
  return static_cast<std::size_t>(at - checkpoints.begin());
}

void Trainings::followHead() {
  for (const OpenTraining& training : m_open) {
    const Run* run = runOf(training);
    if (run != nullptr && run->id == m_runs.selection().head().run) return show(training.folder);
  }
}

void Trainings::read(const QString& folder) {
  if (m_reading.contains(folder)) return;
  m_reading += folder;
  const OpenTraining* open = find(folder);
  const OpenTraining::Read reader = open != nullptr ? open->read : readerFor(folder);
  const auto known = open != nullptr ? open->record : nullptr;
  JobRunner::Request<std::shared_ptr<const TrainingRecord>> request;
  request.work = [reader, known](const Job& job) -> std::optional<std::shared_ptr<const TrainingRecord>> {
    try {
      auto record = reader(job);
      return record ? std::optional(std::move(record)) : std::nullopt;
    } catch (const agent::ConnectionLost&) {
      if (!known) throw;
      return known;  // the window says so, and everything stays
    }
  };
  request.done = [this, folder, reader](std::shared_ptr<const TrainingRecord> record) {
    m_reading.removeAll(folder);
    take(folder, std::move(record), reader);
  };
  request.failed = [this, folder](const QString& message) {
    m_reading.removeAll(folder);
    m_refused += folder;
    // A folder that is gone takes its checkpoints with it: that is one thing to say.
    if (!m_lacked.contains(folder) || QFileInfo::exists(folder)) tellFailure(folder, message);
  };
  readerOf(folder).submit(this, m_readChannel++, std::move(request));
}

JobRunner& Trainings::readerOf(const QString& folder) {
  if (m_machines == nullptr || !isRemote(folder)) return m_runs.quickJobs();
  return m_machines->jobs(agent::parse_remote_path(folder.toStdString()).host);
}

void Trainings::take(const QString& folder, std::shared_ptr<const TrainingRecord> read, OpenTraining::Read reader) {
  const auto model = std::ranges::find(m_runs.models(), folder, &ModelInput::training);
  if (model == m_runs.models().end()) return;
  if (read->checkpoints.empty()) {
    return tell(Message::Kind::warning, tr("%1 has no checkpoint any more: its slider stays as it was").arg(folder));
  }
  m_refused.removeAll(folder);
  m_lacked.removeAll(folder);
  const std::size_t newest = read->checkpoints.size() - 1;
  OpenTraining* open = find(folder);
  const bool isNew = open == nullptr;
  if (isNew) {
    open = &m_open.emplace_back(OpenTraining{folder, model->name, shownName(*model), read, std::move(reader)});
    open->shown = placeOfModel(*open);
    open->wanted = open->shown.value_or(newest);
    m_shown = folder;
  } else {
    if (!goesOn(*read, *open->record)) forget([](const Kept&) { return true; });
    const std::int64_t wanted = open->chosen().step;
    open->record = read;
    const auto same = std::ranges::find(read->checkpoints, wanted, &TrainingCheckpoint::step);
    // A training that keeps few checkpoints may have lost the one that was chosen.
    open->wanted = std::min(newest, static_cast<std::size_t>(same - read->checkpoints.begin()));
    open->shown = placeOfModel(*open);
  }
  watch();
  if (isRemote(folder)) m_look.start(open->record->running ? m_pace : kSlowly * m_pace);
  emit changed();
  if (isNew) emit added();
  proceed();
}

void Trainings::watch() {
  QStringList paths;
  for (const OpenTraining& training : m_open) {
    if (isRemote(training.folder)) continue;
    const TrainingFolder folder(training.folder.toStdString());
    paths += training.folder;
    paths += training.folder + QStringLiteral("/checkpoints");
    paths += QString::fromStdString(folder.log().string());
    paths += QString::fromStdString(folder.evaluation().string());
    paths += training.folder + QStringLiteral("/lock");  // says that the training has ended
  }
  const QStringList watched = m_watcher.files() + m_watcher.directories();
  for (const QString& path : watched) {
    if (!paths.contains(path)) m_watcher.removePath(path);
  }
  for (const QString& path : std::as_const(paths)) {
    if (!watched.contains(path)) m_watcher.addPath(path);
  }
}

void Trainings::readChanged() {
  // A file that came while the folder was being read may not be in the result.
  if (!m_reading.isEmpty()) return m_changed.start();
  for (const OpenTraining& training : m_open) read(training.folder);
}

void Trainings::choose(std::size_t place) {
  const OpenTraining* chosen = shown();
  if (chosen == nullptr || place >= chosen->record->checkpoints.size() || place == chosen->wanted) return;
  find(chosen->folder)->wanted = place;
  emit changed();
  proceed();
}

const Trainings::Kept* Trainings::keptRun(const QString& checkpoint, const Run& like) const {
  const auto same = std::ranges::find_if(m_kept, [&](const Kept& kept) {
    return kept.checkpoint == checkpoint && kept.text == like.trace->text()->sha256 &&
           kept.length == like.trace->info().length && kept.run.plainName() == like.plainName();
  });
  return same == m_kept.end() ? nullptr : &*same;
}

void Trainings::keep(const QString& checkpoint, const Run& run) {
  if (!run.trace->text()) return;
  Kept kept{checkpoint, run.trace->text()->sha256, run.trace->info().length, run, m_bytes};
  std::erase_if(m_kept, [&](const Kept& each) {
    return each.checkpoint == checkpoint && each.text == kept.text && each.length == kept.length;
  });
  m_kept.push_back(std::move(kept));
  double bytes = 0;
  for (const Kept& each : m_kept) bytes += each.bytes;
  while (m_kept.size() > 1 && bytes > kShareOfMemory * m_free) {
    bytes -= m_kept.front().bytes;
    forget([first = m_kept.front().run.trace](const Kept& each) { return each.run.trace == first; });
  }
}

void Trainings::forget(const std::function<bool(const Kept&)>& isGone) {
  for (const Kept& each : m_kept) {
    const bool shown = std::ranges::any_of(m_runs, [&](const Run& run) { return run.trace == each.run.trace; });
    if (m_machines == nullptr || each.run.host.isEmpty() || shown || !isGone(each)) continue;
    const agent::RemotePath place = agent::parse_remote_path(each.run.file.toStdString());
    JobRunner::Request<bool> request;
    request.work = [place](const Job& job) {
      agent::forget_run(place, job);
      return std::optional(true);
    };
    request.done = [](bool) {};
    m_machines->jobs(place.host).submit(this, m_readChannel++, std::move(request));
  }
  std::erase_if(m_kept, isGone);
}

// While the window's own runs are made, the models stay as they are.
void Trainings::proceed() {
  if (m_modelRuns.runStatus().running) {
    m_runner.cancel(this, kAhead);
    return m_runningAhead.clear();
  }
  for (std::size_t n = 0; n < m_open.size(); ++n) {
    const OpenTraining training = m_open[n];
    if (training.wanted == training.shown) continue;
    const QString checkpoint = pathOf(training.chosen());
    const Run* from = runOf(training);
    const bool reads = from != nullptr && from->trace->text();
    const Kept* kept = reads ? keptRun(checkpoint, *from) : nullptr;
    if (reads && kept == nullptr) return run(training, *from);
    std::optional<Run> made;
    if (kept != nullptr) {
      made = kept->run;
      keep(from->model, *from);
      keep(checkpoint, *made);
    }
    m_runs.showCheckpoint(training.model, checkpoint, std::move(made));
    emit changed();
  }
  stop();
  runAhead();
}

void Trainings::stop() {
  if (m_running.isEmpty()) return;
  m_runner.cancel(this, kRun);
  m_running.clear();
  emit changed();
}

JobRunner::Request<Trainings::Made> Trainings::requestOf(const OpenTraining& training, const QString& checkpoint,
                                                         const Run& from) const {
  RunRequest wanted;
  wanted.input.text = from.trace->text();
  wanted.input.name = from.textFile.isEmpty() ? "the text" : from.textFile.toStdString();
  wanted.limit = from.trace->info().length;
  wanted.keep = {Keep::loss, Keep::gates, Keep::rows, Keep::predictions};
  if (m_settings.keepQueryKey) wanted.keep.insert(Keep::query_key);
  JobRunner::Request<Made> request;
  if (isRemote(checkpoint)) {
    const auto& models = m_runs.models();
    ModelInput model = *std::ranges::find(models, training.model, &ModelInput::name);
    model.path = checkpoint;
    request.work = [model, settings = m_settings, wanted, folder = training.folder, checkpoint,
                    textFile = from.textFile](const Job& job) -> std::optional<Made> {
      auto made = runThere(model, settings, wanted, job);
      if (!made) return std::nullopt;
      made->run.textFile = textFile;
      const auto bytes = static_cast<double>(bytesOfRun(*made->run.trace));
      std::vector<std::string> notes;
      for (const QString& note : made->notes) notes.push_back(note.toStdString());
      return Made{folder, checkpoint, std::move(made->run), notes, bytes, kDiskThere / kShareOfMemory};
    };
    return request;
  }
  request.work = [engine = *m_engine, model = m_settings.requestOf(training.model, checkpoint), wanted,
                  folder = training.folder, checkpoint,
                  textFile = from.textFile](const Job& job) -> std::optional<Made> {
    const OpenedModel opened = engine.open(model);
    const auto estimate = estimate_run(opened, wanted, TokenCount::at_most, job);
    if (!estimate) return std::nullopt;
    auto result = run_model(plan_run(opened, wanted), job);
    if (!result) return std::nullopt;
    Run run;
    run.name = QString::fromStdString(result->trace->info().name);
    run.trace = result->trace;
    run.textFile = textFile;
    run.forwardSeconds = result->report.forward_seconds;
    run.representative = representativeHead(*result->trace);
    const double bytes =
        static_cast<double>(estimate->needs.host.stored_per_token) * static_cast<double>(result->trace->info().length);
    return Made{
        folder, checkpoint, std::move(run), result->report.notes, bytes, static_cast<double>(estimate->free.host)};
  };
  return request;
}

void Trainings::run(const OpenTraining& training, const Run& from) {
  const QString checkpoint = pathOf(training.chosen());
  if (checkpoint == m_running) return;
  JobRunner::Request<Made> request = requestOf(training, checkpoint, from);
  request.done = [this](const Made& made) { receive(made); };
  request.failed = [this, folder = training.folder](const QString& message) {
    m_running.clear();
    OpenTraining* failed = find(folder);
    if (failed != nullptr) failed->wanted = failed->shown.value_or(failed->wanted);
    tellFailure(folder, message);
    emit changed();
  };
  request.progress = [this](const JobProgress& progress) {
    m_progress = progress;
    emit changed();
  };
  m_running = checkpoint;
  m_progress = {-1, tr("starting")};
  m_runner.submit(this, kRun, std::move(request));
  emit changed();
}

bool Trainings::known(std::size_t place) const {
  const OpenTraining* training = shown();
  if (training == nullptr || place >= training->record->checkpoints.size()) return false;
  if (place == training->shown) return true;
  const Run* from = runOf(*training);
  if (from == nullptr || !from->trace->text()) return true;
  return keptRun(pathOf(training->record->checkpoints[place]), *from) != nullptr;
}

bool Trainings::failed(std::size_t place) const {
  const OpenTraining* training = shown();
  return training != nullptr && place < training->record->checkpoints.size() &&
         m_failedAhead.contains(pathOf(training->record->checkpoints[place]));
}

std::size_t Trainings::roomForRuns() const {
  if (m_bytes <= 0) return 1;
  return static_cast<std::size_t>(std::max(1.0, std::floor(kShareOfMemory * m_free / m_bytes) - 1));
}

void Trainings::setAhead(bool ahead) {
  if (ahead == m_ahead) return;
  m_ahead = ahead;
  m_failedAhead.clear();
  runAhead();
}

// The nearest of the checkpoints that come, in the background: what somebody waits for puts it aside.
void Trainings::runAhead() {
  const OpenTraining* training = shown();
  const Run* from = training == nullptr ? nullptr : runOf(*training);
  QString next;
  if (m_ahead && from != nullptr && from->trace->text() && !m_modelRuns.runStatus().running) {
    const std::size_t end = std::min(training->record->checkpoints.size(), training->wanted + 1 + roomForRuns());
    for (std::size_t place = training->wanted + 1; place < end && next.isEmpty(); ++place) {
      if (!known(place) && !failed(place)) next = pathOf(training->record->checkpoints[place]);
    }
  }
  if (next == m_runningAhead) return;
  m_runningAhead = next;
  if (next.isEmpty()) return m_runner.cancel(this, kAhead);
  JobRunner::Request<Made> request = requestOf(*training, next, *from);
  request.priority = Priority::background;
  request.done = [this](const Made& made) {
    m_runningAhead.clear();
    m_bytes = made.bytes;
    m_free = made.free;
    keep(made.checkpoint, made.run);
    runAhead();
    emit changed();
  };
  request.failed = [this, next](const QString& /*message*/) {
    // Who chooses it is told why.
    m_runningAhead.clear();
    m_failedAhead += next;
    runAhead();
    emit changed();
  };
  m_runner.submit(this, kAhead, std::move(request));
}

void Trainings::receive(const Made& made) {
  m_running.clear();
  m_bytes = made.bytes;
  m_free = made.free;
  for (const std::string& note : made.notes) {
    tell(Message::Kind::note, made.run.name + ": " + QString::fromStdString(note));
  }
  keep(made.checkpoint, made.run);
  proceed();
}

}  // namespace foxscope::gui

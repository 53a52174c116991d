// How a document makes runs, and saves them.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stop_token>
#include <utility>

#include <QFileInfo>

#include "app/gui/document/document.h"
#include "backend/base/sha256.h"
#include "backend/file/run_file.h"
#include "backend/model/session/run.h"

namespace foxscope::gui {
namespace {

/// More is asked about; as much in a file is announced by the command line.
constexpr double kUnasked = 4e9;
/// Of the free memory; the rest is for pictures, other programs, what the estimate does not know.
constexpr double kUnaskedShare = 0.8;

/// Nothing where nobody need be asked: it is little, or more than there is, which run_model refuses with the figure.
/// Traces of all runs are there together, the rest is one run's at a time.
std::optional<MemoryQuestion> questionOf(const std::vector<RunEstimate>& estimates, TokenCount count) {
  MemoryQuestion question;
  question.free = std::numeric_limits<double>::max();
  double fixed = 0;
  double perToken = 0;
  bool fits = true;
  for (const RunEstimate& estimate : estimates) {
    const RunMemory& host = estimate.needs.host;
    const auto tokens = static_cast<double>(estimate.tokens);
    question.tokens = std::max(question.tokens, estimate.tokens);
    question.free = std::min(question.free, static_cast<double>(estimate.free.host));
    fixed = std::max(fixed, static_cast<double>(host.fixed));
    perToken += static_cast<double>(host.per_token + host.stored_per_token);
    question.needed += static_cast<double>(host.per_token + host.stored_per_token) * tokens;
    fits = fits && static_cast<double>(host.fixed) + static_cast<double>(host.per_token) * tokens <=
                       static_cast<double>(estimate.free.host);
  }
  question.needed += fixed;
  const double unasked = std::min(kUnasked, kUnaskedShare * question.free);
  if (question.needed <= unasked || (!fits && count == TokenCount::exact)) return std::nullopt;
  constexpr double kRound = 1000;
  question.fewer = static_cast<std::int64_t>(std::max(0.0, std::floor((unasked - fixed) / perToken / kRound) * kRound));
  return question;
}

}  // namespace

ModelRequest RunSettings::requestOf(const QString& name, const QString& model) const {
  ModelRequest wanted;
  wanted.name = name.toStdString();
  wanted.model = model.toStdString();
  wanted.device = device;
  wanted.dtype = dtype;
  return wanted;
}

struct Document::Produced {
  ModelInput model;
  TellingHead telling;
  RunResult result;
};

QString Document::runObstacle() const {
  if (m_status.running) return tr("A run is being made: wait for it, or cancel it");
  if (m_models.empty()) {
    return m_runs.empty() ? tr("No model yet: open a checkpoint folder (Ctrl+O), or a run file (Ctrl+Alt+O)")
                          : tr("No model yet: open a checkpoint folder (Ctrl+O)");
  }
  return m_text.empty() ? tr("No text yet: open one (Ctrl+Shift+O), or type or paste it") : QString();
}

QString Document::noRunText() const {
  const QString obstacle = runObstacle();
  return obstacle.isEmpty() ? tr("No run yet: press F5") : obstacle;
}

void Document::startRun() {
  if (m_status.running) return;
  if (!canRun()) return tell(Message::Kind::warning, runObstacle());
  m_queueOfSession = false;
  run(m_models, m_text.file, enteredText(), m_settings.limit);
}

std::shared_ptr<const Text> Document::enteredText() const {
  return std::make_shared<const Text>(Text{m_text.content, sha256(m_text.content)});
}

QString Document::obstacleTo(const Run& run, const QString& doing) {
  if (run.model.isEmpty()) {
    return tr("%1 comes from a file, and %2 needs its model: open the checkpoint folder (Ctrl+O), the text, and "
              "press F5 first")
        .arg(run.name, doing);
  }
  return run.trace->text() ? QString() : tr("%1 was run without a text").arg(run.name);
}

const Run* Document::runToRepeat(RunId id, const QString& obstacle) {
  const QString why = run(id) == nullptr ? noRunText() : m_status.running ? runObstacle() : obstacle;
  if (why.isEmpty()) return run(id);
  tell(Message::Kind::warning, why);
  return nullptr;
}

QString Document::saliencyObstacle(RunId id) const {
  const Run* from = run(id);
  if (from == nullptr) return {};
  const TraceInfo& info = from->trace->info();
  const bool mixed = std::ranges::any_of(info.mixers, &LayerMixer::has_softmax);
  for (int layer = 0; layer < info.layers; ++layer) {
    const LayerMixer& own = info.mixer(layer);
    if (own.has_softmax() || (!mixed && own.decays_by_head())) continue;
    const QString mixer = QString::fromLatin1(to_string(own.mixer)).replace('_', ' ');
    return tr("%1 has layers of %2: what a loss owes to gates is computed where all layers are attention, or decay as "
              "a "
              "whole head")
        .arg(from->name, mixer);
  }
  return obstacleTo(*from, tr("its saliency"));
}

ModelInput Document::inputOf(const Run& run) const {
  const auto made =
      std::find_if(m_models.begin(), m_models.end(), [&](const ModelInput& model) { return run.isOf(model); });
  return made != m_models.end() ? *made : ModelInput{run.plainName(), run.model, {}, {}, run.look};
}

void Document::startSaliency(RunId id, std::optional<Range> target) {
  const Run* from = runToRepeat(id, saliencyObstacle(id));
  if (from == nullptr) return;
  const std::int64_t length = from->trace->info().length;
  if (target && (target->begin < 0 || target->size() < 1 || target->end > length)) {
    return tell(Message::Kind::warning, tr("%1 did not read these positions").arg(from->name));
  }
  m_queueOfSession = false;
  run({inputOf(*from)}, from->textFile, from->trace->text(), length, SaliencyWish{target});
}

void Document::startDerivedRun(RunId base, const QStringList& interventions) {
  const Run* changed = run(base);
  const Run* from = runToRepeat(base, changed == nullptr ? QString() : obstacleTo(*changed, tr("changing it")));
  if (from == nullptr || interventions.isEmpty()) return;
  const ModelInput before = inputOf(*from);
  QString name = before.name;
  for (QString part : interventions) {
    name += QLatin1Char('.') + part.replace('*', QStringLiteral("all")).replace(':', '-').remove('=').remove('@');
  }
  const ModelInput derived{freeModelName(name), from->model, before.interventions + interventions, before.name,
                           lookOfChanged(before, interventions)};
  m_models.push_back(derived);
  emit inputsChanged();
  m_queueOfSession = false;
  run({derived}, from->textFile, from->trace->text(), from->trace->info().length);
}

void Document::run(std::vector<ModelInput> models, const QString& file, std::shared_ptr<const Text> text,
                   std::int64_t limit, std::optional<SaliencyWish> saliency) {
  m_saliency = saliency;
  m_queue = std::move(models);
  m_readFile = file;
  m_readLimit = limit;
  m_readText = std::move(text);
  m_status = {};
  m_status.running = true;
  m_status.count = static_cast<int>(m_queue.size());
  estimateMemory();
}

void Document::estimateMemory() {
  m_memoryAsked = false;
  m_status.model = shownName(m_queue.front());
  m_status.stage = tr("estimating memory");
  m_status.fraction = -1;
  m_status.secondsLeft = -1;
  emit runStatusChanged();
  std::vector<ModelRequest> wanted;
  for (const ModelInput& model : m_queue) wanted.push_back(m_settings.requestOf(model.name, model.path));
  using Question = std::optional<MemoryQuestion>;
  JobRunner::Request<Question> request;
  request.work = [engine = *m_engine, wanted, run = requestOfRun()](const Job& job) -> std::optional<Question> {
    Question question;
    std::vector<OpenedModel> models;
    models.reserve(wanted.size());
    for (const ModelRequest& model : wanted) models.push_back(engine.open(model));
    // Cutting a text into tokens takes its time, and most texts are short.
    for (const TokenCount count : {TokenCount::at_most, TokenCount::exact}) {
      std::vector<RunEstimate> estimates;
      for (const OpenedModel& model : models) {
        const auto estimate = estimate_run(model, run, count, job);
        if (!estimate) return std::nullopt;
        estimates.push_back(*estimate);
      }
      question = questionOf(estimates, count);
      if (!question) break;
    }
    return std::optional<Question>(std::in_place, question);
  };
  request.done = [this](const Question& question) {
    if (!question) return runNext();
    endRun();
    m_memoryAsked = true;
    emit memoryAsked(*question);
  };
  // What is wrong with a model is told when its turn comes, after the results of those before it.
  request.failed = [this](const QString& /*message*/) { runNext(); };
  m_runner.submit(this, kRun, std::move(request));
}

void Document::runAnyway() {
  if (!std::exchange(m_memoryAsked, false)) return;
  m_status.running = true;
  m_status.count = static_cast<int>(m_queue.size());
  runNext();
}

void Document::runFewer(std::int64_t tokens) {
  if (!m_memoryAsked || tokens < 1) return;
  m_readLimit = tokens;
  RunSettings settings = m_settings;
  settings.limit = tokens;
  setSettings(settings);
  runAnyway();
}

RunRequest Document::requestOfRun() const {
  RunRequest wanted;
  wanted.input.text = m_readText;
  wanted.input.name = m_readFile.isEmpty() ? "the text" : m_readFile.toStdString();
  if (m_readLimit > 0) wanted.limit = m_readLimit;
  wanted.keep = {Keep::loss, Keep::gates, Keep::rows};
  if (m_settings.keepQueryKey) wanted.keep.insert(Keep::query_key);
  if (m_saliency) {
    wanted.keep.insert(Keep::saliency);
    wanted.saliency = m_saliency->target;
  }
  return wanted;
}

void Document::runNext() {
  const ModelInput& model = m_queue[static_cast<std::size_t>(m_status.index)];
  m_status.model = shownName(model);
  m_status.stage = tr("starting");
  m_status.fraction = -1;
  m_status.secondsLeft = -1;
  emit runStatusChanged();

  JobRunner::Request<Produced> request;
  request.work = [engine = *m_engine, wanted = m_settings.requestOf(model.name, model.path), run = requestOfRun(),
                  model](const Job& job) mutable -> std::optional<Produced> {
    for (const QString& text : model.interventions) {
      wanted.interventions.push_back(Intervention::parse(text.toStdString()));
    }
    auto result = run_model(engine.open(wanted), run, job);
    if (!result) return std::nullopt;
    return Produced{model, tellingHead(*result->trace), std::move(*result)};
  };
  request.done = [this](const Produced& produced) { receiveRun(produced); };
  request.failed = [this](const QString& message) {
    tell(Message::Kind::error, message);
    endRun();
  };
  request.progress = [this](const JobProgress& progress) { showProgress(progress); };
  m_runner.submit(this, kRun, std::move(request));
}

void Document::showProgress(const JobProgress& progress) {
  if (!m_status.running) return;
  m_status.stage = progress.stage;
  m_status.fraction = progress.fraction;
  m_status.secondsLeft = m_stageClock.secondsLeft(progress.stage, progress.fraction);
  emit runStatusChanged();
}

void Document::receiveRun(const Produced& produced) {
  const RunResult& result = produced.result;
  Run made{++m_lastRun,
           QString::fromStdString(result.trace->info().name),
           result.trace,
           produced.model.path,
           {},
           result.report.forward_seconds,
           produced.model.base,
           produced.telling};
  made.textFile = m_readFile;
  made.ofSession = m_queueOfSession;
  for (const std::string& note : result.report.notes)
    tell(Message::Kind::note, made.name + ": " + QString::fromStdString(note));
  const auto model = std::find_if(m_models.begin(), m_models.end(), [&](const ModelInput& m) { return made.isOf(m); });
  made.look = model != m_models.end() ? model->look : produced.model.look;
  std::vector<Run> runs = m_runs;
  place(runs, made);
  sortAsInSession(runs);
  const HeadChoice telling{made.id, made.telling.layer, made.telling.head};
  takeRuns(std::move(runs));
  // What was asked for is shown, also where runs of files on another text are open.
  if (m_status.index == 0 && !m_queueOfSession && !isOnText(telling.run)) m_selection.setHead(telling);
  if (++m_status.index < m_status.count) {
    runNext();
  } else {
    endRun();
  }
}

void Document::cancelRun() {
  m_memoryAsked = false;
  if (!m_status.running) return;
  m_runner.cancel(this, kRun);
  endRun();
}

void Document::endRun() {
  m_status = {};
  emit runStatusChanged();
  emit inputsChanged();
}

double StageClock::secondsLeft(const QString& stage, double fraction) {
  constexpr double kMilliseconds = 1000;
  if (!m_time.isValid() || stage != m_stage) {
    m_stage = stage;
    m_time.start();
  }
  return fraction > 0 ? static_cast<double>(m_time.elapsed()) / kMilliseconds * (1 - fraction) / fraction : -1;
}

struct Document::Export {
  int channel = 0;
  ExportStatus status;
  StageClock clock;
  std::stop_source stop;
};

void Document::writeFile(const QString& path, FileWork work, std::function<void()> written) {
  cancelExport(path);
  const auto made = std::make_shared<Export>();
  made->channel = m_exportChannel++;
  made->status.path = path;
  m_exports.push_back(made);
  const auto remove = [this, made] {
    std::erase(m_exports, made);
    emit exportsChanged();
  };
  const auto giveUp = [this, path](const Message& message) {
    tell(message.kind, message.text);
    emit notWritten(path);
  };
  JobRunner::Request<bool> request;
  // Stopped by its own Cancel it still answers, so that what is told is what is on the disk.
  request.work = [work = std::move(work), stop = made->stop](const Job& job) -> std::optional<bool> {
    std::stop_source own = stop;
    const std::stop_callback closing(job.stop, [&own] { own.request_stop(); });
    job.tell({0, 1, "files", "starting"});
    return work({own.get_token(), job.report, job.executor}).value_or(false);
  };
  request.progress = [this, made](const JobProgress& progress) {
    made->status.stage = made->stop.stop_requested() ? tr("cancelling") : progress.stage;
    made->status.fraction = progress.fraction;
    made->status.secondsLeft = made->clock.secondsLeft(progress.stage, progress.fraction);
    emit exportsChanged();
  };
  request.done = [this, path, remove, giveUp, written = std::move(written)](bool whole) {
    remove();
    if (!whole) return giveUp({Message::Kind::note, tr("Cancelled: %1 was not written").arg(path)});
    if (written) written();
    tell(Message::Kind::note, tr("Saved %1").arg(path));
  };
  request.failed = [remove, giveUp](const QString& message) {
    remove();
    giveUp({Message::Kind::error, message});
  };
  m_writer.submit(this, made->channel, std::move(request));
  emit exportsChanged();
}

std::vector<ExportStatus> Document::exports() const {
  std::vector<ExportStatus> list;
  for (const auto& each : m_exports) list.push_back(each->status);
  return list;
}

void Document::cancelExport(const QString& path) {
  const auto found = std::find_if(m_exports.begin(), m_exports.end(),
                                  [&](const std::shared_ptr<Export>& each) { return each->status.path == path; });
  if (found == m_exports.end()) return;
  const std::shared_ptr<Export> cancelled = *found;
  cancelled->stop.request_stop();
  if (found == m_exports.begin()) {
    cancelled->status.stage = tr("cancelling");
  } else {
    m_writer.cancel(this, cancelled->channel);
    m_exports.erase(found);
    tell(Message::Kind::note, tr("Cancelled: %1 was not written").arg(path));
    emit notWritten(path);
  }
  emit exportsChanged();
}

void Document::saveRunFile(const QString& path) {
  if (m_runs.empty()) return tell(Message::Kind::warning, noRunText());
  std::vector<RunId> ids;
  for (const Run& run : m_runs) {
    if (run.text == m_shownText) ids.push_back(run.id);
  }
  writeRuns(path, ids);
}

void Document::saveUnsavedRuns(const QString& path) {
  std::vector<RunId> ids;
  const auto lost = [](const Run& run) { return run.file.isEmpty() && !run.ofSession; };
  const auto first = std::find_if(m_runs.begin(), m_runs.end(), lost);
  for (const Run& run : m_runs) {
    if (run.file.isEmpty() && first != m_runs.end() && run.text == first->text) ids.push_back(run.id);
  }
  writeRuns(path, ids);
}

void Document::writeRuns(const QString& path, const std::vector<RunId>& ids) {
  std::vector<std::shared_ptr<const Trace>> traces;
  std::vector<RunId> written;
  QStringList left;
  // Those that are in no file first: of two with one name, the other one is in its own file already.
  for (const bool unsaved : {true, false}) {
    for (const RunId id : ids) {
      const Run& run = *this->run(id);
      if (run.file.isEmpty() != unsaved) continue;
      const auto taken = [&](const auto& trace) { return trace->info().name == run.trace->info().name; };
      if (std::any_of(traces.begin(), traces.end(), taken)) {
        left += run.name;
        continue;
      }
      traces.push_back(run.trace);
      written.push_back(id);
    }
  }
  for (const Run& run : m_runs) {
    const bool otherText = !written.empty() && run.text != this->run(written.front())->text;
    if (otherText && run.file.isEmpty()) left += run.name;
  }
  const auto work = [traces, file = path.toStdString()](const Job& job) -> std::optional<bool> {
    if (!write_run_file(file, traces, {"foxscope", ""}, Overwrite::force, job)) return std::nullopt;
    return true;
  };
  writeFile(path, work, [this, path, written, left] {
    for (Run& run : m_runs) {
      // Runs that came while it was written are not in it.
      const bool isWritten = std::find(written.begin(), written.end(), run.id) != written.end();
      if (isWritten && (run.file.isEmpty() || !run.model.isEmpty())) run.file = path;
    }
    if (!left.isEmpty()) {
      tell(Message::Kind::note, tr("%1 is without %2: a run file holds runs on one text, each with a name of its own")
                                    .arg(QFileInfo(path).fileName(), left.join(QStringLiteral(", "))));
    }
    emit pathOpened(path);
  });
}

}  // namespace foxscope::gui

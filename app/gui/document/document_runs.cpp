// How a document makes runs, and saves them.
#include <algorithm>

#include "app/gui/document/document.h"
#include "backend/base/sha256.h"
#include "backend/file/run_file.h"
#include "backend/model/run.h"

namespace foxscope::gui {
namespace {

bool sameText(const Trace& a, const Trace& b) {
  if (a.text() && b.text()) return a.text()->sha256 == b.text()->sha256;
  return !a.text() && !b.text() && a.tokens()->id == b.tokens()->id;
}

}  // namespace

struct Document::Produced {
  ModelInput model;
  TellingHead telling;
  RunResult result;
};

void Document::startRun() {
  if (m_status.running) return;
  if (m_models.empty()) return tell(Message::Kind::warning, tr("No model yet: open a checkpoint folder (Ctrl+O)"));
  if (m_text.empty())
    return tell(Message::Kind::warning, tr("No text yet: open one (Ctrl+Shift+O), or type or paste it"));
  run(m_models, m_text, m_settings.limit);
}

void Document::startDerivedRun(RunId base, const QStringList& interventions) {
  if (m_status.running) return tell(Message::Kind::warning, tr("A run is being made: wait for it, or cancel it"));
  const Run* from = run(base);
  if (from == nullptr || interventions.isEmpty()) return;
  if (from->model.isEmpty()) {
    return tell(Message::Kind::warning,
                tr("%1 comes from a file, and changing it needs its model: open the checkpoint folder (Ctrl+O), the "
                   "text, and press F5 first")
                    .arg(from->name));
  }
  if (!from->trace->text()) return tell(Message::Kind::warning, tr("%1 was run without a text").arg(from->name));
  const auto made =
      std::find_if(m_models.begin(), m_models.end(), [&](const ModelInput& model) { return model.name == from->name; });
  QStringList all = made == m_models.end() ? QStringList() : made->interventions;
  all += interventions;
  QString name = from->name;
  for (QString part : interventions) {
    name += QLatin1Char('.') + part.replace('*', QStringLiteral("all")).replace(':', '-').remove('=').remove('@');
  }
  const ModelInput derived{freeModelName(name), from->model, all, from->name};
  m_models.push_back(derived);
  emit inputsChanged();
  run({derived}, {{}, from->trace->text()->content}, from->trace->info().length);
}

void Document::run(std::vector<ModelInput> models, TextInput text, std::int64_t limit) {
  m_queue = std::move(models);
  m_readFile = text.file;
  m_readLimit = limit;
  const std::string identity = sha256(text.content);
  m_readText = std::make_shared<const Text>(Text{std::move(text.content), identity});
  m_status = {};
  m_status.running = true;
  m_status.count = static_cast<int>(m_queue.size());
  runNext();
}

void Document::runNext() {
  const ModelInput& model = m_queue[static_cast<std::size_t>(m_status.index)];
  RunRequest wanted;
  wanted.name = model.name.toStdString();
  wanted.model = model.path.toStdString();
  wanted.input.text = m_readText;
  wanted.input.name = m_readFile.isEmpty() ? "the text" : m_readFile.toStdString();
  wanted.limit = m_readLimit;
  wanted.device = m_settings.device.toStdString();
  wanted.dtype = m_settings.dtype.toStdString();
  wanted.keep = {Keep::loss, Keep::gates, Keep::rows};
  if (m_settings.keepQueryKey) wanted.keep.insert(Keep::query_key);
  m_status.model = model.name;
  m_status.stage = tr("starting");
  m_status.fraction = -1;
  m_status.secondsLeft = -1;
  emit runStatusChanged();

  JobRunner::Request<Produced> request;
  request.work = [wanted, model](const Job& job) -> std::optional<Produced> {
    RunRequest changed = wanted;
    for (const QString& text : model.interventions) {
      changed.interventions.push_back(Intervention::parse(text.toStdString()));
    }
    auto result = run_model(changed, job);
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
  constexpr double kMilliseconds = 1000;
  if (progress.stage != m_status.stage) {
    m_status.stage = progress.stage;
    m_stageTime.start();
  }
  m_status.fraction = progress.fraction;
  const double elapsed = static_cast<double>(m_stageTime.elapsed()) / kMilliseconds;
  m_status.secondsLeft = m_status.fraction > 0 ? elapsed * (1 - m_status.fraction) / m_status.fraction : -1;
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
  for (const std::string& note : result.report.notes)
    tell(Message::Kind::note, made.name + ": " + QString::fromStdString(note));
  std::vector<Run> runs;
  for (const Run& run : m_runs) {
    const bool stays = sameText(*run.trace, *result.trace) && run.name != made.name;
    if (stays) runs.push_back(run);
  }
  // The runs stand in the order of the models that made them, those of files first.
  const auto place = [this](const Run& run) {
    const auto model =
        std::find_if(m_models.begin(), m_models.end(), [&](const ModelInput& input) { return input.name == run.name; });
    return model == m_models.end() ? -1 : model - m_models.begin();
  };
  runs.push_back(made);
  std::stable_sort(runs.begin(), runs.end(), [&](const Run& a, const Run& b) { return place(a) < place(b); });
  takeRuns(std::move(runs));
  if (++m_status.index < m_status.count) {
    runNext();
  } else {
    endRun();
  }
}

void Document::cancelRun() {
  if (!m_status.running) return;
  m_runner.cancel(this, kRun);
  endRun();
}

void Document::endRun() {
  m_status = {};
  emit runStatusChanged();
  emit inputsChanged();
}

void Document::saveRunFile(const QString& path) {
  if (m_runs.empty()) return tell(Message::Kind::warning, tr("There is no run to save yet: press F5"));
  std::vector<std::shared_ptr<const Trace>> traces;
  for (const Run& run : m_runs) traces.push_back(run.trace);
  JobRunner::Request<bool> request;
  request.priority = Priority::background;
  request.work = [traces, file = path.toStdString()](const Job& job) -> std::optional<bool> {
    if (!write_run_file(file, traces, {"foxscope", ""}, Overwrite::force, job)) return std::nullopt;
    return true;
  };
  request.done = [this, path](bool) {
    for (Run& run : m_runs) run.file = path;
    tell(Message::Kind::note, tr("Saved %1").arg(path));
    emit pathOpened(path);
  };
  request.failed = [this](const QString& message) { tell(Message::Kind::error, message); };
  m_runner.submit(this, kSaveRunFile, std::move(request));
}

}  // namespace foxscope::gui

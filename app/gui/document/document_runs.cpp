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
  QString model;
  RunResult result;
};

void Document::startRun() {
  if (m_status.running) return;
  if (m_models.empty()) return tell(Message::Kind::warning, tr("No model yet: open a checkpoint folder (Ctrl+O)"));
  if (m_text.empty())
    return tell(Message::Kind::warning, tr("No text yet: open one (Ctrl+Shift+O), or type or paste it"));
  m_readText = std::make_shared<const Text>(Text{m_text.content, sha256(m_text.content)});
  m_status = {};
  m_status.running = true;
  m_status.count = static_cast<int>(m_models.size());
  runNext();
}

void Document::runNext() {
  const ModelInput& model = m_models[static_cast<std::size_t>(m_status.index)];
  RunRequest wanted;
  wanted.name = model.name.toStdString();
  wanted.model = model.path.toStdString();
  wanted.input.text = m_readText;
  wanted.input.name = m_text.file.isEmpty() ? "the text" : m_text.file.toStdString();
  wanted.limit = m_settings.limit;
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
  request.work = [wanted, path = model.path](const Job& job) -> std::optional<Produced> {
    auto result = run_model(wanted, job);
    if (!result) return std::nullopt;
    return Produced{path, std::move(*result)};
  };
  request.done = [this](const Produced& produced) { receiveRun(produced); };
  request.failed = [this](const QString& message) {
    tell(Message::Kind::error, message);
    endRun();
  };
  request.progress = [this](const Progress& progress) {
    // Views of the stage's name end with the call, so it is copied here.
    const QString stage = QString::fromUtf8(progress.stage.data(), static_cast<qsizetype>(progress.stage.size()));
    const std::int64_t done = progress.done;
    const std::int64_t total = progress.total;
    QMetaObject::invokeMethod(
        this,
        [this, stage, done, total] {
          showProgress({done, total, {}, stage.toStdString()});
        },
        Qt::QueuedConnection);
  };
  m_runner.submit(this, kRun, std::move(request));
}

void Document::showProgress(const Progress& progress) {
  if (!m_status.running) return;
  constexpr double kMilliseconds = 1000;
  const QString stage = QString::fromUtf8(progress.stage.data(), static_cast<qsizetype>(progress.stage.size()));
  if (stage != m_status.stage) {
    m_status.stage = stage;
    m_stageTime.start();
  }
  m_status.fraction =
      progress.total > 0 ? static_cast<double>(progress.done) / static_cast<double>(progress.total) : -1;
  const double elapsed = static_cast<double>(m_stageTime.elapsed()) / kMilliseconds;
  m_status.secondsLeft = m_status.fraction > 0 ? elapsed * (1 - m_status.fraction) / m_status.fraction : -1;
  emit runStatusChanged();
}

void Document::receiveRun(const Produced& produced) {
  const RunResult& result = produced.result;
  Run made{++m_lastRun,  QString::fromStdString(result.trace->info().name),
           result.trace, produced.model,
           {},           result.report.forward_seconds};
  for (const std::string& note : result.report.notes)
    tell(Message::Kind::note, made.name + ": " + QString::fromStdString(note));
  std::vector<Run> runs;
  for (const Run& run : m_runs) {
    const bool stays = sameText(*run.trace, *result.trace) && run.name != made.name;
    if (stays) runs.push_back(run);
  }
  // The runs stand in the order of the models that made them.
  runs.insert(runs.begin() + std::min<std::ptrdiff_t>(m_status.index, static_cast<std::ptrdiff_t>(runs.size())), made);
  takeRuns(std::move(runs));
  if (++m_status.index < m_status.count && m_status.index < static_cast<int>(m_models.size())) {
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

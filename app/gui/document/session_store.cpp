#include "app/gui/document/session_store.h"

#include <algorithm>
#include <utility>

#include <QDir>
#include <QFileInfo>
#include <QLoggingCategory>

#include "app/gui/document/evaluation_list.h"
#include "app/gui/document/opened_path.h"
#include "app/gui/document/runs/model_runs.h"
#include "app/gui/document/runs/run_list.h"
#include "app/gui/document/session.h"

namespace foxscope::gui {
namespace {

Q_LOGGING_CATEGORY(sessionLog, "foxscope.session", QtWarningMsg)

}  // namespace

SessionStore::SessionStore(RunList& runs, ModelRuns& models, EvaluationList& evaluations, QObject* parent)
    : QObject(parent), m_runs(runs), m_models(models), m_evaluations(evaluations) {}

Unsaved SessionStore::unsaved() const {
  Unsaved unsaved;
  const TextInput& entered = m_models.text();
  bool kept = entered.empty() || !entered.file.isEmpty() || entered.content == m_keptText;
  for (const Run& run : m_runs) {
    if (run.file.isEmpty() && !run.ofSession) unsaved.runs += run.name;
    const auto& text = run.trace->text();
    kept = kept || (!run.file.isEmpty() && text && is_read_of(*text, entered.content));
  }
  unsaved.text = !kept;
  return unsaved;
}

void SessionStore::forget() {
  waitForNoText();
  m_file.clear();
  m_keptText.clear();
}

bool SessionStore::isThere(const QString& session, const QString& what, const QString& path) {
  if (QFileInfo::exists(path)) return true;
  qCDebug(sessionLog).noquote() << session << "skips the" << what << path << "which is not there";
  emit fileMissing(what, path);
  return false;
}

void SessionStore::replace(const QString& path, const OpenedSession& opened) {
  const Session session = Session::fromJson(opened.session, QFileInfo(path).absolutePath());
  for (const QString& note : opened.notes) tell(Message::Kind::note, note);
  m_models.cancelRun();
  waitForNoText();
  m_file = path;
  m_keptText = session.text.content;
  std::vector<ModelInput> models;
  QStringList existing;
  for (const ModelInput& model : session.models) {
    const bool hubId = !QDir::isAbsolutePath(model.path);
    if (hubId || isThere(path, tr("checkpoint"), model.path)) models.push_back(model);
  }
  const TextInput& text = session.text;
  if (!text.file.isEmpty() && text.content.empty() && isThere(path, tr("text"), text.file)) existing += text.file;
  for (const QString& file : session.runFiles) {
    if (isThere(path, tr("run file"), file)) existing += file;
  }
  qCDebug(sessionLog).noquote() << path << "restores" << models.size() << "models," << existing.size() << "files, views"
                                << session.window.keys().join(QStringLiteral(", "));
  for (const QString& file : session.evaluations) {
    if (isThere(path, tr("evaluation"), file)) existing += file;
  }
  m_models.restore(text, session.settings);
  m_evaluations.clear();
  m_runs.replace(models, session.runs, session.selection);
  emit sessionOpened(session.window);
  m_evaluations.expect(session.evaluations);
  emit filesWanted(existing);
  emit pathOpened(path);
  // Runs that were in no file are made again, once the text is there; older sessions do not name them.
  for (const ModelInput& model : m_runs.models()) {
    const auto made = [&](const SessionRun& run) { return run.file.isEmpty() && run.model == model.name; };
    const bool wanted = std::any_of(session.runs.begin(), session.runs.end(), made);
    if (wanted || (session.runs.empty() && session.runFiles.isEmpty())) m_wantedModels.push_back(model);
  }
  if (m_wantedModels.empty()) return;
  if (m_models.canRun()) {
    runWantedModels();
  } else if (existing.contains(text.file)) {
    m_runWhenRead = QFileInfo(text.file).absoluteFilePath();
  }
}

void SessionStore::runWantedModels() { m_models.startSessionRun(std::exchange(m_wantedModels, {})); }

bool SessionStore::endWaiting(const QString& path) {
  if (path != m_runWhenRead) return false;
  m_runWhenRead.clear();
  return true;
}

void SessionStore::giveUpWaiting(const QString& path) {
  if (path == m_runWhenRead) waitForNoText();
}

void SessionStore::waitForNoText() {
  m_runWhenRead.clear();
  m_wantedModels.clear();
}

void SessionStore::save(const QString& path, const QJsonObject& windowState) {
  Session session;
  session.models = m_runs.models();
  session.text = m_models.text();
  session.settings = m_models.settings();
  for (const Evaluation& evaluation : m_evaluations) session.evaluations += evaluation.path;
  for (const Run& run : m_runs) {
    if (!run.file.isEmpty() && !session.runFiles.contains(run.file)) session.runFiles += run.file;
    session.runs.push_back({run.file, run.plainName(), run.look});
  }
  session.selection = m_runs.selectionState().toJson();
  session.window = windowState;
  JobRunner::Request<bool> request;
  request.work = [session, path](const Job&) {
    session.write(path);
    return std::optional<bool>(true);
  };
  request.done = [this, path, remade = remadeRuns(),
                  kept = session.text.file.isEmpty() ? session.text.content : std::string()](bool) {
    m_file = path;
    m_keptText = kept;
    m_runs.setOfSession(remade);
    tell(Message::Kind::note, tr("Saved %1").arg(path));
    emit pathOpened(path);
  };
  request.failed = [this](const QString& message) { tell(Message::Kind::error, message); };
  m_runs.jobs().submit(this, kSave, std::move(request));
}

// Opening a session makes again what its models made of its text.
std::vector<RunId> SessionStore::remadeRuns() const {
  std::vector<RunId> remade;
  const std::int64_t limit = m_models.settings().limit;
  for (const Run& run : m_runs) {
    const auto& text = run.trace->text();
    const bool whole = limit == 0 || limit == run.trace->info().length;
    const bool has = std::ranges::any_of(m_runs.models(), [&run](const ModelInput& model) { return run.isOf(model); });
    const bool more = run.trace->has(TraceArray::log_forget_gradient);
    if (text && is_read_of(*text, m_models.text().content) && whole && has && !more) remade.push_back(run.id);
  }
  return remade;
}

void SessionStore::tell(Message::Kind kind, const QString& text) { emit messageRaised({kind, text}); }

}  // namespace foxscope::gui

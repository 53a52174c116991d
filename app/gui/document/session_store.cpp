#include "app/gui/document/session_store.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <QDir>
#include <QFile>
#include <QFileInfo>
#include <QJsonDocument>
#include <QLoggingCategory>

#include "app/gui/document/evaluation_list.h"
#include "app/gui/document/file_writer.h"
#include "app/gui/document/opened_path.h"
#include "app/gui/document/remote/remote_place.h"
#include "app/gui/document/runs/model_runs.h"
#include "app/gui/document/runs/run_list.h"
#include "app/gui/document/session.h"
#include "backend/base/error.h"
#include "backend/file/run_file.h"

namespace foxscope::gui {
namespace {

Q_LOGGING_CATEGORY(sessionLog, "foxscope.session", QtWarningMsg)

QString secondsText(double seconds) {
  if (seconds < 60) return SessionStore::tr("%1 s").arg(seconds, 0, 'f', seconds < 10 ? 1 : 0);
  return SessionStore::tr("%1 min").arg(std::lround(seconds / 60));
}

/// A path as Document::open calls it.
QString wholePath(const QString& path) { return isRemote(path) ? path : QFileInfo(path).absoluteFilePath(); }

/// Files that the session at a path keeps of runs in its folder; none where there is no session yet.
QSet<QString> filesKeptBy(const QString& path) {
  QFile file(path);
  if (!file.open(QIODevice::ReadOnly)) return {};
  QSet<QString> kept;
  try {
    const Session session =
        Session::fromJson(QJsonDocument::fromJson(file.readAll()).object(), QFileInfo(path).absolutePath());
    for (const SessionRun& run : session.runs) {
      if (QFileInfo(run.kept).path() == runsFolderOf(path)) kept.insert(run.kept);
    }
  } catch (const Error& error) {
    qCDebug(sessionLog).noquote() << path << "is replaced, and cannot be read:" << error.what();
  }
  return kept;
}

/// Writes a session, then removes what the one before kept of runs that are gone: until the session is there, the one
/// before can be opened. What else lies in the folder is the user's.
/// @param spared  files that stay in any case
void writeSession(const Session& session, const QString& path, const QSet<QString>& spared) {
  QSet<QString> gone = filesKeptBy(path) - spared;
  session.write(path);
  for (const SessionRun& run : session.runs) {
    gone.remove(run.kept);
    gone.remove(run.file);
  }
  for (const QString& file : gone) QFile::remove(file);
  if (!gone.isEmpty()) QDir().rmdir(runsFolderOf(path));  // if it is empty
}

}  // namespace

QString runsFolderOf(const QString& session) {
  const QFileInfo file(session);
  return file.dir().absoluteFilePath(file.completeBaseName() + kRunsFolder);
}

std::uint64_t bytesOfRun(const Trace& trace) {
  const TraceInfo& info = trace.info();
  std::uint64_t bytes = 0;
  for (const ArraySpec& spec : kTraceArrays) {
    bool any = false;
    for (int index = 0; index < count_of(spec, info.layers) && !any; ++index) any = trace.has(spec.array, index);
    if (any) bytes += bytes_of(spec, info, info.dtype);
  }
  return bytes;
}

SessionStore::SessionStore(RunList& runs, ModelRuns& models, EvaluationList& evaluations, QObject* parent)
    : QObject(parent), m_runs(runs), m_models(models), m_evaluations(evaluations) {}

Unsaved SessionStore::unsaved() const {
  Unsaved unsaved;
  const TextInput& entered = m_models.text();
  bool kept = entered.empty() || !entered.file.isEmpty() || entered.content == m_keptText;
  for (const Run& run : m_runs) {
    if (run.file.isEmpty() && (!run.ofSession || run.saliencyLost)) {
      unsaved.runs += run.name;
      QString part = (run.saliencyLost ? tr("the saliency of %1") : tr("the run %1")).arg(run.name);
      if (run.forwardSeconds > 0) part += tr(", %1 to compute").arg(secondsText(run.forwardSeconds));
      unsaved.parts += part;
    }
    const auto& text = run.trace->text();
    kept = kept || (!run.file.isEmpty() && text && is_read_of(*text, entered.content));
  }
  unsaved.text = !kept;
  return unsaved;
}

bool SessionStore::awaitsText(const QString& path) const {
  return m_models.text().empty() && m_models.text().file == path;
}

void SessionStore::forget() {
  waitForNoText();
  m_file.clear();
  m_withRuns = false;
  m_keptText.clear();
}

bool SessionStore::isThere(const QString& session, const QString& what, const QString& path) {
  if (isRemote(path) || QFileInfo::exists(path)) return true;  // of a machine, whoever opens it says so
  qCDebug(sessionLog).noquote() << session << "skips the" << what << path << "which is not there";
  emit fileMissing(what, path);
  return false;
}

void SessionStore::replace(const QString& path, const OpenedSession& opened) {
  const Session session = Session::fromJson(opened.session, QFileInfo(path).absolutePath());
  for (const QString& note : opened.notes) tell(Message::Kind::note, note);
  m_models.cancelRun();
  waitForNoText();
  // A session that a window kept by itself is in no file of the user's.
  m_file = session.autosave ? session.autosave->session : path;
  m_withRuns = session.withRuns;
  m_keptText = session.autosave ? std::string() : session.text.content;
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
  for (const SessionRun& run : session.runs) {
    if (!run.kept.isEmpty() && isThere(path, tr("run file"), run.kept)) existing += run.kept;
  }
  qCDebug(sessionLog).noquote() << path << "restores" << models.size() << "models," << existing.size() << "files, views"
                                << session.window.keys().join(QStringLiteral(", "));
  for (const QString& file : session.evaluations) {
    if (isThere(path, tr("evaluation"), file)) existing += file;
  }
  m_coming.clear();
  m_unread.clear();
  for (const QString& file : existing) m_coming.insert(wholePath(file));
  m_models.restore(text, session.settings);
  m_evaluations.clear();
  m_runs.replace(models, session.runs, session.selection);
  emit sessionOpened(session.window);
  m_evaluations.expect(session.evaluations);
  emit filesWanted(existing);
  if (session.autosave) {
    emit leftOpened(path);
    return;  // nothing is computed that nobody asked for: what was not kept waits for F5
  }
  emit pathOpened(path);
  // Runs that are in no file are made again, once the text is there; older sessions do not name them.
  for (const ModelInput& model : m_runs.models()) {
    const auto made = [&](const SessionRun& run) {
      return run.file.isEmpty() && run.kept.isEmpty() && run.model == model.name;
    };
    const bool wanted = std::any_of(session.runs.begin(), session.runs.end(), made);
    if (wanted || (session.runs.empty() && session.runFiles.isEmpty())) m_wantedModels.push_back(model);
  }
  if (m_wantedModels.empty()) return;
  if (m_models.canRun()) {
    runWantedModels();
  } else if (existing.contains(text.file)) {
    m_runWhenRead = wholePath(text.file);
  }
}

void SessionStore::runWantedModels() { m_models.startSessionRun(std::exchange(m_wantedModels, {})); }

bool SessionStore::endWaiting(const QString& path) {
  m_coming.remove(path);
  if (path != m_runWhenRead) return false;
  m_runWhenRead.clear();
  return true;
}

void SessionStore::giveUpWaiting(const QString& path) {
  if (m_coming.remove(path)) m_unread.insert(path);
  if (path == m_runWhenRead) waitForNoText();
}

void SessionStore::waitForNoText() {
  m_runWhenRead.clear();
  m_wantedModels.clear();
}

Session SessionStore::session(const QJsonObject& windowState) const {
  Session session;
  session.models = m_runs.models();
  session.text = m_models.text();
  session.settings = m_models.settings();
  for (const Evaluation& evaluation : m_evaluations) session.evaluations += evaluation.path;
  for (const Run& run : m_runs) {
    if (!run.file.isEmpty() && !session.runFiles.contains(run.file)) session.runFiles += run.file;
    session.runs.push_back({run.file, run.plainName(), run.look});
    if (!run.file.isEmpty()) continue;
    SessionRun& kept = session.runs.back();
    kept.kept = run.kept;
    kept.path = run.model;
    kept.textFile = run.textFile;
    kept.textName = run.textName;
    kept.base = run.base;
    kept.seconds = run.forwardSeconds;
  }
  session.withRuns = carriesRuns();
  session.selection = m_runs.selectionToKeep().toJson();
  session.window = windowState;
  return session;
}

bool SessionStore::mayWrite() {
  if (isOpening()) tell(Message::Kind::warning, tr("The session is still being opened: save when its runs are there"));
  return !isOpening();
}

void SessionStore::save(const QString& path, const QJsonObject& windowState) {
  if (!mayWrite()) return;
  Session session = this->session(windowState);
  session.withRuns = false;
  std::vector<RunId> again;
  std::vector<RunId> notKept;
  std::size_t place = 0;
  for (const Run& run : m_runs) {
    QString& kept = session.runs[place++].kept;
    // A file that a window keeps by itself goes with the window. A run of the session's that nothing makes again stays
    // in it.
    const bool ofSession = !kept.isEmpty() && QFileInfo(kept).path() == runsFolderOf(path);
    if (ofSession && isRemade(run)) notKept.push_back(run.id);
    if (!ofSession || isRemade(run)) kept.clear();
    if (!kept.isEmpty() || isRemade(run)) again.push_back(run.id);
  }
  JobRunner::Request<bool> request;
  request.work = [session, path, unread = m_unread](const Job&) {
    writeSession(session, path, unread);
    return std::optional<bool>(true);
  };
  request.done = [this, path, session, again, notKept](bool) {
    for (const RunId run : notKept) m_runs.setKept(run, {});
    takeSaved(path, session, again);
    tell(Message::Kind::note, tr("Saved %1").arg(path));
    emit pathOpened(path);
  };
  request.failed = [this](const QString& message) { tell(Message::Kind::error, message); };
  m_runs.jobs().submit(this, kSave, std::move(request));
}

void SessionStore::takeSaved(const QString& path, const Session& saved, const std::vector<RunId>& ofSession) {
  m_file = path;
  m_withRuns = saved.withRuns;
  m_keptText = saved.text.file.isEmpty() ? saved.text.content : std::string();
  m_runs.setOfSession(ofSession);
}

void SessionStore::saveWithRuns(FileWriter& files, const QString& path, const QJsonObject& windowState) {
  if (!mayWrite()) return;
  struct Made {
    RunId id = kNoRun;
    std::size_t place = 0;  ///< in the session
    std::shared_ptr<const Trace> trace;
  };
  const auto session = std::make_shared<Session>(this->session(windowState));
  session->withRuns = true;
  std::vector<Made> made;
  std::size_t place = 0;
  for (const Run& run : m_runs) {
    if (run.file.isEmpty()) made.push_back({run.id, place, run.trace});
    ++place;
  }
  const auto work = [session, made, path, unread = m_unread](const Job& job) -> std::optional<bool> {
    const QDir folder(runsFolderOf(path));
    if (!made.empty() && !folder.mkpath(QStringLiteral("."))) {
      throw Error(
          tr("%1: cannot be made: check the folder, and that you may write to it").arg(folder.path()).toStdString());
    }
    for (const Made& run : made) {
      SessionRun& entry = session->runs[run.place];
      if (QFileInfo(entry.kept).path() == folder.path() && QFileInfo::exists(entry.kept)) continue;
      entry.kept = folder.filePath(entry.model + QStringLiteral(".h5"));
      const std::shared_ptr<const Trace> traces[] = {run.trace};
      if (!write_run_file(entry.kept.toStdString(), traces, {"foxscope", ""}, Overwrite::force, job))
        return std::nullopt;
    }
    writeSession(*session, path, unread);
    return true;
  };
  files.writeFile(path, work, [this, path, session, made] {
    std::vector<RunId> kept;
    for (const Made& run : made) {
      m_runs.setKept(run.id, session->runs[run.place].kept);
      kept.push_back(run.id);
    }
    takeSaved(path, *session, kept);
    emit pathOpened(path);
  });
}

// Opening a session makes again what its models made of its text.
bool SessionStore::isRemade(const Run& run) const {
  const std::int64_t limit = m_models.settings().limit;
  const auto& text = run.trace->text();
  const bool whole = limit == 0 || limit == run.trace->info().length;
  const bool has = std::ranges::any_of(m_runs.models(), [&run](const ModelInput& model) { return run.isOf(model); });
  return text && is_read_of(*text, m_models.text().content) && whole && has;
}

void SessionStore::tell(Message::Kind kind, const QString& text) { emit messageRaised({kind, text}); }

}  // namespace foxscope::gui

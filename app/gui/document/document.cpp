#include "app/gui/document/document.h"

#include <algorithm>
#include <cassert>
#include <stop_token>
#include <utility>

#include <QFileInfo>
#include <QThread>

#include "app/gui/document/opened_path.h"
#include "app/gui/document/remote/remote_place.h"
#include "app/gui/document/stage_clock.h"
#include "backend/agent/remote.h"
#include "backend/agent/remote_files.h"

namespace foxscope::gui {

struct Document::Opened {
  QString path;
  OpenedContent content;
  QString device = {};
  bool cancelled = false;
};

struct Document::Opening {
  ExportStatus status;
  StageClock clock;
  std::stop_source stop;
};

Document::Document(QObject* parent)
    : QObject(parent),
      m_modelRuns(m_runs),
      m_files(m_runs, m_modelRuns),
      m_sessions(m_runs, m_modelRuns, m_evaluations),
      m_opener(Threads::lent) {
  connect(&m_runs, &RunList::messageRaised, this, &Document::messageRaised);
  connect(&m_modelRuns, &ModelRuns::messageRaised, this, &Document::messageRaised);
  connect(&m_files, &FileWriter::messageRaised, this, &Document::messageRaised);
  connect(&m_sessions, &SessionStore::messageRaised, this, &Document::messageRaised);
  connect(&m_files, &FileWriter::pathWritten, this, &Document::pathOpened);
  connect(&m_sessions, &SessionStore::pathOpened, this, &Document::pathOpened);
  connect(&m_sessions, &SessionStore::filesWanted, this, [this](const QStringList& paths) { open(paths); });
  const auto whenIdle = [this] {
    if (!busy()) emit idle();
  };
  for (JobRunner* runner : {&m_runs.jobs(), &m_runs.quickJobs(), &m_opener})
    connect(runner, &JobRunner::idle, this, whenIdle);
  connect(&m_modelRuns, &ModelRuns::idle, this, whenIdle);
  connect(&m_files, &FileWriter::idle, this, whenIdle);
}

Document::~Document() = default;

bool Document::busy() const { return m_runs.busy() || m_modelRuns.busy() || m_files.busy() || m_opener.busy(); }

void Document::clear() {
  m_modelRuns.cancelRun();
  m_sessions.forget();
  RunSettings settings = m_modelRuns.settings();
  settings.limit = 0;  // that of the text before
  m_modelRuns.restore({}, settings);
  m_evaluations.clear();
  m_runs.clear();
}

void Document::open(const QStringList& paths, const QString& device) {
  for (const QString& given : paths) {
    const bool isPath = QFileInfo::exists(given);
    const QString path = isPath ? QFileInfo(given).absoluteFilePath() : given;
    m_machines.follow(path);
    const auto opening = std::make_shared<Opening>();
    opening->status.path = path;
    m_openings.push_back(opening);
    const auto remove = [this, opening] {
      std::erase(m_openings, opening);
      if (!opening->status.stage.isEmpty()) emit openingsChanged();
    };
    const auto giveUp = [this, path](Message::Kind kind, const QString& message) {
      m_sessions.giveUpWaiting(path);
      m_runs.giveUpKept(path);
      tell(kind, message);
    };
    JobRunner::Request<Opened> request;
    request.work = [path, check = m_check, kept = m_runs.keptIn(path),
                    stop = opening->stop](const Job& job) -> std::optional<Opened> {
      std::stop_source own = stop;
      const std::stop_callback closing(job.stop, [&own] { own.request_stop(); });
      const Job opens{own.get_token(), job.report, job.executor};
      const agent::AskingFor asking(opens.stop);
      if (isRemote(path)) opens.tell({0, 0, "", "connecting"});
      Opened opened{path, OpenedRunFile{}};
      try {
        opened.content = kept.isEmpty() ? openPath(path, opens, check) : openKeptRun(path, kept, opens, check);
      } catch (const agent::AskingStopped&) {
        // Then it is cancelled.
      }
      if (job.stopped()) return std::nullopt;
      opened.cancelled = opens.stopped();
      return opened;
    };
    request.progress = [this, opening](const JobProgress& progress) {
      opening->status.stage = opening->stop.stop_requested() ? tr("cancelling") : progress.stage;
      opening->status.fraction = progress.fraction;
      opening->status.secondsLeft = opening->clock.secondsLeft(progress.stage, progress.fraction);
      emit openingsChanged();
    };
    request.done = [this, path, device, remove, giveUp](Opened opened) {
      remove();
      opened.device = device;
      if (opened.cancelled) return giveUp(Message::Kind::note, tr("Cancelled: %1 was not opened").arg(path));
      receive(std::move(opened));
    };
    request.failed = [remove, giveUp](const QString& message) {
      remove();
      giveUp(Message::Kind::error, message);
    };
    m_opener.submit(this, m_openChannel++, std::move(request));
  }
}

void Document::openAgain(const QString& path) {
  JobRunner::Request<bool> request;
  request.work = [file = path.toStdString()](const Job&) {
    agent::file_facts(file);
    return std::optional(true);
  };
  request.done = [this, path](bool) {
    std::vector<RunId> runs;
    for (const Run& run : std::as_const(m_runs)) {
      if (run.file == path) runs.push_back(run.id);
    }
    for (const RunId id : runs) m_runs.removeRun(id);
    open({path});
  };
  request.failed = [this](const QString& message) { tell(Message::Kind::error, message); };
  m_machines.jobs(agent::parse_remote_path(path.toStdString()).host).submit(this, kLookAgain, std::move(request));
}

std::vector<ExportStatus> Document::openings() const {
  std::vector<ExportStatus> list;
  for (const auto& opening : m_openings) {
    if (!opening->status.stage.isEmpty()) list.push_back(opening->status);
  }
  return list;
}

void Document::cancelOpening(const QString& path) {
  for (const auto& opening : m_openings) {
    if (opening->status.path != path || opening->status.stage.isEmpty()) continue;
    opening->stop.request_stop();
    opening->status.stage = tr("cancelling");
  }
  emit openingsChanged();
}

void Document::receive(Opened opened) {
  assert(QThread::currentThread() == thread());
  const bool awaited = m_sessions.endWaiting(opened.path) && std::holds_alternative<OpenedText>(opened.content);
  if (std::holds_alternative<OpenedSession>(opened.content)) return receiveSession(opened);
  if (const auto* checkpoint = std::get_if<OpenedCheckpoint>(&opened.content)) {
    m_runs.addModel(opened.path, {}, {}, opened.device);
    for (const QString& note : checkpoint->notes) tell(Message::Kind::note, opened.path + ": " + note);
  } else if (const auto* training = std::get_if<OpenedTraining>(&opened.content)) {
    m_runs.addModel(training->checkpoint, {}, opened.path, opened.device);
  } else if (auto* text = std::get_if<OpenedText>(&opened.content)) {
    // A text of the user's own is read whole, whatever was read of the one before it.
    const bool ofSession = m_sessions.awaitsText(opened.path);
    m_modelRuns.setText({opened.path, std::move(text->content), text->ids},
                        ofSession ? std::nullopt : std::optional(0));
  } else if (const auto* sweep = std::get_if<OpenedSweep>(&opened.content)) {
    emit sweepOpened(*sweep);
  } else if (auto* evaluation = std::get_if<Evaluation>(&opened.content)) {
    m_evaluations.take(std::move(*evaluation));
  } else if (!receiveRunFile(opened)) {
    return;
  }
  emit pathOpened(opened.path);
  if (awaited) m_sessions.runWantedModels();
}

bool Document::receiveRunFile(const Opened& opened) {
  const auto& content = std::get<OpenedRunFile>(opened.content);
  const std::vector<Run> runs = m_runs.runsOfFile(opened.path, content);
  if (runs.empty()) return true;
  const bool kept = !runs.front().kept.isEmpty();
  const auto& text = content.file.traces.back()->text();
  if (text && !kept) m_modelRuns.followText(*text);
  m_runs.addOfFile(runs);
  return !kept;
}

void Document::receiveSession(const Opened& opened) {
  const auto replace = [this, path = opened.path, session = std::get<OpenedSession>(opened.content)] {
    m_sessions.replace(path, session);
  };
  m_guard ? m_guard(replace) : replace();
}

void Document::tell(Message::Kind kind, const QString& text) { emit messageRaised({kind, text}); }

}  // namespace foxscope::gui

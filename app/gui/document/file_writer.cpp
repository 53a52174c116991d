#include "app/gui/document/file_writer.h"

#include <algorithm>
#include <stop_token>
#include <utility>

#include <QFileInfo>

#include "app/gui/document/remote/remote_place.h"
#include "app/gui/document/runs/model_runs.h"
#include "app/gui/document/runs/run_list.h"
#include "app/gui/document/stage_clock.h"
#include "backend/agent/remote_files.h"
#include "backend/base/atomic_file.h"
#include "backend/file/run_file.h"

namespace foxscope::gui {

struct FileWriter::Export {
  int channel = 0;
  ExportStatus status;
  StageClock clock;
  std::stop_source stop;
};

FileWriter::FileWriter(RunList& runs, ModelRuns& models, QObject* parent)
    : QObject(parent), m_runs(runs), m_models(models), m_writer(Threads::lent, kBehindPictures) {
  connect(&m_writer, &JobRunner::idle, this, &FileWriter::idle);
}

FileWriter::~FileWriter() = default;

void FileWriter::writeFile(const QString& path, FileWork work, std::function<void()> written) {
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

std::vector<ExportStatus> FileWriter::exports() const {
  std::vector<ExportStatus> list;
  for (const auto& each : m_exports) list.push_back(each->status);
  return list;
}

void FileWriter::cancelExport(const QString& path) {
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

void FileWriter::saveRunFile(const QString& path) {
  if (m_runs.empty()) return tell(Message::Kind::warning, m_models.noRunText());
  std::vector<RunId> ids;
  for (const Run& run : m_runs) {
    if (m_runs.isOnText(run.id)) ids.push_back(run.id);
  }
  writeRuns(path, ids);
}

void FileWriter::saveUnsavedRuns(const QString& path) {
  std::vector<RunId> ids;
  const auto lost = [](const Run& run) { return run.file.isEmpty() && (!run.ofSession || run.saliencyLost); };
  const auto first = std::find_if(m_runs.begin(), m_runs.end(), lost);
  for (const Run& run : m_runs) {
    if (run.file.isEmpty() && first != m_runs.end() && run.text == first->text) ids.push_back(run.id);
  }
  writeRuns(path, ids);
}

void FileWriter::writeRuns(const QString& path, const std::vector<RunId>& ids) {
  std::vector<std::shared_ptr<const Trace>> traces;
  std::vector<RunId> written;
  QStringList left;
  // Runs that are in no file come first: of two with one name, the other one is in its own file already.
  for (const bool unsaved : {true, false}) {
    for (const RunId id : ids) {
      const Run& run = *m_runs.run(id);
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
    const bool otherText = !written.empty() && run.text != m_runs.run(written.front())->text;
    if (otherText && run.file.isEmpty()) left += run.name;
  }
  // A run that a model made on another machine has a file of its own there.
  const Run* only = written.size() == 1 ? m_runs.run(written.front()) : nullptr;
  const bool madeThere = only != nullptr && isRemote(only->file) && isRemote(only->model);
  const std::string there = madeThere ? only->file.toStdString() : std::string();
  if (isRemote(path) && !madeThere) {
    return tell(Message::Kind::error, tr("%1: only a run that was made there can stay there").arg(path));
  }
  const auto work = [traces, there, file = path.toStdString()](const Job& job) -> std::optional<bool> {
    if (!there.empty()) {
      const agent::RemotePath from = agent::parse_remote_path(there);
      const bool stays = agent::is_remote(file);
      const bool whole = stays ? agent::copy_there(from, agent::parse_remote_path(file).path, false, job)
                               : agent::fetch_file(from, file, true, job);
      return whole ? std::optional(true) : std::nullopt;
    }
    if (!write_run_file(file, traces, {"foxscope", ""}, Overwrite::force, job)) return std::nullopt;
    return true;
  };
  writeFile(path, work, [this, path, written, left] {
    // Runs that came while it was written are not in it.
    m_runs.setFile(written, path);
    if (!left.isEmpty()) {
      tell(Message::Kind::note, tr("%1 does not contain %2: a run file holds runs on one text, each under its own name")
                                    .arg(QFileInfo(path).fileName(), left.join(QStringLiteral(", "))));
    }
    emit pathWritten(path);
  });
}

void FileWriter::saveText(const QString& path) {
  const std::string& content = m_models.text().content;
  const auto work = [path, content](const Job& job) -> std::optional<bool> {
    AtomicFile file(path.toStdString(), true);
    file.write(content.data(), content.size());
    if (job.stopped()) return std::nullopt;
    file.commit();
    return true;
  };
  writeFile(path, work, [this, path, content] {
    m_models.setTextFile(path, content);
    emit pathWritten(path);
  });
}

void FileWriter::tell(Message::Kind kind, const QString& text) { emit messageRaised({kind, text}); }

}  // namespace foxscope::gui

#include "app/gui/document/autosave.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include <QBuffer>
#include <QDateTime>
#include <QDir>
#include <QFileInfo>
#include <QJsonDocument>
#include <QLocale>
#include <QSet>
#include <QUuid>

#include "app/gui/document/opened_path.h"
#include "app/gui/document/runs/model_runs.h"
#include "app/gui/document/runs/run_list.h"
#include "app/gui/document/session.h"
#include "app/gui/document/session_store.h"
#include "backend/base/atomic_file.h"
#include "backend/base/error.h"
#include "backend/file/run_file.h"
#include "backend/train/folder_lock.h"

namespace foxscope::gui {
namespace {

constexpr char kSession[] = "session.json";
constexpr char kDamaged[] = "damaged.json";
constexpr char kPicture[] = "picture.png";
constexpr qint64 kDamagedDays = 30;

/// The bytes that may be kept in a folder: a quarter of what its disk has free is more than enough.
std::uint64_t roomIn(const QString& folder, std::uint64_t most) {
  std::error_code failed;
  const auto space = std::filesystem::space(folder.toStdString(), failed);
  return failed ? most : std::min<std::uint64_t>(most, space.available / 4);
}

/// "08:20"; of another day with its date.
QString whenText(const QDateTime& time) {
  return time.date() == QDate::currentDate() ? time.toString(QStringLiteral("HH:mm"))
                                             : QLocale().toString(time, QStringLiteral("d MMM, HH:mm"));
}

/// "4 runs on black-beauty-1-3.txt, 08:20"
QString titleOf(const AutosaveNote& note, const QDateTime& time) {
  QString what = note.runs == 1 ? Autosave::tr("1 run") : Autosave::tr("%1 runs").arg(note.runs);
  if (note.runs == 0) what = Autosave::tr("models");
  if (!note.text.isEmpty()) what = Autosave::tr("%1 on %2").arg(what, note.text);
  return QStringLiteral("%1, %2").arg(what, whenText(time));
}

/// The run files of a folder that can be opened, by name: they get those of their models.
QStringList nameRunFiles(const QDir& folder) {
  QStringList names;
  for (QString name : folder.entryList({QStringLiteral("*.h5")}, QDir::Files)) {
    try {
      const RunFile file = RunFile::open(folder.filePath(name).toStdString(), RunCheck::none);
      if (file.traces.empty()) continue;
      const QString wanted = QString::fromStdString(file.traces.front()->info().name) + QStringLiteral(".h5");
      // One of that name may be there.
      if (QFile::rename(folder.filePath(name), folder.filePath(wanted))) name = wanted;
      names += name;
    } catch (const Error&) {
      continue;  // damaged too
    }
  }
  names.sort();
  return names;
}

/// Puts a session that cannot be opened aside. @returns what is to be said of it, in a sentence
QString putAside(const QFileInfo& session, const Error& error) {
  const QString when = whenText(session.lastModified());
  QString problem = QString::fromUtf8(error.what());
  const QString before = session.absoluteFilePath() + QStringLiteral(": ");
  if (problem.startsWith(before)) problem.remove(0, before.size());
  const QDir folder = session.dir();
  QFile::rename(session.filePath(), folder.filePath(kDamaged));
  const QStringList runs = nameRunFiles(folder);
  if (runs.isEmpty()) {
    return Autosave::tr("What a window kept at %1 cannot be opened: %2: it is %3 now")
        .arg(when, problem, folder.filePath(kDamaged));
  }
  return Autosave::tr("What a window kept at %1 cannot be opened: %2: its runs can (Ctrl+Alt+O): %3 in %4")
      .arg(when, problem, runs.join(QStringLiteral(", ")), folder.path());
}

/// @throws Error for a file that is no session at all: what is said of texts does not suit it
void checkIsSession(const QFileInfo& session) {
  QFile file(session.filePath());
  if (!file.open(QIODevice::ReadOnly)) throw Error(Autosave::tr("the session cannot be read").toStdString());
  if (file.size() == 0) throw Error(Autosave::tr("the session is empty").toStdString());
  if (!file.read(kSessionHead).contains(kSessionKey)) throw Error(Autosave::tr("damaged session").toStdString());
}

/// Reads the session in a folder that no process holds; nothing where one does, or there is nothing to go on with. A
/// session that cannot be read is told of once.
std::optional<LeftWork> workIn(const QString& folder, QStringList& messages) {
  std::optional<FolderLock> lock;
  try {
    lock.emplace(folder.toStdString());
  } catch (const Error&) {
    return std::nullopt;
  }
  const QFileInfo file(QDir(folder).filePath(kSession));
  if (!file.exists()) {
    // A session that could not be opened stays a while, for who wants to look at it.
    const bool old = QFileInfo(folder).lastModified().daysTo(QDateTime::currentDateTime()) > kDamagedDays;
    if (old) QDir(folder).removeRecursively();
    return std::nullopt;
  }
  try {
    checkIsSession(file);
    const OpenedContent content = openPath(file.absoluteFilePath());
    const auto* opened = std::get_if<OpenedSession>(&content);
    if (opened == nullptr) throw Error(Autosave::tr("damaged session").toStdString());
    const Session session = Session::fromJson(opened->session, folder);
    LeftWork work;
    work.session = file.absoluteFilePath();
    const AutosaveNote note = session.autosave.value_or(AutosaveNote());
    work.title = titleOf(note, file.lastModified());
    work.left = note.left;
    work.lost = note.lost;
    work.waiting = note.waiting;
    work.picture = QImage(QDir(folder).filePath(kPicture));
    work.modified = file.lastModified().toMSecsSinceEpoch();
    return work;
  } catch (const Error& error) {
    messages += putAside(file, error);
    return std::nullopt;
  }
}

void removeFiles(const QString& folder, const QSet<QString>& kept) {
  const QDir dir(folder);
  for (const QString& name : dir.entryList({QStringLiteral("*.h5")}, QDir::Files)) {
    if (!kept.contains(dir.filePath(name))) QFile::remove(dir.filePath(name));
  }
}

}  // namespace

/// The window's thread hands this to the thread that writes, and gets it back.
struct Autosave::Kept {
  /// A run that is in no file of the user's.
  struct Made {
    RunId id = kNoRun;
    std::size_t place = 0;  ///< in the session
    std::shared_ptr<const Trace> trace;
    bool remade = false;  ///< F5 makes it again
  };
  Session session;
  QString folder;
  QImage picture;
  std::vector<Made> made;
  std::uint64_t most = 0;
  std::vector<std::pair<RunId, QString>> written = {};  ///< with their files
  QStringList tooLarge = {};                            ///< names of runs that are not kept

  /// Writes the session, then each run that is in no file yet and the session with it: whatever comes between, what is
  /// there can be opened. @returns false if it was stopped
  bool write(const Job& job);
};

bool Autosave::Kept::write(const Job& job) {
  const QDir in(folder);
  std::vector<SessionRun>& runs = session.runs;
  QSet<QString> files;
  std::uint64_t bytes = 0;
  for (const Made& run : made) {
    QString& file = runs[run.place].kept;
    // A run that was removed comes back without its file.
    if (!QFileInfo::exists(file)) file.clear();
    if (QFileInfo(file).path() != folder) continue;
    files.insert(file);
    bytes += static_cast<std::uint64_t>(QFileInfo(file).size());
  }
  const auto isThere = [](const SessionRun& run) { return !run.kept.isEmpty() || !run.file.isEmpty(); };
  const auto save = [&] {
    AutosaveNote& note = *session.autosave;
    note.runs = static_cast<int>(std::ranges::count_if(runs, isThere));
    note.left.clear();
    note.lost.clear();
    for (const Made& run : made) {
      if (!isThere(runs[run.place])) (run.remade ? note.left : note.lost) += runs[run.place].model;
    }
    session.write(in.filePath(kSession));
  };
  save();
  const std::uint64_t room = roomIn(folder, most);
  for (const Made& run : made) {
    if (isThere(runs[run.place])) continue;
    if (bytes + bytesOfRun(*run.trace) > room) {
      tooLarge += runs[run.place].model;
      continue;
    }
    const QString file = in.filePath(QUuid::createUuid().toString(QUuid::WithoutBraces) + QStringLiteral(".h5"));
    const std::shared_ptr<const Trace> traces[] = {run.trace};
    if (!write_run_file(file.toStdString(), traces, {"foxscope", ""}, Overwrite::force, job)) return false;
    bytes += static_cast<std::uint64_t>(QFileInfo(file).size());
    files.insert(file);
    runs[run.place].kept = file;
    written.emplace_back(run.id, file);
    save();
  }
  QByteArray png;
  QBuffer buffer(&png);
  buffer.open(QIODevice::WriteOnly);
  if (!picture.isNull() && picture.save(&buffer, "PNG")) {
    AtomicFile file(in.filePath(kPicture).toStdString(), true);
    file.write(png.constData(), static_cast<std::size_t>(png.size()));
    file.commit();
  }
  removeFiles(folder, files);
  return true;
}

struct Autosave::Looked {
  std::vector<LeftWork> works;
  QStringList messages;
};

Autosave::Autosave(RunList& runs, ModelRuns& modelRuns, SessionStore& sessions, QObject* parent)
    : QObject(parent),
      m_runs(runs),
      m_modelRuns(modelRuns),
      m_sessions(sessions),
      m_writer(std::make_unique<JobRunner>(Threads::lent, kBehindPictures)) {
  for (QTimer* timer : {&m_quiet, &m_latest}) timer->setSingleShot(true);
  connect(&m_quiet, &QTimer::timeout, this, &Autosave::writeWhenQuiet);
  connect(&m_latest, &QTimer::timeout, this, &Autosave::write);
  m_quiet.setInterval(kQuietMs);
  m_latest.setInterval(kLatestMs);
  connect(&m_runs, &RunList::runsChanged, this, &Autosave::noteChange);
  connect(&m_runs, &RunList::modelsChanged, this, &Autosave::noteChange);
  connect(&m_runs.undoStack(), &UndoHistory::changed, this, &Autosave::noteChange);
  connect(&m_runs.selection(), &Selection::headChanged, this, &Autosave::noteChange);
  connect(&m_runs.selection(), &Selection::pinChanged, this, &Autosave::noteChange);
  connect(&m_runs.selection(), &Selection::viewChanged, this, &Autosave::noteChange);
  connect(&m_modelRuns, &ModelRuns::inputsChanged, this, &Autosave::noteChange);
  connect(&m_modelRuns, &ModelRuns::runStatusChanged, this, &Autosave::noteWaiting);
}

Autosave::~Autosave() = default;

void Autosave::setFolder(const QString& folder) {
  m_root = folder;
  if (!folder.isEmpty()) return;
  m_quiet.stop();
  m_latest.stop();
  m_writer->cancel(this, kWrite);
  m_writer->cancel(this, kLook);
  m_writing = false;
  m_lock.reset();
  m_own.clear();
}

void Autosave::setViews(std::function<QJsonObject()> state, std::function<QImage()> picture) {
  m_state = std::move(state);
  m_picture = std::move(picture);
}

void Autosave::noteChange() {
  if (m_root.isEmpty() || m_finished) return;
  m_quiet.start();
  if (!m_latest.isActive()) m_latest.start();
}

// Its progress comes often, and is not kept.
void Autosave::noteWaiting() {
  QStringList waiting = m_modelRuns.waiting();
  if (waiting == m_waiting) return;
  m_waiting = std::move(waiting);
  noteChange();
}

// The picture shows maps that are done. What is kept does not wait for them longer than m_latest.
void Autosave::writeWhenQuiet() {
  if (m_runs.jobs().busy()) {
    m_quiet.start();
  } else {
    write();
  }
}

// The folder is this window's alone: two that begin at once have different names.
bool Autosave::makeFolder() {
  if (!m_own.isEmpty()) return true;
  const QString folder = QDir(m_root).filePath(QUuid::createUuid().toString(QUuid::WithoutBraces));
  try {
    if (!QDir().mkpath(folder)) throw Error(tr("%1: cannot be made").arg(folder).toStdString());
    m_lock = std::make_unique<FolderLock>(folder.toStdString());
    m_own = folder;
    return true;
  } catch (const Error& error) {
    emit messageRaised(
        {Message::Kind::warning,
         tr("What is open is not kept for the case of a crash: %1").arg(QString::fromUtf8(error.what()))});
    m_root.clear();
    return false;
  }
}

void Autosave::write() {
  m_quiet.stop();
  m_latest.stop();
  if (m_root.isEmpty() || m_finished) return;
  // The runs that a session keeps are on their way: without them there would be less than before.
  if (m_sessions.isOpening()) return noteChange();
  if (m_writing) {
    m_again = true;
    return;
  }
  const bool anything = !m_runs.empty() || !m_runs.models().empty() || !m_modelRuns.text().empty();
  if ((!anything && m_own.isEmpty()) || !makeFolder()) return;
  Kept kept = shown();
  const QByteArray content = QJsonDocument(kept.session.toJson(m_own)).toJson();
  const bool drawn = !m_runs.jobs().busy();
  if (!drawn) m_quiet.start();  // for the picture
  if (content == m_last && (m_drawn || !drawn)) return;
  if (m_picture && !m_runs.empty()) kept.picture = m_picture();
  JobRunner::Request<Kept> request;
  request.work = [kept = std::move(kept)](const Job& job) {
    Kept done = kept;
    return done.write(job) ? std::optional(std::move(done)) : std::nullopt;
  };
  request.done = [this, content, drawn](const Kept& done) {
    m_writing = false;
    m_last = content;
    m_drawn = drawn;
    tellTooLarge(done.tooLarge);
    for (const auto& [id, file] : done.written) m_runs.setKept(id, file);
    if (std::exchange(m_again, false)) noteChange();
    emit written();
  };
  request.failed = [this](const QString& message) {
    m_writing = false;
    m_root.clear();
    emit messageRaised(
        {Message::Kind::warning, tr("What is open is not kept any more for the case of a crash: %1").arg(message)});
  };
  m_writing = true;
  m_writer->submit(this, kWrite, std::move(request));
}

void Autosave::tellTooLarge(const QStringList& runs) {
  QStringList untold;
  for (const QString& run : runs) {
    if (!m_tooLarge.contains(run)) untold += run;
    m_tooLarge.insert(run);
  }
  if (untold.isEmpty()) return;
  emit messageRaised({Message::Kind::warning,
                      tr("Too large to be kept for the case of a crash: %1: save the session with runs (Ctrl+Shift+S)")
                          .arg(untold.join(QStringLiteral(", ")))});
}

Autosave::Kept Autosave::shown() const {
  Kept kept;
  kept.folder = m_own;
  kept.most = m_mostBytes;
  kept.session = m_sessions.session(m_state ? m_state() : QJsonObject());
  kept.session.autosave = AutosaveNote{m_sessions.file()};
  kept.session.autosave->waiting = m_modelRuns.waiting();
  if (const Run* reference = std::as_const(m_runs).reference()) kept.session.autosave->text = textNameOf(*reference);
  std::size_t place = 0;
  for (const Run& run : std::as_const(m_runs)) {
    if (run.file.isEmpty()) kept.made.push_back({run.id, place, run.trace, m_sessions.isRemade(run)});
    ++place;
  }
  return kept;
}

void Autosave::look() {
  if (m_root.isEmpty() || m_finished) return;
  JobRunner::Request<Looked> request;
  request.work = [root = m_root](const Job&) {
    Looked looked;
    for (const QFileInfo& entry : QDir(root).entryInfoList(QDir::Dirs | QDir::NoDotAndDotDot)) {
      if (auto work = workIn(entry.absoluteFilePath(), looked.messages)) looked.works.push_back(std::move(*work));
    }
    std::ranges::sort(looked.works, std::greater(), &LeftWork::modified);
    while (looked.works.size() > kMostLeft) {
      QFileInfo(looked.works.back().session).dir().removeRecursively();
      looked.works.pop_back();
    }
    return std::optional(std::move(looked));
  };
  request.done = [this](const Looked& looked) {
    for (const QString& message : looked.messages) emit messageRaised({Message::Kind::warning, message});
    emit found(looked.works);
  };
  request.failed = [this](const QString& message) { emit messageRaised({Message::Kind::warning, message}); };
  m_writer->submit(this, kLook, std::move(request));
}

bool Autosave::takeOver(const QString& session) {
  const QString folder = QFileInfo(session).absolutePath();
  if (folder == m_taken) return true;
  try {
    m_takenLock = std::make_unique<FolderLock>(folder.toStdString());
    m_taken = folder;
    return true;
  } catch (const Error&) {
    emit messageRaised({Message::Kind::note, tr("Another window goes on with this already")});
    return false;
  }
}

void Autosave::goOn(const QString& session) {
  const QString folder = QFileInfo(session).absolutePath();
  if (m_root.isEmpty() || folder == m_own || !takeOver(session)) return;
  const QString before = std::exchange(m_own, folder);
  m_lock = std::move(m_takenLock);
  m_taken.clear();
  m_last.clear();
  // Looking again, the first page does not offer it any more.
  before.isEmpty() ? look() : discard(before + '/' + kSession);
}

void Autosave::discard(const QString& session) {
  const QString folder = QFileInfo(session).absolutePath();
  if (folder == m_own) return look();
  // One that was taken, and not opened after all.
  if (folder == m_taken) {
    m_takenLock.reset();
    m_taken.clear();
  }
  JobRunner::Request<bool> request;
  request.work = [folder](const Job&) -> std::optional<bool> {
    if (!QFileInfo::exists(folder)) return true;
    try {
      // Another window may have gone on with it.
      const FolderLock lock(folder.toStdString());
      QDir(folder).removeRecursively();
      return true;
    } catch (const Error&) {
      return false;
    }
  };
  request.done = [this](bool free) {
    if (!free) emit messageRaised({Message::Kind::note, tr("Another window goes on with this already")});
    look();
  };
  m_writer->submit(this, kRemove, std::move(request));
}

void Autosave::finish() {
  m_finished = true;
  m_quiet.stop();
  m_latest.stop();
  // Nothing is written any more when the folder goes.
  m_writer.reset();
  if (!m_own.isEmpty()) QDir(m_own).removeRecursively();
  m_lock.reset();
}

}  // namespace foxscope::gui

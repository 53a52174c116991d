#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <QImage>
#include <QObject>
#include <QSet>
#include <QString>
#include <QStringList>
#include <QTimer>

#include "app/gui/document/job_runner.h"
#include "app/gui/document/runs/run.h"

namespace foxscope {
class FolderLock;
}

namespace foxscope::gui {

class ModelRuns;
class RunList;
class SessionStore;

/// The work of a window that ended without being closed.
struct LeftWork {
  QString session;            ///< file to open
  QString title;              ///< "4 runs on black-beauty-1-3.txt, 08:20"
  QStringList left;           ///< runs that are not kept: F5 makes them again
  QStringList lost;           ///< runs that are not kept, and F5 does not make them
  QStringList waiting;        ///< models that had not run yet
  QImage picture;             ///< of its maps; null: none
  std::int64_t modified = 0;  ///< milliseconds since 1970
};

/// Keeps the work of a window while it is open, so that the next one can go on with it after a crash: a session, the
/// runs that are in no file as run files beside it, a picture. Each window writes a folder of its own, locked for as
/// long as its process lives. Closing the window removes it. Files are written and read on a thread of its own.
class Autosave : public QObject {
  Q_OBJECT

 public:
  static constexpr int kQuietMs = 2'000;   ///< after the last change, and when no map is being made
  static constexpr int kLatestMs = 5'000;  ///< after the first change that is not written, whatever goes on
  /// Bytes of runs that are kept together, at most; nor do they take more than a quarter of the free disk.
  static constexpr std::uint64_t kMostBytes = 2'000'000'000;
  static constexpr int kMostLeft = 3;  ///< works of earlier windows; older ones are removed

  Autosave(RunList& runs, ModelRuns& modelRuns, SessionStore& sessions, QObject* parent = nullptr);
  ~Autosave() override;

  /// Folder of the folders of all windows. Empty: nothing is kept, nothing found.
  void setFolder(const QString& folder);
  /// Takes the functions that give the views' part of a session, and a picture of them.
  void setViews(std::function<QJsonObject()> state, std::function<QImage()> picture);
  /// Bytes of runs that are kept; for tests.
  void setMostBytes(std::uint64_t bytes) { m_mostBytes = bytes; }

  /// Something that a session keeps may have changed: it is written soon.
  void noteChange();
  /// Writes now what has changed.
  void write();
  [[nodiscard]] bool busy() const { return m_writer && m_writer->busy(); }
  /// Looks for what earlier windows left, and tells by found().
  void look();
  /// Takes what was left for this window alone. @returns false, and a message, where another window has it
  bool takeOver(const QString& session);
  /// Makes the folder of the session that was left, and has been opened, the window's.
  void goOn(const QString& session);
  /// Removes what a window left.
  void discard(const QString& session);
  /// The window was closed: nothing is left to go on with.
  void finish();

 signals:
  void found(const std::vector<foxscope::gui::LeftWork>& works);  ///< newest first
  void written();
  void messageRaised(const foxscope::gui::Message& message);

 private:
  enum Channel { kWrite, kLook, kRemove };
  struct Kept;
  struct Looked;
  void writeWhenQuiet();
  void noteWaiting();
  void tellTooLarge(const QStringList& runs);
  [[nodiscard]] bool makeFolder();
  [[nodiscard]] Kept shown() const;

  RunList& m_runs;
  ModelRuns& m_modelRuns;
  SessionStore& m_sessions;
  std::function<QJsonObject()> m_state;
  std::function<QImage()> m_picture;
  QString m_root;
  QString m_own;  ///< the window's folder; empty: none yet
  std::unique_ptr<FolderLock> m_lock;
  QString m_taken;  ///< folder that takeOver locked, before it is opened
  std::unique_ptr<FolderLock> m_takenLock;
  std::uint64_t m_mostBytes = kMostBytes;
  QByteArray m_last;         ///< session that was written last
  bool m_drawn = false;      ///< no map was on its way when its picture was taken
  QStringList m_waiting;     ///< models that were to run when this was looked at last
  QSet<QString> m_tooLarge;  ///< runs of which the user knows that they are not kept
  bool m_writing = false;
  bool m_again = false;  ///< something changed while it was written
  bool m_finished = false;
  QTimer m_quiet;
  QTimer m_latest;
  std::unique_ptr<JobRunner> m_writer;  ///< last, so that its thread ends first; null when the window is closed
};

}  // namespace foxscope::gui

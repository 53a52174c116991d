#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <QJsonObject>
#include <QObject>
#include <QSet>
#include <QString>
#include <QStringList>

#include "app/gui/document/runs/run.h"

namespace foxscope::gui {

class EvaluationList;
class FileWriter;
class ModelRuns;
class RunList;
struct OpenedSession;
struct Session;

/// The ending of a folder in which a session keeps runs that are in no file.
inline const QString kRunsFolder = QStringLiteral(".runs");
/// The folder of kept runs: `name.runs` beside `name.json`.
QString runsFolderOf(const QString& session);
/// Bytes of the file of a run, about.
std::uint64_t bytesOfRun(const Trace& trace);

/// Saves runs, models, text and evaluations to a session file, and replaces them by the contents of a session file.
/// Knows what would be lost if they were closed now.
class SessionStore : public QObject {
  Q_OBJECT

 public:
  SessionStore(RunList& runs, ModelRuns& models, EvaluationList& evaluations, QObject* parent = nullptr);

  /// The session of all that is open, with the views' part in it, as a session file keeps it.
  [[nodiscard]] Session session(const QJsonObject& windowState) const;
  /// Writes a session file; messages report success and failure. While one is being opened nothing is written: it would
  /// be less than there was.
  void save(const QString& path, const QJsonObject& windowState);
  /// Writes one with the runs that are in no file, in the folder beside it (runsFolderOf): opening it makes none again.
  void saveWithRuns(FileWriter& files, const QString& path, const QJsonObject& windowState);
  /// Whether the session file that is open was saved with runs, or opened with some: it stays so until it is saved
  /// without, whatever is run meanwhile.
  [[nodiscard]] bool carriesRuns() const { return m_withRuns && !m_file.isEmpty(); }
  /// Whether opening a session makes a run again, or F5 now: its model is there, and its text is the one to be read.
  [[nodiscard]] bool isRemade(const Run& run) const;
  /// Whether files of a session that was opened are still on their way: its runs are not all there.
  [[nodiscard]] bool isOpening() const { return !m_coming.isEmpty(); }
  /// The session file that is open; empty: none.
  [[nodiscard]] const QString& file() const { return m_file; }
  [[nodiscard]] Unsaved unsaved() const;

  /// The session takes the place of everything. Its files are asked for by filesWanted; runs that were in no file are
  /// made again, once the text is there.
  void replace(const QString& path, const OpenedSession& opened);
  /// Forgets the session, as in a new window.
  void forget();
  /// Whether a file is the text of the session, which is on its way.
  [[nodiscard]] bool awaitsText(const QString& path) const;
  /// A file was opened. @returns whether models have waited for it, which runWantedModels runs if it is a text
  bool endWaiting(const QString& path);
  void runWantedModels();
  /// A file could not be opened: models that wait for it do not run.
  void giveUpWaiting(const QString& path);

 signals:
  /// A session was read: views restore their part when its runs are there.
  void sessionOpened(const QJsonObject& windowState);
  /// A file of a session is not where it was. The window asks the user for it, and opens the answer.
  void fileMissing(const QString& what, const QString& path);
  void filesWanted(const QStringList& paths);  ///< of a session that is being opened
  void pathOpened(const QString& path);        ///< a session was read or written
  void leftOpened(const QString& path);        ///< what a window kept by itself (Autosave) was read
  void messageRaised(const foxscope::gui::Message& message);

 private:
  enum Channel { kSave };
  void waitForNoText();
  void takeSaved(const QString& path, const Session& saved, const std::vector<RunId>& ofSession);
  [[nodiscard]] bool mayWrite();
  [[nodiscard]] bool isThere(const QString& session, const QString& what, const QString& path);
  void tell(Message::Kind kind, const QString& text);

  RunList& m_runs;
  ModelRuns& m_models;
  EvaluationList& m_evaluations;
  QString m_file;
  bool m_withRuns = false;                 ///< the user saves m_file with runs
  QSet<QString> m_coming;                  ///< files of the session that are being opened
  QSet<QString> m_unread;                  ///< those that could not be: perhaps somebody can mend them
  std::string m_keptText;                  ///< the text that stands in the session's file
  QString m_runWhenRead;                   ///< text file of a session whose models run when it is there; empty: none
  std::vector<ModelInput> m_wantedModels;  ///< those that run then
};

}  // namespace foxscope::gui

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <QElapsedTimer>
#include <QJsonObject>
#include <QObject>
#include <QStringList>

#include "app/gui/document/job_runner.h"
#include "app/gui/document/places.h"
#include "app/gui/document/run.h"
#include "app/gui/document/selection.h"

namespace foxscope::gui {

/// What the window is about: models and a text to run them on, the runs on one text that there are, and what is chosen
/// in them. It knows no widget; views observe it. Everything that takes time happens on its two job runners.
class Document : public QObject {
  Q_OBJECT

 public:
  explicit Document(QObject* parent = nullptr);
  ~Document() override;

  // What is there.
  [[nodiscard]] const std::vector<Run>& runs() const { return m_runs; }
  /// Null where there is no such run (any more).
  [[nodiscard]] const Run* run(RunId id) const;
  /// The run whose positions the selection speaks in: the first. Null where there are no runs.
  [[nodiscard]] const Run* reference() const;
  [[nodiscard]] std::int64_t length() const;  ///< of the reference run; 0 where there is none
  /// A position of the reference run in another run, and back.
  [[nodiscard]] std::int64_t positionIn(RunId id, std::int64_t position) const;
  [[nodiscard]] std::int64_t positionFrom(RunId id, std::int64_t position) const;
  /// The head as the backend wants it; nothing where the run or the head does not exist.
  [[nodiscard]] std::optional<HeadOf> headOf(const HeadChoice& choice) const;

  Selection& selection() { return m_selection; }
  [[nodiscard]] const Selection& selection() const { return m_selection; }
  /// Maps, statistics, files: what may take seconds.
  JobRunner& jobs() { return m_jobs; }
  /// What takes milliseconds and follows the mouse: single rows and entries, curves, colours, searches. It never waits
  /// for a map.
  JobRunner& quickJobs() { return m_quick; }

  // What is to be run.
  [[nodiscard]] const std::vector<ModelInput>& models() const { return m_models; }
  [[nodiscard]] const TextInput& text() const { return m_text; }
  [[nodiscard]] const RunSettings& settings() const { return m_settings; }
  [[nodiscard]] const RunStatus& runStatus() const { return m_status; }
  [[nodiscard]] bool canRun() const { return !m_models.empty() && !m_text.empty() && !m_status.running; }

  /// Adds a checkpoint under a name of its own; an equal path is not added twice.
  void addModel(const QString& path, const QString& name = {});
  void removeModel(int index);
  void setText(const TextInput& text);
  void setSettings(const RunSettings& settings);
  void removeRun(RunId id);
  /// Everything as in a new window.
  void clear();

  /// Opens what a path holds, told apart by content: a checkpoint folder, a run file, a session, a text.
  void open(const QStringList& paths);
  /// Runs every model on the text, one after the other; each result appears when it is there. Runs on another text go
  /// when the first of them is there.
  void startRun();
  /// Runs the model of a run once more on the text of that run, with changes to its gates or heads: a model of its own
  /// from then on. What is in the way is told by a message.
  void startDerivedRun(RunId base, const QStringList& interventions);
  void cancelRun();
  /// Writes all runs to a run file; success and failure are told by messages.
  void saveRunFile(const QString& path);
  /// Writes a session file with the views' part in it; success and failure are told by messages.
  void saveSession(const QString& path, const QJsonObject& windowState);
  [[nodiscard]] const QString& sessionFile() const { return m_sessionFile; }

  /// True while a file is being opened, models run, or an answer of a view is on its way.
  [[nodiscard]] bool busy() const;

 signals:
  void runsChanged();    ///< a run came or went
  void inputsChanged();  ///< models, text or settings
  void runStatusChanged();
  void messageRaised(const foxscope::gui::Message& message);
  /// A session was read: views restore their part when its runs are there.
  void sessionOpened(const QJsonObject& windowState);
  /// A file of a session is not where it was: the window asks for it, and calls open() with what it is told.
  void fileMissing(const QString& what, const QString& path);
  void pathOpened(const QString& path);  ///< for Open Recent
  void idle();

 private:
  /// Of the document's own requests; each opened path has one of its own from kFirstOpen on.
  enum Channel { kRun, kSaveRunFile, kSaveSession, kFirstOpen = 100 };
  struct Opened;
  struct Produced;
  void receive(Opened opened);
  void receiveRunFile(const Opened& opened);
  void receiveSession(const Opened& opened);
  void restoreSelection();
  void run(std::vector<ModelInput> models, TextInput text, std::int64_t limit);
  void runNext();
  void receiveRun(const Produced& produced);
  void endRun();
  void showProgress(const JobProgress& progress);
  void takeRuns(std::vector<Run> runs);
  void mapPlaces();
  void tell(Message::Kind kind, const QString& text);
  [[nodiscard]] QString freeModelName(const QString& wanted) const;

  Selection m_selection;
  std::vector<Run> m_runs;
  /// Of every run but the reference: comparing two long texts' tokens is not for each movement of the mouse.
  struct Places {
    PlaceMap fromReference;
    PlaceMap toReference;
  };
  std::map<RunId, Places> m_places;
  RunId m_lastRun = kNoRun;
  std::vector<ModelInput> m_models;
  TextInput m_text;
  RunSettings m_settings;
  RunStatus m_status;
  QElapsedTimer m_stageTime;
  std::vector<ModelInput> m_queue;         ///< models that run, or have run, since the run was asked for
  std::shared_ptr<const Text> m_readText;  ///< what they read
  QString m_readFile;                      ///< its name, for errors
  std::int64_t m_readLimit = 0;
  QString m_sessionFile;
  QJsonObject m_wantedSelection;  ///< of a session whose runs are still being made
  int m_openChannel = 0;
  // Last, so that their threads end first.
  JobRunner m_jobs;
  JobRunner m_quick;
  JobRunner m_runner;
};

}  // namespace foxscope::gui

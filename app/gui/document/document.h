#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <QElapsedTimer>
#include <QJsonObject>
#include <QObject>
#include <QStringList>
#include <QUndoStack>

#include "app/gui/document/evaluation.h"
#include "app/gui/document/job_runner.h"
#include "app/gui/document/places.h"
#include "app/gui/document/run.h"
#include "app/gui/document/selection.h"
#include "app/gui/document/session.h"
#include "backend/file/run_file.h"

namespace foxscope {
class Engine;
struct ModelRequest;
struct RunRequest;
}  // namespace foxscope

namespace foxscope::gui {

struct OpenedSweep;

/// Tells how long a stage of work still takes, from how long it took so far.
class StageClock {
 public:
  /// @param fraction  of the stage's work, 0 to 1; negative: not known
  /// @returns seconds; negative: not known
  double secondsLeft(const QString& stage, double fraction);

 private:
  QString m_stage;
  QElapsedTimer m_time;
};

/// What the window is about: models and a text to run them on, the runs that there are, and what is chosen in them.
/// Runs may have read different texts: the selection speaks of the text that the chosen head's run read. It knows no
/// widget; views observe it. Everything that takes time happens on its job runners.
class Document : public QObject {
  Q_OBJECT

 public:
  explicit Document(QObject* parent = nullptr);
  ~Document() override;

  // What is there.
  [[nodiscard]] const std::vector<Run>& runs() const { return m_runs; }
  /// Null where there is no such run (any more).
  [[nodiscard]] const Run* run(RunId id) const;
  /// The run that another one is a changed copy of, on the same text; null where there is none.
  [[nodiscard]] const Run* baseOf(const Run& run) const;
  /// What the text is called that a run read: by its file, else by the run's own, else "typed text".
  [[nodiscard]] static QString textNameOf(const Run& run);
  /// What a model is called on screen: its name, or of a changed one "fox-pro-12m, L3 H0, gate 1".
  [[nodiscard]] static QString shownName(const ModelInput& model) {
    return model.look.label.isEmpty() ? model.name : model.look.label;
  }
  /// The run of a name: the one shown under it, else one whose name with its file is this, else the first that its file
  /// names so. Names of sessions and panes find their run although another one of the same name came or went. Null
  /// where there is none.
  [[nodiscard]] const Run* runNamed(const QString& name) const;
  /// The run whose positions the selection speaks in: the first on the chosen head's text. Null where there are no
  /// runs.
  [[nodiscard]] const Run* reference() const { return referenceOf(m_shownText); }
  /// The first run on a text, one that is not hidden if there is any; null where there is none.
  [[nodiscard]] const Run* referenceOf(int text) const;
  [[nodiscard]] std::int64_t length() const;  ///< of the reference run; 0 where there is none
  /// The runs on the reference run's text that are not hidden, in their order.
  [[nodiscard]] std::vector<const Run*> runsOnText() const;
  /// Whether a run read the text that the selection speaks of.
  [[nodiscard]] bool isOnText(RunId id) const;
  /// Pin, locked pairs and range of a text: the selection's, or where they were when another text was chosen.
  struct TextPlace {
    Cursor pin;
    View view;
    std::vector<Cursor> locks = {};
  };
  [[nodiscard]] TextPlace placeIn(int text) const;
  /// A position of the reference run in another run; nothing where that has not read so far, or read another text.
  [[nodiscard]] std::optional<std::int64_t> positionIn(RunId id, std::int64_t position) const;
  /// Positions of the first run on a run's text in that run, and back. Null: they are the same, for that first run.
  struct Places {
    std::shared_ptr<const PlaceMap> fromReference;
    std::shared_ptr<const PlaceMap> toReference;
  };
  [[nodiscard]] Places placesOf(RunId id) const;
  /// The head as the backend wants it; nothing where the run or the head does not exist.
  [[nodiscard]] std::optional<HeadOf> headOf(const HeadChoice& choice) const;

  Selection& selection() { return m_selection; }
  [[nodiscard]] const Selection& selection() const { return m_selection; }
  /// Maps, statistics, files that are opened: what may take seconds.
  JobRunner& jobs() { return m_jobs; }
  /// What takes milliseconds and follows the mouse: single rows and entries, curves, colours, searches. It never waits
  /// for a map.
  JobRunner& quickJobs() { return m_quick; }

  // What is to be run.
  [[nodiscard]] const std::vector<ModelInput>& models() const { return m_models; }
  [[nodiscard]] const TextInput& text() const { return m_text; }
  [[nodiscard]] const RunSettings& settings() const { return m_settings; }
  /// Where what was run last is in memory.
  [[nodiscard]] const Engine& engine() const { return *m_engine; }
  [[nodiscard]] const RunStatus& runStatus() const { return m_status; }
  /// What a run has to wait for, the first thing of it; empty where one can be made. A line, "No text yet: ...".
  [[nodiscard]] QString runObstacle() const;
  /// Where there is no run: what it waits for, or that it waits for F5.
  [[nodiscard]] QString noRunText() const;
  [[nodiscard]] bool canRun() const { return runObstacle().isEmpty(); }

  /// Adds a checkpoint under a name of its own; an equal path is not added twice.
  /// @param training  folder of the training that it is a checkpoint of; an equal one is not added twice
  void addModel(const QString& path, const QString& name = {}, const QString& training = {});
  /// Makes a model another checkpoint of its training.
  /// @param made  its run, which takes the place of the model's run; nothing for a model that has not run
  void showCheckpoint(const QString& model, const QString& path, std::optional<Run> made);
  /// Takes a model out, and the run that it made; can be undone.
  void removeModel(int index);
  /// Another text; where it replaces one, this can be undone.
  /// @param limit  RunSettings::limit from then on, undone with the text; empty: as it is
  void setText(const TextInput& text, std::optional<std::int64_t> limit = {});
  /// The text as it is being typed: the editor undoes that by itself.
  void editText(const std::string& content);
  void setSettings(const RunSettings& settings);
  /// Keeps a pair of the text shown marked while others are pinned; not twice, and no pair that does not exist. Can be
  /// undone.
  void lockPair(const Cursor& pair);
  /// Takes a lock out, by its place in Selection::locks; can be undone.
  void unlockPair(std::size_t place);
  void unlockAll();
  /// Can be undone.
  void removeRun(RunId id);

  /// Evaluations that were read from files, in the order in which they were opened.
  [[nodiscard]] const std::vector<Evaluation>& evaluations() const { return m_evaluations; }
  void closeEvaluation(const QString& path);

  // The list of runs.
  /// A run with its model where that is there, or a model that has not run.
  struct ListRow {
    std::optional<int> model;  ///< place in models()
    RunId run = kNoRun;
  };
  /// The runs in their order, then the models that have not run.
  [[nodiscard]] std::vector<ListRow> listRows() const;
  /// As it is shown: the run's name, or what the run will be called.
  [[nodiscard]] QString nameOf(const ListRow& row) const;
  [[nodiscard]] const RunLook& lookOf(const ListRow& row) const;
  /// Another name, colour, or whether it is hidden, of a run and its model. Where the run of the chosen head is hidden,
  /// another one's head is chosen.
  void setLook(const ListRow& row, const RunLook& look);
  /// Moves a row, among the runs or among the models that have not run.
  void moveRow(int from, int to);
  /// Takes a run and its model out; can be undone.
  void removeRow(const ListRow& row);

  /// Everything as in a new window. What was to be undone is forgotten, and with it the memory of removed runs.
  void clear();
  [[nodiscard]] QUndoStack& undoStack() { return m_undo; }

  [[nodiscard]] Unsaved unsaved() const;
  /// Is asked before a session takes the place of everything, and calls what it is given when it may.
  void setReplaceGuard(std::function<void(std::function<void()> replace)> guard) { m_guard = std::move(guard); }

  /// Opens what a path holds, told apart by content: a checkpoint folder, a training, a run file, a session, a text.
  /// Runs of a file stand beside those that are there; a file that is open already is not opened twice.
  void open(const QStringList& paths);
  /// From now on run files whose arrays contradict one another are opened too; their runs' names say so.
  void leaveUnchecked() { m_check = RunCheck::none; }
  /// Runs every model on the text, one after the other; each result appears when it is there, in the place of the
  /// model's run before. Runs that models made on another text go when the first of them is there.
  void startRun();
  /// Runs the model of a run once more on the text of that run, with changes to its gates or heads: a model of its own
  /// from then on. What is in the way is told by a message.
  void startDerivedRun(RunId base, const QStringList& interventions);
  /// Runs the model of a run once more on the text of that run, for what the mean loss of some positions owes to every
  /// gate (Keep::saliency): the run with it takes the place of the one without. What is in the way is told by a
  /// message.
  /// @param target  positions of that run; nothing: all
  void startSaliency(RunId id, std::optional<Range> target);
  /// Why that cannot be had of a run, and what to do, in a line; empty where it can.
  [[nodiscard]] QString saliencyObstacle(RunId id) const;
  void cancelRun();
  /// The answers to memoryAsked: all the same, or over the first tokens alone. Without an answer nothing runs.
  void runAnyway();
  void runFewer(std::int64_t tokens);
  /// Writes the runs on the text shown to a run file, which holds runs on one text, as writeFile does; what was left
  /// out is told by a message.
  void saveRunFile(const QString& path);
  /// Writes runs that are in no file yet, all those on one text, likewise.
  void saveUnsavedRuns(const QString& path);
  /// Writes the text that is to be run, as writeFile does.
  void saveText(const QString& path);

  /// Writes a whole file, or none and returns nothing if it was stopped.
  using FileWork = std::function<std::optional<bool>(const Job&)>;
  /// Writes a file in the background, on a thread of its own, so that no picture waits for it; files are written one
  /// after the other. Success, failure and cancelling are told by messages.
  /// @param written  called when the file is there; may be empty
  void writeFile(const QString& path, FileWork work, std::function<void()> written = {});
  /// Files that are being written, or wait for that, oldest first.
  [[nodiscard]] std::vector<ExportStatus> exports() const;
  void cancelExport(const QString& path);
  /// Writes a session file with the views' part in it; success and failure are told by messages.
  void saveSession(const QString& path, const QJsonObject& windowState);
  [[nodiscard]] const QString& sessionFile() const { return m_sessionFile; }

  /// True while a file is being opened, models run, or an answer of a view is on its way.
  [[nodiscard]] bool busy() const;

 signals:
  void runsChanged();  ///< a run came or went
  /// A head of a run on another text was chosen: the reference, length() and placeIn() are others.
  void referenceChanged();
  void inputsChanged();  ///< models, text or settings
  void evaluationsChanged();
  void runStatusChanged();
  void noRunTextChanged();               ///< noRunText(), perhaps, while there is no run
  void exportsChanged();                 ///< one came, moved on or went
  void notWritten(const QString& path);  ///< writing this file was cancelled or failed
  /// The models that were to be run would take much memory: they run after runAnyway or runFewer.
  void memoryAsked(const foxscope::gui::MemoryQuestion& question);
  void messageRaised(const foxscope::gui::Message& message);
  /// A session was read: views restore their part when its runs are there.
  void sessionOpened(const QJsonObject& windowState);
  /// A file of a session is not where it was: the window asks for it, and calls open() with what it is told.
  void fileMissing(const QString& what, const QString& path);
  void sweepOpened(const foxscope::gui::OpenedSweep& sweep);
  void pathOpened(const QString& path);  ///< for Open Recent
  void idle();

 private:
  /// Of the document's own requests; each opened path has one of its own from kFirstOpen on.
  enum Channel { kRun, kSaveSession, kFirstOpen = 100 };
  struct Opened;
  struct Produced;
  class Removal;
  class Replacement;
  class LockChange;
  void receive(Opened opened);
  void receiveRunFile(const Opened& opened);
  void receiveEvaluation(Evaluation evaluation);
  void receiveSession(const Opened& opened);
  void replaceBySession(const Opened& opened);
  void runWantedModels();
  void waitForNoText();
  void restoreSelection();
  [[nodiscard]] const Run* runToRepeat(RunId id, const QString& obstacle);
  /// Why a run cannot be made once more; empty where it can.
  [[nodiscard]] static QString obstacleTo(const Run& run, const QString& doing);
  [[nodiscard]] ModelInput inputOf(const Run& run) const;
  /// That saliency is kept, and of the mean loss of which positions; nothing: of all.
  struct SaliencyWish {
    std::optional<Range> target;
  };
  /// @param file  name of the text's file; may be empty
  void run(std::vector<ModelInput> models, const QString& file, std::shared_ptr<const Text> text, std::int64_t limit,
           std::optional<SaliencyWish> saliency = {});
  [[nodiscard]] std::shared_ptr<const Text> enteredText() const;
  void estimateMemory();
  void runNext();
  [[nodiscard]] RunRequest requestOfRun() const;
  void receiveRun(const Produced& produced);
  void endRun();
  void showProgress(const JobProgress& progress);
  void takeRuns(std::vector<Run> runs);
  [[nodiscard]] int freeColour() const;
  [[nodiscard]] RunLook lookOfChanged(const ModelInput& base, const QStringList& interventions) const;
  /// A run that a model has made, in the place of the one before.
  void place(std::vector<Run>& runs, Run made) const;
  void sortAsInSession(std::vector<Run>& runs) const;
  [[nodiscard]] static bool sameText(const Trace& a, const Trace& b);
  void numberTexts(std::vector<Run>& runs);
  void nameApart(std::vector<Run>& runs) const;
  void followHead();
  void changeLocks(const std::vector<Cursor>& locks, const QString& what);
  /// Those of the pairs that lie in the text shown.
  [[nodiscard]] std::vector<Cursor> inText(const std::vector<Cursor>& pairs) const;
  void leaveText();
  void enterText(int text);
  void changeText(const TextInput& text);
  void remove(std::optional<int> model, const std::vector<RunId>& ids, const QString& what);
  void writeRuns(const QString& path, const std::vector<RunId>& ids);
  void mapPlaces();
  void tell(Message::Kind kind, const QString& text);
  [[nodiscard]] QString freeModelName(const QString& wanted) const;

  Selection m_selection;
  std::vector<Run> m_runs;
  /// Of every run but the reference: comparing two long texts' tokens is not for each movement of the mouse.
  std::map<RunId, Places> m_places;
  RunId m_lastRun = kNoRun;
  int m_lastText = 0;
  int m_shownText = 0;                    ///< the one that the selection speaks of
  std::map<int, TextPlace> m_leftPlaces;  ///< where one was in texts that are not shown
  std::vector<ModelInput> m_models;
  std::vector<Evaluation> m_evaluations;
  QStringList m_sessionEvaluations;  ///< of a session, which are still being read
  TextInput m_text;
  RunSettings m_settings;
  std::unique_ptr<Engine> m_engine;
  RunStatus m_status;
  StageClock m_stageClock;
  std::vector<ModelInput> m_queue;         ///< models that run, or have run, since the run was asked for
  std::shared_ptr<const Text> m_readText;  ///< what they read
  QString m_readFile;                      ///< its name, for errors
  std::int64_t m_readLimit = 0;
  std::optional<SaliencyWish> m_saliency;  ///< of what runs
  bool m_queueOfSession = false;           ///< a session asked for it, not the user
  bool m_memoryAsked = false;              ///< m_queue waits for an answer
  struct Export;
  std::vector<std::shared_ptr<Export>> m_exports;  ///< the first of them is being written
  int m_exportChannel = 0;
  QString m_sessionFile;
  std::string m_keptText;                 ///< the text that stands in the session's file
  QJsonObject m_wantedSelection;          ///< of a session whose runs are still being made
  std::vector<SessionRun> m_wantedRuns;   ///< of a session whose run files are still being opened
  std::vector<SessionRun> m_sessionRuns;  ///< their order and looks, until the user chooses another order
  std::function<void(std::function<void()>)> m_guard;
  QUndoStack m_undo;
  QString m_runWhenRead;                   ///< text file of a session whose models run when it is there; empty: none
  std::vector<ModelInput> m_wantedModels;  ///< those that run then
  int m_openChannel = 0;
  RunCheck m_check = RunCheck::whole;  ///< of run files that are opened
  // Last, so that their threads end first.
  JobRunner m_jobs;
  JobRunner m_quick;
  JobRunner m_runner;
  JobRunner m_writer;
};

}  // namespace foxscope::gui

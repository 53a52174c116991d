#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <QJsonObject>
#include <QObject>
#include <QStringList>

#include "app/gui/document/job_runner.h"
#include "app/gui/document/runs/run.h"
#include "app/gui/document/runs/run_arrangement.h"
#include "app/gui/document/selection.h"
#include "app/gui/document/session.h"
#include "app/gui/document/undo_history.h"

namespace foxscope::gui {

struct OpenedRunFile;

/// Pin, locked pairs and range of a text.
struct TextPlace {
  Cursor pin;
  View view;
  std::vector<Cursor> locks = {};
};

/// The runs that there are and the models that make them, in one list: order, names, looks, what is chosen in them, and
/// what of it can be undone. Runs may have read different texts: the selection speaks of the text that the chosen
/// head's run read. Work on runs is done by two job runners.
class RunList : public QObject {
  Q_OBJECT

 public:
  explicit RunList(QObject* parent = nullptr);
  ~RunList() override;

  // The runs in their order.
  [[nodiscard]] bool empty() const { return m_runs.empty(); }
  [[nodiscard]] std::size_t size() const { return m_runs.size(); }
  [[nodiscard]] auto begin() const { return m_runs.begin(); }
  [[nodiscard]] auto end() const { return m_runs.end(); }
  [[nodiscard]] const Run& front() const { return m_runs.front(); }
  [[nodiscard]] const Run& back() const { return m_runs.back(); }
  [[nodiscard]] const Run& operator[](std::size_t place) const { return m_runs[place]; }
  [[nodiscard]] const std::vector<ModelInput>& models() const { return m_models; }

  /// Null where there is no such run (any more).
  [[nodiscard]] const Run* run(RunId id) const;
  /// The run that another one is a changed copy of, on the same text; null where there is none.
  [[nodiscard]] const Run* baseOf(const Run& run) const;
  /// The run of a name: the one shown under it, else one whose name with its file is this, else the first that its file
  /// names so. Names of sessions and panes find their run although another one of the same name came or went. Null
  /// where there is none.
  [[nodiscard]] const Run* runNamed(const QString& name) const;
  /// The model that made a run, or would make it again.
  [[nodiscard]] ModelInput modelOf(const Run& run) const;
  /// The head as the backend wants it; nothing where the run or the head does not exist.
  [[nodiscard]] std::optional<HeadOf> headOf(const HeadChoice& choice) const;

  // The text that the selection speaks of.
  Selection& selection() { return m_selection; }
  [[nodiscard]] const Selection& selection() const { return m_selection; }
  /// The run whose positions the selection speaks in: the first on the chosen head's text. Null where there are no
  /// runs.
  [[nodiscard]] const Run* reference() const { return referenceOf(m_shownText); }
  /// The first run on a text, one that is not hidden if there is any; null where there is none.
  [[nodiscard]] const Run* referenceOf(int text) const { return referenceAmong(m_runs, text); }
  [[nodiscard]] std::int64_t length() const;  ///< of the reference run; 0 where there is none
  /// The runs on the reference run's text that are not hidden, in their order.
  [[nodiscard]] std::vector<const Run*> runsOnText() const;
  /// Whether a run read the text that the selection speaks of.
  [[nodiscard]] bool isOnText(RunId id) const;
  /// The selection's place in a text, or where it was when another text was chosen.
  [[nodiscard]] TextPlace placeIn(int text) const;
  /// A position of the reference run in another run; nothing where that has not read so far, or read another text.
  [[nodiscard]] std::optional<std::int64_t> positionIn(RunId id, std::int64_t position) const;
  /// Pins the query at a position of a run, and shows it; does nothing where the reference run has not read so far, or
  /// the run read another text.
  void goTo(RunId id, std::int64_t position);
  [[nodiscard]] RunPlaces placesOf(RunId id) const;
  /// Keeps a pair of the text shown marked while others are pinned; not twice, and no pair that does not exist. Can be
  /// undone.
  void lockPair(const Cursor& pair);
  /// Takes a lock out, by its place in Selection::locks; can be undone.
  void unlockPair(std::size_t place);
  void unlockAll();

  // The list as it is shown.
  [[nodiscard]] std::vector<ListRow> listRows() const { return gui::listRows(m_runs, m_models); }
  /// The run's name, or what the run will be called.
  [[nodiscard]] QString nameOf(const ListRow& row) const;
  [[nodiscard]] const RunLook& lookOf(const ListRow& row) const;
  /// Another name, colour, or whether it is hidden, of a run and its model. Where the run of the chosen head is hidden,
  /// another one's head is chosen. Can be undone.
  void setLook(const ListRow& row, const RunLook& look);
  /// Moves a row, among the runs or among the models that have not run; can be undone.
  void moveRow(int from, int to);
  /// Puts the runs into another order, with their models; can be undone.
  /// @param what  "sort the runs by loss"
  void sortRuns(const std::vector<RunId>& order, const QString& what);
  /// Takes a run and its model out; can be undone.
  void removeRow(const ListRow& row);
  /// Can be undone.
  void removeRun(RunId id);
  /// Takes a model out, and the run that it made; can be undone.
  void removeModel(int index);
  [[nodiscard]] UndoHistory& undoStack() { return m_undo; }

  // Runs and models that come into the list.
  /// Adds a checkpoint under a name of its own; an equal path is not added twice.
  /// @param training  folder of the training that it is a checkpoint of; an equal one is not added twice
  /// @param device    ModelInput::device
  void addModel(const QString& path, const QString& name = {}, const QString& training = {},
                const QString& device = {});
  /// Adds a changed copy of a model under a name of its own.
  /// @returns it, as it stands in models()
  ModelInput addChanged(const ModelInput& base, const QStringList& interventions);
  /// Makes a model another checkpoint of its training.
  /// @param made  its run, which takes the place of the model's run; nothing for a model that has not run
  void showCheckpoint(const QString& model, const QString& path, std::optional<Run> made);
  /// Adds a run that a model has made, in the place of the model's run before. Runs that models made on another text
  /// go.
  /// @returns its number
  RunId addMade(Run made);
  /// The runs of a file that are to come into the list, with numbers of their own. None, and a message, where the file
  /// is open already; of the files of a session those alone that it names.
  [[nodiscard]] std::vector<Run> runsOfFile(const QString& path, const OpenedRunFile& opened);
  void addOfFile(const std::vector<Run>& runs);
  /// The name that a session that is being opened gives the run that it keeps in a file; empty: it keeps none there.
  [[nodiscard]] QString keptIn(const QString& path) const;
  /// The file of a run that a session keeps could not be read. The run's pins are shown on the session's other runs of
  /// its text; the chosen head waits for the run to be made again.
  void giveUpKept(const QString& path);
  /// Runs stand in a file now.
  void setFile(const std::vector<RunId>& runs, const QString& file);
  /// Opening a session makes these runs again.
  void setOfSession(const std::vector<RunId>& runs);
  /// A run stands in a file that a session keeps (Run::kept).
  void setKept(RunId run, const QString& file);

  /// The chosen head with its run's name, pins, locked pairs and range.
  [[nodiscard]] SelectionState selectionState() const;
  /// The same for a session: while what the one before chose waits for its run, and the user chose nothing else, it is
  /// that.
  [[nodiscard]] SelectionState selectionToKeep() const;
  /// Puts the models of a session in the place of everything. Its runs come later, and find their order, their looks
  /// and what was chosen in them. The history of undo is forgotten, and with it the memory of removed runs.
  void replace(const std::vector<ModelInput>& models, const std::vector<SessionRun>& runs,
               const QJsonObject& selection);
  /// Removes everything, as replace() does with nothing.
  void clear() { replace({}, {}, {}); }

  /// The runner of work that may take seconds: maps, statistics, files that are opened.
  JobRunner& jobs() { return m_jobs; }
  /// The runner of work that takes milliseconds and follows the mouse: single rows and entries, curves, colours,
  /// searches. It never waits for a map.
  JobRunner& quickJobs() { return m_quick; }
  [[nodiscard]] bool busy() const { return m_jobs.busy() || m_quick.busy(); }

 signals:
  void runsChanged();  ///< a run came or went
  void modelsChanged();
  /// A head of a run on another text was chosen: the reference, length() and placeIn() are others.
  void referenceChanged();
  void messageRaised(const foxscope::gui::Message& message);

 private:
  class Removal;
  class LockChange;
  class LookChange;
  class OrderChange;
  /// Runs by number, models by name.
  struct Order {
    std::vector<RunId> runs;
    QStringList models;
    bool operator==(const Order&) const = default;
  };
  [[nodiscard]] Order order() const;
  void take(const Order& order);
  void changeOrder(const Order& order, const QString& what);
  [[nodiscard]] std::vector<Run> keptRun(const SessionRun& kept, const OpenedRunFile& opened);
  void takeLook(RunId id, const QString& model, const RunLook& look);
  void takeRuns(std::vector<Run> runs);
  void followHead();
  void changeLocks(const std::vector<Cursor>& locks, const QString& what);
  /// The pairs that lie in the text shown.
  [[nodiscard]] std::vector<Cursor> inText(const std::vector<Cursor>& pairs) const;
  void leaveText();
  void enterText(int text);
  void restoreSelection();
  void restorePlace(const SelectionState& state);
  [[nodiscard]] bool isPlaceOf(const QString& run) const;
  void remove(std::optional<int> model, const std::vector<RunId>& ids, const QString& what);

  Selection m_selection;
  std::vector<Run> m_runs;
  std::vector<ModelInput> m_models;
  /// Kept for every run but the references: comparing two long texts' tokens is not for each movement of the mouse.
  std::map<RunId, RunPlaces> m_places;
  RunId m_lastRun = kNoRun;
  int m_lastText = 0;
  int m_shownText = 0;                    ///< the one that the selection speaks of
  std::map<int, TextPlace> m_leftPlaces;  ///< where one was in texts that are not shown
  QJsonObject m_wantedSelection;          ///< of a session whose runs are still being made
  bool m_runUnread = false;               ///< the file of the run that it names could not be read
  bool m_placeRestored = false;           ///< its pins are shown already, on another run
  SelectionState m_meanwhile;             ///< what is chosen while it waits, unless the user chooses something else
  std::vector<SessionRun> m_wantedRuns;   ///< of a session whose run files are still being opened
  std::vector<SessionRun> m_sessionRuns;  ///< their order and looks, until the user chooses another order
  UndoHistory m_undo;
  // Last, so that their threads end first.
  JobRunner m_jobs;
  JobRunner m_quick;
};

}  // namespace foxscope::gui

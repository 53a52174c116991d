#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <QJsonArray>
#include <QObject>
#include <QString>

#include "app/gui/document/runs/model_runs.h"
#include "app/gui/document/runs/run_list.h"
#include "backend/eval/sweep/sweep_file.h"

namespace foxscope::gui {

struct OpenedSweep;

/// Every head of a run changed in turn: one that is being made, was stopped, is whole, or was read from a file.
struct HeadSweep {
  enum class State { running, stopped, whole };
  int id = 0;
  QString name;         ///< "fox-pro-12m, gate 1"
  QString text;         ///< name of the text that is read: "up-from-slavery-1.txt"; empty: not known
  RunId run = kNoRun;   ///< whose heads it is about, where that run is open
  Intervention change;  ///< of each head in turn
  int layers = 0;
  int heads = 0;  ///< of the layer that has most
  std::vector<int> headsOfLayer = {};
  std::int64_t tokens = 0;
  std::vector<std::optional<LossChange>> effects;     ///< [layers * heads], as far as they are known
  std::shared_ptr<const SweepEvaluation> whole = {};  ///< null until all heads are known
  State state = State::stopped;
  QString stage = {};       ///< of one that runs
  double fraction = -1;     ///< of its work, 0 to 1; negative: not known
  double secondsLeft = -1;  ///< negative: not known

  /// The text of the losses: "on up-from-slavery-1.txt (2,048 tokens)".
  [[nodiscard]] QString place() const;
  /// Whether a layer has a head: layers need not have equally many.
  [[nodiscard]] bool has(int layer, int head) const;
  /// Heads of all layers.
  [[nodiscard]] int total() const;
  [[nodiscard]] const LossChange* effect(int layer, int head) const;
  [[nodiscard]] int known() const;
};

/// The interventions of a run, from what its trace says of them.
std::vector<Intervention> interventionsOf(const TraceInfo& info);
/// "L3 H0, gate 1; L2 H1, cut"
QString wordsOf(const std::vector<Intervention>& interventions);

/// The sweeps of a window, one of them shown. They are made on a thread of their own, head by head, so that neither
/// runs nor maps wait for them; one that was stopped goes on where it was.
class Sweeps : public QObject {
  Q_OBJECT

 public:
  Sweeps(RunList& runs, const ModelRuns& modelRuns, QObject* parent = nullptr);
  /// Where work is kept from now on, head by head, so that no sweep is lost with its window: one that is begun again
  /// goes on from there. The newest are kept. Empty: nowhere.
  void setFolder(const QString& folder) { m_folder = folder; }
  ~Sweeps() override;

  /// The sweeps that may be shown, in the order in which they came: not those over the heads of a hidden run, but the
  /// one that is being made, so that it can be stopped.
  [[nodiscard]] std::vector<const HeadSweep*> visible() const;
  /// Whether there are some over the heads of hidden runs.
  [[nodiscard]] bool anyHidden() const { return visible().size() < m_sweeps.size(); }
  /// Null where there is none.
  [[nodiscard]] const HeadSweep* shown() const;
  void show(int id);
  /// Begins one over the heads of a run on the text that it read; one of the same kind that was stopped goes on. A
  /// message tells of an obstacle.
  void start(RunId run, const Intervention& change);
  /// The one that is shown goes on, or stops.
  void resume();
  void stop();
  /// Shows one that was read from a file.
  void open(const OpenedSweep& opened);
  /// Takes the one that is shown out of the window.
  void close();
  [[nodiscard]] bool running() const;

  /// The sweeps of open runs that are not read from a file, for a session.
  [[nodiscard]] QJsonArray saveState() const;
  /// Restores sweeps, as far as their work was kept, when their runs are there.
  void restoreState(const QJsonArray& sweeps);

 signals:
  void changed();  ///< a sweep came, went, moved on, or another one is shown
  void added();    ///< one came that is to be seen

 private:
  enum Channel { kSweep, kForget };  ///< the last for each sweep by its number
  struct Work;
  [[nodiscard]] HeadSweep* find(int id);
  [[nodiscard]] RunId runOf(const SweepEvaluation& evaluation) const;
  enum class Effort { make, readKept };
  void submit(HeadSweep& sweep, Effort effort = Effort::make);
  /// Adds one that has not begun; null, and a message, where something is in the way.
  HeadSweep* add(RunId run, const Intervention& change);
  void bringBack();
  void forgetKept(int id);
  void takeOut();
  void takeKnown(HeadSweep& sweep, Work& work);
  void finish(int id, std::shared_ptr<const SweepEvaluation> whole);
  void followRuns();
  void warn(const QString& text);

  RunList& m_runs;
  const ModelRuns& m_modelRuns;
  std::vector<HeadSweep> m_sweeps;
  std::vector<std::pair<int, std::shared_ptr<Work>>> m_works;  ///< by the number of their sweep
  QString m_folder;
  QJsonArray m_wanted;  ///< of a session whose runs are still being made
  int m_shown = 0;
  int m_last = 0;
  int m_running = 0;  ///< number of the one that runs; 0: none
  StageClock m_clock;
  JobRunner m_runner;  ///< last, so that its thread ends first
};

}  // namespace foxscope::gui

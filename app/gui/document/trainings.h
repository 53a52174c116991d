#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <QFileSystemWatcher>
#include <QObject>
#include <QString>
#include <QTimer>

#include "app/gui/document/remote/machines.h"
#include "app/gui/document/runs/model_runs.h"
#include "app/gui/document/runs/run_list.h"
#include "backend/train/training_record.h"

namespace foxscope::gui {

/// A training that is open: one model of the list at many steps.
struct OpenTraining {
  QString folder;                                ///< ModelInput::training
  QString model;                                 ///< name of the model
  QString title;                                 ///< as it is shown
  std::shared_ptr<const TrainingRecord> record;  ///< never null, with one checkpoint or more
  /// Reads the folder once more, going on behind the record; null where it was stopped.
  using Read = std::function<std::shared_ptr<const TrainingRecord>(const Job&)>;
  Read read;
  std::optional<std::size_t> shown = {};  ///< place of the checkpoint that the model is; nothing where that is gone
  std::size_t wanted = 0;                 ///< of the one that was chosen; its run may be on its way

  [[nodiscard]] const TrainingCheckpoint& chosen() const { return record->checkpoints[wanted]; }
  /// Tokens seen at a checkpoint.
  [[nodiscard]] std::int64_t tokensAt(const TrainingCheckpoint& checkpoint) const;
};

/// The trainings of a window. Choosing another checkpoint of one runs that on the text that the model's run read, on a
/// thread of its own, and puts the new run in the place of the old one; runs that were made stay for as long as there
/// is memory for them, so that going back takes no time. When checkpoints are chosen faster than they run, the last
/// alone runs. The steps that a running training adds are read by themselves.
class Trainings : public QObject {
  Q_OBJECT

 public:
  /// @param machines  that folders on other machines are read from; null: there are none such
  Trainings(RunList& runs, const ModelRuns& modelRuns, Machines* machines = nullptr, QObject* parent = nullptr);
  ~Trainings() override;

  [[nodiscard]] const std::vector<OpenTraining>& open() const { return m_open; }
  /// The training whose checkpoints are chosen: the training of the chosen head's run, or the one shown last. Null if
  /// none is open.
  [[nodiscard]] const OpenTraining* shown() const;
  void show(const QString& folder);
  /// Chooses another checkpoint of the one shown, by its place.
  void choose(std::size_t place);
  /// Whether the run of a chosen checkpoint is on its way.
  [[nodiscard]] bool computing() const { return !m_running.isEmpty(); }
  /// How far that is.
  [[nodiscard]] const JobProgress& progress() const { return m_progress; }

  /// Whether choosing a checkpoint of the one shown takes no time: its run is there, or it has none to make.
  [[nodiscard]] bool known(std::size_t place) const;
  /// Whether the run of a checkpoint of the one shown was tried ahead, and failed.
  [[nodiscard]] bool failed(std::size_t place) const;
  /// Whether the runs of the checkpoints behind the chosen one are made in the background, as many as there is memory
  /// for.
  void setAhead(bool ahead);
  /// Whether the reason why a checkpoint cannot run, or a record cannot be read, is kept for who asked, not told.
  void setQuiet(bool quiet);
  /// The first reason that was kept; empty: all went well.
  [[nodiscard]] const QString& failure() const { return m_failure; }

  /// Milliseconds between two looks at a folder on another machine, while a process trains there.
  void setPace(int milliseconds) { m_pace = milliseconds; }

  /// A path was opened once more: what stands there of an open training is read once more.
  void readAgain(const QString& path);

 signals:
  void changed();  ///< a training came, went or grew; another one, or another checkpoint, is chosen; its run moved on
  void added();    ///< one came that is to be seen

 private:
  enum Channel { kRun, kAhead, kFirstRead = 100 };
  struct Made;
  /// The run of a checkpoint that was made before.
  struct Kept {
    QString checkpoint;
    std::string text;  ///< SHA-256
    std::int64_t length = 0;
    Run run;
    double bytes = 0;
  };
  [[nodiscard]] OpenTraining* find(const QString& folder);
  [[nodiscard]] const Run* runOf(const OpenTraining& training) const;
  [[nodiscard]] const Kept* keptRun(const QString& checkpoint, const Run& like) const;
  void keep(const QString& checkpoint, const Run& run);
  void followInputs();
  void followHead();
  /// Place of the checkpoint that a training's model is.
  [[nodiscard]] std::optional<std::size_t> placeOfModel(const OpenTraining& training) const;
  void read(const QString& folder);
  void take(const QString& folder, std::shared_ptr<const TrainingRecord> record, OpenTraining::Read read);
  /// The thread that reads a folder.
  [[nodiscard]] JobRunner& readerOf(const QString& folder);
  /// Removes runs that were kept; those on other machines there, too.
  void forget(const std::function<bool(const Kept&)>& isGone);
  void watch();
  void readChanged();
  /// Shows the wanted checkpoint of every training: those that were made at once, of the others the first runs.
  void proceed();
  void run(const OpenTraining& training, const Run& from);
  /// The run of a checkpoint on the text that another run read.
  [[nodiscard]] JobRunner::Request<Made> requestOf(const OpenTraining& training, const QString& checkpoint,
                                                   const Run& from) const;
  void runAhead();
  /// Runs that may be kept beside the one that is shown.
  [[nodiscard]] std::size_t roomForRuns() const;
  void stop();
  void receive(const Made& made);
  void tell(Message::Kind kind, const QString& text);
  void tellFailure(const QString& folder, const QString& message);

  RunList& m_runs;
  const ModelRuns& m_modelRuns;
  Machines* m_machines;
  std::vector<OpenTraining> m_open;
  QStringList m_reading;  ///< folders whose record is on its way
  QStringList m_refused;  ///< that could not be read
  QString m_shown;
  RunSettings m_settings;    ///< that kept runs were made with
  std::vector<Kept> m_kept;  ///< that was used last is last
  double m_bytes = 0;        ///< of a run, as it was estimated last
  double m_free = 0;         ///< likewise of memory
  QString m_running;         ///< checkpoint that runs; empty: none
  JobProgress m_progress;    ///< of that
  bool m_ahead = false;
  QString m_runningAhead;     ///< checkpoint; empty: none
  QStringList m_failedAhead;  ///< checkpoints that could not run
  int m_pace = 2000;
  bool m_quiet = false;
  QString m_failure;     ///< that was kept
  QStringList m_lacked;  ///< folders that are gone, which has been said
  std::unique_ptr<Engine> m_engine;
  QFileSystemWatcher m_watcher;
  QTimer m_changed;
  QTimer m_look;  ///< at folders on other machines, which nobody watches
  int m_readChannel = kFirstRead;
  JobRunner m_runner;  ///< last, so that its thread ends first
};

}  // namespace foxscope::gui

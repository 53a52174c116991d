#pragma once

#include <functional>
#include <memory>
#include <vector>

#include <QObject>
#include <QStringList>

#include "app/gui/document/evaluation_list.h"
#include "app/gui/document/file_writer.h"
#include "app/gui/document/remote/machines.h"
#include "app/gui/document/runs/model_runs.h"
#include "app/gui/document/runs/run_list.h"
#include "app/gui/document/session_store.h"
#include "backend/file/run_file.h"

namespace foxscope::gui {

struct OpenedSweep;

/// Runs, models, text, files and sessions of a window, in parts: the list of runs with what is chosen in them, the runs
/// that are made of models and a text, files that are written, evaluations, sessions. Opens files, and gives each part
/// what it takes. It knows no widget; views observe the parts that they need. Everything that takes time happens on job
/// runners.
class Document : public QObject {
  Q_OBJECT

 public:
  explicit Document(QObject* parent = nullptr);
  ~Document() override;

  RunList& runs() { return m_runs; }
  [[nodiscard]] const RunList& runs() const { return m_runs; }
  ModelRuns& modelRuns() { return m_modelRuns; }
  [[nodiscard]] const ModelRuns& modelRuns() const { return m_modelRuns; }
  EvaluationList& evaluations() { return m_evaluations; }
  [[nodiscard]] const EvaluationList& evaluations() const { return m_evaluations; }
  FileWriter& files() { return m_files; }
  Machines& machines() { return m_machines; }
  SessionStore& sessions() { return m_sessions; }
  [[nodiscard]] const SessionStore& sessions() const { return m_sessions; }

  /// Opens what a path holds, told apart by content: a checkpoint folder, a training, a run file, an evaluation, a
  /// session, a text. Runs of a file stand beside those that are there; a file that is open already is not opened
  /// twice.
  /// @param device  of models on another machine, ModelInput::device
  void open(const QStringList& paths, const QString& device = {});
  /// Opens a run file of another machine once more, which has changed there, in the place of its runs. Where it has
  /// gone they stay, and a message says so.
  void openAgain(const QString& path);
  /// Files whose opening takes a while, because row normalisers are computed that they lack, oldest first.
  [[nodiscard]] std::vector<ExportStatus> openings() const;
  void cancelOpening(const QString& path);
  /// From now on run files whose arrays contradict one another are opened too; their runs' names say so.
  void leaveUnchecked() { m_check = RunCheck::none; }
  /// Is asked before a session takes the place of everything, and calls what it is given when it may.
  void setReplaceGuard(std::function<void(std::function<void()> replace)> guard) { m_guard = std::move(guard); }
  /// Everything as in a new window. The history of undo is forgotten, and with it the memory of removed runs.
  void clear();
  /// True while a file is being opened or written, models run, or an answer of a view is on its way.
  [[nodiscard]] bool busy() const;

 signals:
  void messageRaised(const foxscope::gui::Message& message);  ///< by any part
  void sweepOpened(const foxscope::gui::OpenedSweep& sweep);
  void pathOpened(const QString& path);  ///< for Open Recent
  void openingsChanged();                ///< one came, moved on or went
  void idle();

 private:
  enum Channel { kLookAgain };
  struct Opened;
  struct Opening;
  void receive(Opened opened);
  /// @returns false for a file that a session keeps for itself, which nobody opens
  bool receiveRunFile(const Opened& opened);
  void receiveSession(const Opened& opened);
  void tell(Message::Kind kind, const QString& text);

  // The list's job runners end last: the other parts' threads give them nothing to do any more.
  RunList m_runs;
  Machines m_machines{m_runs};
  ModelRuns m_modelRuns;
  EvaluationList m_evaluations{m_runs.undoStack()};
  FileWriter m_files;
  SessionStore m_sessions;
  std::function<void(std::function<void()>)> m_guard;
  int m_openChannel = 0;
  RunCheck m_check = RunCheck::whole;  ///< of run files that are opened
  std::vector<std::shared_ptr<Opening>> m_openings;
  JobRunner m_opener;  ///< apart from pictures, which may have to wait long; last, so that its thread ends first
};

}  // namespace foxscope::gui

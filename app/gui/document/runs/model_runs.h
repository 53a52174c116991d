#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <QObject>
#include <QStringList>

#include "app/gui/document/job_runner.h"
#include "app/gui/document/runs/run.h"
#include "app/gui/document/stage_clock.h"

namespace foxscope {
class Engine;
class OutputHead;
struct RunRequest;
struct TokenTable;
}  // namespace foxscope

namespace foxscope::gui {

class PredictionHeads;
class RunList;

/// Runs models on a text, one after the other, and puts the runs into the list: what is to be read and how, the queue
/// of models, the question whether there is memory for them, changed copies, saliency.
class ModelRuns : public QObject {
  Q_OBJECT

 public:
  explicit ModelRuns(RunList& runs, QObject* parent = nullptr);
  ~ModelRuns() override;

  [[nodiscard]] const TextInput& text() const { return m_text; }
  [[nodiscard]] const RunSettings& settings() const { return m_settings; }
  /// Keeps the models in memory that were run last.
  [[nodiscard]] const Engine& engine() const { return *m_engine; }
  /// Finds, on any thread, the head that a run's predictions are made with: that of the model that made it, or of an
  /// open model with the same weights; null where there is none.
  using FindHead = std::function<std::shared_ptr<const OutputHead>(const Job&)>;
  [[nodiscard]] FindHead headOf(const Run& run) const;
  [[nodiscard]] const RunStatus& runStatus() const { return m_status; }
  /// Names of the models that were to run and whose run is not there yet, that of the one that runs now first.
  [[nodiscard]] QStringList waiting() const;
  /// The first thing that a run has to wait for, a line such as "No text yet: ..."; empty where a run can be made.
  [[nodiscard]] QString runObstacle() const;
  /// Says where there is no run what it waits for: runObstacle(), or F5.
  [[nodiscard]] QString noRunText() const;
  [[nodiscard]] bool canRun() const { return runObstacle().isEmpty(); }
  /// True while models run or an answer is on its way.
  [[nodiscard]] bool busy() const { return m_runner.busy(); }

  /// Whether a run has read the text, or the first tokens of it.
  [[nodiscard]] bool isTextOf(const Run& run) const;
  /// Whether there are runs, and a text that none of them has read.
  [[nodiscard]] bool isTextNew() const;
  /// Another text; where it replaces one, this can be undone.
  /// @param limit  RunSettings::limit from then on, undone with the text; empty: as it is
  void setText(const TextInput& text, std::optional<std::int64_t> limit = {});
  /// The text as it is being typed: all that is typed in a row is undone at once.
  void editText(const std::string& content);
  /// The text of a run file that comes into the list, unless a text was typed or opened to be run.
  void followText(const Text& text);
  /// The text stands in this file now, unless it was changed meanwhile.
  void setTextFile(const QString& file, const std::string& content);
  /// Can be undone.
  void setSettings(const RunSettings& settings);
  /// Takes over those of a session, in silence: RunList::replace, which follows, tells of both.
  void restore(const TextInput& text, const RunSettings& settings);

  /// Runs every model on the text, one after the other; each result appears when it is there, in the place of the
  /// model's run before. Runs that models made on another text go when the first of them is there.
  void startRun();
  /// Runs models once more that a session had run: opening it makes their runs again. Nothing where no run can be made.
  void startSessionRun(const std::vector<ModelInput>& models);
  /// Runs the model of a run once more on the text of that run, with changes to its gates or heads: a model of its own
  /// from then on. A message names any obstacle.
  void startDerivedRun(RunId base, const QStringList& interventions);
  /// Runs the model of a run once more on the text of that run, and differentiates the mean loss of some positions by
  /// every gate (Keep::saliency). The new run takes the place of the old one. A message names any obstacle.
  /// @param target  positions of that run; nothing: all
  void startSaliency(RunId id, std::optional<Range> target);
  /// The reason why a run cannot have saliency, and what to do, in a line; empty where it can.
  [[nodiscard]] QString saliencyObstacle(RunId id) const;
  void cancelRun();
  /// The answers to memoryAsked: all the same, or over the first tokens alone. Without an answer nothing runs.
  void runAnyway();
  void runFewer(std::int64_t tokens);

 signals:
  void inputsChanged();  ///< models, text or settings
  void runStatusChanged();
  void noRunTextChanged();  ///< noRunText(), perhaps, while there is no run
  /// The models that were to be run would take much memory: they run after runAnyway or runFewer.
  void memoryAsked(const foxscope::gui::MemoryQuestion& question);
  void messageRaised(const foxscope::gui::Message& message);
  void idle();

 private:
  enum Channel { kRun };
  struct Produced;
  class Replacement;
  class Typing;
  class SettingsChange;
  enum class Wanted { byUser, bySession };
  /// The text that models read, and the arrays that are kept of them.
  struct Reading {
    QString file;                      ///< name of the text's file, for errors; may be empty
    std::shared_ptr<const Text> text;  ///< null: ids
    std::int64_t limit = 0;            ///< first N tokens; 0: all
    bool saliency = false;
    std::optional<Range> target = {};  ///< of saliency; nothing: all positions
    Wanted wanted = Wanted::byUser;
    std::shared_ptr<const std::string> ids = {};  ///< TextInput::ids, in the place of the text
    QString name = {};                            ///< TextInput::name
  };
  void run(std::vector<ModelInput> models, Reading reading);
  [[nodiscard]] Reading enteredText() const;
  [[nodiscard]] const Run* runToRepeat(RunId id, const QString& obstacle);
  void estimateMemory();
  void runNext();
  using Work = std::function<std::optional<Produced>(const Job&)>;
  [[nodiscard]] Work workHere(const ModelInput& model, const std::shared_ptr<const TokenTable>& cut) const;
  [[nodiscard]] Work workThere(const ModelInput& model) const;
  [[nodiscard]] RunRequest requestOfRun() const;
  void receiveRun(const Produced& produced);
  void endRun();
  void tellStage(const QString& stage, double fraction, double secondsLeft);
  void changeText(const TextInput& text);
  void changeSettings(const RunSettings& settings);
  void tell(Message::Kind kind, const QString& text);

  RunList& m_runs;
  TextInput m_text;
  RunSettings m_settings;
  std::unique_ptr<Engine> m_engine;
  std::shared_ptr<PredictionHeads> m_heads;
  RunStatus m_status;
  StageClock m_stageClock;
  std::vector<ModelInput> m_queue;  ///< models that run, or have run, since the run was asked for
  Reading m_reading;                ///< of the queue
  /// [m_queue] the text's tokens, where the estimate of memory has cut it; empty: none are
  std::vector<std::shared_ptr<const TokenTable>> m_cut;
  bool m_memoryAsked = false;  ///< m_queue waits for an answer
  JobRunner m_runner;          ///< last, so that its thread ends first
};

}  // namespace foxscope::gui

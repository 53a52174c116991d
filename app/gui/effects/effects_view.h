#pragma once

#include <QComboBox>
#include <QLabel>
#include <QProgressBar>
#include <QPushButton>
#include <QSplitter>
#include <QToolButton>

#include "app/gui/document/runs/sweeps.h"
#include "app/gui/effects/change_card.h"
#include "app/gui/effects/sweep_grid.h"
#include "app/gui/views/elided_label.h"
#include "app/gui/views/view_part.h"

namespace foxscope::gui {

class FileWriter;

/// The effects of changes to heads on the loss: the sweep that is shown as a grid, and a card with the answer to what
/// was asked last, which is a head of the sweep, or a run that is a changed copy of another.
class EffectsView : public QWidget, public ViewPart {
  Q_OBJECT

 public:
  EffectsView(RunList& runs, FileWriter& files, Sweeps& sweeps, QWidget* parent = nullptr);

  [[nodiscard]] SweepGrid& grid() { return *m_grid; }
  [[nodiscard]] ChangeCard& card() { return *m_card; }
  [[nodiscard]] QComboBox& choice() { return *m_choice; }
  /// The text of the losses of the sweep that is shown: "on up-from-slavery-1.txt (2,048 tokens)".
  [[nodiscard]] QString caption() const { return m_caption->text(); }
  [[nodiscard]] QPushButton& stopOrResume() { return *m_stop; }
  /// Writes the sweep that is shown in the background: its figure (.pdf, .svg, .png), its table (.csv), or its file.
  void write(const QString& path);

  [[nodiscard]] QJsonObject saveState() const override { return {{"sweeps", m_sweeps.saveState()}}; }
  void restoreState(const QJsonObject& state) override { m_sweeps.restoreState(state["sweeps"].toArray()); }
  [[nodiscard]] bool isSettled() const override { return !m_sweeps.running(); }

 signals:
  void answered();  ///< a changed run came, and the card says what it did

 private:
  /// The card's answer for a changed run.
  struct Answer {
    RunId run = kNoRun;
    QString name;
    std::shared_ptr<const TokenTable> tokens;
    LossChange change;
  };
  /// A changed run, and what it was made from.
  struct Seen {
    RunId id = kNoRun;
    ModelInput input;
  };
  enum Channel { kAnswer };
  void makeTools();
  void followRuns();
  void forgetGone();
  /// A head that is chosen now is newer than all changed runs.
  void followHead();
  void followSweeps();
  void showTools(const HeadSweep* sweep);
  void showCard();
  /// Whether a run is a changed copy of another, and neither is hidden.
  [[nodiscard]] bool isCompared(const Run& run) const;
  /// The changed run whose effect is shown: the run of the head that was chosen since, else the newest. Null if there
  /// is none.
  [[nodiscard]] const Run* answeredRun() const;
  [[nodiscard]] const Run* changedAlone() const;
  void showSweptHead(const HeadSweep& sweep, int layer, int head);
  void ask(const Run& run, const Run& base);
  void choose(int layer, int head);
  void choosePath();
  [[nodiscard]] std::optional<std::pair<int, int>> chosenIn(const HeadSweep& sweep) const;

  RunList& m_runs;
  FileWriter& m_files;
  Sweeps& m_sweeps;
  QComboBox* m_choice;
  ElidedLabel* m_caption;
  QProgressBar* m_progress;
  QPushButton* m_stop;
  QPushButton* m_export;
  QToolButton* m_close;
  QWidget* m_tools;
  SweepGrid* m_grid;
  ChangeCard* m_card;
  std::optional<Answer> m_answer;
  std::vector<Seen> m_seen;                     ///< changed runs, in the order in which they came
  bool m_headIsNewer = false;                   ///< a head was chosen since the last of them came
  RunId m_spokenOf = kNoRun;                    ///< run whose positions the card's tokens have
  std::optional<std::pair<int, int>> m_chosen;  ///< of a sweep whose run is not open
};

}  // namespace foxscope::gui

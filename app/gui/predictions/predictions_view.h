#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <QLabel>
#include <QToolButton>
#include <QWidget>

#include "app/gui/document/runs/model_runs.h"
#include "app/gui/document/runs/run_list.h"
#include "app/gui/predictions/prediction_table.h"
#include "app/gui/views/elided_label.h"
#include "app/gui/views/message_pages.h"
#include "app/gui/views/view_part.h"

class QHBoxLayout;

namespace foxscope::gui {

/// The tokens that each shown run expected at the pinned position: its likeliest tokens with their p, the token that
/// came with its rank and p. Beside a run with a change stands what it expected without the change. Asks for the run
/// without the gate of the chosen head.
class PredictionsView : public QWidget, public ViewPart {
  Q_OBJECT

 public:
  PredictionsView(RunList& runs, ModelRuns& modelRuns, QWidget* parent = nullptr);

  /// The line instead of the lists; empty while they are shown.
  [[nodiscard]] QString message() const { return m_pages->message(); }
  [[nodiscard]] QString caption() const { return m_caption->text(); }
  [[nodiscard]] QToolButton& gate() const { return *m_gate; }
  /// The lists that are shown, one a run, and what stands above each.
  [[nodiscard]] int lists() const;
  [[nodiscard]] PredictionTable& table(int list) const { return *m_panels[static_cast<std::size_t>(list)].table; }
  [[nodiscard]] QString title(int list) const { return m_panels[static_cast<std::size_t>(list)].title->text(); }
  [[nodiscard]] QString summary(int list) const { return m_panels[static_cast<std::size_t>(list)].summary->text(); }
  /// Whether a run without a gate was asked for here and has come since it was asked for last.
  [[nodiscard]] bool takeAwaited() { return std::exchange(m_awaited, false); }

  [[nodiscard]] QJsonObject saveState() const override { return {}; }
  void restoreState(const QJsonObject& /*state*/) override {}
  [[nodiscard]] bool isSettled() const override { return !isVisible() || !m_asked; }

 signals:
  void available();  ///< a run that kept predictions is there, for the first time

 protected:
  void showEvent(QShowEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  /// The lines about one run.
  struct Told {
    RunId run = kNoRun;
    QString problem;  ///< why nothing can be told; empty where it can
    std::vector<PredictionTable::Row> rows;
    bool changed = false;  ///< p without the change stands beside p
    double p = 0;          ///< of the token that came
    double nats = 0;
    double entropy = 0;
    qint64 rank = 0;
  };
  struct Answer {
    std::int64_t query = 0;
    std::vector<Told> runs;
  };
  struct Panel {
    QWidget* whole;
    QLabel* mark;
    ElidedLabel* title;
    ElidedLabel* summary;
    QLabel* problem;
    PredictionTable* table;
  };
  struct Asked;
  enum Channel { kAnswer };

  [[nodiscard]] Panel makePanel();
  [[nodiscard]] static Answer answerTo(const std::vector<Asked>& asked, std::int64_t query, const Job& job);
  void followRuns();
  void outdate();
  void refresh();
  void showMessage(const QString& message);
  void take(Answer answer);
  void showAnswer();
  void showRun(Panel& panel, const Told& told, double longest);
  void followGate();
  void askForGate();
  [[nodiscard]] QString obstacleOf(const Run& run) const;

  RunList& m_runs;
  ModelRuns& m_modelRuns;
  ElidedLabel* m_caption;
  QToolButton* m_gate;
  QHBoxLayout* m_lists;
  MessagePages* m_pages;
  std::vector<Panel> m_panels;
  std::optional<Answer> m_answer;  ///< that is shown
  bool m_asked = false;            ///< an answer is on its way, or is to be asked for
  bool m_awaited = false;
  bool m_any = false;  ///< some run kept predictions
};

}  // namespace foxscope::gui

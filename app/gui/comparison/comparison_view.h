#pragma once

#include <optional>

#include <QComboBox>
#include <QLabel>
#include <QToolButton>
#include <QWidget>

#include "app/gui/document/runs/run_list.h"
#include "app/gui/views/message_pages.h"
#include "app/gui/views/view_part.h"
#include "backend/eval/loss/loss_comparison.h"

namespace foxscope::gui {

class DifferenceTable;
class OctaveBars;

/// The answer to "which of two models predicts this text better, by how much, and where": the mean difference of the
/// losses with its error, of the whole text and of the range shown, by octave of position, and the tokens that the
/// first model predicts better and worse.
class ComparisonView : public QWidget, public ViewPart {
  Q_OBJECT

 public:
  explicit ComparisonView(RunList& runs, QWidget* parent = nullptr);

  [[nodiscard]] QString sentence() const { return m_sentence->text(); }
  /// The line instead of the answer; empty while there is one.
  [[nodiscard]] QString message() const { return m_pages->message(); }
  [[nodiscard]] QComboBox& model() const { return *m_model; }
  [[nodiscard]] QComboBox& minus() const { return *m_minus; }
  [[nodiscard]] QToolButton& swap() const { return *m_swap; }
  [[nodiscard]] OctaveBars& bars() const { return *m_bars; }
  [[nodiscard]] DifferenceTable& better() const { return *m_better; }
  [[nodiscard]] DifferenceTable& worse() const { return *m_worse; }

  [[nodiscard]] QJsonObject saveState() const override;
  void restoreState(const QJsonObject& state) override;
  [[nodiscard]] bool isSettled() const override { return !m_asked; }

 signals:
  void answered();  ///< two models have read one text for the first time, and the card says how they differ

 private:
  /// The names of two runs, as a session keeps them.
  struct Pair {
    QString model;
    QString minus;
    bool operator==(const Pair&) const = default;
  };
  struct Answer {
    RunId model = kNoRun;
    RunId minus = kNoRun;
    LossComparison whole;
    std::optional<LossComparison> shown;  ///< of the range shown; nothing where that is the whole text
  };
  enum Channel { kAnswer };

  void makeTools();
  /// Offers the runs on the text shown, and asks for the answer about those that are chosen.
  void follow();
  void fillChoices(const std::vector<const Run*>& runs);
  void ask();
  void take(const Answer& answer);
  void showTokens(DifferenceTable& table, const std::vector<TokenChange>& tokens, const Run& model, const Run& minus);
  void showMessage(const QString& message);
  [[nodiscard]] const Run* chosen(const QComboBox& box) const;
  /// The range shown, in positions of a run; nothing where that is its whole text.
  [[nodiscard]] std::optional<Range> rangeShown(const Run& run) const;

  RunList& m_runs;
  QComboBox* m_model;
  QComboBox* m_minus;
  QToolButton* m_swap;
  QLabel* m_sentence;
  OctaveBars* m_bars;
  DifferenceTable* m_better;
  DifferenceTable* m_worse;
  MessagePages* m_pages;
  std::optional<Pair> m_wanted;  ///< by a session, before its runs are there
  bool m_asked = false;          ///< an answer is on its way
  int m_onText = 0;              ///< runs that were offered last
};

}  // namespace foxscope::gui

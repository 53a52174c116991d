#pragma once

#include <map>
#include <vector>

#include "app/gui/curves/curve_runs.h"
#include "app/gui/curves/tabs/position_tab.h"
#include "app/gui/curves/token_list.h"

class QComboBox;
class QSpinBox;

namespace foxscope::gui::curves {

/// Loss of every token of every run, and what the runs differ by.
class LossTab : public PositionTab {
  Q_OBJECT

 public:
  LossTab(RunList& runs, const ModelRuns& modelRuns, QWidget* parent);

  [[nodiscard]] QJsonObject saveState() const override;
  void restoreState(const QJsonObject& state) override;
  [[nodiscard]] QString data() const override;

 protected:
  void refresh() override;
  void showReading() override;
  [[nodiscard]] bool hasCurves() const override { return !m_curves.runs.empty(); }
  [[nodiscard]] PlotContent content(const QPalette& palette) const override;
  [[nodiscard]] std::vector<std::shared_ptr<const Trace>> traces() const override;

 private:
  /// When single tokens are drawn behind their mean.
  enum class Raw { whenSparse, always, never };

  [[nodiscard]] Raw raw() const;
  struct Made {
    LossCurves curves;
    std::map<RunId, std::vector<ListedToken>> worst;
  };
  void take(Made made);
  /// Tokens of the running mean, for what is chosen and what is shown.
  [[nodiscard]] int wantedWidth() const;
  void followWidth();
  void listWorst();
  static QString nameOf(const RunLossDifference& difference);

  TokenList* m_list;
  QComboBox* m_raw;
  QSpinBox* m_window;
  std::vector<CurveRun> m_runs;  ///< that were asked for
  LossCurves m_curves;
  std::map<RunId, std::vector<ListedToken>> m_worst;  ///< tokens of the highest loss
  int m_width = 0;                                    ///< of the mean that is shown, or asked for
};

}  // namespace foxscope::gui::curves
